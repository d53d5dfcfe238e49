// SPDX-License-Identifier: Apache-2.0
/* The circuit breaker: when it opens, what it keeps from the disk, and when it closes. */
#include "util.h"

#include "base/fault.h"
#include "cache/disk/disk_i.h"

static bool is(struct disk *d, const char *state)
{
    return strcmp(figures_of(d).breaker, state) == 0;
}

static void test_an_operation_that_is_overdue(void **state)
{
    struct disk *d = open_limited(0);
    uint64_t opens = count_read(disk_breaker_opens);
    struct disk_op op, large;

    (void)state;
    assert_int_equal(store(d, 1, 1000), 0);
    op = disk_op_begin(d, DISK_OP_READ, 1000);
    large = disk_op_begin(d, DISK_OP_READ, 1000000000); /* may take 100 s more */
    disk_tick(d);
    assert_true(is(d, "closed"));
    dlc_clock_advance(DLC_SEC(3));
    disk_tick(d);
    assert_true(is(d, "open") && disk_is_bypassed(d));
    assert_int_equal(count_read(disk_breaker_opens), opens + 1);
    assert_int_equal(disk_lookup(d, id_of(1)), DISK_ABSENT);
    assert_int_equal(fetch(d, 1, 1000), DLC_EMISS);
    assert_int_equal(store(d, 2, 1000), DLC_EDENIED);
    dlc_clock_advance(DLC_SEC(3));
    breaker_look(d); /* it still hangs: no probe */
    assert_true(is(d, "open"));
    disk_op_end(d, &op, true);
    disk_op_end(d, &large, true);
    breaker_look(d);
    assert_true(is(d, "closed"));
    assert_int_equal(fetch(d, 1, 1000), 0);
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
}

static void end_some(struct disk *d, enum disk_op_kind kind, unsigned n, bool well)
{
    for (unsigned i = 0; i < n; i++) {
        struct disk_op op = disk_op_begin(d, kind, 1000);

        disk_op_end(d, &op, well);
    }
}

/* Eight in a row, of reads or of writes: what goes well in between of the other kind does not help.
 */
static void test_failures_in_a_row(void **state)
{
    struct disk *d = open_limited(0);

    (void)state;
    end_some(d, DISK_OP_READ, 7, false);
    end_some(d, DISK_OP_READ, 1, true);
    end_some(d, DISK_OP_READ, 7, false);
    assert_true(is(d, "closed"));
    end_some(d, DISK_OP_WRITE, 9, true);
    end_some(d, DISK_OP_READ, 1, false);
    assert_true(is(d, "open"));
    assert_string_equal(figures_of(d).breaker_why, "reads and writes fail");
    disk_close(&d);
}

/* A probe that fails doubles the wait. */
static void test_a_probe_that_fails(void **state)
{
    struct disk *d = open_limited(0);
    char tmp[80], away[80];

    (void)state;
    snprintf(tmp, sizeof(tmp), "%s/tmp", root);
    snprintf(away, sizeof(away), "%s/away", root);
    end_some(d, DISK_OP_WRITE, 8, false);
    assert_int_equal(rename(tmp, away), 0);
    dlc_clock_advance(DLC_MS(1100));
    breaker_look(d);
    assert_true(is(d, "open"));
    assert_int_equal(rename(away, tmp), 0);
    dlc_clock_advance(DLC_MS(1100));
    breaker_look(d); /* two seconds this time */
    assert_true(is(d, "open"));
    dlc_clock_advance(DLC_MS(1100));
    breaker_look(d);
    assert_true(is(d, "closed"));
    assert_int_equal(store(d, 1, 1000), 0);
    disk_close(&d);
}

/* Store, fill or read until the breaker opens, with these calls failing so; how often? 0: never. */
static unsigned failing(const char *what, uint64_t calls, int error)
{
    struct disk *d = open_limited(0);
    unsigned n = 0;

    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(store(d, 100 + i, 1000), 0);
    while (n < 12 && is(d, "closed")) {
        struct disk_fill *f = NULL;
        char buf[10];

        fault_plan(&(struct fault_plan){.calls = calls, .nth = 1, .times = 100, .error = error});
        if (strcmp(what, "store") == 0)
            assert_true(store(d, n, 1000) < 0);
        else if (strcmp(what, "fill") == 0)
            assert_true(disk_fill_begin(d, id_of(n), 1000, &f, NULL) < 0);
        else if (strcmp(what, "range") == 0)
            assert_true(disk_read_range(d, id_of(100 + n), 1000, 5, buf, 10, NULL) < 0);
        else
            assert_true(fetch(d, 100 + n, 1000) < 0);
        assert_true(fault_disarm());
        assert_int_equal(fetch(d, 999, 1000), DLC_EMISS); /* no sign of life */
        n++;
    }
    disk_close(&d);
    return n < 12 ? n : 0;
}

/* A device that fails or does not answer counts; what a disk says that is full, or of us, not. */
static void test_which_errors_count(void **state)
{
    (void)state;
    assert_int_equal(failing("store", FAULT_CALL(write), EIO), 8);
    assert_int_equal(failing("store", FAULT_CALL(write), ETIMEDOUT), 8);
    assert_int_equal(failing("store", FAULT_CALL(write), ENOSPC), 0);
    assert_int_equal(failing("fill", FAULT_CALL(fallocate), EIO), 8);
    assert_int_equal(failing("fetch", FAULT_CALL(read), EIO), 8);
    assert_int_equal(failing("fetch", FAULT_CALL(read), ETIMEDOUT), 8);
    assert_int_equal(failing("fetch", FAULT_CALL(open), EMFILE), 0);
    assert_int_equal(failing("fetch", FAULT_CALL(open), ENFILE), 0);
    assert_int_equal(failing("store", FAULT_CALL(open), EMFILE), 0);
    assert_int_equal(failing("fill", FAULT_CALL(open), EMFILE), 0);
    assert_int_equal(failing("fill", FAULT_CALL(mmap), ENOMEM), 0);
    assert_int_equal(failing("range", FAULT_CALL(fsync), EIO), 8);
    assert_int_equal(failing("range", FAULT_CALL(read), EIO), 8);
}

/* ---- the breaker alone, without the watch thread: only the test looks ---- */

static void bare(struct disk *d)
{
    char *tmp = mem_fmt("%s/tmp", root);

    *d = (struct disk){.tag = DISK_TAG, .root = root};
    assert_int_equal(os_mkdirs(tmp, 0700), 0);
    mem_free(&tmp);
}

static const char *state_of(struct disk *d, const char **why)
{
    struct disk_figures f;

    breaker_figures(d, &f);
    if (why != NULL)
        *why = f.breaker_why;
    return f.breaker;
}

static bool is_open(struct disk *d)
{
    const char *state = state_of(d, NULL);

    assert_int_equal(strcmp(state, "closed") != 0, disk_is_bypassed(d));
    return disk_is_bypassed(d);
}

/* Two seconds, and one more for each 10 MB. */
static void test_large_operations_have_longer(void **state)
{
    struct disk d;
    struct disk_op op;
    const char *why;

    (void)state;
    bare(&d);
    op = disk_op_begin(&d, DISK_OP_READ, 1000000000);
    dlc_clock_advance(DLC_MS(100500));
    disk_tick(&d);
    assert_false(is_open(&d));
    dlc_clock_advance(DLC_SEC(2));
    disk_tick(&d);
    assert_true(is_open(&d));
    assert_string_equal(state_of(&d, &why), "open");
    assert_string_equal(why, "an operation does not end");
    disk_op_end(&d, &op, true);
    assert_true(is_open(&d)); /* it is tried out first */
}

/* More at once than there are places: the rest is not watched, and all are forgotten. */
static void test_many_operations_at_once(void **state)
{
    enum { N = BREAKER_OPS + 3 };
    struct disk d;
    struct disk_op op[N];

    (void)state;
    bare(&d);
    for (unsigned i = 0; i < N; i++) {
        op[i] = disk_op_begin(&d, DISK_OP_READ, 0);
        assert_int_equal(op[i].slot, i < BREAKER_OPS ? (int)i : -1);
    }
    for (unsigned i = 0; i < N; i++)
        disk_op_end(&d, &op[i], true);
    op[0] = disk_op_begin(&d, DISK_OP_WRITE, 0);
    assert_int_equal(op[0].slot, 0);
    disk_op_end(&d, &op[0], true);
    dlc_clock_advance(DLC_SEC(10));
    disk_tick(&d);
    assert_false(is_open(&d));
    /* the last place is looked at as the first one is */
    for (unsigned i = 0; i < BREAKER_OPS; i++)
        op[i] = disk_op_begin(&d, DISK_OP_READ, 0);
    for (unsigned i = 0; i + 1 < BREAKER_OPS; i++)
        disk_op_end(&d, &op[i], true);
    dlc_clock_advance(DLC_SEC(3));
    disk_tick(&d);
    assert_true(is_open(&d));
}

/* Operations that end well, but only after their time, count as failures. */
static void test_slow_operations(void **state)
{
    struct disk d;
    const char *why;

    (void)state;
    bare(&d);
    for (unsigned i = 0; i < 16; i++) {
        struct disk_op op = disk_op_begin(&d, DISK_OP_WRITE, 30000000);

        assert_false(is_open(&d));
        dlc_clock_advance(DLC_MS(i < 8 ? 4000 : 5100)); /* 5 s are allowed */
        disk_op_end(&d, &op, true);
    }
    assert_true(is_open(&d));
    assert_string_equal(state_of(&d, &why), "open");
    assert_string_equal(why, "reads and writes fail");
}

/* One opening however many fail, and a second of rest before anything is tried. */
static void test_opens_once(void **state)
{
    struct disk d;
    uint64_t opens = count_read(disk_breaker_opens);
    const char *why;

    (void)state;
    bare(&d);
    end_some(&d, DISK_OP_READ, 20, false);
    end_some(&d, DISK_OP_WRITE, 20, false);
    assert_int_equal(count_read(disk_breaker_opens), opens + 1);
    breaker_look(&d);
    assert_true(is_open(&d));
    dlc_clock_advance(DLC_MS(100));
    breaker_look(&d);
    assert_true(is_open(&d));
    dlc_clock_advance(DLC_SEC(1));
    breaker_look(&d);
    assert_false(is_open(&d));
    assert_string_equal(state_of(&d, &why), "closed");
    assert_string_equal(why, "");
    /* what failed before does not count any more */
    end_some(&d, DISK_OP_READ, 7, false);
    end_some(&d, DISK_OP_WRITE, 7, false);
    assert_false(is_open(&d));
    end_some(&d, DISK_OP_WRITE, 1, false);
    assert_int_equal(count_read(disk_breaker_opens), opens + 2);
}

/* Fail what a probe does, and see how long it waits until the next one. */
static void test_waits_longer_each_time(void **state)
{
    static const int waits[] = {1, 2, 4, 8, 16, 32, 32};
    struct disk d;

    (void)state;
    bare(&d);
    for (unsigned round = 0; round < 2; round++) { /* what goes well makes it short again */
        end_some(&d, DISK_OP_READ, 8, false);
        for (unsigned i = 0; i < DLC_COUNT(waits); i++) {
            fault_plan(&(struct fault_plan){.calls = FAULT_CALL(open), .nth = 1, .times = 100});
            dlc_clock_advance(DLC_MS(waits[i] * 1000 - 900));
            breaker_look(&d);
            assert_int_equal(fault_hits(), 0); /* too early */
            dlc_clock_advance(DLC_SEC(1));
            breaker_look(&d);
            assert_int_equal(fault_hits(), 1);
            assert_true(fault_disarm());
            assert_string_equal(state_of(&d, NULL), "open");
        }
        dlc_clock_advance(DLC_SEC(33));
        breaker_look(&d);
        assert_false(is_open(&d));
    }
    assert_int_equal(count_files("tmp", ""), 0);
}

/* The descriptor that the next open() gives: as it was, if none was left open. */
static int next_fd(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

/* Each part of the probe counts: what cannot be written, read or is late leaves it open. */
static void test_probe(void **state)
{
    static const uint64_t calls[] = {FAULT_CALL(open), FAULT_CALL(write), FAULT_CALL(read)};
    int fd = next_fd();
    struct disk d;

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(calls); i++) {
        bare(&d);
        end_some(&d, DISK_OP_READ, 8, false);
        dlc_clock_advance(DLC_MS(1100));
        fault_plan(&(struct fault_plan){.calls = calls[i], .nth = 1});
        breaker_look(&d);
        assert_true(fault_disarm());
        assert_true(is_open(&d));
        assert_int_equal(next_fd(), fd);
        assert_int_equal(count_files("tmp", ""), 0);
    }
    bare(&d);
    end_some(&d, DISK_OP_READ, 8, false);
    dlc_clock_advance(DLC_MS(1100));
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(write), .nth = 1, .mode = FAULT_DELAY, .delay_ms = 1100});
    breaker_look(&d);
    assert_true(fault_disarm());
    assert_true(is_open(&d));
}

/* A file system that refuses writes is read on; the probe of it writes nothing. */
static void test_read_only(void **state)
{
    static const int errors[] = {EROFS, EACCES, EPERM};
    int fd = next_fd();
    struct disk d;

    (void)state;
    bare(&d);
    disk_note_write_error(&d, EIO);
    disk_note_write_error(&d, ENOSPC);
    assert_false(d.read_only);
    for (unsigned i = 0; i < DLC_COUNT(errors); i++) {
        bare(&d);
        disk_note_write_error(&d, errors[i]);
        assert_true(d.read_only);
        assert_false(is_open(&d));
    }
    end_some(&d, DISK_OP_READ, 8, false);
    dlc_clock_advance(DLC_MS(1100));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(write), .nth = 1, .times = 100});
    breaker_look(&d);
    assert_false(fault_disarm());
    assert_false(is_open(&d));
    assert_int_equal(next_fd(), fd);
    end_some(&d, DISK_OP_READ, 8, false);
    dlc_clock_advance(DLC_MS(1100));
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(open), .nth = 1});
    breaker_look(&d);
    assert_true(fault_disarm());
    assert_true(is_open(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(test_which_errors_count),
        disk_test(test_large_operations_have_longer),
        disk_test(test_many_operations_at_once),
        disk_test(test_slow_operations),
        disk_test(test_opens_once),
        disk_test(test_waits_longer_each_time),
        disk_test(test_probe),
        disk_test(test_read_only),
        disk_test(test_an_operation_that_is_overdue),
        disk_test(test_failures_in_a_row),
        disk_test(test_a_probe_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
