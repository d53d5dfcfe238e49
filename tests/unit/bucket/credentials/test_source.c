// SPDX-License-Identifier: Apache-2.0
/* What a source keeps and when it looks again, with a container service that the test steers. */
#include "bucket/credentials/credentials_i.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bucket/aws_home.h"
#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "bucket/tiny_http.h"

/* ---- the service ---- */

static struct {
    struct tiny_http http;
    struct dlc_mtx mtx;
    struct dlc_cond cond;
    unsigned requests; /* G: mtx */
    bool shut;         /* G: mtx: answers wait until it is false */
    bool broken;       /* G: mtx: answers are errors */
    unsigned number;   /* G: mtx: the next access key is "AK<number>" */
    int64_t expires;   /* G: mtx */
} service;

static void answer(void *priv, const struct tiny_request *r, struct buf *out)
{
    char when[40], *text;
    time_t t;
    struct tm tm;

    (void)priv;
    (void)r;
    dlc_mtx_lock(&service.mtx);
    service.requests++;
    dlc_cond_broadcast(&service.cond);
    while (service.shut)
        dlc_cond_wait(&service.cond, &service.mtx);
    t = (time_t)service.expires;
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    text = mem_fmt("{\"AccessKeyId\": \"AK%u\", \"SecretAccessKey\": \"hush\", \"Token\": \"tk\", "
                   "\"Expiration\": \"%s\"}",
                   service.number, when);
    tiny_reply(out, service.broken ? 403 : 200, service.broken ? "{\"code\": \"No\"}" : text);
    dlc_mtx_unlock(&service.mtx);
    mem_free(&text);
}

static int set_up(void **state)
{
    int rc = aws_home_set_up(state);

    memset(&service, 0, sizeof(service));
    dlc_mtx_init(&service.mtx, LCK_sync);
    dlc_cond_init(&service.cond);
    service.number = 1;
    service.expires = dlc_wall_seconds() + 3600;
    service.http.answer = answer;
    tiny_http_start(&service.http);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.http.url, 1);
    return rc;
}

static int tear_down(void **state)
{
    tiny_http_stop(&service.http);
    dlc_cond_release(&service.cond);
    dlc_mtx_release(&service.mtx);
    return aws_home_tear_down(state);
}

/* What the service gives from now on. */
static void service_set(unsigned number, int64_t expires, bool broken, bool shut)
{
    dlc_mtx_lock(&service.mtx);
    service.number = number;
    service.expires = expires;
    service.broken = broken;
    service.shut = shut;
    dlc_cond_broadcast(&service.cond);
    dlc_mtx_unlock(&service.mtx);
}

static void service_await(unsigned requests)
{
    dlc_mtx_lock(&service.mtx);
    while (service.requests < requests)
        dlc_cond_wait(&service.cond, &service.mtx);
    dlc_mtx_unlock(&service.mtx);
}

static unsigned service_requests(void)
{
    unsigned n;

    dlc_mtx_lock(&service.mtx);
    n = service.requests;
    dlc_mtx_unlock(&service.mtx);
    return n;
}

/* ---- helpers ---- */

static struct credential_source *source_new(void)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credential_source *s;

    credential_source_new(&c, &s, &err);
    assert_string_equal(err.text, "");
    return s;
}

/* Both clocks: that of expiry and that of pauses. */
static void advance(struct credential_source *s, int64_t seconds)
{
    credential_source_advance(s, seconds);
    dlc_clock_advance(DLC_SEC(seconds));
}

static void assert_got(struct credential_source *s, const char *access, unsigned generation)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r;
    int rc = aws_home_get(s, &r, &err);

    if (rc != 0)
        fail_msg("%s", err.text);
    assert_string_equal(credentials_of(r)->access_key, access);
    assert_int_equal(credentials_of(r)->generation, generation);
    credentials_put(&r);
    assert_null(r);
}

static void assert_fails(struct credential_source *s, const char *words)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct credentials_ref *r;

    assert_int_equal(aws_home_get(s, &r, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, words));
    assert_null(r);
}

struct signal {
    struct task ready;
    struct dlc_mtx mtx;
    struct dlc_cond cond;
    bool ran; /* G: mtx */
};

static void on_signal(struct task *t)
{
    struct signal *g = dlc_container(t, struct signal, ready);

    dlc_mtx_lock(&g->mtx);
    g->ran = true;
    dlc_cond_broadcast(&g->cond);
    dlc_mtx_unlock(&g->mtx);
}

static void signal_init(struct signal *g)
{
    *g = (struct signal){.ready.run = on_signal};
    dlc_mtx_init(&g->mtx, LCK_sync);
    dlc_cond_init(&g->cond);
}

static void signal_await(struct signal *g)
{
    dlc_mtx_lock(&g->mtx);
    while (!g->ran)
        dlc_cond_wait(&g->cond, &g->mtx);
    dlc_mtx_unlock(&g->mtx);
    dlc_cond_release(&g->cond);
    dlc_mtx_release(&g->mtx);
}

static int get_now(struct credential_source *s, struct loop_thread *l, struct signal *g,
                   struct credentials_ref **r)
{
    return credential_source_get(s, l->loop, &g->ready, r, NULL);
}

/* ---- tests ---- */

static void test_kept_while_fresh(void **state)
{
    struct credential_source *s = source_new();

    (void)state;
    assert_got(s, "AK1", 1);
    service_set(2, dlc_wall_seconds() + 7200, false, false);
    advance(s, 3600 - 310);
    assert_got(s, "AK1", 1);
    assert_int_equal(service_requests(), 1);
    credential_source_free(&s);
    assert_null(s);
}

/* Due for refresh: the old ones at once, the new ones from the background; then no more waiting for
 * those that are about to expire. */
static void test_refresh_in_background(void **state)
{
    struct credential_source *s = source_new();
    struct credentials_ref *old;
    struct loop_thread l;
    struct signal g;

    (void)state;
    signal_init(&g);
    assert_int_equal(loop_thread_start(&l, "test", NULL), 0);
    assert_got(s, "AK1", 1);
    service_set(2, dlc_wall_seconds() + 7200, false, true);
    advance(s, 3600 - 290);
    assert_int_equal(get_now(s, &l, &g, &old), 0);
    assert_string_equal(credentials_of(old)->access_key, "AK1");
    service_await(2);
    advance(s, 240); /* 50 s left */
    {
        struct credentials_ref *none;

        assert_int_equal(get_now(s, &l, &g, &none), DLC_EBUSY);
        assert_null(none);
    }
    service_set(2, dlc_wall_seconds() + 7200, false, false);
    signal_await(&g);
    assert_got(s, "AK2", 2);
    assert_int_equal(service_requests(), 2);
    assert_string_equal(credentials_of(old)->access_key,
                        "AK1"); /* who holds old ones, keeps them */
    credential_source_free(&s);
    credentials_put(&old);
    loop_thread_stop(&l);
}

static void test_short_lived(void **state)
{
    struct credential_source *s;

    (void)state;
    service_set(1, dlc_wall_seconds() + 600, false, false);
    s = source_new();
    assert_got(s, "AK1", 1);
    advance(s, 350);
    assert_got(s, "AK1", 1);
    assert_int_equal(service_requests(), 1);
    service_set(2, dlc_wall_seconds() + 3600, false, false);
    advance(s, 100); /* less than a third of its life is left */
    assert_got(s, "AK1", 1);
    service_await(2);
    advance(s, 160);
    assert_got(s, "AK2", 2);
    credential_source_free(&s);
}

static void test_failed_refresh_keeps_old_ones(void **state)
{
    struct credential_source *s = source_new();

    (void)state;
    assert_got(s, "AK1", 1);
    service_set(2, dlc_wall_seconds() + 7200, true, false);
    advance(s, 3600 - 30);
    assert_got(s, "AK1", 1); /* waited for a look that failed */
    assert_int_equal(service_requests(), 2);
    assert_got(s, "AK1", 1); /* within the pause */
    assert_int_equal(service_requests(), 2);
    advance(s, 10);
    assert_got(s, "AK1", 1);
    assert_int_equal(service_requests(), 3);
    advance(s, 30);
    assert_fails(s, "credentials from container: No");
    service_set(2, dlc_wall_seconds() + 7200, false, false);
    advance(s, 10);
    assert_got(s, "AK2", 2);
    credential_source_free(&s);
}

static void test_failure_is_remembered(void **state)
{
    struct credential_source *s = source_new();

    (void)state;
    service_set(1, dlc_wall_seconds() + 3600, true, false);
    assert_fails(s, "No");
    assert_fails(s, "No");
    assert_int_equal(service_requests(), 1);
    service_set(1, dlc_wall_seconds() + 3600, false, false);
    advance(s, 6);
    assert_got(s, "AK1", 1);
    credential_source_free(&s);
}

static void test_refused_by_server(void **state)
{
    struct credential_source *s = source_new();

    (void)state;
    assert_got(s, "AK1", 1);
    service_set(2, dlc_wall_seconds() + 3600, false, false);
    credential_source_expire(s, 1);
    assert_got(s, "AK2", 2);
    credential_source_expire(s, 1); /* an old answer, late */
    assert_got(s, "AK2", 2);
    assert_int_equal(service_requests(), 2);
    credential_source_expire(s, 2);
    assert_got(s, "AK2", 2); /* looked, and they are the same */
    assert_int_equal(service_requests(), 3);
    credential_source_expire(s, 2);
    assert_got(s, "AK2", 2); /* no use to look again so soon */
    assert_int_equal(service_requests(), 3);
    advance(s, 6);
    service_set(3, dlc_wall_seconds() + 3600, false, false);
    credential_source_expire(s, 2);
    assert_got(s, "AK3", 3);
    credential_source_expire(s, 3);
    service_set(3, dlc_wall_seconds() + 3600, true, false);
    assert_fails(s, "No"); /* refused and none to replace them */
    credential_source_free(&s);
}

static void test_changed_file(void **state)
{
    struct credential_source *s;

    (void)state;
    aws_home_file(".aws/credentials",
                  "[default]\naws_access_key_id = OLD\naws_secret_access_key = hush\n");
    s = source_new();
    assert_got(s, "OLD", 1);
    aws_home_file(".aws/credentials",
                  "[default]\naws_access_key_id = NEW\naws_secret_access_key = hush\n");
    assert_got(s, "OLD", 1);
    credential_source_expire(s, 1);
    assert_got(s, "NEW", 2);
    credential_source_free(&s);
}

struct getter {
    struct credential_source *s;
    struct loop_thread *l;
    struct signal g;
    pthread_t thread;
    int rc;
};

static void *getter_main(void *priv)
{
    struct getter *t = priv;
    struct credentials_ref *r;

    t->rc = get_now(t->s, t->l, &t->g, &r);
    return NULL;
}

static void test_many_ask_once(void **state)
{
    struct credential_source *s = source_new();
    struct getter t[16];
    struct loop_thread l;

    (void)state;
    service_set(1, dlc_wall_seconds() + 3600, false, true);
    assert_int_equal(loop_thread_start(&l, "test", NULL), 0);
    for (size_t i = 0; i < DLC_COUNT(t); i++) {
        t[i] = (struct getter){.s = s, .l = &l};
        signal_init(&t[i].g);
        assert_int_equal(pthread_create(&t[i].thread, NULL, getter_main, &t[i]), 0);
    }
    for (size_t i = 0; i < DLC_COUNT(t); i++) {
        pthread_join(t[i].thread, NULL);
        assert_int_equal(t[i].rc, DLC_EBUSY);
    }
    service_set(1, dlc_wall_seconds() + 3600, false, false);
    for (size_t i = 0; i < DLC_COUNT(t); i++)
        signal_await(&t[i].g);
    assert_got(s, "AK1", 1);
    assert_int_equal(service_requests(), 1);
    loop_thread_stop(&l);
    credential_source_free(&s);
}

static void test_forget(void **state)
{
    struct credential_source *s = source_new();
    struct credentials_ref *r;
    struct loop_thread l;
    struct signal a, b;

    (void)state;
    signal_init(&a);
    signal_init(&b);
    assert_int_equal(loop_thread_start(&l, "test", NULL), 0);
    service_set(1, dlc_wall_seconds() + 3600, false, true);
    assert_int_equal(get_now(s, &l, &a, &r), DLC_EBUSY);
    assert_int_equal(get_now(s, &l, &b, &r), DLC_EBUSY);
    assert_true(credential_source_forget(s, &a.ready));
    assert_false(credential_source_forget(s, &a.ready));
    service_set(1, dlc_wall_seconds() + 3600, false, false);
    signal_await(&b);
    assert_false(credential_source_forget(s, &b.ready));
    loop_thread_stop(&l); /* runs what was posted before */
    assert_false(a.ran);
    dlc_cond_release(&a.cond);
    dlc_mtx_release(&a.mtx);
    credential_source_free(&s);
}

/* Going away cuts a look short, be it a request or a program, and still posts what waits. */
static void test_free_while_looking(void **state)
{
    struct credential_source *s = source_new();
    struct credentials_ref *r;
    struct loop_thread l;
    struct signal a, b;

    (void)state;
    signal_init(&a);
    signal_init(&b);
    assert_int_equal(loop_thread_start(&l, "test", NULL), 0);
    service_set(1, dlc_wall_seconds() + 3600, false, true);
    assert_int_equal(get_now(s, &l, &a, &r), DLC_EBUSY);
    service_await(1);
    credential_source_free(&s);
    signal_await(&a);
    service_set(1, dlc_wall_seconds() + 3600, false, false);

    aws_home_file(".aws/config", "[default]\ncredential_process = tail -f /dev/null\n");
    s = source_new();
    assert_int_equal(get_now(s, &l, &b, &r), DLC_EBUSY);
    credential_source_free(&s);
    signal_await(&b);
    loop_thread_stop(&l);
}

static void test_anonymous(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct credentials_ref *r;

    (void)state;
    c.anonymous = true;
    assert_int_equal(aws_home_find(&c, &r, NULL), 0);
    assert_null(r);
    assert_int_equal(service_requests(), 0);
}

static void expect_settings(const struct bucket_config *c, const char *region, const char *endpoint)
{
    struct credential_source *s;

    assert_int_equal(credential_source_new(c, &s, NULL), 0);
    if (region == NULL)
        assert_null(credential_source_region(s));
    else
        assert_string_equal(credential_source_region(s), region);
    if (endpoint == NULL)
        assert_null(credential_source_endpoint(s));
    else
        assert_string_equal(credential_source_endpoint(s), endpoint);
    credential_source_free(&s);
}

static void test_region_and_endpoint(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;

    (void)state;
    expect_settings(&c, NULL, NULL);
    aws_home_file(".aws/config", "[default]\nregion = r-prof\nendpoint_url = http://prof\n"
                                 "[profile sv]\nservices = mine\nendpoint_url = http://prof\n"
                                 "[services mine]\ns3 =\n  endpoint_url = http://service\n");
    expect_settings(&c, "r-prof", "http://prof");
    c.profile = "sv";
    expect_settings(&c, NULL, "http://service");
    c.profile = NULL;
    setenv("AWS_ENDPOINT_URL", "http://all", 1);
    setenv("AWS_DEFAULT_REGION", "r-default", 1);
    expect_settings(&c, "r-default", "http://all");
    setenv("AWS_ENDPOINT_URL_S3", "http://s3", 1);
    setenv("AWS_REGION", "r-env", 1);
    expect_settings(&c, "r-env", "http://s3");
    setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
    expect_settings(&c, "r-env", NULL);
    c.region = "r-flag";
    c.endpoint = "http://flag";
    expect_settings(&c, "r-flag", "http://flag");
}

static void test_odd_region(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct credential_source *s;

    (void)state;
    c.region = "evil.example/";
    assert_int_equal(credential_source_new(&c, &s, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "region \"evil.example/\""));
    assert_null(s);
}

static void test_faults(void **state)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    bool fired = true;

    (void)state;
    aws_home_file(".aws/config", "[default]\nregion = eu-west-1\n");
    aws_home_file(".aws/credentials", "[default]\naws_access_key_id = A\n");
    for (int nth = 1; fired; nth++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct credential_source *s;
        int rc;

        fault_arm(FAULT_ALLOC | FAULT_SYSCALL, nth);
        rc = credential_source_new(&c, &s, &err);
        fired = fault_disarm();
        assert_true(fired ? rc < 0 && s == NULL && err.text[0] != '\0' : rc == 0);
        credential_source_free(&s);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_kept_while_fresh),
        T(test_refresh_in_background),
        T(test_short_lived),
        T(test_failed_refresh_keeps_old_ones),
        T(test_failure_is_remembered),
        T(test_refused_by_server),
        T(test_changed_file),
        T(test_many_ask_once),
        T(test_forget),
        T(test_free_while_looking),
        T(test_anonymous),
        T(test_region_and_endpoint),
        T(test_odd_region),
        T(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
