// SPDX-License-Identifier: Apache-2.0
/* A damaged catalog is refused or answers ECORRUPT: it never gives a wrong entry. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"

enum { N = 100 };

static char dir[] = "/tmp/dlcache-test-XXXXXX";
static struct buf whole = BUF_INIT;
static struct catalog_entry good[N];

static int set_up(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    char *path;
    int rc;

    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    path = mem_fmt("%s/catalog", dir);
    for (unsigned i = 0; i < N; i++) {
        struct catalog_entry *e = &good[i];

        snprintf(e->key, sizeof(e->key), "train/class%u/%05u.jpg", i / 10, i);
        snprintf(e->etag, sizeof(e->etag), "%032x%s", i * 77, i % 3 == 0 ? "-12" : "");
        if (i % 5 == 0)
            strcpy(e->etag, "text");
        e->size = 1000 + i;
        catalog_builder_add(b, e->key, strlen(e->key), e->size, e->etag, NULL);
    }
    rc = catalog_builder_finish(b, path, "file:///data", NULL);
    if (rc == 0)
        rc = os_read_file(path, SIZE_MAX, &whole, NULL);
    catalog_builder_free(&b);
    mem_free(&path);
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&whole);
    os_rmtree(dir);
    return 0;
}

static int file_of(const void *data, size_t len)
{
    int fd = os_memfd("catalog");

    assert_int_equal(os_write_all(fd, data, len), 0);
    return fd;
}

/* Open and use; returns how many answers said ECORRUPT. Answers that succeed must be right. */
static unsigned damage_seen(const void *data, size_t len)
{
    int fd = file_of(data, len);
    struct catalog_entry e;
    struct catalog *c;
    unsigned seen = 0;
    int rc;

    rc = catalog_open_fd(fd, &c, NULL);
    os_close(&fd);
    if (rc < 0) {
        assert_int_equal(rc, DLC_ECORRUPT);
        return 1;
    }
    assert_int_equal(catalog_count(c), N);
    for (unsigned i = 0; i < N; i++) {
        uint64_t at = UINT64_MAX;

        rc = catalog_get(c, i, &e, NULL);
        if (rc == 0) {
            assert_string_equal(e.key, good[i].key);
            assert_string_equal(e.etag, good[i].etag);
            assert_int_equal(e.size, good[i].size);
        } else {
            assert_int_equal(rc, DLC_ECORRUPT);
            assert_string_equal(e.key, "");
            seen++;
        }
        rc = catalog_find(c, good[i].key, &at);
        assert_true(rc == DLC_ECORRUPT || (rc == 0 && at == i));
    }
    catalog_close(&c);
    return seen;
}

static void test_whole(void **state)
{
    (void)state;
    assert_int_equal(damage_seen(whole.data, whole.len), 0);
}

static void test_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < whole.len; i++) {
        char old = whole.data[i];

        whole.data[i] = (char)(old ^ (1 << i % 8));
        if (damage_seen(whole.data, whole.len) == 0)
            fail_msg("byte %zu does not matter", i);
        whole.data[i] = old;
    }
}

static void test_every_length(void **state)
{
    char *longer = mem_zero(whole.len + 1);

    (void)state;
    for (size_t len = 0; len < whole.len; len++)
        assert_int_equal(damage_seen(whole.data, len), 1);
    memcpy(longer, whole.data, whole.len);
    assert_int_equal(damage_seen(longer, whole.len + 1), 1);
    mem_free(&longer);
}

/* With a checksum that fits, so that the checks behind it are reached. */
static int open_with(const struct catalog_header *h)
{
    char *copy = mem_alloc(whole.len);
    struct catalog_header mine = *h;
    struct catalog *c;
    int fd, rc;

    mine.checksum = catalog_header_checksum(&mine);
    memcpy(copy, whole.data, whole.len);
    memcpy(copy, &mine, sizeof(mine));
    fd = file_of(copy, whole.len);
    rc = catalog_open_fd(fd, &c, NULL);
    catalog_close(&c);
    os_close(&fd);
    mem_free(&copy);
    return rc;
}

static void test_lying_header(void **state)
{
    struct catalog_header h, orig;

    (void)state;
    memcpy(&orig, whole.data, sizeof(orig));
    assert_int_equal(open_with(&orig), 0);
#define LIE(change)                                                                                \
    h = orig;                                                                                      \
    change;                                                                                        \
    assert_int_equal(open_with(&h), DLC_ECORRUPT)
    LIE(h.magic = 0x444c4343); /* the other byte order */
    LIE(h.ver_major++);
    LIE(h.block_entries = 0);
    LIE(h.file_size++);
    LIE(h.count = UINT64_MAX);
    LIE(h.count += CATALOG_BLOCK);
    LIE(h.sections[0].id = 99);
    for (unsigned s = 0; s < 3; s++) {
        LIE(h.sections[s].off = UINT64_MAX);
        LIE(h.sections[s].len = UINT64_MAX);
        LIE(h.sections[s].off = h.file_size; h.sections[s].len = 1);
    }
#undef LIE
    /* A later minor version and sections that we do not know are no damage. */
    h = orig;
    h.ver_minor = 9;
    h.sections[5].id = 77;
    h.sections[5].off = UINT64_MAX;
    assert_int_equal(open_with(&h), 0);
}

/* Blocks whose checksum fits but whose bytes are nonsense. */
static void test_lying_blocks(void **state)
{
    struct catalog_header h;
    struct catalog_block row;
    char *copy = mem_alloc(whole.len);
    struct rng r = {7};

    (void)state;
    memcpy(&h, whole.data, sizeof(h));
    for (unsigned round = 0; round < 3000; round++) {
        struct catalog_entry e;
        struct catalog *c;
        uint64_t at;
        int fd;

        memcpy(copy, whole.data, whole.len);
        memcpy(&row, copy + h.sections[1].off, sizeof(row));
        for (unsigned k = 0; k < 4; k++)
            copy[h.sections[0].off + rng_below(&r, row.len)] = (char)rng_next(&r);
        row.checksum = catalog_block_checksum(copy + h.sections[0].off, row.len, 0);
        memcpy(copy + h.sections[1].off, &row, sizeof(row));
        fd = file_of(copy, whole.len);
        assert_int_equal(catalog_open_fd(fd, &c, NULL), 0);
        os_close(&fd);
        for (unsigned i = 0; i < CATALOG_BLOCK; i++) {
            int rc = catalog_get(c, i, &e, NULL);

            assert_true(rc == 0 || rc == DLC_ECORRUPT);
            assert_true(strlen(e.key) <= CATALOG_KEY_MAX && strlen(e.etag) < CATALOG_ETAG_MAX);
        }
        catalog_find(c, good[3].key, &at);
        catalog_close(&c);
    }
    mem_free(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_every_length), cmocka_unit_test(test_lying_header),
        cmocka_unit_test(test_lying_blocks),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
