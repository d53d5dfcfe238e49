// SPDX-License-Identifier: Apache-2.0
/* Reading from the bucket without the daemon: as configured, in time, and as long as the caller
 * wants. */
#include "daemon.h"

#include "base/cancel.h"
#include "client/attachment.h"
#include "client/bypass.h"
#include "client/dataset.h"

#define N    5u
#define SIZE 3000u

static struct daemon d;

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "1MB", false);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static struct dlc_mono in(struct dlc_dur d_)
{
    return dlc_mono_add(dlc_mono_now(), d_);
}

static void test_as_configured(void **state)
{
    char url[512], endpoint[] = "http://place";
    struct dlc_dataset *ds = open_at(&d, dataset("b", N, SIZE, "", url), 1234);
    struct bucket_config bc;

    (void)state;
    set(&ds->config, "stall-timeout", "7s");
    set(&ds->config, "connect-timeout", "3s");
    set(&ds->config, "retries", "9");
    set(&ds->config, "region", "moon-1");
    set(&ds->config, "profile", "me");
    assert_int_equal(direct_config(ds).path_style, -1); /* by the endpoint */
    set(&ds->config, "path-style", "true");
    bc = direct_config(ds);
    assert_int_equal(bc.path_style, 1);
    assert_int_equal(bc.stall_timeout.ns, DLC_SEC(7).ns);
    assert_int_equal(bc.connect_timeout.ns, DLC_SEC(3).ns);
    assert_int_equal(bc.deadline.ns, DLC_MS(1234).ns);
    assert_int_equal(bc.retries, 9);
    assert_int_equal(bc.lanes, 1);
    assert_string_equal(bc.region, "moon-1");
    assert_string_equal(bc.profile, "me");
    assert_false(bc.anonymous);
    assert_null(bc.endpoint);
    assert_false(bc.foreign_endpoint);
    ds->opt.anonymous = 1;
    ds->place_endpoint = endpoint; /* who registered the dataset named it */
    bc = direct_config(ds);
    ds->place_endpoint = NULL;
    assert_true(bc.anonymous);
    assert_string_equal(bc.endpoint, endpoint);
    assert_true(bc.foreign_endpoint);
    dlc_close(&ds);
}

static void test_read(void **state)
{
    char url[512], path[600];
    struct dlc_dataset *ds = open_at(&d, dataset("g", N, SIZE, "", url), 0);
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_view v = {0};

    (void)state;
    assert_int_equal(direct_get(ds, 3, in(DLC_SEC(30)), &v, &err), 0);
    assert_int_equal(v.len, SIZE);
    assert_true(is_sample(&v, 3));
    dlc_put(ds, &v);
    assert_int_equal(atomic_load(&ds->direct_reads), 1);
    assert_int_equal(atomic_load(&ds->direct_bytes), SIZE);
    assert_true(atomic_load(&ds->direct_ns) > 0);
    snprintf(path, sizeof(path), "%s/s000001", url + strlen("file://"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(direct_get(ds, 1, in(DLC_SEC(30)), &v, &err), DLC_ENOTFOUND);
    assert_null(v.data);
    assert_true(direct_get(ds, N, in(DLC_SEC(30)), &v, &err) < 0);
    assert_int_equal(atomic_load(&ds->direct_reads), 1);
    dlc_close(&ds);
}

static unsigned times_asked;

/* Not before it reads: then. */
static bool from_the_second_time_on(struct interrupt *i)
{
    (void)i;
    return ++times_asked > 1;
}

/* A dataset whose bucket answers slowly to this process; to the daemon, which lists it, at once. */
static struct dlc_dataset *open_slow(const char *latency)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, dataset("s", N, SIZE, "", url), 0);

    mem_free(&ds->url);
    ds->url = mem_str(dataset("s", N, SIZE, latency, url));
    return ds;
}

/* The bucket takes ten seconds: whoever cannot wait gets away, and is asked no more afterwards. */
static void test_in_time(void **state)
{
    struct dlc_dataset *ds = open_slow("?latency=10s");
    struct interrupt asked = {.ask = from_the_second_time_on};
    struct dlc_mono start = dlc_mono_now();
    struct dlc_err err = DLC_ERR_INIT;
    struct dlc_view v = {0};

    (void)state;
    assert_int_equal(direct_get(ds, 2, in(DLC_MS(50)), &v, &err), DLC_ETIMEDOUT);
    assert_non_null(strstr(err.text, "did not come from the bucket in time"));
    assert_null(interrupt_asked);
    interrupt_asked = &asked;
    assert_int_equal(direct_get(ds, 2, in(DLC_SEC(60)), &v, &err), DLC_ECANCELED);
    assert_ptr_equal(interrupt_asked, &asked);
    interrupt_asked = NULL;
    assert_int_equal(times_asked, 2);
    assert_true(dlc_mono_since(start).ns < DLC_SEC(9).ns);
    assert_null(v.data);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_configured),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_in_time),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
