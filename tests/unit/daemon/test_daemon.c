// SPDX-License-Identifier: Apache-2.0
/* The daemon's start and end, and what many clients make of one dataset. */
#include "daemon.h"

#include <pthread.h>

#include "base/fault.h"
#include "catalog/catalog.h"
#include "bucket/url.h"

#define N    100u
#define SIZE 2000u

/* ---- start ---- */

static struct daemon fresh(const char *name)
{
    struct daemon d;

    daemon_init(&d, name, "4MB", false);
    return d;
}

static void stop_at_once(void *arg)
{
    (void)arg;
    fault_disarm();
    kill(getpid(), SIGTERM);
}

/* In a child, since the daemon takes signals: 0 it served, 1 it refused, 2 no fault was left. */
static int start_with_fault(const struct daemon *d, int nth)
{
    const struct node_start start = {stop_at_once, NULL};
    struct dlc_err err = DLC_ERR_INIT;
    pid_t pid;
    int status, rc;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);
        rc = node_main(&d->config, &start, &err);
        if (rc < 0 && err.text[0] == '\0')
            abort(); /* it must say why */
        exit(rc < 0 ? fault_disarm() ? 1 : 3 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_start_fails_at_each_step(void **state)
{
    struct daemon d = fresh("sweep");
    int refused = 0;

    (void)state;
    for (int nth = 1; nth < 40; nth++) {
        int rc = start_with_fault(&d, nth);

        assert_true(rc == 0 || rc == 1);
        refused += rc;
        assert_int_equal(access(d.socket, F_OK), -1); /* it took its socket with it */
    }
    assert_true(refused > 5);
    daemon_start(&d); /* and nothing it left is in the way */
    daemon_end(&d);
}

static int try_start(const struct daemon *d, struct dlc_err *err)
{
    return node_main(&d->config, NULL, err);
}

static void test_refusals(void **state)
{
    struct daemon d = fresh("one"), e = fresh("two");
    struct dlc_err err = DLC_ERR_INIT;
    char path[256];

    (void)state;
    daemon_start(&d);
    assert_int_equal(try_start(&d, &err), DLC_EBUSY); /* the directory */
    assert_non_null(strstr(err.text, d.dir));
    set(&e.config, "socket", d.socket);
    assert_int_equal(try_start(&e, &err), DLC_EBUSY); /* the socket */
    assert_int_equal(access(d.socket, F_OK), 0);
    assert_int_equal(stat_of(&d, "daemon", "sessions"), 0); /* and the first one serves on */
    set(&e.config, "socket", unit_path("a-file", path));
    assert_int_equal(os_write_file(path, "x", 1, 0600, &err), 0);
    assert_int_equal(try_start(&e, &err), DLC_EINVAL);
    assert_int_equal(access(path, F_OK), 0);
    set(&e.config, "dir", path);
    assert_true(try_start(&e, &err) < 0);
    daemon_end(&d);
    config_release(&e.config);
}

/* A killed daemon leaves its socket; one that is ending still holds its directory for a moment. */
static void test_restart_at_once(void **state)
{
    struct daemon d = fresh("again"), first;
    char url[512];
    struct dlc_dataset *ds;

    (void)state;
    daemon_start(&d);
    daemon_kill(&d);
    for (unsigned turn = 0; turn < 3; turn++) {
        daemon_start(&d);
        ds = open_at(&d, dataset("plain", N, SIZE, "", url), 0);
        read_one(ds, turn);
        dlc_close(&ds);
        first = d;
        daemon_signal(&first, SIGTERM);
        until(access(d.socket, F_OK) < 0);
        daemon_start(&d); /* while the first may still be at it */
        assert_int_equal(daemon_wait(&first), 0);
        daemon_stop(&d);
    }
    daemon_end(&d);
}

static void test_idle_exit(void **state)
{
    struct daemon d = fresh("idle");
    int sock;

    (void)state;
    set(&d.config, "idle-exit", "300ms");
    daemon_start(&d);
    sock = dial_greeted(&d);
    os_close(&sock);
    assert_int_equal(daemon_wait(&d), 0);
    assert_int_equal(access(d.socket, F_OK), -1);
    daemon_end(&d);
}

/* ---- end ---- */

static void send_only(int sock, json_t *ask)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(msg_send(sock, ask, NULL, 0, &err), 0);
    json_decref(ask);
}

static void open_on(int sock, const char *url)
{
    struct msg m = MSG_INIT;

    tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    msg_release(&m);
}

static void test_stop_during_warm(void **state)
{
    struct daemon d = fresh("warm");
    struct dlc_err err;
    struct msg m = MSG_INIT;
    char url[512];
    int sock;

    (void)state;
    set(&d.config, "disk", "auto");
    daemon_start(&d);
    dataset("plain", N, SIZE, "?latency=20ms&bandwidth=100kB", url);
    sock = dial_greeted(&d);
    open_on(sock, url);
    send_only(sock, json_pack("{s:s, s:s}", "op", "warm", "tier", "memory"));
    until(stat_of(&d, "datasets", "fetching") > 0);
    daemon_stop(&d);
    while (msg_recv(sock, &m, DLC_SEC(5), &err) == 0)
        msg_release(&m); /* progress, then the end of the connection */
    assert_int_equal(err.code, DLC_EPROTO);
    os_close(&sock);
    daemon_end(&d);
}

static void test_stop_during_listing(void **state)
{
    struct daemon d = fresh("list");
    char url[512];
    int sock[4];

    (void)state;
    for (unsigned turn = 0; turn < 6; turn++) {
        char shape[64];

        /* The end falls before, into and after the listing. */
        snprintf(shape, sizeof(shape), "?latency=%ums&seed=%u", turn * 3, turn + 1);
        dataset("plain", N, SIZE, shape, url);
        daemon_start(&d);
        for (unsigned k = 0; k < 4; k++) {
            sock[k] = dial_greeted(&d);
            send_only(sock[k], json_pack("{s:s, s:s, s:b}", "op", "open", "url", url, "refresh",
                                         turn % 2 == 0));
        }
        daemon_stop(&d);
        for (unsigned k = 0; k < 4; k++)
            os_close(&sock[k]);
    }
    daemon_end(&d);
}

static void test_stop_message(void **state)
{
    struct daemon d = fresh("stop");
    struct msg m = MSG_INIT;
    int sock;

    (void)state;
    daemon_start(&d);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s}", "op", "stop"), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    msg_release(&m);
    os_close(&sock);
    assert_int_equal(daemon_wait(&d), 0);
    daemon_end(&d);
}

/* ---- datasets ---- */

struct opener {
    pthread_t t;
    const struct daemon *d;
    const char *url;
    int rc;
    bool good;
};

static void *opens(void *arg)
{
    struct opener *o = arg;
    const struct dlc_options opt = {.socket = o->d->socket, .no_spawn = 1};
    struct dlc_dataset *ds;
    struct dlc_view v;

    o->rc = dlc_open(o->url, &opt, &ds);
    if (o->rc < 0)
        return NULL;
    o->good = dlc_count(ds) == N && dlc_get(ds, 5, &v) == 0 && is_sample(&v, 5);
    dlc_put(ds, &v);
    dlc_close(&ds);
    return NULL;
}

static void open_by_many(const struct daemon *d, const char *url, unsigned n, int rc)
{
    struct opener *o = mem_zero(n * sizeof(*o));

    for (unsigned k = 0; k < n; k++) {
        o[k].d = d;
        o[k].url = url;
        assert_int_equal(pthread_create(&o[k].t, NULL, opens, &o[k]), 0);
    }
    for (unsigned k = 0; k < n; k++) {
        pthread_join(o[k].t, NULL);
        assert_int_equal(o[k].rc, rc);
        assert_int_equal(o[k].good, rc == 0);
    }
    mem_free(&o);
}

static void test_many_openers(void **state)
{
    struct daemon d = fresh("many");
    char url[512];

    (void)state;
    daemon_start(&d);
    open_by_many(&d, dataset("plain", N, SIZE, "?latency=50ms", url), 64, 0);
    assert_int_equal(stat_of(&d, "counters", "bucket_lists"), 1); /* one listing for all */
    open_by_many(&d, "file:///no/such/place?latency=50ms", 16, DLC_ENOTFOUND);
    open_by_many(&d, "file:///no/such/place?latency=50ms", 2, DLC_ENOTFOUND);
    until(stat_of(&d, "daemon", "sessions") == 0);
    daemon_end(&d);
}

static void test_refresh(void **state)
{
    struct daemon d = fresh("fresh");
    const struct dlc_options again = {.socket = d.socket, .no_spawn = 1, .refresh = 1};
    struct dlc_dataset *old, *new;
    char url[512], path[600];
    struct dlc_err err;

    (void)state;
    daemon_start(&d);
    old = open_at(&d, dataset("grows", 10, SIZE, "", url), 0);
    read_one(old, 9);
    snprintf(path, sizeof(path), "%s/a-new-first", url + strlen("file://"));
    assert_int_equal(os_write_file(path, "x", 1, 0600, &err), 0);
    assert_int_equal(dlc_open(url, &again, &new), 0);
    assert_int_equal(dlc_count(new), 11);
    assert_int_equal(dlc_size(new, 0), 1);
    assert_int_equal(dlc_count(old), 10);
    for (unsigned i = 0; i < 10; i++) {
        read_one(old, i); /* the old numbers */
        assert_int_equal(dlc_size(new, i + 1), SIZE);
    }
    dlc_close(&old);
    until(stat_of(&d, "daemon", "sessions") == 1);
    assert_int_equal(stat_of(&d, "datasets", "samples"), 11); /* the old one has gone */
    dlc_close(&new);
    daemon_end(&d);
}

static void test_damaged_catalog(void **state)
{
    struct daemon d = fresh("damaged");
    struct dlc_dataset *ds;
    struct dlc_err err;
    struct url u = URL_INIT;
    char url[512], *path;

    (void)state;
    daemon_start(&d);
    ds = open_at(&d, dataset("dam", N, SIZE, "", url), 0);
    dlc_close(&ds);
    daemon_stop(&d);
    assert_int_equal(url_parse(&u, url, &err), 0);
    path = catalog_path(d.dir, (const char *const[]){"dlcache catalog", "", "", "", "", u.text}, 6);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(os_write_file(path, "nonsense", 8, 0600, &err), 0);
    daemon_start(&d);
    ds = open_at(&d, url, 0);
    assert_int_equal(dlc_count(ds), N);
    read_one(ds, 4);
    dlc_close(&ds);
    assert_int_equal(stat_of(&d, "counters", "bucket_lists"), 1);
    mem_free(&path);
    url_release(&u);
    daemon_end(&d);
}

/* Datasets nobody uses are forgotten, the oldest first. */
static void test_endless_datasets(void **state)
{
    struct daemon d = fresh("endless");
    char url[512], shape[32];
    struct dlc_dataset *ds;
    struct msg m = MSG_INIT;
    int sock;

    (void)state;
    daemon_start(&d);
    for (unsigned k = 0; k < 60; k++) {
        snprintf(shape, sizeof(shape), "?seed=%u", k + 1);
        ds = open_at(&d, dataset("plain", N, SIZE, shape, url), 0);
        read_one(ds, k);
        dlc_close(&ds);
    }
    until(stat_of(&d, "daemon", "sessions") == 0);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s}", "op", "stat"), &m);
    assert_true(json_array_size(json_object_get(m.body, "datasets")) <= 34);
    msg_release(&m);
    os_close(&sock);
    daemon_end(&d);
}

/* ---- warm and evict ---- */

static json_int_t warm(const struct daemon *d, const char *url, const char *tier, const char *name)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(d);
    json_int_t v;

    open_on(sock, url);
    tell(sock, json_pack("{s:s, s:s}", "op", "warm", "tier", tier), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    v = json_integer_value(json_object_get(m.body, name));
    msg_release(&m);
    os_close(&sock);
    return v;
}

static void test_warm(void **state)
{
    struct daemon d = fresh("warms");
    struct msg m = MSG_INIT;
    char url[512], small[512];
    json_int_t held;
    int sock;

    (void)state;
    daemon_start(&d);
    dataset("plain", N, SIZE, "", small);
    assert_int_equal(warm(&d, small, "memory", "samples"), N);
    assert_int_equal(warm(&d, small, "memory", "samples"), N); /* all there: ends at once */
    assert_int_equal(stat_of(&d, "datasets", "resident"), N);
    sock = dial_greeted(&d);
    tell(sock, json_pack("{s:s, s:s, s:s}", "op", "evict", "url", small, "tier", "memory"), &m);
    assert_int_equal(json_integer_value(json_object_get(m.body, "memory_bytes")), N * SIZE);
    msg_release(&m);
    os_close(&sock);
    assert_int_equal(stat_of(&d, "datasets", "resident"), 0);
    /* More than memory holds, and no disk: it ends when memory is full. */
    held = warm(&d, dataset("wide", 200, 50000, "", url), "memory", "samples");
    assert_in_range(held, 50, 80);
    assert_true(stat_of(&d, "counters", "bucket_gets") < N + 120);
    assert_int_equal(stat_of(&d, "counters", "mem_evictions"), N);
    daemon_end(&d);
}

/* An error whose text JSON cannot carry. */
static void test_warm_of_odd_names(void **state)
{
    struct daemon d = fresh("odd");
    struct dlc_dataset *ds;
    char url[512], path[600];
    struct dlc_err err;

    (void)state;
    daemon_start(&d);
    dataset("odd-names", 3, SIZE, "", url);
    snprintf(path, sizeof(path), "%s/odd-\xff\xfe", url + strlen("file://"));
    assert_int_equal(os_write_file(path, "x", 1, 0600, &err), 0);
    ds = open_at(&d, url, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(warm(&d, url, "memory", "failed"), 1);
    dlc_close(&ds);
    daemon_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_fails_at_each_step),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_restart_at_once),
        cmocka_unit_test(test_idle_exit),
        cmocka_unit_test(test_stop_during_warm),
        cmocka_unit_test(test_stop_during_listing),
        cmocka_unit_test(test_stop_message),
        cmocka_unit_test(test_many_openers),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_damaged_catalog),
        cmocka_unit_test(test_endless_datasets),
        cmocka_unit_test(test_warm),
        cmocka_unit_test(test_warm_of_odd_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
