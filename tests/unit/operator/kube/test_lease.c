// SPDX-License-Identifier: Apache-2.0
/* Two candidates and a record, without a server: time passes as the tests say; and the thread, with
 * a server that makes it wait. */
#include "operator/kube/lease_i.h"

#include <sched.h>

#include "operator/kube/kube.h"
#include "operator/kube/lease.h"
#include "operator/play.h"
#include "unit.h"

#define DURATION DLC_SEC(15)

static struct lease_view a, b;
static json_t *record; /* the Lease; NULL: there is none */
static int version;

static int fresh(void **state)
{
    (void)state;
    a = (struct lease_view){.identity = "a", .duration = DURATION};
    b = (struct lease_view){.identity = "b", .duration = DURATION};
    record = NULL;
    version = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    lease_view_release(&a);
    lease_view_release(&b);
    json_decref(record);
    return 0;
}

static struct dlc_mono at(int64_t seconds)
{
    return (struct dlc_mono){DLC_SEC(1000 + seconds).ns};
}

static const char *spec(const char *name)
{
    const char *t = json_string_value(json_object_get(json_object_get(record, "spec"), name));

    return t != NULL ? t : "";
}

static json_int_t number(const char *name)
{
    return json_integer_value(json_object_get(json_object_get(record, "spec"), name));
}

/* Decide and write, as a server would take it. */
static enum lease_step step(struct lease_view *v, int64_t seconds)
{
    enum lease_step s = lease_decide(v, record, at(seconds));
    char text[32];
    json_t *next;

    if (s == LEASE_WAIT)
        return s;
    snprintf(text, sizeof(text), "time %d", ++version);
    next = lease_record(v, s, record, "ns", "op", text);
    json_decref(record);
    record = next;
    lease_decide(v, record, at(seconds));
    v->held_from = at(seconds);
    return s;
}

static void test_one_leads(void **state)
{
    (void)state;
    assert_int_equal(step(&a, 0), LEASE_CREATE);
    assert_string_equal(spec("holderIdentity"), "a");
    assert_int_equal(number("leaseDurationSeconds"), 15);
    assert_int_equal(number("leaseTransitions"), 0);
    assert_true(lease_view_holds(&a, at(8)));
    assert_false(lease_view_holds(&a, at(9))); /* three fifths */
    assert_int_equal(step(&b, 1), LEASE_WAIT);
    assert_false(lease_view_holds(&b, at(1)));
    assert_int_equal(step(&a, 3), LEASE_RENEW);
    assert_string_equal(spec("acquireTime"), "time 1");
    assert_string_equal(spec("renewTime"), "time 2");
    assert_true(lease_view_holds(&a, at(11)));
    assert_int_equal(step(&b, 14), LEASE_WAIT); /* it changed: 13.5 seconds from now on */
    assert_int_equal(step(&b, 27), LEASE_WAIT);
    assert_int_equal(step(&b, 28), LEASE_TAKE);
    assert_string_equal(spec("holderIdentity"), "b");
    assert_int_equal(number("leaseTransitions"), 1);
    assert_int_equal(step(&a, 28), LEASE_WAIT); /* it comes back and knows */
    assert_false(lease_view_holds(&a, at(28)));
}

/* Whatever times the record shows: only that it changes counts. */
static void test_clocks_do_not_count(void **state)
{
    static const char *const times[] = {"1970-01-01T00:00:00.000000Z",
                                        "2999-01-01T00:00:00.000000Z", "nonsense", ""};

    (void)state;
    step(&a, 0);
    for (size_t i = 0; i < unit_count(times); i++) {
        json_object_set_new(json_object_get(record, "spec"), "renewTime", json_string(times[i]));
        assert_int_equal(step(&b, 10 + 10 * (int64_t)i), LEASE_WAIT);
    }
    assert_int_equal(step(&b, 53), LEASE_WAIT);
    assert_int_equal(step(&b, 54), LEASE_TAKE);
}

/* They never lead both, whenever they look and whoever is stopped. */
static void test_never_both(void **state)
{
    struct lease_view *all[] = {&a, &b};
    unsigned random = 1;

    (void)state;
    for (int64_t t = 0; t < 20000; t++) {
        random = random * 1103515245 + 12345;
        if ((random >> 16) % 4 < 2 && (t / 40) % 3 != 0) /* at times nobody looks for long */
            step(all[(random >> 20) % 2], t);
        assert_false(lease_view_holds(&a, at(t)) && lease_view_holds(&b, at(t)));
    }
    assert_true(number("leaseTransitions") > 10);
}

static void test_given_up(void **state)
{
    json_t *next;

    (void)state;
    step(&a, 0);
    assert_int_equal(step(&b, 1), LEASE_WAIT);
    next = lease_farewell(record, "bye");
    json_decref(record);
    record = next;
    assert_int_equal(step(&b, 2), LEASE_TAKE); /* at once */
    assert_int_equal(number("leaseTransitions"), 1);
    assert_int_equal(number("leaseDurationSeconds"), 15);
}

static void test_records_of_others(void **state)
{
    (void)state;
    record = json_pack("{s:{s:s}}", "metadata", "resourceVersion", "7"); /* without a spec */
    assert_int_equal(step(&a, 0), LEASE_TAKE);
    assert_string_equal(kube_version(record), "7"); /* decided on this version */
    json_decref(record);
    record = json_pack("{s:{s:s, s:I}}", "spec", "holderIdentity", "x", "leaseDurationSeconds",
                       (json_int_t)1 << 60);
    assert_int_equal(step(&a, 1), LEASE_WAIT);
    assert_int_equal(step(&a, 3602), LEASE_TAKE); /* nobody locks us out for ever */
    json_decref(record);
    record = NULL;
    assert_int_equal(lease_decide(&a, record, at(3603)), LEASE_CREATE); /* somebody deleted it */
    assert_false(lease_view_holds(&a, at(3603)));
}

static void test_when_to_look(void **state)
{
    (void)state;
    step(&a, 0);
    assert_int_equal(lease_next(&a, at(0)).ns, at(0).ns + DLC_MS(2250).ns);
    step(&b, 0);
    assert_int_equal(lease_next(&b, at(0)).ns, at(0).ns + DLC_MS(750).ns);
    b.since.ns -= DLC_MS(1000).ns; /* the end of the record is nearer than the next look */
    assert_int_equal(lease_next(&b, at(12)).ns, at(12).ns + DLC_MS(500).ns);
    /* what a leader began has ended when another takes over, and that is within the duration */
    assert_int_equal(lease_timeout(DURATION).ns, DLC_SEC(3).ns);
    assert_true(LEASE_HOLDS + LEASE_TIMEOUT < LEASE_TAKEN);
    assert_true(LEASE_TAKEN + LEASE_FOLLOWED < 20);
}

static struct {
    pthread_mutex_t mtx;
    pthread_cond_t cond;
    int told; /* G: mtx; how often that we lead */
} heard = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void on_change(bool held, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&heard.mtx);
    heard.told += held;
    pthread_cond_broadcast(&heard.cond);
    pthread_mutex_unlock(&heard.mtx);
}

static void wait_for(int told)
{
    pthread_mutex_lock(&heard.mtx);
    while (heard.told < told)
        pthread_cond_wait(&heard.cond, &heard.mtx);
    pthread_mutex_unlock(&heard.mtx);
}

/* A renewal that takes so long that lease_held() is false meanwhile: who gave up its work then has
 * to hear that we lead. */
static void test_a_pause_is_told(void **state)
{
    struct kube_config config = {.from = (char *)"test"};
    struct lease_config c = {.kube = {.config = &config, .timeout = DLC_SEC(10)},
                             .ns = "ns",
                             .name = "op",
                             .duration = DLC_SEC(2),
                             .changed = on_change};
    struct dlc_err err = DLC_ERR_INIT;
    struct lease *lease;
    struct play server;

    (void)state;
    play_open(&server);
    config.server = server.base;
    assert_int_equal(lease_start(&c, &lease, &err), 0);
    wait_for(1);
    pthread_mutex_lock(&server.mtx);
    while (lease_held(lease))
        sched_yield();
    pthread_mutex_unlock(&server.mtx);
    wait_for(2);
    lease_stop(&lease);
    play_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_leads, fresh, end),
        cmocka_unit_test_setup_teardown(test_clocks_do_not_count, fresh, end),
        cmocka_unit_test_setup_teardown(test_never_both, fresh, end),
        cmocka_unit_test_setup_teardown(test_given_up, fresh, end),
        cmocka_unit_test_setup_teardown(test_records_of_others, fresh, end),
        cmocka_unit_test_setup_teardown(test_when_to_look, fresh, end),
        cmocka_unit_test(test_a_pause_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
