// SPDX-License-Identifier: Apache-2.0
/*
 * Samples that are made of pieces, read from the bucket without the daemon. The bucket is a server
 * in this process, which notes the range of each request; the catalog is made by hand.
 */
#include "unit.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/fault.h"
#include "base/mem.h"
#include "bucket/tiny_http.h"
#include "catalog/archives/packing.h"
#include "catalog/catalog.h"
#include "client/attachment.h"
#include "client/bypass.h"
#include "client/dataset.h"

enum { PLAIN, LARGE, SMALL, UNPACKED, GONE, OBJECTS }; /* sorted by key: their numbers */

static struct {
    const char *key;
    struct buf bytes;
} objects[OBJECTS] = {
    [PLAIN] = {.key = "a.bin"},    [LARGE] = {.key = "b.tar.gz"}, [SMALL] = {.key = "c.tar.gz"},
    [UNPACKED] = {.key = "d.tar"}, [GONE] = {.key = "e.bin"},
};
static struct buf large_tar, small_tar; /* before they were compressed */
static struct tiny_http server;
static struct dlc_dataset *ds;
static char asked[8][64]; /* the ranges of requests; "": the whole object */
static unsigned n_asked;

/* ---- the bucket ---- */

static void serve(void *priv, const struct tiny_request *r, struct buf *out)
{
    char *range = tiny_header(r, "Range");
    unsigned long long first = 0, last;

    (void)priv;
    if (n_asked < unit_count(asked))
        snprintf(asked[n_asked], sizeof(asked[0]), "%s", range != NULL ? range : "");
    n_asked++;
    for (unsigned i = 0; i < GONE; i++) {
        const struct buf *b = &objects[i].bytes;

        if (strcmp(r->target + 1, objects[i].key) != 0)
            continue;
        last = b->len - 1;
        if (range != NULL)
            assert_int_equal(sscanf(range, "bytes=%llu-%llu", &first, &last), 2);
        buf_addf(out, "HTTP/1.1 %d X\r\nContent-Length: %llu\r\nConnection: close\r\n",
                 range != NULL ? 206 : 200, last - first + 1);
        if (range != NULL)
            buf_addf(out, "Content-Range: bytes %llu-%llu/%zu\r\n", first, last, b->len);
        buf_adds(out, "\r\n");
        buf_add(out, b->data + first, (size_t)(last - first + 1));
        mem_free(&range);
        return;
    }
    tiny_reply(out, 404, "no such object");
    mem_free(&range);
}

/* Text that does not compress much. */
static void make_tar(struct buf *tar, size_t len)
{
    char *text = mem_alloc(len + 1);
    uint32_t x = 1;

    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (char)(' ' + (x >> 25) % 90);
    }
    text[len] = '\0';
    add_member(tar, '0', "member", text);
    end_tar(tar);
    mem_free(&text);
}

static void make_objects(void)
{
    for (unsigned i = 0; i < 1000; i++)
        buf_addf(&objects[PLAIN].bytes, "%c", 'a' + i % 26);
    make_tar(&large_tar, 1500000);
    make_tar(&small_tar, 5000);
    pack(&objects[LARGE].bytes, &large_tar, "gz");
    pack(&objects[SMALL].bytes, &small_tar, "gz");
    buf_add(&objects[UNPACKED].bytes, small_tar.data, small_tar.len);
}

/* ---- the dataset ---- */

static void add(struct catalog_builder *b, const char *name, const struct piece *p, size_t n)
{
    const struct catalog_new_sample s = {.name = name,
                                         .name_len = strlen(name),
                                         .pieces = p,
                                         .n_pieces = n,
                                         .label = SAMPLE_NO_LABEL};

    assert_int_equal(catalog_builder_sample(b, &s, NULL), 0);
}

/* Opens a dataset of one sample, whose pieces these are. */
static void open_pieces(const struct piece *p, size_t n)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    char path[256];

    for (unsigned i = 0; i < OBJECTS; i++)
        assert_int_equal(catalog_builder_add(b, objects[i].key, strlen(objects[i].key),
                                             DLC_MAX(objects[i].bytes.len, (size_t)10), "", NULL),
                         0);
    catalog_builder_settle(b);
    for (unsigned i = 0; i < OBJECTS; i++)
        assert_int_equal(
            catalog_builder_derived(b, i, i == LARGE ? large_tar.len : small_tar.len, NULL), 0);
    add(b, "sample", p, n);
    assert_int_equal(catalog_builder_finish(b, unit_path("c", path), "http://x/", NULL), 0);
    catalog_builder_free(&b);
    if (ds != NULL)
        dlc_close(&ds);
    ds = mem_new(struct dlc_dataset);
    ds->tag = DATASET_TAG;
    ds->url = mem_fmt("%s/", server.url);
    ds->timeout = DLC_SEC(30);
    dlc_mtx_init(&ds->mtx, LCK_dataset);
    dlc_mtx_init(&ds->direct_mtx, LCK_direct);
    importance_init(&ds->importance);
    dlc_list_init(&ds->retired);
    dlc_list_init(&ds->link);
    assert_int_equal(config_load(&ds->config, "/dev/null", &err), 0);
    ds->config.retries = 0;
    assert_int_equal(catalog_open(path, &ds->catalog, &err), 0);
    n_asked = 0;
}

static int setup(void **state)
{
    (void)state;
    make_objects();
    server.answer = serve;
    tiny_http_start(&server);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    tiny_http_stop(&server);
    for (unsigned i = 0; i < OBJECTS; i++)
        buf_release(&objects[i].bytes);
    buf_release(&large_tar);
    buf_release(&small_tar);
    return 0;
}

static struct dlc_err err;

static int get(struct dlc_view *v)
{
    err = (struct dlc_err)DLC_ERR_INIT;
    *v = (struct dlc_view){0};
    return direct_get(ds, 0, dlc_mono_add(dlc_mono_now(), DLC_SEC(30)), v, &err);
}

/* The sample is these bytes. */
static void assert_reads(const char *want, size_t len)
{
    struct dlc_view v;

    if (get(&v) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(v.len, len);
    assert_memory_equal(v.data, want, len);
    dlc_put(ds, &v);
}

static struct piece range_of(enum piece_kind kind, unsigned object, uint64_t offset,
                             uint64_t length)
{
    return (struct piece){.kind = kind, .object = object, .offset = offset, .length = length};
}

static struct piece text(const char *s)
{
    return (struct piece){.kind = PIECE_INLINE, .bytes = s, .length = strlen(s)};
}

/* ---- tests ---- */

static void test_pieces_come_one_after_the_other(void **state)
{
    const struct piece p[] = {text("head,"), range_of(PIECE_OBJECT, PLAIN, 26, 5), text(";"),
                              range_of(PIECE_OBJECT, PLAIN, 2, 3), text("end")};
    static const char want[] = "head,abcde;cdeend";

    (void)state;
    open_pieces(p, unit_count(p));
    assert_reads(want, strlen(want));
    assert_int_equal(n_asked, 2);
    assert_string_equal(asked[0], "bytes=26-30");
    assert_string_equal(asked[1], "bytes=2-4");
}

/* Only a whole object is asked for without a range: then the bucket's checksum is compared. */
static void test_ranges(void **state)
{
    const struct piece p[] = {range_of(PIECE_OBJECT, PLAIN, 0, 1000),
                              range_of(PIECE_OBJECT, PLAIN, 0, 999),
                              range_of(PIECE_OBJECT, PLAIN, 1, 999)};
    static const char *const want[] = {"", "bytes=0-998", "bytes=1-999"};

    (void)state;
    for (unsigned i = 0; i < unit_count(p); i++) {
        open_pieces(&p[i], 1);
        assert_reads(objects[PLAIN].bytes.data + p[i].offset, p[i].length);
        assert_int_equal(n_asked, 1);
        assert_string_equal(asked[0], want[i]);
    }
}

/* A range of what an archive holds: wherever it lies, and however it was cut when unpacked. */
static void test_unpacked(void **state)
{
    const struct piece large[] = {
        range_of(PIECE_DERIVED, LARGE, 0, 10),
        range_of(PIECE_DERIVED, LARGE, 100000, 700000),
        range_of(PIECE_DERIVED, LARGE, large_tar.len - 300000, 300000),
    };
    const struct piece small = range_of(PIECE_DERIVED, SMALL, 600, 700);

    (void)state;
    for (unsigned i = 0; i < unit_count(large); i++) {
        open_pieces(&large[i], 1);
        assert_reads(large_tar.data + large[i].offset, large[i].length);
        assert_true(n_asked > 1);
        for (unsigned k = 0; k < DLC_MIN(n_asked, unit_count(asked)); k++)
            assert_true(asked[k][0] != '\0'); /* a range each */
    }
    open_pieces(&small, 1);
    assert_reads(small_tar.data + small.offset, small.length);
    assert_int_equal(n_asked, 1);
    assert_string_equal(asked[0], ""); /* whole */
}

/* A catalog that wants something unpacked that cannot be: damaged. */
static void test_no_unpacked_copy(void **state)
{
    struct dlc_view v;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const struct piece p = range_of(PIECE_DERIVED, i == 0 ? PLAIN : UNPACKED, 0, 10);

        open_pieces(&p, 1);
        assert_int_equal(get(&v), DLC_ECORRUPT);
        assert_non_null(strstr(err.text, "has no unpacked copy"));
        assert_int_equal(n_asked, 0);
    }
}

/* One piece is missing: so is the sample, and the rest is not read. */
static void test_missing_piece(void **state)
{
    const struct piece p[] = {text("head"), range_of(PIECE_OBJECT, GONE, 0, 10),
                              range_of(PIECE_OBJECT, PLAIN, 0, 10)};
    struct dlc_view v;

    (void)state;
    open_pieces(p, unit_count(p));
    assert_int_equal(get(&v), DLC_ENOTFOUND);
    assert_null(v.data);
    assert_int_equal(n_asked, 1);
    assert_int_equal(ds->direct_reads, 0);
}

static void test_no_memory(void **state)
{
    const struct piece p = text("sample");
    struct dlc_view v;

    (void)state;
    open_pieces(&p, 1);
    assert_reads("sample", 6); /* the bucket is open */
    fault_arm(FAULT_ALLOC, 1);
    assert_int_equal(get(&v), DLC_ENOMEM);
    assert_true(fault_disarm());
    assert_int_equal(err.code, DLC_ENOMEM);
    assert_null(v.data);
    assert_int_equal(ds->direct_reads, 1);
}

/* Where the bucket cannot be opened, each read says so; when it can be, reads go on. */
static void test_bucket_is_opened_again(void **state)
{
    const struct piece p = range_of(PIECE_OBJECT, PLAIN, 0, 26);
    struct dlc_view v;
    char *right;

    (void)state;
    open_pieces(&p, 1);
    right = ds->url;
    ds->url = mem_str("gopher://x/");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(get(&v), DLC_EINVAL);
        assert_int_equal(err.code, DLC_EINVAL);
        assert_null(ds->direct);
    }
    mem_free(&ds->url);
    ds->url = right;
    assert_reads("abcdefghijklmnopqrstuvwxyz", 26);
}

/* Reads, failed or not, leave no memory behind, nor does a bucket that is opened. */
static void test_nothing_is_left(void **state)
{
    struct piece p[CATALOG_FEW_PIECES + 2]; /* so many have memory of their own */
    size_t used = 0;

    (void)state;
    for (unsigned i = 0; i < unit_count(p); i++)
        p[i] = text("0123456789012345678901234567890123456789");
    for (unsigned with = 0; with < 2; with++) {
        p[0] = range_of(PIECE_OBJECT, with ? PLAIN : GONE, 0, 10);
        open_pieces(p, unit_count(p));
        for (unsigned i = 0; i < 210; i++) {
            struct dlc_view v;

            assert_int_equal(get(&v), with ? 0 : DLC_ENOTFOUND);
            dlc_put(ds, &v);
            bucket_close(&ds->direct);
            used = i == 9 ? unit_heap() : used;
        }
        if (!UNIT_SANITIZED)
            assert_true(unit_heap() < used + 8000); /* 40 bytes in each turn */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_come_one_after_the_other),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_unpacked),
        cmocka_unit_test(test_no_unpacked_copy),
        cmocka_unit_test(test_missing_piece),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_bucket_is_opened_again),
        cmocka_unit_test(test_nothing_is_left),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
