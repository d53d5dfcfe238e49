// SPDX-License-Identifier: Apache-2.0
/*
 * Every descriptor that the daemon hands out for reading, attacked by a client of the daemon's own
 * user (root, where the tests run as root): it cannot be written in any way, so that a tenant cannot
 * change the bytes of another, nor kill the daemon by truncating what it maps.
 */
#include "daemon.h"

#include "base/check.h"

#include "seal_attack.h"

#define N    8u
#define SIZE 100000u

static void test_no_descriptor_is_writable(void **state)
{
    static const unsigned for_reading[] = {0, 1, 4}; /* header, index, catalog */
    struct daemon d;
    char url[512];
    struct dlc_dataset *other;
    struct msg m = MSG_INIT;
    unsigned done = 0, extents;
    int sock;

    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    other = open_at(&d, dataset("v", N, SIZE, "", url), 5000);
    for (unsigned i = 0; i < N; i++)
        read_one(other, i);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    for (unsigned i = 0; i < DLC_COUNT(for_reading); i++)
        done += seal_attack(m.fds[for_reading[i]]);
    msg_release(&m);
    tell(sock, json_pack("{s:s, s:i}", "op", "extents", "from", 0), &m);
    extents = m.n_fds;
    for (unsigned i = 0; i < extents; i++)
        done += seal_attack(m.fds[i]);
    msg_release(&m);
    assert_true(extents > 0);
    assert_int_equal(done, 0);
    for (unsigned i = 0; i < N; i++)
        read_one(other, i); /* compares every byte */
    os_close(&sock);
    dlc_close(&other);
    daemon_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_descriptor_is_writable)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
