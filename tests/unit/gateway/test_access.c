// SPDX-License-Identifier: Apache-2.0
/* Who may see figures without a token: (GATEWAY-5), (GATEWAY-6). */
#include "gateway/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "gateway/loopback_peer.h"
#include "unit.h"

static void test_hosts(void **state)
{
    static const char *const local[] = {"127.0.0.1", "127.0.0.1:9090", "localhost", "LocalHost:80",
                                        "[::1]",     "[::1]:80",       "10.0.0.1:1"};
    static const char *const others[] = {"",
                                         "evil.com",
                                         "127.0.0.1.evil.com",
                                         "localhost.evil.com:80",
                                         "[::1]x",
                                         "[evil.com]",
                                         "localhost evil",
                                         "[",
                                         "127.0.0.1@evil.com"};

    (void)state;
    assert_false(access_host_is_local(NULL));
    for (size_t i = 0; i < DLC_COUNT(local); i++)
        assert_true(access_host_is_local(local[i]));
    for (size_t i = 0; i < DLC_COUNT(others); i++)
        assert_false(access_host_is_local(others[i]));
}

static void test_the_table_of_sockets(void **state)
{
    static const char table[] =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  t\n"
        "   0: 0100007F:2694 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7  0 1\n"
        "   1: 0100007F:2694 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     7  0 2\n"
        "   2: 0100007F:9C40 0100007F:2694 01 00000000:00000000 00:00000000 00000000  1000  0 3\n"
        "garbage\n";

    (void)state;
    assert_int_equal(loopback_peer_find(table, "127.0.0.1:40000", "127.0.0.1:9876"), 1000);
    assert_int_equal(loopback_peer_find(table, "127.0.0.1:40001", "127.0.0.1:9876"), -1);
    assert_int_equal(loopback_peer_find(table, "127.0.0.1:40000", "127.0.0.1:9877"), -1);
    assert_int_equal(loopback_peer_find(table, "127.0.0.2:40000", "127.0.0.1:9876"), -1);
    assert_int_equal(loopback_peer_find(table, "10.0.0.1:40000", "127.0.0.1:9876"), -1);
    assert_int_equal(loopback_peer_find(table, "unix", "127.0.0.1:9876"), -1);
    assert_int_equal(loopback_peer_find("", "127.0.0.1:40000", "127.0.0.1:9876"), -1);
}

static void name_of(int fd, bool peer, char out[static 64])
{
    struct sockaddr_in a;
    socklen_t len = sizeof(a);

    assert_int_equal(peer ? getpeername(fd, (struct sockaddr *)&a, &len)
                          : getsockname(fd, (struct sockaddr *)&a, &len),
                     0);
    snprintf(out, 64, "%s:%d", inet_ntoa(a.sin_addr), (int)ntohs(a.sin_port));
}

static void test_a_real_connection_is_ours(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), there = socket(AF_INET, SOCK_STREAM, 0), here;
    socklen_t len = sizeof(a);
    char peer[64], own[64];

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(connect(there, (struct sockaddr *)&a, len), 0);
    here = accept(listener, NULL, NULL);
    name_of(here, true, peer);
    name_of(here, false, own);
    assert_int_equal(loopback_peer_uid(peer, own), geteuid());
    close(here);
    close(there);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_the_table_of_sockets),
        cmocka_unit_test(test_a_real_connection_is_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
