// SPDX-License-Identifier: Apache-2.0
/* Samples that are more than whole objects: pieces, labels, splits, columns, targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"

static char dir[] = "/tmp/dlcache-test-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/catalog", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    os_rmtree(dir);
    return 0;
}

static void good(int rc, const struct dlc_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static void add(struct catalog_builder *b, const char *key, uint64_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    char etag[40];

    snprintf(etag, sizeof(etag), "etag-of-%.20s", key);
    good(catalog_builder_add(b, key, strlen(key), size, etag, &err), &err);
}

static int sample(struct catalog_builder *b, const char *name, const struct piece *p, size_t n,
                  struct dlc_err *err)
{
    struct catalog_new_sample s = {.name = name,
                                   .name_len = strlen(name),
                                   .pieces = p,
                                   .n_pieces = n,
                                   .label = SAMPLE_NO_LABEL};

    return catalog_builder_sample(b, &s, err);
}

static struct catalog *finish(struct catalog_builder **b)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c;

    good(catalog_builder_finish(*b, path, "s3://bucket/prefix", &err), &err);
    catalog_builder_free(b);
    good(catalog_open(path, &c, &err), &err);
    return c;
}

/* Whole objects in their order are not stored, whoever adds them. */
static void test_whole_in_order(void **state)
{
    struct catalog_builder *b = catalog_builder_new(), *plain = catalog_builder_new();
    struct catalog_sample s;
    struct catalog *c;
    uint64_t size, snapshot;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%03u", 99 - i);
        add(b, key, i);
        add(plain, key, i);
    }
    c = finish(&plain);
    size = catalog_file_size(c);
    snapshot = catalog_snapshot(c);
    catalog_close(&c);
    catalog_builder_settle(b);
    for (uint64_t j = 0; j < 100; j++) {
        struct catalog_new_sample whole = {.object = j, .label = SAMPLE_NO_LABEL};

        assert_int_equal(catalog_builder_sample(b, &whole, NULL), 0);
    }
    c = finish(&b);
    assert_true(catalog_is_whole(c));
    assert_int_equal(catalog_file_size(c), size);
    assert_int_equal(catalog_snapshot(c), snapshot);
    assert_int_equal(catalog_sample(c, 7, &s, NULL), 0);
    assert_string_equal(s.name, "k007");
    assert_int_equal(s.size, 92);
    assert_int_equal(s.n_pieces, 1);
    assert_int_equal(s.pieces[0].object, 7);
    assert_int_equal(s.pieces[0].length, 92);
    catalog_sample_release(&s);
    assert_int_equal(catalog_sample(c, 100, &s, NULL), DLC_EINVAL);
    catalog_sample_release(&s);
    catalog_close(&c);
}

enum { SHARDS = 4, MEMBERS = 1000 };

static void member_name(uint64_t i, char *out, size_t n)
{
    snprintf(out, n, "shards/%06u.tar/%08u.jpg", (unsigned)(i / MEMBERS), (unsigned)(i % MEMBERS));
}

/* Members of archives: few bytes each, found by name, each in its object. */
static void test_members(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_entry e;
    struct catalog_sample s;
    struct catalog *c;
    char name[64];
    uint64_t at;

    (void)state;
    for (unsigned j = 0; j < SHARDS; j++) {
        snprintf(name, sizeof(name), "shards/%06u.tar", j);
        add(b, name, MEMBERS * 100000);
    }
    catalog_builder_settle(b);
    for (uint64_t i = 0; i < SHARDS * MEMBERS; i++) {
        struct piece p = {
            .object = i / MEMBERS, .offset = i % MEMBERS * 100000 + 512, .length = 90000 + i % 100};

        member_name(i, name, sizeof(name));
        good(sample(b, name, &p, 1, &err), &err);
    }
    c = finish(&b);
    assert_false(catalog_is_whole(c));
    assert_int_equal(catalog_count(c), SHARDS * MEMBERS);
    assert_int_equal(catalog_visible(c), SHARDS * MEMBERS);
    assert_int_equal(catalog_objects(c), SHARDS);
    assert_true(catalog_file_size(c) < SHARDS * MEMBERS * 30);
    for (uint64_t i = 0; i < SHARDS * MEMBERS; i += 7) {
        member_name(i, name, sizeof(name));
        good(catalog_sample(c, i, &s, &err), &err);
        assert_string_equal(s.name, name);
        assert_int_equal(s.size, 90000 + i % 100);
        assert_int_equal(s.n_pieces, 1);
        assert_int_equal(s.pieces[0].kind, PIECE_OBJECT);
        assert_int_equal(s.pieces[0].object, i / MEMBERS);
        assert_int_equal(s.pieces[0].offset, i % MEMBERS * 100000 + 512);
        catalog_sample_release(&s);
        good(catalog_get(c, i, &e, &err), &err);
        assert_string_equal(e.key, name);
        assert_int_equal(e.size, 90000 + i % 100);
        assert_memory_equal(e.etag, "etag-of-shards/", 15);
        assert_int_equal(catalog_find(c, name, &at), 0);
        assert_int_equal(at, i);
    }
    assert_int_equal(catalog_find(c, "shards/000000.tar", &at), DLC_ENOTFOUND);
    assert_int_equal(catalog_get(c, SHARDS * MEMBERS, &e, &err), DLC_EINVAL);
    catalog_close(&c);
}

/* All kinds of pieces in one sample, more than fit into the struct. */
static void test_pieces(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct piece p[40];
    struct catalog_sample s;
    struct catalog_entry e;
    struct catalog *c;
    uint64_t size;

    (void)state;
    add(b, "a.csv", 1000);
    add(b, "b.tar.gz", 10);
    catalog_builder_settle(b);
    for (unsigned k = 0; k < 40; k++) {
        p[k] = k % 3 == 0 ? (struct piece){.kind = PIECE_INLINE, .bytes = "header\n", .length = 7}
               : k % 3 == 1
                   ? (struct piece){.object = 0, .offset = 1000 - k, .length = k}
                   : (struct piece){
                         .kind = PIECE_DERIVED, .object = 1, .offset = k * 50, .length = 50};
    }
    good(sample(b, "many", p, 40, &err), &err);
    good(sample(b, "one", p + 2, 1, &err), &err);
    good(sample(b, "inline", p, 1, &err), &err);
    good(catalog_builder_derived(b, 1, 2000, &err), &err);
    c = finish(&b);
    good(catalog_derived(c, 1, &size, &err), &err);
    assert_int_equal(size, 2000);
    assert_int_equal(catalog_derived(c, 0, &size, &err), DLC_ENOTFOUND);
    good(catalog_sample(c, 0, &s, &err), &err);
    assert_int_equal(s.n_pieces, 40);
    size = 0;
    for (unsigned k = 0; k < 40; k++) {
        assert_int_equal(s.pieces[k].kind, p[k].kind);
        assert_int_equal(s.pieces[k].length, p[k].length);
        size += p[k].length;
        if (p[k].kind == PIECE_INLINE) {
            assert_memory_equal(s.pieces[k].bytes, p[k].bytes, 7);
        } else {
            assert_int_equal(s.pieces[k].object, p[k].object);
            assert_int_equal(s.pieces[k].offset, p[k].offset);
        }
    }
    assert_int_equal(s.size, size);
    catalog_sample_release(&s);
    good(catalog_get(c, 0, &e, &err), &err);
    assert_string_equal(e.etag, "etag-of-a.csv");
    good(catalog_get(c, 1, &e, &err), &err);
    assert_string_equal(e.etag, "etag-of-b.tar.gz");
    good(catalog_get(c, 2, &e, &err), &err);
    assert_string_equal(e.etag, "");
    assert_int_equal(e.size, 7);
    catalog_close(&c);
}

static void test_refused(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct piece p = {.offset = 5, .length = 6};
    char name[CATALOG_KEY_MAX + 2];

    (void)state;
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    add(b, "ten", 10);
    catalog_builder_settle(b);
    assert_int_equal(sample(b, "a", &p, 1, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "sample a"));
    p = (struct piece){.offset = UINT64_MAX, .length = 2};
    assert_int_equal(sample(b, "a", &p, 1, &err), DLC_EINVAL);
    p = (struct piece){.object = 1};
    assert_int_equal(sample(b, "a", &p, 1, &err), DLC_EINVAL);
    p = (struct piece){.length = 10};
    assert_int_equal(sample(b, name, &p, 1, &err), DLC_EINVAL);
    assert_int_equal(sample(b, "", &p, 1, &err), DLC_EINVAL);
    catalog_builder_free(&b);
}

/* A dataset with everything: two splits, classes, columns, targets, whole objects out of order. */
static struct catalog_builder *rich(void)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    const char *const classes[] = {"cat", "dog", ""};

    for (unsigned i = 0; i < 90; i++) {
        char key[16];

        snprintf(key, sizeof(key), "%c/%03u", "ab"[i >= 60], i);
        add(b, key, 10 + i);
    }
    catalog_builder_settle(b);
    for (unsigned k = 0; k < 3; k++)
        good(catalog_builder_class(b, classes[k], strlen(classes[k]), &err), &err);
    good(catalog_builder_column(b, "caption", &err), &err);
    good(catalog_builder_column(b, "width", &err), &err);
    for (unsigned i = 0; i < 90; i++) {
        char text[16];
        struct catalog_text cells[2] = {{text, 0}, {"640", 3}};
        struct catalog_new_sample s = {.object = i < 60 ? 59 - i : i,
                                       .label = i % 4 == 3 ? SAMPLE_NO_LABEL : i % 4};

        if (i == 0)
            good(catalog_builder_split(b, "train", false, &err), &err);
        if (i == 40)
            good(catalog_builder_split(b, "test", false, &err), &err);
        if (i == 60)
            good(catalog_builder_split(b, "targets", true, &err), &err);
        cells[0].len = (size_t)snprintf(text, sizeof(text), "text %u", i);
        s.cells = i % 7 != 0 ? cells : NULL;
        good(catalog_builder_sample(b, &s, &err), &err);
        if (i < 30)
            good(catalog_builder_target(b, i, 60 + i, &err), &err);
    }
    return b;
}

static void check_rich(const struct catalog *c, uint64_t i)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_text t;
    struct catalog_entry e;
    char text[16];
    uint64_t at;
    uint32_t label;

    good(catalog_get(c, i, &e, &err), &err);
    snprintf(text, sizeof(text), "%c/%03u", "ab"[i >= 60], (unsigned)(i < 60 ? 59 - i : i));
    assert_string_equal(e.key, text);
    assert_int_equal(catalog_find(c, text, &at), 0);
    assert_int_equal(at, i);
    good(catalog_label(c, i, &label, &err), &err);
    assert_int_equal(label, i % 4 == 3 ? SAMPLE_NO_LABEL : i % 4);
    good(catalog_cell(c, i, 0, &t, &err), &err);
    snprintf(text, sizeof(text), "text %u", (unsigned)i);
    assert_int_equal(t.len, i % 7 != 0 ? strlen(text) : 0);
    assert_memory_equal(t.s, text, t.len);
    good(catalog_cell(c, i, 1, &t, &err), &err);
    assert_int_equal(t.len, i % 7 != 0 ? 3 : 0);
    assert_int_equal(catalog_target(c, i, &at, &err), i < 30 ? 0 : DLC_ENOTFOUND);
    if (i < 30)
        assert_int_equal(at, 60 + i);
}

static void test_rich(void **state)
{
    struct catalog_builder *b = rich();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = finish(&b);
    struct catalog_text t;
    uint32_t label;
    uint64_t bytes = 0, at;

    (void)state;
    assert_int_equal(catalog_count(c), 90);
    assert_int_equal(catalog_visible(c), 60);
    for (uint64_t i = 0; i < 90; i++)
        check_rich(c, i);
    for (uint64_t j = 0; j < 60; j++)
        bytes += 10 + j;
    assert_int_equal(catalog_bytes(c), bytes);
    assert_int_equal(catalog_splits(c), 3);
    assert_int_equal(catalog_split(c, "test")->first, 40);
    assert_int_equal(catalog_split(c, "test")->count, 20);
    assert_false(catalog_split(c, "test")->hidden);
    assert_true(catalog_split_at(c, 2)->hidden);
    assert_null(catalog_split(c, "valid"));
    assert_int_equal(catalog_classes(c), 3);
    good(catalog_class_name(c, 1, &t, &err), &err);
    assert_int_equal(t.len, 3);
    assert_memory_equal(t.s, "dog", 3);
    assert_int_equal(catalog_class_name(c, 3, &t, &err), DLC_EINVAL);
    assert_int_equal(catalog_columns(c), 2);
    assert_string_equal(catalog_column_name(c, 1), "width");
    assert_int_equal(catalog_cell(c, 0, 2, &t, &err), DLC_EINVAL);
    assert_int_equal(catalog_cell(c, 90, 0, &t, &err), DLC_EINVAL);
    assert_int_equal(catalog_label(c, 90, &label, &err), DLC_EINVAL);
    assert_int_equal(catalog_target(c, 90, &at, &err), DLC_EINVAL);
    catalog_close(&c);
}

/* 254 classes fit a byte with one value left for "none"; then two bytes, then four. */
static void test_label_widths(void **state)
{
    static const unsigned numbers[] = {1, 254, 255, 256, 65534, 65535, 70000};

    (void)state;
    for (unsigned k = 0; k < DLC_COUNT(numbers); k++) {
        struct catalog_builder *b = catalog_builder_new();
        struct dlc_err err = DLC_ERR_INIT;
        struct catalog *c;
        uint32_t label;

        add(b, "a", 1);
        add(b, "b", 1);
        catalog_builder_settle(b);
        for (unsigned i = 0; i < numbers[k]; i++)
            good(catalog_builder_class(b, "c", 1, &err), &err);
        for (unsigned i = 0; i < 2; i++) {
            struct catalog_new_sample s = {.object = i,
                                           .label = i == 0 ? numbers[k] - 1 : SAMPLE_NO_LABEL};

            good(catalog_builder_sample(b, &s, &err), &err);
        }
        c = finish(&b);
        assert_true(catalog_is_whole(c));
        good(catalog_label(c, 0, &label, &err), &err);
        assert_int_equal(label, numbers[k] - 1);
        good(catalog_label(c, 1, &label, &err), &err);
        assert_int_equal(label, SAMPLE_NO_LABEL);
        catalog_close(&c);
    }
}

/* ---- damage ---- */

static int file_of(const struct buf *b)
{
    int fd = os_memfd("catalog");

    assert_int_equal(os_write_all(fd, b->data, b->len), 0);
    return fd;
}

/* Answers are right or ECORRUPT; how many were the latter. */
static unsigned damage_seen(const struct buf *file)
{
    int fd = file_of(file), rc;
    struct catalog *c;
    unsigned seen = 0;

    rc = catalog_open_fd(fd, &c, NULL);
    os_close(&fd);
    if (rc < 0) {
        assert_int_equal(rc, DLC_ECORRUPT);
        return 1;
    }
    for (uint64_t i = 0; i < 90; i++) {
        struct catalog_sample s;
        struct catalog_text t;
        uint64_t at;
        uint32_t label;
        char name[16];

        snprintf(name, sizeof(name), "%c/%03u", "ab"[i >= 60], (unsigned)(i < 60 ? 59 - i : i));
        rc = catalog_sample(c, i, &s, NULL);
        seen += rc == DLC_ECORRUPT;
        if (rc == 0)
            assert_string_equal(s.name, name);
        catalog_sample_release(&s);
        rc = catalog_find(c, name, &at);
        seen += rc == DLC_ECORRUPT;
        assert_true(rc == DLC_ECORRUPT || (rc == 0 && at == i));
        rc = catalog_label(c, i, &label, NULL);
        seen += rc == DLC_ECORRUPT;
        assert_true(rc == DLC_ECORRUPT || label == (i % 4 == 3 ? SAMPLE_NO_LABEL : i % 4));
        seen += catalog_cell(c, i, i % 2, &t, NULL) == DLC_ECORRUPT;
        seen += catalog_cell(c, i, 1 - i % 2, &t, NULL) == DLC_ECORRUPT;
        seen += catalog_target(c, i, &at, NULL) == DLC_ECORRUPT;
    }
    for (uint64_t k = 0; k < catalog_classes(c); k++) {
        struct catalog_text t;

        seen += catalog_class_name(c, k, &t, NULL) == DLC_ECORRUPT;
    }
    catalog_close(&c);
    return seen;
}

static void test_every_byte(void **state)
{
    struct catalog_builder *b = rich();
    struct catalog *c = finish(&b);
    struct buf file = BUF_INIT;

    (void)state;
    catalog_close(&c);
    assert_int_equal(os_read_file(path, SIZE_MAX, &file, NULL), 0);
    assert_int_equal(damage_seen(&file), 0);
    for (size_t i = 0; i < file.len; i++) {
        file.data[i] = (char)(file.data[i] ^ 1 << i % 8);
        if (damage_seen(&file) == 0)
            fail_msg("byte %zu does not matter", i);
        file.data[i] = (char)(file.data[i] ^ 1 << i % 8);
    }
    buf_release(&file);
}

/* Sample blocks whose checksum fits but whose bytes are nonsense: (SAMPLES-1) holds or it is
 * refused. */
static void test_lying_samples(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_header h;
    struct catalog_block row;
    struct buf file = BUF_INIT, copy = BUF_INIT;
    struct rng r = {3};
    struct catalog *c;
    unsigned bad = 0;

    (void)state;
    add(b, "a", 1000);
    add(b, "b", 2000);
    catalog_builder_settle(b);
    for (unsigned i = 0; i < 32; i++) {
        struct piece p[3] = {{.kind = PIECE_INLINE, .bytes = "xyz", .length = 3},
                             {.object = i % 2, .offset = i * 20, .length = 20},
                             {.kind = PIECE_DERIVED, .object = 1, .offset = i, .length = 9}};
        char name[16];

        snprintf(name, sizeof(name), "s%03u", i);
        good(sample(b, name, p, 3, &err), &err);
    }
    good(catalog_builder_derived(b, 1, 50, &err), &err);
    c = finish(&b);
    catalog_close(&c);
    assert_int_equal(os_read_file(path, SIZE_MAX, &file, NULL), 0);
    memcpy(&h, file.data, sizeof(h));
    assert_int_equal(h.sections[3].id, CATALOG_SEC_SAMPLES);
    for (unsigned round = 0; round < 3000; round++) {
        int fd;

        buf_clear(&copy);
        buf_add(&copy, file.data, file.len);
        memcpy(&row, copy.data + h.sections[4].off, sizeof(row));
        for (unsigned k = 0; k < 3; k++)
            copy.data[h.sections[3].off + rng_below(&r, row.len)] = (char)rng_next(&r);
        row.checksum = catalog_block_checksum(copy.data + h.sections[3].off, row.len, 0);
        memcpy(copy.data + h.sections[4].off, &row, sizeof(row));
        fd = file_of(&copy);
        assert_int_equal(catalog_open_fd(fd, &c, NULL), 0);
        os_close(&fd);
        for (unsigned i = 0; i < 32; i++) {
            static const uint64_t limits[] = {1000, 2000};
            struct catalog_sample s;
            uint64_t size = 0;
            int rc = catalog_sample(c, i, &s, NULL);

            assert_true(rc == 0 || rc == DLC_ECORRUPT);
            bad += rc < 0;
            for (size_t k = 0; k < s.n_pieces; k++) {
                const struct piece *p = &s.pieces[k];

                if (p->kind == PIECE_OBJECT)
                    assert_true(p->object < 2 && p->offset + p->length <= limits[p->object]);
                if (p->kind == PIECE_DERIVED)
                    assert_true(p->object == 1 && p->offset + p->length <= 50);
                size += p->length;
            }
            assert_int_equal(size, s.size);
            catalog_sample_release(&s);
        }
        catalog_close(&c);
    }
    assert_true(bad > 1000);
    buf_release(&file);
    buf_release(&copy);
}

static void test_faults(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct catalog_builder *b = catalog_builder_new();
        struct piece p[2] = {{.kind = PIECE_INLINE, .bytes = "xyz", .length = 3},
                             {.object = 0, .offset = 0, .length = 1}};
        struct catalog *c;
        int rc;

        add(b, "a", 1);
        catalog_builder_settle(b);
        unlink(path);
        fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);
        rc = catalog_builder_class(b, "c", 1, NULL);
        for (unsigned i = 0; i < 100 && rc == 0; i++)
            rc = sample(b, "s", p, 2, NULL);
        if (rc == 0)
            rc = catalog_builder_target(b, 3, 4, NULL);
        if (rc == 0)
            rc = catalog_builder_finish(b, path, "u", NULL);
        fired = fault_disarm();
        assert_int_equal(rc < 0, fired);
        assert_int_equal(catalog_open(path, &c, NULL), fired ? DLC_ENOTFOUND : 0);
        catalog_close(&c);
        catalog_builder_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_in_order), cmocka_unit_test(test_members),
        cmocka_unit_test(test_pieces),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rich),           cmocka_unit_test(test_label_widths),
        cmocka_unit_test(test_every_byte),     cmocka_unit_test(test_lying_samples),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
