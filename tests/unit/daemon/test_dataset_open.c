// SPDX-License-Identifier: Apache-2.0
/* Opening a dataset: what is listed, what comes from stored catalogs, and which snapshot a client
 * gets. */
#include "daemon.h"

#define N 10u

static struct daemon d;
static char url[512];

static int set_up(void **state)
{
    static unsigned runs;
    char name[32];

    (void)state;
    snprintf(name, sizeof(name), "d%u", runs);
    daemon_init(&d, name, "4MB", false);
    daemon_start(&d);
    snprintf(name, sizeof(name), "data%u", runs++);
    dataset(name, N, 100, "", url);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

struct opened {
    int sock; /* the session */
    int code; /* 0, or why not */
    json_int_t dataset, samples;
    char snapshot[17];
};

/* snapshot: NULL: the newest. */
static struct opened open_it(const char *snapshot, bool refresh)
{
    struct opened o = {.sock = dial_greeted(&d)};
    struct msg m = MSG_INIT;
    const char *have;

    tell(o.sock,
         json_pack("{s:s, s:s, s:s*, s:b}", "op", "open", "url", url, "snapshot", snapshot,
                   "refresh", (int)refresh),
         &m);
    o.code = (int)json_integer_value(json_object_get(m.body, "code"));
    o.dataset = json_integer_value(json_object_get(m.body, "dataset"));
    o.samples = json_integer_value(json_object_get(m.body, "samples"));
    have = json_string_value(json_object_get(m.body, "snapshot"));
    snprintf(o.snapshot, sizeof(o.snapshot), "%s", have != NULL ? have : "");
    assert_int_equal(json_is_true(json_object_get(m.body, "ok")), o.code == 0);
    msg_release(&m);
    return o;
}

static json_int_t listings(void)
{
    return stat_of(&d, "counters", "bucket_lists");
}

static void add_file(void)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/new", url + strlen("file://"));
    assert_int_equal(os_write_file(path, "x", 1, 0600, NULL), 0);
}

/* One dataset serves all who open it; the stored catalog serves the next daemon. */
static void a_bucket_is_listed_once(void **state)
{
    struct opened a = open_it(NULL, false), b = open_it(NULL, false);

    (void)state;
    assert_int_equal(a.samples, N);
    assert_int_equal(a.dataset, b.dataset);
    assert_string_equal(a.snapshot, b.snapshot);
    assert_int_equal(listings(), 1);
    os_close(&a.sock);
    os_close(&b.sock);
    daemon_stop(&d);
    daemon_start(&d);
    b = open_it(NULL, false);
    assert_string_equal(a.snapshot, b.snapshot);
    assert_int_equal(listings(), 0);
    os_close(&b.sock);
}

/* Those who asked for it get the dataset that is there, with what it has in memory. */
static void a_refresh_that_finds_nothing_new_keeps_the_dataset(void **state)
{
    struct opened a = open_it(NULL, false), b = open_it(NULL, true);

    (void)state;
    assert_int_equal(listings(), 2);
    assert_int_equal(a.dataset, b.dataset);
    assert_string_equal(a.snapshot, b.snapshot);
    os_close(&a.sock);
    os_close(&b.sock);
}

/* (SNAP-2) An older snapshot is served while it is open, and from its stored catalog afterwards. */
static void an_older_snapshot_is_served(void **state)
{
    struct opened old = open_it(NULL, false), now, again;

    (void)state;
    add_file();
    now = open_it(NULL, true);
    assert_int_equal(now.samples, N + 1);
    assert_string_not_equal(now.snapshot, old.snapshot);
    again = open_it(old.snapshot, false);
    assert_int_equal(again.dataset, old.dataset);
    os_close(&again.sock);
    os_close(&now.sock);
    os_close(&old.sock);
    daemon_stop(&d);
    daemon_start(&d);
    again = open_it(old.snapshot, false);
    assert_int_equal(again.code, 0);
    assert_int_equal(again.samples, N);
    assert_string_equal(again.snapshot, old.snapshot);
    os_close(&again.sock);
    now = open_it(NULL, false); /* the newest is still the newest */
    assert_int_equal(now.samples, N + 1);
    assert_int_equal(listings(), 0);
    os_close(&now.sock);
}

/* (SNAP-2) */
static void a_snapshot_that_nobody_has_is_refused(void **state)
{
    struct opened o = open_it(NULL, false), no = open_it("0123456789abcdef", false);

    (void)state;
    assert_int_equal(no.code, DLC_ECHANGED);
    assert_int_equal(listings(), 1); /* a catalog is there: the bucket is not asked again */
    os_close(&no.sock);
    os_close(&o.sock);
}

/* Nothing is known here of a dataset: it is listed, and may turn out to be the one. */
static void a_snapshot_of_an_unknown_dataset_is_looked_for(void **state)
{
    struct opened a = open_it(NULL, false), b;

    (void)state;
    os_close(&a.sock);
    daemon_end(&d);
    daemon_init(&d, "elsewhere", "4MB", false);
    daemon_start(&d);
    b = open_it(a.snapshot, false);
    assert_int_equal(b.code, 0);
    assert_string_equal(b.snapshot, a.snapshot);
    assert_int_equal(listings(), 1);
    os_close(&b.sock);
}

/* A failure is reported and forgotten: the next client finds the bucket as it is then. */
static void a_failure_is_not_remembered(void **state)
{
    struct opened o;

    (void)state;
    strncat(url, "not-yet/", sizeof(url) - strlen(url) - 1);
    o = open_it(NULL, false);
    assert_int_equal(o.code, DLC_ENOTFOUND);
    os_close(&o.sock);
    assert_int_equal(mkdir(url + strlen("file://"), 0700), 0);
    add_file();
    o = open_it(NULL, false);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.samples, 1);
    os_close(&o.sock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_bucket_is_listed_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refresh_that_finds_nothing_new_keeps_the_dataset, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_older_snapshot_is_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_snapshot_that_nobody_has_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_snapshot_of_an_unknown_dataset_is_looked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failure_is_not_remembered, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
