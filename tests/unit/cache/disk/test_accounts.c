// SPDX-License-Identifier: Apache-2.0
/*
 * The accounts of room: what is reserved, what the file system has allocated, what it has left. A
 * byte that is forgotten in them is lost until the daemon ends, so they are looked at directly,
 * with a file system whose answer the test makes up.
 */
#include "util.h"

#include "cache/disk/disk_i.h"

#define BLOCK ((uint64_t)4096)

/* The file system has said so just now, and is not asked again. */
static const struct chunk_id none; /* of group 0 */

static void say_free(struct disk *d, uint64_t bytes)
{
    disk_lock(d);
    d->fs_free = bytes;
    d->fs_asked = dlc_mono_add(dlc_mono_now(), DLC_SEC(3600));
    disk_unlock(d);
}

static void assert_nothing_open(struct disk *d)
{
    disk_lock(d);
    assert_int_equal(d->writing, 0);
    assert_int_equal(d->unallocated, 0);
    disk_unlock(d);
}

/* Whichever way a chunk is written, and however that ends, nothing stays reserved. */
static void test_nothing_stays_reserved(void **state)
{
    struct disk *d = open_limited(100000);
    struct disk_fill *f;

    (void)state;
    assert_int_equal(store(d, 1, 5000), 0);
    assert_nothing_open(d);
    assert_int_equal(store(d, 2, 100001), DLC_ENOSPACE);
    assert_nothing_open(d);
    assert_int_equal(disk_fill_begin(d, id_of(3), 5000, &f, NULL), 0);
    assert_int_equal(d->writing, 5000);
    assert_int_equal(d->unallocated, 0);
    assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
    assert_nothing_open(d);
    assert_int_equal(disk_fill_begin(d, id_of(4), 5000, &f, NULL), 0);
    disk_fill_abandon(d, &f);
    assert_nothing_open(d);
    for (int commit = 0; commit < 2; commit++) {
        assert_int_equal(disk_fill_begin(d, id_of(5), 0, &f, NULL), 0);
        assert_int_equal(disk_fill_append(d, f, "abc", 3, NULL), 0);
        assert_int_equal(disk_fill_append(d, f, "defg", 4, NULL), 0);
        assert_int_equal(d->writing, 7);
        assert_int_equal(d->unallocated, 0);
        assert_int_equal(disk_fill_append(d, f, "", 200000, NULL), DLC_ENOSPACE);
        assert_int_equal(d->writing, 7);
        assert_int_equal(d->unallocated, 0);
        if (commit)
            assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
        else
            disk_fill_abandon(d, &f);
        assert_nothing_open(d);
    }
    assert_int_equal(d->bytes, 5000 + 5000 + 7);
    disk_close(&d);
}

static void test_free_space(void **state)
{
    struct disk *d = open_config(&(struct disk_config){.root = root, .keep_free = 2 * BLOCK});

    (void)state;
    say_free(d, 10 * BLOCK);
    assert_int_equal(disk_reserve(d, none, 3 * BLOCK, false, NULL), 0);
    assert_int_equal(d->writing, 3 * BLOCK);
    assert_int_equal(d->unallocated, 3 * BLOCK);
    assert_int_equal(d->fs_free, 10 * BLOCK);
    assert_int_equal(disk_reserve(d, none, 5 * BLOCK + 1, false, NULL), DLC_ENOSPACE);
    assert_int_equal(disk_reserve(d, none, 5 * BLOCK, false, NULL), 0); /* just that is left */
    disk_allocated(d, 3 * BLOCK);
    assert_int_equal(d->unallocated, 5 * BLOCK);
    assert_int_equal(d->fs_free, 7 * BLOCK);
    assert_int_equal(d->writing, 8 * BLOCK);
    assert_int_equal(disk_reserve(d, none, 1, false, NULL), DLC_ENOSPACE); /* a block, too */
    assert_int_equal(disk_reserve(d, none, 0, false, NULL), 0);
    disk_unreserve(d, 3 * BLOCK);
    assert_int_equal(d->writing, 5 * BLOCK);
    assert_int_equal(d->fs_free, 10 * BLOCK);
    assert_int_equal(disk_reserve(d, none, 1, false, NULL), 0);
    disk_allocated(d, 1);
    assert_int_equal(d->fs_free, 9 * BLOCK);
    disk_unreserve(d, 1);
    assert_int_equal(d->fs_free, 10 * BLOCK);
    disk_allocated(d, 5 * BLOCK);
    disk_unreserve(d, 5 * BLOCK);
    assert_nothing_open(d);
    say_free(d, BLOCK); /* less than was to be kept free */
    disk_lock(d);
    d->unallocated = 3 * BLOCK; /* and less than we have in hand */
    disk_unlock(d);
    assert_int_equal(disk_reserve(d, none, 0, false, NULL), DLC_ENOSPACE);
    disk_allocated(d, 3 * BLOCK);
    assert_int_equal(d->fs_free, 0);
    disk_close(&d);
}

/* A full file system: chunks go for it exactly when that helps. */
static void test_evict_for_free_space(void **state)
{
    struct disk *d = open_config(&(struct disk_config){.root = root, .keep_free = BLOCK});

    (void)state;
    assert_int_equal(store(d, 1, 2 * BLOCK), 0);
    say_free(d, BLOCK);
    assert_int_equal(disk_reserve(d, none, 2 * BLOCK + 1, false, NULL), DLC_ENOSPACE);
    assert_true(disk_has(d, id_of(1)));
    assert_int_equal(disk_reserve(d, none, 2 * BLOCK, false, NULL), 0);
    assert_false(disk_has(d, id_of(1)));
    assert_int_equal(d->bytes, 0);
    assert_int_equal(d->fs_free, 3 * BLOCK);
    disk_allocated(d, 2 * BLOCK);
    disk_unreserve(d, 2 * BLOCK);
    disk_close(&d);
}

/* Limits that are broken already are kept again whatever has to go, and be it for somebody who is
 * not let in then. */
static void test_broken_limits(void **state)
{
    struct disk *d = open_config(&(struct disk_config){.root = root, .keep_free = 10 * BLOCK});
    uint32_t active = disk_group(d, 1, "active");

    (void)state;
    disk_group_join(d, active);
    for (unsigned i = 0; i < 5; i++) {
        struct chunk_id id = id_of(i);
        unsigned char *p = bytes_of(i, 2 * BLOCK);

        id.group = active;
        assert_int_equal(disk_store(d, id, p, 2 * BLOCK, NULL), 0);
        mem_free(&p);
    }
    say_free(d, 11 * BLOCK); /* kept: nobody's chunk is not worth a reader's */
    assert_int_equal(disk_reserve(d, none, 2 * BLOCK, false, NULL), DLC_ENOSPACE);
    assert_int_equal(figures_of(d).chunks, 5);
    say_free(d, 9 * BLOCK); /* broken */
    assert_int_equal(disk_reserve(d, none, 2 * BLOCK, false, NULL), DLC_ENOSPACE);
    assert_int_equal(figures_of(d).chunks, 4);
    assert_int_equal(d->fs_free, 11 * BLOCK);
    say_free(d, 1000 * BLOCK);
    disk_lock(d);
    d->limit = 7 * BLOCK; /* 8 are there */
    disk_unlock(d);
    assert_int_equal(disk_reserve(d, none, 2 * BLOCK, false, NULL), DLC_ENOSPACE);
    assert_int_equal(figures_of(d).chunks, 3);
    assert_int_equal(disk_reserve(d, none, 2 * BLOCK, true, NULL), 0); /* it must */
    assert_int_equal(figures_of(d).chunks, 2);
    disk_allocated(d, 2 * BLOCK);
    disk_unreserve(d, 2 * BLOCK);
    disk_close(&d);
}

static void test_limit_to_the_byte(void **state)
{
    struct disk *d = open_limited(10000);

    (void)state;
    assert_int_equal(store(d, 1, 4000), 0);
    assert_int_equal(disk_reserve(d, none, 6000, false, NULL), 0);
    assert_true(disk_has(d, id_of(1)));
    assert_int_equal(disk_reserve(d, none, 4001, false, NULL), DLC_ENOSPACE); /* would not help */
    assert_true(disk_has(d, id_of(1)));
    assert_int_equal(disk_reserve(d, none, 1, false, NULL), 0);
    assert_false(disk_has(d, id_of(1)));
    disk_allocated(d, 6001);
    disk_unreserve(d, 6001);
    assert_nothing_open(d);
    disk_close(&d);
}

/* The file system was fuller than it said: at least a MB goes, and it is asked again. */
static void test_evict_more(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    assert_false(disk_evict_more(d, none, 1));
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(store(d, i, 100000), 0);
    say_free(d, 1000 * BLOCK);
    assert_true(disk_evict_more(d, none, 1));
    assert_int_equal(figures_of(d).chunks, 40 - 11); /* 1,048,576 bytes in pieces of 100,000 */
    assert_int_equal(d->fs_asked.ns, 0);
    assert_true(disk_evict_more(d, none, 1100000));
    assert_int_equal(figures_of(d).chunks, 40 - 22);
    assert_true(disk_evict_more(d, none, 1 << 30));
    assert_int_equal(figures_of(d).chunks, 0);
    disk_close(&d);
}

/* Asked ten times a second at most, and by one thread at a time. */
static void test_refresh(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    say_free(d, 123);
    disk_lock(d);
    d->fs_asked = dlc_mono_now();
    disk_unlock(d);
    disk_refresh(d);
    assert_int_equal(d->fs_free, 123);
    disk_lock(d);
    d->fs_asking = true;
    disk_unlock(d);
    dlc_clock_advance(DLC_MS(150));
    disk_refresh(d);
    assert_int_equal(d->fs_free, 123);
    assert_true(d->fs_asking);
    disk_lock(d);
    d->fs_asking = false;
    disk_unlock(d);
    disk_refresh(d);
    assert_int_not_equal(d->fs_free, 123);
    assert_int_equal(figures_of(d).fs_free, d->fs_free);
    assert_false(d->fs_asking);
    say_free(d, 123);
    disk_refresh(d);
    assert_int_equal(d->fs_free, 123);
    disk_lock(d);
    d->fs_asked.ns = 0;
    disk_unlock(d);
    disk_refresh(d);
    assert_int_not_equal(d->fs_free, 123);
    assert_true(d->fs_asked.ns > 0);
    for (unsigned i = 0; i < BREAKER_OPS; i++) /* nobody waits for it any more */
        assert_int_equal(d->breaker.due[i], 0);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_nothing_stays_reserved),
        disk_test(test_free_space),
        disk_test(test_evict_for_free_space),
        disk_test(test_limit_to_the_byte),
        disk_test(test_broken_limits),
        disk_test(test_evict_more),
        disk_test(test_refresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
