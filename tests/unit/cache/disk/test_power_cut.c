// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier after a power cut at any moment (power_cut.h): a chunk that it still has is the
 * right one or is found damaged, never given out wrong; and a tier that syncs has every chunk that
 * it had stored. "long" as argument: more cuts.
 */
// timeout: 180
#include "util.h"

#include "base/log.h"
#include "power_cut.h"

enum { N = 6, SMALL = 1500, LARGE = 270000 };

static bool synced;

static size_t size_of(unsigned i)
{
    return i == 3 ? LARGE : SMALL + i; /* a large one is allocated first */
}

static void fill_one(struct disk *d, unsigned i, bool append)
{
    unsigned char *p = bytes_of(i, size_of(i));
    struct disk_fill *f;

    assert_int_equal(disk_fill_begin(d, id_of(i), append ? 0 : size_of(i), &f, NULL), 0);
    if (!append)
        memcpy(disk_fill_data(f), p, size_of(i));
    for (size_t at = 0; append && at < size_of(i); at += 700)
        assert_int_equal(
            disk_fill_append(d, f, p + at, DLC_MIN(size_of(i) - at, (size_t)700), NULL), 0);
    assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
    mem_free(&p);
}

/* The marks say which chunks must be there. */
static void record(void)
{
    struct disk *d;

    cut_begin(root);
    d = open_config(&(struct disk_config){.root = root, .sync = synced});
    assert_int_equal(store(d, 0, size_of(0)), 0);
    cut_mark(1);
    fill_one(d, 1, false);
    cut_mark(3);
    fill_one(d, 2, true);
    cut_mark(7);
    assert_int_equal(store(d, 3, size_of(3)), 0);
    cut_mark(15);
    cut_mark(13);
    disk_drop(d, id_of(1));
    assert_int_equal(store(d, 4, size_of(4)), 0);
    cut_mark(13 + 16);
    assert_int_equal(store(d, 1, size_of(1)), 0);
    cut_mark(15 + 16);
    disk_close(&d);
    cut_end();
}

static void check(const char *where, int mark)
{
    struct disk *d;
    struct dlc_err err = DLC_ERR_INIT;

    if (disk_open(&(struct disk_config){.root = where}, &d, &err) < 0)
        fail_msg("%s", err.text);
    for (unsigned i = 0; i < N; i++) {
        int rc = fetch(d, i, size_of(i)); /* which looks at the bytes */

        if (rc == DLC_ECORRUPT) {
            assert_false(synced);
            assert_int_equal(fetch(d, i, size_of(i)), DLC_EMISS);
            assert_int_equal(store(d, i, size_of(i)), 0);
            assert_int_equal(fetch(d, i, size_of(i)), 0);
            continue;
        }
        assert_true(rc == 0 || rc == DLC_EMISS);
        if (synced && (mark >> i & 1) != 0 && rc != 0)
            fail_msg("chunk %u was stored and is lost", i);
    }
    assert_int_equal(store(d, 100, SMALL), 0);
    assert_int_equal(fetch(d, 100, SMALL), 0);
    disk_close(&d);
}

static void cut_everywhere(void)
{
    char *where = mem_fmt("%s.cut", root);
    unsigned trees;

    record();
    trees = cut_each(where, check);
    print_message("%u operations, %u trees\n", cut.n_ops, trees);
    assert_true(trees > 500);
    cut_release();
    mem_free(&where);
}

static void test_power_cut(void **state)
{
    (void)state;
    cut_everywhere();
}

static void test_power_cut_of_a_tier_that_syncs(void **state)
{
    (void)state;
    synced = true;
    cut_everywhere();
}

/* A chunk that lies in the same directory as chunk 0. */
static unsigned neighbour(void)
{
    unsigned i = N;

    while (shard_of(id_of(i)) != shard_of(id_of(0)))
        i++;
    return i;
}

static void check_neighbour(const char *where, int mark)
{
    struct disk *d;

    assert_int_equal(disk_open(&(struct disk_config){.root = where}, &d, NULL), 0);
    if (mark != 0 && fetch(d, neighbour(), SMALL) != 0)
        fail_msg("a chunk was stored and is lost");
    disk_close(&d);
}

/* The directory that a chunk goes to was made by a store that failed, or by a tier that does not
 * sync. */
static void test_power_cut_and_a_directory_that_was_there(void **state)
{
    char *where = mem_fmt("%s.cut", root);
    struct disk *d;

    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        cut_begin(root);
        d = open_config(&(struct disk_config){.root = root, .sync = failed == 1});
        if (failed) /* the first fails by itself: there is no directory */
            fault_plan(&(struct fault_plan){.calls = FAULT_CALL(rename), .nth = 2});
        assert_int_equal(store(d, 0, SMALL) < 0, failed);
        assert_int_equal(fault_disarm(), failed);
        if (!failed) {
            disk_close(&d);
            d = open_config(&(struct disk_config){.root = root, .sync = true});
        }
        assert_int_equal(store(d, neighbour(), SMALL), 0);
        cut_mark(1);
        disk_close(&d);
        cut_end();
        assert_true(cut_each(where, check_neighbour) > 100);
        cut_release();
        remove_root(NULL);
        assert_int_equal(mkdir(root, 0700), 0);
    }
    mem_free(&where);
}

static int make_root_in_memory(void **state)
{
    (void)state;
    strcpy(root, "/dev/shm/dlcache-test-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : make_root(state);
}

#define cut_test(f) cmocka_unit_test_setup_teardown(f, make_root_in_memory, remove_root)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cut_test(test_power_cut),
        cut_test(test_power_cut_of_a_tier_that_syncs),
        cut_test(test_power_cut_and_a_directory_that_was_there),
    };

    cut_arguments(argc, argv);
    log_threshold = LOG_ERROR; /* damaged chunks are what this is about */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
