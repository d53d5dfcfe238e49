// SPDX-License-Identifier: Apache-2.0
/* The operator's HTTP: over real sockets, with certificates of certs.c. */
#include "operator/webhook/endpoints.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "net/json_client.h"
#include "operator/webhook/certs.h"
#include "unit.h"

static const char *const hosts[] = {"127.0.0.1"};
static const struct certs_names names = {hosts, 1, 0};

struct fixture {
    struct metrics metrics;
    _Atomic bool leader, synced, sick, ending;
    struct serve *serve;
    struct certs certs;
};

static void state_of(struct serve_state *out, void *arg)
{
    struct fixture *f = arg;

    out->ending = atomic_load(&f->ending);
    out->sick = atomic_load(&f->sick) ? "a worker hangs" : NULL;
    out->now.leader = atomic_load(&f->leader);
    out->now.watches[0] = (struct metrics_watch){"Pod", true};
    out->now.watches[1] = (struct metrics_watch){"Node", atomic_load(&f->synced)};
    out->now.n_watches = 2;
}

static struct fixture *opened(void)
{
    struct fixture *f = mem_new(struct fixture);
    struct serve_config c = {"127.0.0.1:0", "127.0.0.1:0", &f->metrics, state_of, f};
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(serve_open(&c, &f->serve, &err), 0);
    assert_null(serve_webhook(f->serve));
    assert_int_equal(certs_renew(&f->certs, &names, dlc_wall_seconds(), NULL, &err), 0);
    return f;
}

static void closed(struct fixture *f)
{
    serve_close(&f->serve);
    certs_release(&f->certs);
    mem_free(&f);
}

/* The status of an answer; *out (may be NULL) is its JSON. */
static int get(const char *address, const char *path, json_t **out)
{
    char *base = mem_fmt("http://%s", address);
    struct http_client_config c = {.base = base, .timeout = DLC_SEC(10)};
    struct http_client *client;
    struct dlc_err err;
    json_t *body = NULL;
    int status = 0;

    assert_int_equal(http_client_open(&c, &client, &err), 0);
    http_json(client, "GET", path, NULL, &body, &status, &err);
    http_client_close(&client);
    mem_free(&base);
    if (out != NULL)
        *out = body;
    else
        json_decref(body);
    return status;
}

static void test_health_and_readiness(void **state)
{
    struct fixture *f = opened();
    const char *at = serve_address(f->serve);
    json_t *j;

    (void)state;
    assert_int_equal(get(at, "/healthz", NULL), 200);
    assert_int_equal(get(at, "/readyz", NULL), 503); /* Nodes are not listed */
    atomic_store(&f->synced, true);
    assert_int_equal(get(at, "/readyz", NULL), 503); /* the webhook is not answered */
    assert_int_equal(serve_tls(f->serve, f->certs.cert, f->certs.key, NULL), 0);
    assert_int_equal(get(at, "/readyz", &j), 200);
    assert_string_equal(json_string_value(json_object_get(j, "role")), "standby");
    json_decref(j);
    atomic_store(&f->leader, true);
    assert_int_equal(get(at, "/readyz", &j), 200);
    assert_string_equal(json_string_value(json_object_get(j, "role")), "leader");
    json_decref(j);
    atomic_store(&f->ending, true);
    assert_int_equal(get(at, "/readyz", NULL), 503); /* others are to be asked */
    assert_int_equal(get(at, "/healthz", NULL), 200);
    atomic_store(&f->ending, false);
    atomic_store(&f->sick, true);
    assert_int_equal(get(at, "/healthz", NULL), 503);
    assert_int_equal(get(at, "/readyz", NULL), 503);
    assert_int_equal(get(at, "/mutate-pods", NULL), 404); /* over TLS alone */
    closed(f);
}

/* POST a review; 0 or an error. */
static int review(const char *address, const char *ca_file, struct dlc_err *err)
{
    char *base = mem_fmt("https://%s", address);
    struct http_client_config c = {.base = base, .ca = ca_file, .timeout = DLC_SEC(10)};
    json_t *body = json_pack("{s:{s:s, s:{s:s}, s:s, s:s, s:{s:{s:{s:s}}, s:{s:[{s:s}]}}}}",
                             "request", "uid", "7", "kind", "kind", "Pod", "operation", "CREATE",
                             "namespace", "team", "object", "metadata", "labels",
                             "dlcache.io/dataset", "birds", "spec", "containers", "name", "a");
    struct http_client *client = NULL;
    json_t *out = NULL;
    int rc = http_client_open(&c, &client, err);

    assert_non_null(body);
    if (rc == 0)
        rc = http_json(client, "POST", "/mutate-pods?timeout=3s", body, &out, NULL, err);
    if (rc == 0) {
        const json_t *r = json_object_get(out, "response");

        assert_true(json_is_true(json_object_get(r, "allowed")));
        assert_string_equal(json_string_value(json_object_get(r, "uid")), "7");
        assert_non_null(json_object_get(r, "patch"));
    }
    http_client_close(&client);
    json_decref(out);
    json_decref(body);
    mem_free(&base);
    return rc;
}

static const char *write_ca(const char *pem, const char *name, char path[static 256])
{
    struct dlc_err err;

    unit_path(name, path);
    assert_int_equal(os_write_file(path, pem, strlen(pem), 0600, &err), 0);
    return path;
}

static void test_the_webhook_over_tls(void **state)
{
    struct fixture *f = opened();
    struct dlc_err err = DLC_ERR_INIT;
    char ca[256];

    (void)state;
    write_ca(f->certs.bundle, "ca", ca);
    assert_int_equal(serve_tls(f->serve, f->certs.cert, f->certs.key, &err), 0);
    assert_int_equal(review(serve_webhook(f->serve), ca, &err), 0);
    assert_int_equal(f->metrics.reviews[WEBHOOK_PATCHED], 1);
    assert_int_equal(get(serve_webhook(f->serve), "/mutate-pods", NULL), 0); /* not TLS */
    closed(f);
}

struct asker {
    const char *address, *ca;
    _Atomic bool stop;
    _Atomic int asked, failed;
};

static void *ask_on(void *arg)
{
    struct asker *a = arg;
    struct dlc_err err;

    while (!atomic_load(&a->stop)) {
        if (review(a->address, a->ca, &err) != 0)
            atomic_fetch_add(&a->failed, 1);
        atomic_fetch_add(&a->asked, 1);
    }
    return NULL;
}

static void wait_for(_Atomic int *n, int more)
{
    int from = atomic_load(n);

    while (atomic_load(n) < from + more)
        sched_yield();
}

/* Certificates change ten times under those who ask: nobody is turned away. */
static void test_a_certificate_changes(void **state)
{
    struct fixture *f = opened();
    struct certs other = CERTS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct asker a = {0};
    char *both, ca[256], first[256], at[64];
    pthread_t thread;

    (void)state;
    assert_int_equal(certs_renew(&other, &names, dlc_wall_seconds(), NULL, &err), 0);
    both = mem_fmt("%s%s", f->certs.bundle, other.bundle);
    a.ca = write_ca(both, "both", ca);
    write_ca(f->certs.bundle, "first", first);
    assert_int_equal(serve_tls(f->serve, f->certs.cert, f->certs.key, &err), 0);
    snprintf(at, sizeof(at), "%s", serve_webhook(f->serve));
    a.address = at;
    assert_int_equal(pthread_create(&thread, NULL, ask_on, &a), 0);
    for (int i = 0; i < 10; i++) {
        const struct certs *c = i % 2 == 0 ? &other : &f->certs;

        wait_for(&a.asked, 2);
        assert_int_equal(serve_tls(f->serve, c->cert, c->key, &err), 0);
        assert_string_equal(serve_webhook(f->serve), at);
        assert_int_equal(review(at, first, &err), i % 2 == 0 ? DLC_EDENIED : 0);
    }
    atomic_store(&a.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(a.failed, 0);
    mem_free(&both);
    certs_release(&other);
    closed(f);
}

static void test_a_certificate_that_is_none_changes_nothing(void **state)
{
    struct fixture *f = opened();
    struct dlc_err err = DLC_ERR_INIT;
    char ca[256];

    (void)state;
    assert_true(serve_tls(f->serve, "x", "y", &err) < 0);
    assert_null(serve_webhook(f->serve));
    write_ca(f->certs.bundle, "good", ca);
    assert_int_equal(serve_tls(f->serve, f->certs.cert, f->certs.key, &err), 0);
    assert_true(serve_tls(f->serve, f->certs.cert, "y", &err) < 0);
    assert_true(serve_tls(f->serve, "", f->certs.key, &err) < 0);
    assert_int_equal(review(serve_webhook(f->serve), ca, &err), 0);
    closed(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health_and_readiness),
        cmocka_unit_test(test_the_webhook_over_tls),
        cmocka_unit_test(test_a_certificate_changes),
        cmocka_unit_test(test_a_certificate_that_is_none_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
