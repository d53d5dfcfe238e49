// SPDX-License-Identifier: Apache-2.0
/* The client against servers that are dead, silent or talk nonsense; real ones: tests/k8s. */
#include "operator/kube/kube.h"

#include <pthread.h>

#include "net/odd.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "unit.h"

static struct dlc_err err;
static struct metrics figures;

static struct kube *open_at(char *base, struct dlc_dur timeout)
{
    static struct kube_config config;
    struct kube_options o = {.config = &config, .metrics = &figures, .timeout = timeout};
    struct kube *k;

    config = (struct kube_config){.from = (char *)"test", .server = base};
    memset(&figures, 0, sizeof(figures));
    memset(&err, 0, sizeof(err));
    assert_int_equal(kube_open(&o, &k, &err), 0);
    return k;
}

static void test_answers_that_are_none(void **state)
{
    static const struct {
        const char *answer;
        int rc, status;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 0, 200},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", DLC_EPROTO, 200},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<xml>", DLC_EPROTO, 200},
        {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", DLC_EBUCKET, 0},
        {"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", DLC_EPROTO, 302},
        {"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", DLC_EDENIED, 401},
        {"HTTP/1.1 409 No\r\nContent-Length: 2\r\n\r\n[]", DLC_ECHANGED, 409},
        {"HTTP/1.1 409 No\r\nContent-Length: 26\r\n\r\n{\"reason\":\"AlreadyExists\"}", DLC_EBUSY,
         409},
        {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", DLC_ECHANGED, 410},
        {"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n", DLC_EINVAL, 422},
        {"HTTP/1.1 500 No\r\nContent-Length: 7\r\n\r\n\xff\xfe{}[]x", DLC_EBUCKET, 500},
        {"SSH-2.0-OpenSSH_9.2\r\n", DLC_EBUCKET, 0},
        {"", DLC_EBUCKET, 0},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct odd o;
        struct kube *k;
        json_t *out;
        int rc;

        odd_open(&o, cases[i].answer);
        k = open_at(o.base, DLC_SEC(10));
        rc = kube_get(k, KUBE_POD, "ns", "a", &out, &err);
        if (rc != cases[i].rc || kube_status(k) != cases[i].status)
            fail_msg("%s: %d, status %d (%s)", cases[i].answer, rc, kube_status(k), err.text);
        assert_true(rc == 0 ? out != NULL : out == NULL && err.text[0] != '\0');
        json_decref(out);
        kube_close(&k);
        odd_close(&o);
    }
}

static void test_retry_after(void **state)
{
    static const struct {
        const char *answer;
        int seconds;
    } cases[] = {
        {"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 7},
        {"HTTP/1.1 503 No\r\nRetry-After: 99999\r\nContent-Length: 0\r\n\r\n", 300},
        {"HTTP/1.1 429 No\r\nRetry-After: -5\r\nContent-Length: 0\r\n\r\n", 0},
        {"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n", 0},
        {"HTTP/1.1 404 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct odd o;
        struct kube *k;

        odd_open(&o, cases[i].answer);
        k = open_at(o.base, DLC_SEC(10));
        assert_true(kube_delete(k, KUBE_POD, "ns", "a", NULL, &err) < 0);
        assert_int_equal(kube_retry_after(k).ns, DLC_SEC(cases[i].seconds).ns);
        assert_int_equal(o.asked, 1); /* nothing is tried twice */
        kube_close(&k);
        odd_close(&o);
    }
}

static void test_an_answer_too_long(void **state)
{
    struct buf b = BUF_INIT;
    struct odd o;
    struct kube *k;
    json_t *out;

    (void)state;
    buf_adds(&b, "HTTP/1.1 200 OK\r\n\r\n");
    for (unsigned i = 0; i < KUBE_ANSWER_MAX / 16 + 1; i++)
        buf_adds(&b, "                ");
    odd_open(&o, b.data);
    k = open_at(o.base, DLC_SEC(30));
    assert_int_equal(kube_get(k, KUBE_POD, "ns", "a", &out, &err), DLC_EPROTO);
    assert_non_null(strstr(err.text, "longer than"));
    kube_close(&k);
    odd_close(&o);
    buf_release(&b);
}

static void test_nobody_and_silence(void **state)
{
    char dead[64];
    struct odd o;
    struct kube *k;
    json_t *out;

    (void)state;
    odd_dead(dead);
    k = open_at(dead, DLC_SEC(5));
    assert_int_equal(kube_get(k, KUBE_POD, "ns", "a", &out, &err), DLC_EBUCKET);
    assert_int_equal(kube_status(k), 0);
    assert_int_equal(figures.calls[METRICS_get][0], 1);
    kube_close(&k);
    odd_open(&o, NULL);
    k = open_at(o.base, DLC_MS(200));
    assert_int_equal(kube_get(k, KUBE_POD, "ns", "a", &out, &err), DLC_ETIMEDOUT);
    kube_close(&k);
    odd_close(&o);
}

static bool no_line(const char *line, size_t len, void *arg)
{
    (void)line, (void)len, (void)arg;
    return true;
}

static void *interrupt(void *arg)
{
    kube_interrupt(arg);
    return NULL;
}

static void test_given_up(void **state)
{
    pthread_t thread;
    struct odd o;
    struct kube *k;
    json_t *out;

    (void)state;
    odd_open(&o, "HTTP/1.1 200 OK\r\n\r\n");
    o.stays = true;
    k = open_at(o.base, DLC_SEC(30));
    assert_int_equal(kube_lines(k, "/x", DLC_MS(50), no_line, NULL, &err), DLC_ETIMEDOUT);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, k), 0);
    assert_int_equal(kube_lines(k, "/x", DLC_SEC(100), no_line, NULL, &err), DLC_ECANCELED);
    pthread_join(thread, NULL);
    assert_int_equal(kube_get(k, KUBE_POD, "ns", "a", &out, &err), DLC_ECANCELED); /* for good */
    kube_close(&k);
    odd_close(&o);
}

static bool refuse(void *arg)
{
    return *(bool *)arg;
}

static void test_writes_ask_first(void **state)
{
    struct kube_config config = {.from = (char *)"test"};
    struct kube_delete_options d = KUBE_DELETE_INIT;
    bool yes = false;
    struct kube_options options = {.config = &config, .may_write = refuse, .arg = &yes};
    json_t *body = json_object(), *out;
    struct kube *k;
    struct odd o;

    (void)state;
    odd_open(&o, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    config.server = o.base;
    assert_int_equal(kube_open(&options, &k, &err), 0);
    assert_int_equal(kube_create(k, KUBE_POD, "ns", body, NULL, &err), DLC_ECANCELED);
    assert_int_equal(kube_apply(k, KUBE_POD, "ns", "a", body, 0, &out, &err), DLC_ECANCELED);
    assert_null(out);
    assert_int_equal(kube_patch(k, KUBE_POD, "ns", "a", body, 0, NULL, &err), DLC_ECANCELED);
    assert_int_equal(kube_replace(k, KUBE_POD, "ns", "a", body, 0, NULL, &err), DLC_ECANCELED);
    assert_int_equal(kube_delete(k, KUBE_POD, "ns", "a", &d, &err), DLC_ECANCELED);
    assert_int_equal(kube_raw(k, "POST", "/x", body, &out, &err), DLC_ECANCELED);
    assert_int_equal(kube_event(k, body, "Normal", "R", &err, "x"), DLC_ECANCELED);
    assert_int_equal(o.asked, 0);
    assert_int_equal(kube_get(k, KUBE_POD, "ns", "a", &out, &err), 0);
    json_decref(out);
    yes = true;
    assert_int_equal(kube_patch(k, KUBE_POD, "ns", "a", body, 0, NULL, &err), 0);
    kube_close(&k);
    odd_close(&o);
    json_decref(body);
}

static bool count(json_t **object, void *arg)
{
    (void)object;
    return ++*(int *)arg < 100;
}

static void test_lists_that_are_none(void **state)
{
    static const char *const bodies[] = {
        "[]",
        "{}",
        "{\"items\":{}}",
        "{\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[7]}",
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{\"metadata\":{\"name\":\"a\"}}]}",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bodies); i++) {
        char *answer = mem_fmt("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                               strlen(bodies[i]), bodies[i]);
        char *version = NULL;
        struct odd o;
        struct kube *k;
        int n = 0;

        odd_open(&o, answer);
        k = open_at(o.base, DLC_SEC(10));
        assert_int_equal(kube_list(k, KUBE_POD, NULL, count, &n, &version, &err), DLC_EPROTO);
        assert_null(version);
        kube_close(&k);
        odd_close(&o);
        mem_free(&answer);
    }
}

static void test_paths_and_objects(void **state)
{
    json_t *j = json_pack("{s:{s:s, s:i, s:s}}", "metadata", "name", "n", "uid", 7,
                          "deletionTimestamp", "t");
    char now[KUBE_TIME_LEN], *path = kube_path(KUBE_LEASE, "a b");

    (void)state;
    assert_string_equal(path, "/apis/coordination.k8s.io/v1/namespaces/a%20b/leases");
    mem_free(&path);
    path = kube_path(KUBE_NODE, "ignored");
    assert_string_equal(path, "/api/v1/nodes");
    mem_free(&path);
    path = kube_path(KUBE_POD, NULL);
    assert_string_equal(path, "/api/v1/pods");
    mem_free(&path);
    assert_string_equal(kube_name(j), "n");
    assert_string_equal(kube_uid(j), "");
    assert_string_equal(kube_name(NULL), "");
    assert_true(kube_is_deleted(j));
    assert_null(json_at(j, "metadata.name.deeper"));
    assert_int_equal(strlen(kube_time(false, now)), strlen("2026-11-15T17:24:16Z"));
    assert_int_equal(strlen(kube_time(true, now)), strlen("2026-11-15T17:24:16.123456Z"));
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_that_are_none),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_an_answer_too_long),
        cmocka_unit_test(test_nobody_and_silence),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_writes_ask_first),
        cmocka_unit_test(test_lists_that_are_none),
        cmocka_unit_test(test_paths_and_objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
