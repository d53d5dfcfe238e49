// SPDX-License-Identifier: Apache-2.0
/* Reading what is damaged, short, gone or forbidden; descriptors. */
#include "util.h"

#include <pthread.h>

#include "base/fault.h"

static void damage(unsigned i, size_t len, off_t at)
{
    struct disk_path path;
    char byte;
    int fd;

    path_of(i, len, &path);
    fd = open(path.s, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_damaged(void **state)
{
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt);
    struct dlc_err err = DLC_ERR_INIT;
    char buf[1000];

    (void)state;
    store(d, 1, 1000);
    damage(1, 1000, 999);
    assert_int_equal(disk_read(d, id_of(1), buf, 1000, &err), DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "wrong checksum"));
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    assert_false(disk_has(d, id_of(1)));
    assert_int_equal(count_files("chunks", ""), 0);
    assert_int_equal(figures_of(d).bytes, 0);
    assert_int_equal(store(d, 1, 1000), 0);
    assert_int_equal(fetch(d, 1, 1000), 0);
    disk_close(&d);
}

/* A descriptor whose reader compares: the checksum is the one to compare with. What it found wrong
 * is verified on the device, and goes if it is. */
static void test_open_and_verify(void **state)
{
    enum { LEN = (2 << 20) + 7 };
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt), hits = count_read(disk_hits), sum = 0;
    unsigned char *p = bytes_of(1, LEN);
    int fd;

    (void)state;
    store(d, 1, LEN);
    assert_int_equal(disk_open_chunk(d, id_of(1), LEN, &fd, &sum, NULL), 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_true(sum == hash64(p, LEN));
    os_close(&fd);
    assert_int_equal(disk_verify(d, id_of(1), LEN, NULL), 0);
    damage(1, LEN, LEN - 1);
    assert_int_equal(disk_open_chunk(d, id_of(1), LEN, &fd, &sum, NULL), 0);
    assert_int_equal(os_pread_all(fd, p, LEN, 0), 0);
    assert_true(sum != hash64(p, LEN));
    os_close(&fd);
    assert_int_equal(count_read(disk_hits) - hits, 2);
    assert_int_equal(disk_verify(d, id_of(1), LEN, NULL), DLC_ECORRUPT);
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    assert_int_equal(disk_open_chunk(d, id_of(1), LEN, &fd, &sum, NULL), DLC_EMISS);
    assert_int_equal(fd, -1);
    assert_int_equal(disk_verify(d, id_of(1), LEN, NULL), DLC_EMISS);
    mem_free(&p);
    disk_close(&d);
}

static void test_wrong_length(void **state)
{
    static const off_t lengths[] = {0, 999, 1001};
    struct disk *d = open_limited(0);
    struct disk_path path;
    char buf[2000];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        store(d, i, 1000);
        path_of(i, 1000, &path);
        assert_int_equal(truncate(path.s, lengths[i]), 0);
        assert_int_equal(fetch(d, i, 1000), DLC_ECORRUPT);
        assert_int_equal(fetch(d, i, 1000), DLC_EMISS);
    }
    /* Asked for another length than was stored: the catalog and the chunk do not agree. */
    store(d, 9, 1000);
    assert_int_equal(disk_read(d, id_of(9), buf, 1001, NULL), DLC_ECORRUPT);
    assert_false(disk_has(d, id_of(9)));
    disk_close(&d);
}

static void test_gone(void **state)
{
    struct disk *d = open_limited(0);
    struct dlc_err err = DLC_ERR_INIT;
    struct disk_path path;
    char buf[1000];

    (void)state;
    store(d, 1, 1000);
    path_of(1, 1000, &path);
    assert_int_equal(unlink(path.s), 0);
    assert_int_equal(disk_read(d, id_of(1), buf, sizeof(buf), &err), DLC_EMISS);
    assert_non_null(strstr(err.text, path.s));
    assert_int_equal(figures_of(d).bytes, 0);
    disk_close(&d);
}

static int unreadable_child(void)
{
    struct disk *d = open_limited(0);
    struct disk_path path;
    int bad = 0;

    bad |= store(d, 1, 1000) != 0;
    path_of(1, 1000, &path);
    bad |= chmod(path.s, 0) != 0;
    bad |= fetch(d, 1, 1000) != DLC_EDENIED;
    bad |= disk_has(d, id_of(1)); /* dropped, so that it is fetched again */
    bad |= store(d, 1, 1000) != 0;
    bad |= fetch(d, 1, 1000) != 0;
    disk_close(&d);
    return bad;
}

static void test_unreadable(void **state)
{
    (void)state;
    assert_int_equal(chmod(root, 0777), 0);
    assert_int_equal(in_child(unreadable_child), 0);
}

/* A range of it is right. */
static bool range_ok(struct disk *d, size_t len, const unsigned char *want, size_t off, size_t n)
{
    unsigned char *got = mem_alloc(n + 1);
    bool ok;

    got[n] = 0xa5;
    ok = disk_read_range(d, id_of(1), len, off, got, n, NULL) == 0 &&
         memcmp(got, want + off, n) == 0 && got[n] == 0xa5;
    mem_free(&got);
    return ok;
}

static void test_ranges(void **state)
{
    enum { LEN = (3 << 20) + 77, B = 64 << 10 };
    static const size_t at[][2] = {
        {0, 1},         {0, LEN}, {0, B},       {1, B}, {B, B},         {B - 1, 2}, {B + 5, 3 * B},
        {LEN - 77, 77}, {LEN, 0}, {LEN - 1, 1}, {5, 0}, {LEN - 78, 78}, {B, B + 1}, {2 * B - 1, 1}};
    struct disk *d = open_limited(0);
    unsigned char *want = bytes_of(1, LEN), got[2];

    (void)state;
    assert_int_equal(disk_read_range(d, id_of(1), LEN, 0, got, 1, NULL), DLC_EMISS);
    store(d, 1, LEN);
    for (unsigned i = 0; i < DLC_COUNT(at); i++)
        assert_true(range_ok(d, LEN, want, at[i][0], at[i][1]));
    assert_int_equal(disk_read_range(d, id_of(1), LEN, LEN, got, 1, NULL), DLC_EINVAL);
    assert_int_equal(disk_read_range(d, id_of(1), LEN, LEN + 1, got, 0, NULL), DLC_EINVAL);
    assert_int_equal(disk_read_range(d, id_of(1), LEN, 1, got, UINT64_MAX, NULL), DLC_EINVAL);
    disk_drop(d, id_of(1));
    assert_int_equal(disk_read_range(d, id_of(1), LEN, 0, got, 1, NULL), DLC_EMISS);
    disk_close(&d);
    mem_free(&want);
}

/* Damage that comes after the chunk was verified is seen by each range that it touches. */
static void test_range_damaged_later(void **state)
{
    enum { LEN = 3 << 20, AT = 2 << 20 };
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt);
    unsigned char *want = bytes_of(1, LEN), got[10];

    (void)state;
    store(d, 1, LEN);
    assert_true(range_ok(d, LEN, want, AT, 10));
    damage(1, LEN, AT + 5);
    assert_true(range_ok(d, LEN, want, 0, AT));
    assert_int_equal(disk_read_range(d, id_of(1), LEN, AT, got, 10, NULL), DLC_ECORRUPT);
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    assert_false(disk_has(d, id_of(1)));
    /* What is stored under that name later has blocks of its own. */
    assert_int_equal(disk_store(d, id_of(1), want + 1, LEN - 1, NULL), 0);
    assert_true(range_ok(d, LEN - 1, want + 1, AT, 10));
    disk_close(&d);
    mem_free(&want);
}

/* What the device has counts, not what was in memory when the chunk was stored. */
static void test_range_after_store(void **state)
{
    enum { LEN = 3 << 20 };
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt), errors = count_read(disk_errors);
    char buf[1000];

    (void)state;
    store(d, 1, LEN);
    damage(1, LEN, 5); /* far from what is asked for: the first range verifies all */
    assert_int_equal(disk_read_range(d, id_of(1), LEN, LEN - 1000, buf, 1000, NULL), DLC_ECORRUPT);
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    assert_false(disk_has(d, id_of(1)));
    /* A read verifies what it gave, not what the device has. */
    store(d, 2, 1000);
    assert_int_equal(disk_read(d, id_of(2), buf, 1000, NULL), 0);
    damage(2, 1000, 5);
    assert_int_equal(disk_read_range(d, id_of(2), 1000, 900, buf, 1, NULL), DLC_ECORRUPT);
    /* The device refuses it. */
    store(d, 3, LEN);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fsync), .nth = 1});
    assert_int_equal(disk_read_range(d, id_of(3), LEN, 0, buf, 1, NULL), DLC_EIO);
    assert_true(fault_disarm());
    assert_int_equal(count_read(disk_errors) - errors, 1);
    assert_false(disk_has(d, id_of(3)));
    disk_close(&d);
}

struct ranger {
    pthread_t thread;
    struct disk *d;
    _Atomic pid_t tid;
    int rc;
    char buf[10];
};

static void *range_main(void *arg)
{
    struct ranger *m = arg;

    atomic_store(&m->tid, gettid());
    m->rc = disk_read_range(m->d, id_of(1), 1000, 7, m->buf, sizeof(m->buf), NULL);
    return NULL;
}

/* Of several that want a range of a new chunk at once, one verifies it; none does later. */
static void test_ranges_at_once(void **state)
{
    struct disk *d = open_limited(0);
    struct ranger m[4];

    (void)state;
    store(d, 1, 1000);
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(fsync), .nth = 1, .times = 4, .mode = FAULT_DELAY, .delay_ms = 100});
    for (unsigned i = 0; i < 4; i++) {
        m[i].d = d;
        assert_int_equal(pthread_create(&m[i].thread, NULL, range_main, &m[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(m[i].thread, NULL), 0);
        assert_int_equal(m[i].rc, 0);
    }
    range_main(&m[0]);
    assert_int_equal(m[0].rc, 0);
    assert_int_equal(fault_hits(), 1);
    (void)fault_disarm();
    disk_close(&d);
}

/* If the one that verifies finds it damaged, the others miss it: they do not look again. */
static void test_damaged_at_once(void **state)
{
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt);
    struct ranger m[3] = {{.d = d}, {.d = d}, {.d = d}};

    (void)state;
    store(d, 1, 1000);
    damage(1, 1000, 999);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fsync), .nth = 1, .mode = FAULT_HANG});
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&m[i].thread, NULL, range_main, &m[i]), 0);
        while (fault_hanging() == 0)
            sched_yield();
        if (i > 0)
            until_waits(&m[i].tid);
    }
    assert_true(fault_disarm());
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(m[i].thread, NULL), 0);
        assert_int_equal(m[i].rc, i == 0 ? DLC_ECORRUPT : DLC_EMISS);
    }
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    disk_close(&d);
}

/* No read is taken for one that hangs when it has ended, and one that fails counts once. */
static void test_ends(void **state)
{
    struct disk *d = open_limited(0);
    uint64_t errors = count_read(disk_errors);
    char buf[10];

    (void)state;
    store(d, 1, 1000);
    assert_int_equal(disk_read_range(d, id_of(1), 1000, 5, buf, 10, NULL), 0);
    assert_int_equal(disk_verify(d, id_of(1), 1000, NULL), 0);
    assert_int_equal(fetch(d, 1, 1000), 0);
    dlc_clock_advance(DLC_SEC(3600));
    disk_tick(d);
    assert_false(disk_is_bypassed(d));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fstat), .nth = 1});
    assert_int_equal(fetch(d, 1, 1000), DLC_EIO);
    assert_true(fault_disarm());
    assert_int_equal(count_read(disk_errors) - errors, 1);
    disk_close(&d);
}

static void test_faults(void **state)
{
    unsigned char *want = bytes_of(1, 1000);
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct disk *d = open_limited(0);
        char buf[10];
        int rc;

        store(d, 1, 1000);
        fault_arm(FAULT_SYSCALL | FAULT_ALLOC, nth);
        rc = fetch(d, 1, 1000);
        if (rc == 0) {
            disk_close(&d);
            d = NULL;
        }
        fired = fault_disarm();
        assert_int_equal(rc < 0, fired);
        if (d == NULL)
            d = open_limited(0);
        store(d, 1, 1000);
        fault_arm(FAULT_SYSCALL | FAULT_ALLOC, nth);
        rc = disk_read_range(d, id_of(1), 1000, 5, buf, 10, NULL);
        fired |= fault_disarm();
        assert_true(rc < 0 || memcmp(buf, want + 5, 10) == 0);
        store(d, 1, 1000);
        assert_int_equal(fetch(d, 1, 1000), 0);
        disk_close(&d);
    }
    mem_free(&want);
}

/* The time of a file is written when it is used, but not each time. */
static void test_stamp(void **state)
{
    struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    struct disk *d = open_limited(0);
    struct disk_path path;
    struct stat st;

    (void)state;
    store(d, 1, 1000);
    path_of(1, 1000, &path);
    assert_int_equal(utimensat(AT_FDCWD, path.s, old, 0), 0);
    fetch(d, 1, 1000);
    assert_int_equal(stat(path.s, &st), 0);
    assert_int_equal(st.st_mtime, 1000000000); /* stored less than an hour ago */
    disk_close(&d);
    d = open_limited(0);
    fetch(d, 1, 1000);
    assert_int_equal(stat(path.s, &st), 0);
    assert_true(st.st_mtime > 1000000000);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_damaged),
        disk_test(test_open_and_verify),
        disk_test(test_wrong_length),
        disk_test(test_gone),
        disk_test(test_unreadable),
        disk_test(test_ranges),
        disk_test(test_range_damaged_later),
        disk_test(test_faults),
        disk_test(test_ends),
        disk_test(test_stamp),
        disk_test(test_range_after_store),
        disk_test(test_ranges_at_once),
        disk_test(test_damaged_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
