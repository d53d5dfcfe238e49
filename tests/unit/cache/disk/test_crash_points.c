// SPDX-License-Identifier: Apache-2.0
/*
 * A disk tier killed at every one of its file-system calls, while it opens, stores, fills, appends,
 * replaces, reads, drops and evicts. The next one that opens the root finds what was stored, whole,
 * nothing of what was dropped, and no file that nobody knows of.
 */
// timeout: 120
#include "util.h"

#include "crash_points.h"

enum { N = 8, SMALL = 3000, LARGE = 300000 };

enum fate { NEVER, BEGUN, STORED, LEAVING, GONE };

/* What the child has done. */
static struct schedule {
    int nth; /* the call that kills it */
    enum fate fates[N];
    bool opened;
} * told;

static bool synced;
static uint64_t limit;

static size_t size_of(unsigned i)
{
    return i % 4 == 3 ? LARGE : SMALL + i;
}

static void must(int rc)
{
    if (rc < 0)
        _exit(10);
}

/* Where there is a limit, it may have been evicted. */
static bool must_unless_gone(int rc)
{
    if (rc != DLC_EMISS || limit == 0)
        must(rc);
    return rc == 0;
}

/* In memory: that a file is synced matters here only because it is one more call. */
static int make_root_in_memory(void **state)
{
    (void)state;
    strcpy(root, "/dev/shm/dlcache-test-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : make_root(state);
}

static void store_one(struct disk *d, unsigned i)
{
    told->fates[i] = BEGUN;
    must(store(d, i, size_of(i)));
    told->fates[i] = STORED;
}

/* Begun with its length and mapped, or with none and appended to. */
static void fill_one(struct disk *d, unsigned i, bool append)
{
    unsigned char *p = bytes_of(i, size_of(i));
    struct disk_fill *f;

    told->fates[i] = BEGUN;
    must(disk_fill_begin(d, id_of(i), append ? 0 : size_of(i), &f, NULL));
    if (!append)
        memcpy(disk_fill_data(f), p, size_of(i));
    for (size_t at = 0; append && at < size_of(i); at += 100000)
        must(disk_fill_append(d, f, p + at, DLC_MIN(size_of(i) - at, (size_t)100000), NULL));
    must(disk_fill_commit(d, &f, NULL));
    told->fates[i] = STORED;
    mem_free(&p);
}

static void drop_one(struct disk *d, unsigned i)
{
    told->fates[i] = LEAVING;
    disk_drop(d, id_of(i));
    told->fates[i] = GONE;
}

static struct disk *open_tier(void)
{
    struct disk *d =
        open_config(&(struct disk_config){.root = root, .sync = synced, .limit = limit});

    told->opened = true;
    return d;
}

/* Counted from the end of the scan on, which asks for every directory. */
static void works(void)
{
    struct disk *d = open_tier();
    char range[100];

    fault_plan(&(struct fault_plan){
        .calls = FAULT_FILE_CALLS & ~FAULT_CALL(statvfs), .nth = told->nth, .mode = FAULT_KILL});
    for (unsigned i = 0; i < 4; i++)
        store_one(d, i);
    fill_one(d, 4, false);
    fill_one(d, 7, true);
    drop_one(d, 1);
    must(disk_store(d, id_of(6), "another", 7, NULL)); /* which is replaced */
    store_one(d, 6);
    must_unless_gone(fetch(d, 2, size_of(2)));
    must_unless_gone(disk_read_range(d, id_of(7), size_of(7), 3, range, sizeof(range), NULL));
    disk_close(&d);
}

/* Is chunk i what the child told of it? */
static void check_one(struct disk *d, unsigned i)
{
    int rc = fetch(d, i, size_of(i));

    if (i == 6 && rc == DLC_ECORRUPT) /* "another", which has another length, was there */
        rc = DLC_EMISS;
    assert_true(rc == 0 || rc == DLC_EMISS);
    if (limit == 0 && told->fates[i] == STORED)
        assert_int_equal(rc, 0);
    if (told->fates[i] == GONE || told->fates[i] == NEVER)
        assert_int_equal(rc, DLC_EMISS);
}

static void check_all(void)
{
    uint64_t corrupt = count_read(disk_corrupt), bytes;
    struct disk *d = open_config(&(struct disk_config){.root = root, .limit = limit});

    assert_int_equal(lies_below(root, "tmp").files, 0);
    assert_int_equal(figures_of(d).chunks, lies_below(root, "chunks").files);
    assert_int_equal(figures_of(d).bytes, lies_below(root, "chunks").bytes);
    assert_true(limit == 0 || figures_of(d).bytes <= limit);
    for (unsigned i = 0; i < N; i++)
        check_one(d, i);
    assert_true(count_read(disk_corrupt) - corrupt <= 1); /* of chunk 6, see there */
    assert_int_equal(store(d, 100, SMALL), 0);
    assert_int_equal(fetch(d, 100, SMALL), 0);
    bytes = figures_of(d).bytes;
    assert_int_equal(disk_drop_all(d), bytes);
    assert_int_equal(lies_below(root, "").files, 1); /* the lock */
    disk_close(&d);
}

static int sweep(void)
{
    int nth = 1;

    told = shared_memory(sizeof(*told));
    for (bool killed = true; killed; nth++) {
        memset(told, 0, sizeof(*told));
        told->nth = nth;
        killed = killed_at(0, 1, works); /* it makes its plan */
        assert_true(told->opened);
        check_all();
        remove_root(NULL);
        assert_int_equal(mkdir(root, 0700), 0);
    }
    munmap(told, sizeof(*told));
    return nth;
}

static void test_killed_at_each_call(void **state)
{
    (void)state;
    assert_true(sweep() > 50);
}

static void test_killed_at_each_call_that_syncs(void **state)
{
    (void)state;
    synced = true;
    assert_true(sweep() > 80);
    synced = false;
}

/* Everything but the last few is evicted on the way. */
static void test_killed_while_it_evicts(void **state)
{
    (void)state;
    limit = LARGE + 2 * SMALL + 100;
    assert_true(sweep() > 50);
    limit = 0;
}

static void opens(void)
{
    struct disk *d = open_tier();

    disk_close(&d);
}

/* What another left behind is not lost, and goes if it was never finished. */
static void test_killed_while_it_opens(void **state)
{
    struct disk *d = open_limited(0);
    bool killed = true;
    int nth = 1;

    (void)state;
    told = shared_memory(sizeof(*told));
    store_one(d, 0);
    store_one(d, 3);
    disk_close(&d);
    for (; killed && nth <= 40; nth++) { /* the scan, which changes nothing, makes hundreds */
        char *tmp = mem_fmt("%s/tmp/left.tmp", root);

        assert_int_equal(os_write_file(tmp, "x", 1, 0600, NULL), 0);
        mem_free(&tmp);
        killed = killed_at(FAULT_FILE_CALLS | FAULT_CALL(thread), nth, opens);
        d = open_limited(0);
        for (unsigned i = 0; i < N; i++)
            check_one(d, i);
        assert_int_equal(lies_below(root, "tmp").files, 0);
        disk_close(&d);
    }
    assert_true(nth > 40);
    munmap(told, sizeof(*told));
}

#define crash_test(f) cmocka_unit_test_setup_teardown(f, make_root_in_memory, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        crash_test(test_killed_at_each_call),
        crash_test(test_killed_at_each_call_that_syncs),
        crash_test(test_killed_while_it_evicts),
        crash_test(test_killed_while_it_opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
