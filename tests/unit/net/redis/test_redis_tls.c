// SPDX-License-Identifier: Apache-2.0
/* The Redis client over TLS: which servers it trusts, time limits, faults, large replies. */
#include "manager/store/store_unit.h"

#include "base/fault.h"
#include "manager/store/redis_servers.h"
#include "net/redis/redis.h"

/* Open a store over TLS and write to it. */
static int open_tls(const struct redis_servers *r, const char *host, const char *ca, bool cert)
{
    struct store *m = NULL;
    char url[1200], file[3][256];
    int rc, n;

    n = snprintf(url, sizeof(url), "rediss://%s:%d/tls?timeout=2s&ca=%s", host, r->s[0].tls_port,
                 redis_servers_file(ca, file[0]));
    if (cert)
        snprintf(url + n, sizeof(url) - (size_t)n, "&cert=%s&key=%s",
                 redis_servers_file("client.pem", file[1]),
                 redis_servers_file("client.key", file[2]));
    err = (struct dlc_err)DLC_ERR_INIT;
    rc = store_open(url, &m, &err);
    if (rc == 0)
        rc = put(m, STORE_JOB, "tls", "", 1, STORE_ANY, NULL);
    store_close(&m);
    return rc;
}

/* Only a server whose certificate our CA signed, for the host that we asked for. */
static void test_tls_certificates(void **state)
{
    struct redis_servers r, mutual;

    (void)state;
    redis_servers_start_tls(&r, NULL, false);
    ok(open_tls(&r, "127.0.0.1", "ca.pem", false));
    assert_int_equal(open_tls(&r, "127.0.0.1", "other-ca.pem", false), DLC_EDENIED);
    assert_non_null(strstr(err.text, "?ca=FILE"));
    assert_int_equal(open_tls(&r, "localhost", "ca.pem", false), DLC_EDENIED);
    assert_non_null(strstr(err.text, "for another host"));
    assert_int_equal(open_tls(&r, "127.0.0.1", "no-such-file", false), DLC_EINVAL);
    assert_non_null(strstr(err.text, "no-such-file"));
    redis_servers_start_tls(&mutual, NULL, true);
    assert_int_equal(open_tls(&mutual, "127.0.0.1", "ca.pem", false), DLC_EDENIED);
    assert_non_null(strstr(err.text, "cert=FILE&key=FILE"));
    ok(open_tls(&mutual, "127.0.0.1", "ca.pem", true));
    redis_servers_stop(&mutual);
    redis_servers_stop(&r);
}

/* Neither a port without TLS nor a server that stops within the handshake makes us wait longer. */
static void test_tls_time_limits(void **state)
{
    struct redis_servers r;
    struct store *m = NULL;
    char url[400], ca[256];
    struct dlc_mono begin;

    (void)state;
    redis_servers_start_tls(&r, NULL, false);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d/tls?timeout=300ms&ca=%s", r.s[0].port,
             redis_servers_file("ca.pem", ca));
    assert_int_equal(store_open(url, &m, &err), DLC_EBUCKET);
    assert_non_null(strstr(err.text, "TLS"));
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d/tls?timeout=300ms&ca=%s", r.s[0].tls_port,
             ca);
    ok(store_open(url, &m, &err));
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    redis_server_signal(&r, 0, SIGSTOP);
    begin = dlc_mono_now();
    assert_int_equal(put(m, STORE_JOB, "a", "", 2, 1, NULL), DLC_EBUCKET);
    store_close(&m);
    assert_int_equal(store_open(url, &m, &err), DLC_EBUCKET); /* its kernel accepts, it does not */
    assert_non_null(strstr(err.text, "TLS"));
    assert_true(dlc_mono_since(begin).ns < 10 * DLC_SEC(1).ns);
    redis_server_signal(&r, 0, SIGCONT);
    redis_servers_stop(&r);
}

/* Whatever call of the system fails, once, under TLS. */
static void test_tls_faults(void **state)
{
    struct redis_servers r;
    struct store *m = NULL;
    char url[400], ca[256];
    int nth = 1;

    (void)state;
    redis_servers_start_tls(&r, NULL, false);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d/tls?ca=%s", r.s[0].tls_port,
             redis_servers_file("ca.pem", ca));
    ok(store_open(url, &m, &err));
    for (bool fired = true; fired; nth++) {
        int rc;

        fault_arm(FAULT_SYSCALL, nth);
        rc = put(m, STORE_JOB, "a", "", nth, nth == 1 ? STORE_NEW : STORE_ANY, NULL);
        fired = fault_disarm();
        ok(rc);
        assert_int_equal(value_of(m, STORE_JOB, "a", NULL), nth);
    }
    assert_true(nth > 3);
    store_close(&m);
    redis_servers_stop(&r);
}

/* Replies larger than a record of TLS, and more than the socket takes at once. */
static void test_tls_large(void **state)
{
    struct redis_servers r;
    struct redis_url u;
    struct redis *c = NULL;
    struct redis_cmd cmd[2];
    char url[400], ca[256], *value;
    const size_t len = (size_t)8 << 20;

    (void)state;
    redis_servers_start_tls(&r, NULL, false);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d/tls?timeout=60s&ca=%s", r.s[0].tls_port,
             redis_servers_file("ca.pem", ca));
    ok(redis_url_parse(url, &u, &err));
    ok(redis_open(&u, &c, &err));
    value = mem_alloc(len);
    for (size_t i = 0; i < len; i++)
        value[i] = (char)(i * 2654435761u >> 24);
    redis_cmd_init(&cmd[0], "SET");
    redis_cmd_key(&cmd[0], "big");
    redis_cmd_arg(&cmd[0], value, len);
    ok(redis_run(c, cmd, 1, &err));
    redis_cmd_init(&cmd[1], "GET");
    redis_cmd_key(&cmd[1], "big");
    ok(redis_run(c, &cmd[1], 1, &err));
    assert_int_equal(cmd[1].reply->len, len);
    assert_memory_equal(cmd[1].reply->str, value, len);
    redis_cmd_release(&cmd[0]);
    redis_cmd_release(&cmd[1]);
    mem_free(&value);
    redis_close(&c);
    redis_servers_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls_certificates),
        cmocka_unit_test(test_tls_time_limits),
        cmocka_unit_test(test_tls_faults),
        cmocka_unit_test(test_tls_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
