// SPDX-License-Identifier: Apache-2.0
/*
 * three-groups.parquet: columns id (int32) and word, six rows in groups of two, with dictionaries,
 * page indexes and a bloom filter. second-group.parquet is what its second group must become;
 * pyarrow reads rows 2 and 3 from it.
 */
#include "scanning.h"

#include <pthread.h>
#include <time.h>

#include "catalog/archives/thrift_i.h"

static struct scanning k;
static struct buf made = BUF_INIT;

static void load(const char *name, struct buf *b)
{
    const char *root = getenv("TEST_ROOT");
    char *path = mem_fmt("%s/tests/data/%s", root == NULL ? "." : root, name);
    struct dlc_err err = DLC_ERR_INIT;

    buf_clear(b);
    if (os_read_file(path, SIZE_MAX, b, &err) < 0)
        fail_msg("%s (run in the repository, or set TEST_ROOT)", err.text);
    mem_free(&path);
}

static void test_groups_are_files(void **state)
{
    struct buf second = BUF_INIT, group = BUF_INIT;
    struct scanning again = {0};

    (void)state;
    load("three-groups.parquet", &made);
    load("second-group.parquet", &second);
    assert_int_equal(scanning_run(&k, "t.parquet", made.data, made.len), 0);
    assert_int_equal(k.n, 3);
    assert_string_equal(k.samples[0].name, "rows 0-1");
    assert_string_equal(k.samples[2].name, "rows 4-5");
    assert_int_equal(scanning_bytes(&k, 1)->len, second.len);
    assert_memory_equal(scanning_bytes(&k, 1)->data, second.data, second.len);
    /* A group's file has one group, which is that file. */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(k.samples[i].n_pieces, 3);
        buf_clear(&group);
        buf_add(&group, scanning_bytes(&k, i)->data, scanning_bytes(&k, i)->len);
        assert_int_equal(scanning_run(&again, "t.pq", group.data, group.len), 0);
        assert_int_equal(again.n, 1);
        assert_int_equal(scanning_bytes(&again, 0)->len, group.len);
        assert_memory_equal(scanning_bytes(&again, 0)->data, group.data, group.len);
    }
    scanning_release(&again);
    buf_release(&second);
    buf_release(&group);
}

/* A file by hand: 100 bytes of data, and groups of column chunks. */
struct chunk {
    int64_t size, data, dictionary; /* 0: not written */
    int extra;                      /* a field of ColumnChunk to add: 1 path, 8 crypto */
};

struct group {
    int64_t rows;
    struct chunk chunks[4];
    size_t n;
};

static void put_chunk(struct buf *b, const struct chunk *c)
{
    int last = 0, meta = 0;

    if (c->extra == 1) {
        thrift_put_field(b, &last, 1, THRIFT_BINARY);
        buf_add(b, "\4file", 5);
    }
    thrift_put_int(b, &last, 2, THRIFT_I64, 77);
    thrift_put_field(b, &last, 3, THRIFT_STRUCT);
    if (c->size != 0)
        thrift_put_int(b, &meta, 7, THRIFT_I64, c->size);
    if (c->data != 0)
        thrift_put_int(b, &meta, 9, THRIFT_I64, c->data);
    if (c->dictionary != 0)
        thrift_put_int(b, &meta, 11, THRIFT_I64, c->dictionary);
    thrift_put_stop(b);
    if (c->extra == 8) {
        thrift_put_field(b, &last, 8, THRIFT_STRUCT);
        thrift_put_stop(b);
    }
    thrift_put_stop(b);
}

static void end_footer(size_t begin)
{
    uint32_t len = (uint32_t)(made.len - begin);

    buf_add(&made, &len, 4);
    buf_adds(&made, "PAR1");
}

static void make(const struct group *groups, size_t n)
{
    int last = 0;

    buf_clear(&made);
    buf_adds(&made, "PAR1");
    for (int i = 0; i < 100; i++)
        buf_addc(&made, (char)i);
    thrift_put_int(&made, &last, 1, THRIFT_I32, 1);
    thrift_put_int(&made, &last, 3, THRIFT_I64, 99);
    thrift_put_field(&made, &last, 4, THRIFT_LIST);
    thrift_put_list(&made, n, THRIFT_STRUCT);
    for (size_t i = 0; i < n; i++) {
        int in_group = 0;

        thrift_put_field(&made, &in_group, 1, THRIFT_LIST);
        thrift_put_list(&made, groups[i].n, THRIFT_STRUCT);
        for (size_t c = 0; c < groups[i].n; c++)
            put_chunk(&made, &groups[i].chunks[c]);
        thrift_put_int(&made, &in_group, 3, THRIFT_I64, groups[i].rows);
        thrift_put_stop(&made);
    }
    thrift_put_stop(&made);
    end_footer(104);
}

static int run(void)
{
    return scanning_run(&k, "t.parquet", made.data, made.len);
}

static void test_chunks_are_joined_and_ordered(void **state)
{
    static const struct group groups[] = {
        {5, {{10, 14, 4, 0}, {10, 14, 0, 0}, {6, 90, 0, 0}}, 3},
        {0, {{15, 0, 4, 0}}, 1}, /* as an empty table has it */
        {7, {{10, 50, 0, 0}, {10, 30, 0, 0}}, 2},
    };

    (void)state;
    make(groups, 3);
    assert_int_equal(run(), DLC_ECORRUPT); /* the first chunk does not hold its data page */
    make((struct group[]){{5, {{10, 10, 4, 0}, {10, 14, 0, 0}, {6, 90, 0, 0}}, 3},
                          groups[1],
                          groups[2]},
         3);
    assert_int_equal(run(), 0);
    assert_int_equal(k.n, 2);
    assert_int_equal(k.samples[0].n_pieces, 4);
    assert_int_equal(k.samples[0].pieces[1].length, 20);
    assert_int_equal(k.samples[1].n_pieces, 4);
    assert_int_equal(k.samples[1].pieces[1].offset, 50);
    assert_int_equal(k.samples[1].pieces[2].offset, 30);
    assert_string_equal(k.samples[1].name, "rows 5-11");
}

static void test_refused(void **state)
{
    static const struct {
        struct group group;
        const char *says;
        int code;
    } cases[] = {
        {{1, {{10, 4, 0, 1}}, 1}, "other files", DLC_EINVAL},
        {{1, {{10, 4, 0, 8}}, 1}, "encrypted", DLC_EINVAL},
        {{1, {{0, 4, 0, 0}}, 1}, "bad column chunk", DLC_ECORRUPT},
        {{1, {{10, 0, 0, 0}}, 1}, "bad column chunk", DLC_ECORRUPT},
        {{1, {{-1, 4, 0, 0}}, 1}, "bad column chunk", DLC_ECORRUPT},
        {{1, {{10, 3, 0, 0}}, 1}, "bad column chunk", DLC_ECORRUPT},
        {{1, {{10, -5, 0, 0}}, 1}, "bad column chunk", DLC_ECORRUPT},
        {{1, {{101, 4, 0, 0}}, 1}, "outside", DLC_ECORRUPT},
        {{1, {{10, 95, 0, 0}}, 1}, "outside", DLC_ECORRUPT},
        {{1, {{10, INT64_MAX, 0, 0}}, 1}, "outside", DLC_ECORRUPT},
        {{1, {{INT64_MAX, 4, 0, 0}}, 1}, "outside", DLC_ECORRUPT},
        {{1, {{60, 4, 0, 0}, {60, 4, 0, 0}}, 2}, "overlap", DLC_ECORRUPT},
        {{-1, {{10, 4, 0, 0}}, 1}, "rows", DLC_ECORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        make(&cases[i].group, 1);
        assert_int_equal(run(), cases[i].code);
        if (strstr(k.err.text, cases[i].says) == NULL)
            fail_msg("case %zu: %s", i, k.err.text);
        assert_int_equal(k.n, 0);
    }
}

static void test_encrypted_footers(void **state)
{
    int last = 0;

    (void)state;
    load("three-groups.parquet", &made);
    made.data[made.len - 1] = 'E';
    assert_int_equal(run(), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "encrypted"));
    buf_clear(&made);
    buf_adds(&made, "PAR1");
    thrift_put_field(&made, &last, 8, THRIFT_STRUCT);
    thrift_put_stop(&made);
    thrift_put_stop(&made);
    end_footer(4);
    assert_int_equal(run(), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "encrypted"));
}

static void test_footers_that_lie(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"", 0},
        {"\0", 1},                                                  /* no row groups */
        {"\x49\x0c\0\x19\x0c\0", 6},                                /* not at the end */
        {"\x49\xfc\xff\xff\xff\xff\x0f\0", 8},                      /* 4 billion groups */
        {"\x49\x16\0\0", 4},                                        /* a list of integers */
        {"\x46\x02\0", 3},                                          /* an integer */
        {"\x40\0", 2},                                              /* a stop that has an id */
        {"\x4f\0", 2},                                              /* an unknown type */
        {"\x06\0\2\0", 4},                                          /* id 0 */
        {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", 12},     /* a string without end */
        {"\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", 13}, /* a number without end */
        {"\x1b\xff\xff\xff\x0f\x88\0", 7},                          /* a map without end */
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        buf_clear(&made);
        buf_adds(&made, "PAR1");
        buf_add(&made, cases[i].bytes, cases[i].len);
        end_footer(4);
        if (run() != DLC_ECORRUPT)
            fail_msg("case %zu", i);
    }
    buf_clear(&made);
    buf_adds(&made, "PAR1");
    for (int i = 0; i < 100000; i++)
        buf_addc(&made, 0x1c);
    end_footer(4);
    assert_int_equal(run(), DLC_ECORRUPT);
}

/* Values of every type are passed over and copied as they are. */
static void test_unknown_fields_are_kept(void **state)
{
    static const char all[] = "\x51\x12"         /* two booleans */
                              "\x23\x7f"         /* a byte */
                              "\x14\x02\x15\x02" /* small integers */
                              "\x17"
                              "12345678"        /* a double */
                              "\x18\x02hi"      /* a string */
                              "\x19\x21\1\2"    /* a list of booleans */
                              "\x1a\x18\1x"     /* a set */
                              "\x1b\1\x85\1k\2" /* a map */
                              "\x1b\0"          /* and an empty one */
                              "\x1d"
                              "0123456789abcdef" /* a uuid */
                              "\x09\xc8\1\x05";  /* an empty list, id 100 */
    struct group one = {1, {{10, 4, 0, 0}}, 1};

    (void)state;
    make(&one, 1);
    made.len -= 9; /* stop, length, magic */
    buf_add(&made, all, sizeof(all) - 1);
    thrift_put_stop(&made);
    end_footer(104);
    assert_int_equal(run(), 0);
    assert_int_equal(k.n, 1);
    assert_non_null(
        memmem(scanning_bytes(&k, 0)->data, scanning_bytes(&k, 0)->len, all + 1, sizeof(all) - 2));
}

/* 100 groups that each repeat a schema of a megabyte: more schema than data. */
static void test_too_much_schema(void **state)
{
    int last = 0;

    (void)state;
    buf_clear(&made);
    buf_adds(&made, "PAR1");
    for (int i = 0; i < 1000; i++)
        buf_addc(&made, 'd');
    thrift_put_field(&made, &last, 2, THRIFT_BINARY);
    buf_add(&made, "\x80\x80\x40", 3); /* 1 MiB */
    buf_reserve(&made, 1 << 20);
    memset(made.data + made.len, 's', 1 << 20);
    made.len += 1 << 20;
    thrift_put_field(&made, &last, 4, THRIFT_LIST);
    thrift_put_list(&made, 100, THRIFT_STRUCT);
    for (int i = 0; i < 100; i++) {
        int in_group = 0;

        thrift_put_int(&made, &in_group, 3, THRIFT_I64, 1);
        thrift_put_stop(&made);
    }
    thrift_put_stop(&made);
    end_footer(1004);
    assert_int_equal(run(), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "schema"));
    assert_true(k.n > 50 && k.n < 64);
}

static void test_more_pieces_than_a_sample_may_have(void **state)
{
    int last = 0, in_group = 0;

    (void)state;
    for (int n = 4094; n <= 4095; n++) {
        buf_clear(&made);
        buf_adds(&made, "PAR1");
        for (int i = 0; i < 10000; i++)
            buf_addc(&made, 'd');
        last = in_group = 0;
        thrift_put_field(&made, &last, 4, THRIFT_LIST);
        thrift_put_list(&made, 1, THRIFT_STRUCT);
        thrift_put_field(&made, &in_group, 1, THRIFT_LIST);
        thrift_put_list(&made, (size_t)n, THRIFT_STRUCT);
        for (int i = 0; i < n; i++)
            put_chunk(&made, &(struct chunk){1, 4 + 2 * i, 0, 0});
        thrift_put_int(&made, &in_group, 3, THRIFT_I64, 1);
        thrift_put_stop(&made);
        thrift_put_stop(&made);
        end_footer(10004);
        assert_int_equal(run(), n == 4094 ? 0 : DLC_EINVAL);
    }
    assert_non_null(strstr(k.err.text, "4094 pieces"));
}

static void test_cut_short_and_failures(void **state)
{
    (void)state;
    load("three-groups.parquet", &made);
    scanning_cut_everywhere(&k, "t.parquet", &made, 100000);
    scanning_fail_everywhere(&k, "t.parquet", &made);
    /* Whatever byte of the footer is wrong, nothing breaks. */
    for (size_t i = made.len - 900; i < made.len; i++) {
        char was = made.data[i];

        for (unsigned bit = 0; bit < 8; bit++) {
            int rc;

            made.data[i] = (char)(was ^ 1u << bit);
            rc = run();
            assert_true(rc == 0 || rc == DLC_ECORRUPT || rc == DLC_EINVAL);
        }
        made.data[i] = was;
    }
}

/* ---- memory for footers ---- */

#define LARGE ((uint64_t)256 << 20) /* the largest footer; nothing is written there */

static pthread_mutex_t mtx = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned reading, most, asked; /* footers that are being read, and their tails. G: mtx */

static void wait_a_moment(void)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec++;
    while (asked < 3 || reading < 2)
        if (pthread_cond_timedwait(&changed, &mtx, &end) != 0 && asked == 3)
            break;
}

/* A file with a large footer. Reading that waits for the others to read theirs, and then fails. */
static int read_slowly(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    int rc = 0;

    (void)s;
    pthread_mutex_lock(&mtx);
    if (len == 8) {
        memcpy(buf, (unsigned char[]){0, 0, 0, 0x10, 'P', 'A', 'R', '1'}, 8);
        asked++;
    } else {
        assert_int_equal(off, 4);
        reading++;
        most = DLC_MAX(most, reading);
        pthread_cond_broadcast(&changed);
        wait_a_moment();
        reading--;
        rc = dlc_err_set(err, DLC_EBUCKET, "the bucket is away");
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mtx);
    return rc;
}

static int found_none(struct scan *s, const struct scan_sample *sample, struct dlc_err *err)
{
    (void)s;
    (void)sample;
    return dlc_err_set(err, DLC_EINVAL, "there is none");
}

static void *scan_large(void *arg)
{
    struct source source = {.name = "l.parquet", .size = LARGE + 12, .read = read_slowly};
    struct scan scan = {.source = &source, .found = found_none};
    struct dlc_err err = DLC_ERR_INIT;

    (void)arg;
    return (void *)(intptr_t)scanner_of("l.parquet")->run(&scan, &err);
}

/* (PARQUET-3): three scans, of three datasets perhaps, read their footers one after the other. */
static void test_large_footers_wait(void **state)
{
    pthread_t threads[3];
    void *rc;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, scan_large, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], &rc), 0);
        assert_int_equal((intptr_t)rc, DLC_EBUCKET);
    }
    assert_int_equal(most, 1);
}

static int tear_down(void **state)
{
    (void)state;
    scanning_release(&k);
    buf_release(&made);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_are_files),
        cmocka_unit_test(test_chunks_are_joined_and_ordered),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_encrypted_footers),
        cmocka_unit_test(test_footers_that_lie),
        cmocka_unit_test(test_unknown_fields_are_kept),
        cmocka_unit_test(test_too_much_schema),
        cmocka_unit_test(test_more_pieces_than_a_sample_may_have),
        cmocka_unit_test(test_cut_short_and_failures),
        cmocka_unit_test(test_large_footers_wait),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
