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

/* A descriptor whose reader compares: the checksum is the one to compare with. What it suspects is
 * verified again, from the device, and goes if it is wrong. */
static void test_open_and_suspect(void **state)
{
    enum { LEN = (2 << 20) + 7 };
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt), hits = count_read(disk_hits), sum = 0;
    unsigned char *p = bytes_of(1, LEN);
    int fd;

    (void)state;
    store(d, 1, LEN);
    assert_int_equal(disk_open_chunk(d, id_of(1), LEN, &fd, &sum, NULL), 0);
    assert_true(sum == hash64(p, LEN));
    os_close(&fd);
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), 0); /* verified from here on */
    os_close(&fd);
    damage(1, LEN, LEN - 1);
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), 0);
    os_close(&fd);
    assert_int_equal(disk_open_chunk(d, id_of(1), LEN, &fd, &sum, NULL), 0);
    assert_int_equal(os_pread_all(fd, p, LEN, 0), 0);
    assert_true(sum != hash64(p, LEN));
    os_close(&fd);
    assert_int_equal(count_read(disk_hits) - hits, 4);
    disk_suspect(d, id_of(1));
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), DLC_ECORRUPT);
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    assert_int_equal(disk_open_chunk(d, id_of(1), LEN, &fd, &sum, NULL), DLC_EMISS);
    assert_int_equal(fd, -1);
    disk_suspect(d, id_of(1));
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
    struct disk_path path;

    (void)state;
    store(d, 1, 1000);
    path_of(1, 1000, &path);
    assert_int_equal(unlink(path.s), 0);
    assert_int_equal(fetch(d, 1, 1000), DLC_EMISS);
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

static void test_map_fd(void **state)
{
    enum { LEN = 3 << 20 };
    struct disk *d = open_limited(0);
    unsigned char *want = bytes_of(1, LEN), *got = mem_alloc(LEN);
    int fd, again;

    (void)state;
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), DLC_EMISS);
    assert_int_equal(fd, -1);
    store(d, 1, LEN);
    disk_close(&d);
    d = open_limited(0);
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    /* Verified once: damage that comes later is the next opening's. */
    damage(1, LEN, 5);
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &again, NULL), 0);
    os_close(&again);
    damage(1, LEN, 5);
    disk_drop(d, id_of(1)); /* the descriptor stays good */
    assert_int_equal(os_pread_all(fd, got, LEN, 0), 0);
    assert_memory_equal(got, want, LEN);
    os_close(&fd);
    store(d, 1, LEN);
    disk_close(&d);
    damage(1, LEN, LEN - 1);
    d = open_limited(0);
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), DLC_ECORRUPT);
    assert_int_equal(fd, -1);
    assert_false(disk_has(d, id_of(1)));
    disk_close(&d);
    mem_free(&want);
    mem_free(&got);
}

/* What the device has counts, not what was in memory when the chunk was stored. */
static void test_map_fd_after_store(void **state)
{
    enum { LEN = 3 << 20 };
    struct disk *d = open_limited(0);
    uint64_t corrupt = count_read(disk_corrupt), errors = count_read(disk_errors);
    char buf[1000];
    int fd;

    (void)state;
    store(d, 1, LEN);
    damage(1, LEN, 5);
    assert_int_equal(disk_map_fd(d, id_of(1), LEN, &fd, NULL), DLC_ECORRUPT);
    assert_int_equal(fd, -1);
    assert_int_equal(count_read(disk_corrupt) - corrupt, 1);
    assert_false(disk_has(d, id_of(1)));
    /* A read verifies what it gave, not what the device has. */
    store(d, 2, 1000);
    assert_int_equal(disk_read(d, id_of(2), buf, 1000, NULL), 0);
    damage(2, 1000, 5);
    assert_int_equal(disk_map_fd(d, id_of(2), 1000, &fd, NULL), DLC_ECORRUPT);
    /* The device refuses it. */
    store(d, 3, LEN);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(fsync), .nth = 1});
    assert_int_equal(disk_map_fd(d, id_of(3), LEN, &fd, NULL), DLC_EIO);
    assert_true(fault_disarm());
    assert_int_equal(fd, -1);
    assert_int_equal(count_read(disk_errors) - errors, 1);
    assert_false(disk_has(d, id_of(3)));
    disk_close(&d);
}

struct mapper {
    pthread_t thread;
    struct disk *d;
    int rc, fd;
};

static void *map_main(void *arg)
{
    struct mapper *m = arg;

    m->rc = disk_map_fd(m->d, id_of(1), 1000, &m->fd, NULL);
    return NULL;
}

/* Of several that want a new chunk at once, one verifies it. */
static void test_map_fd_at_once(void **state)
{
    struct disk *d = open_limited(0);
    struct mapper m[4];

    (void)state;
    store(d, 1, 1000);
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(fsync), .nth = 1, .times = 4, .mode = FAULT_DELAY, .delay_ms = 100});
    for (unsigned i = 0; i < 4; i++) {
        m[i].d = d;
        assert_int_equal(pthread_create(&m[i].thread, NULL, map_main, &m[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(m[i].thread, NULL), 0);
        assert_int_equal(m[i].rc, 0);
        os_close(&m[i].fd);
    }
    assert_int_equal(fault_hits(), 1);
    (void)fault_disarm();
    disk_close(&d);
}

static void test_faults(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct disk *d = open_limited(0);
        int rc, fd;

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
        rc = disk_map_fd(d, id_of(1), 1000, &fd, NULL);
        fired |= fault_disarm();
        assert_int_equal(rc < 0, fd < 0);
        os_close(&fd);
        store(d, 1, 1000);
        assert_int_equal(fetch(d, 1, 1000), 0);
        disk_close(&d);
    }
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
        disk_test(test_open_and_suspect),
        disk_test(test_wrong_length),
        disk_test(test_gone),
        disk_test(test_unreadable),
        disk_test(test_map_fd),
        disk_test(test_faults),
        disk_test(test_stamp),
        disk_test(test_map_fd_after_store),
        disk_test(test_map_fd_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
