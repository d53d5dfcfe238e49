// SPDX-License-Identifier: Apache-2.0
/* When a daemon counts as gone, and when as one that hangs. */
#include "unit.h"

#include <sys/socket.h>

#include "base/syscalls.h"
#include "client/heartbeat.h"

/* An attachment to a daemon that the test plays. */
struct line {
    struct shm_segment_hdr header;
    struct attachment a;
    int end;
};

static int setup(void **state)
{
    struct line *l = test_calloc(1, sizeof(*l));
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    l->a.header = &l->header;
    l->a.sock = fds[0];
    l->end = fds[1];
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct line *l = *state;

    os_close(&l->a.sock);
    os_close(&l->end);
    test_free(l);
    return 0;
}

static void test_lost(void **state)
{
    struct line *l = *state;

    assert_int_equal(write(l->end, "x", 1), 1); /* something to read is no end */
    assert_false(attachment_lost(&l->a));
    l->a.foreign = true;
    assert_true(attachment_lost(&l->a));
    l->a.foreign = false;
    atomic_store(&l->header.owner, SHM_OWNER_DIED | 77);
    assert_true(attachment_lost(&l->a));
    atomic_store(&l->header.owner, 77);
    assert_false(attachment_lost(&l->a));
    os_close(&l->end);
    assert_true(attachment_lost(&l->a));
}

/* So many looks until it hangs; 0: not within `most`. Each is a tenth of a second after the last. */
static unsigned looks_until_hung(struct line *l, struct hang_watch *w, unsigned most)
{
    static struct dlc_mono now = {1000000000};

    for (unsigned n = 1; n <= most; n++) {
        now = dlc_mono_add(now, LOOK_EVERY);
        if (hang_watch_look(w, &l->a, now))
            return n;
        now.ns--;
        assert_false(hang_watch_look(w, &l->a, now)); /* too early: it does not look */
        now.ns++;
    }
    return 0;
}

/* Two seconds without a beat, as seen by who was awake. */
static void test_hangs(void **state)
{
    struct line *l = *state;
    struct hang_watch w = {0};

    atomic_store(&l->header.heartbeat, 1);
    assert_int_equal(looks_until_hung(l, &w, 15), 0);
    atomic_store(&l->header.heartbeat, 2);
    assert_int_equal(looks_until_hung(l, &w, 100), 21); /* one to see it, 20 that see the same */
    assert_true(attachment_hangs(&l->a));
    assert_true(attachment_hangs(&l->a));
    atomic_store(&l->header.heartbeat, 3); /* it goes on */
    assert_false(attachment_hangs(&l->a));
    for (uint64_t beat = 1; beat <= 3; beat++) {
        atomic_store(&l->header.heartbeat, beat);
        assert_false(attachment_hangs(&l->a)); /* that was before */
    }
    atomic_store(&l->header.heartbeat, 2);
    assert_int_equal(looks_until_hung(l, &w, 1), 1);
    atomic_store(&l->header.heartbeat, 1);
    assert_int_equal(looks_until_hung(l, &w, 100), 21);
}

/* A daemon without a heartbeat is never said to hang. */
static void test_no_heartbeat(void **state)
{
    struct line *l = *state;
    struct hang_watch w = {0};

    assert_int_equal(looks_until_hung(l, &w, 100), 0);
    assert_false(attachment_hangs(&l->a));
    atomic_store(&l->header.heartbeat, 1);
    assert_int_equal(looks_until_hung(l, &w, 100), 21);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_lost), T(test_hangs), T(test_no_heartbeat)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
