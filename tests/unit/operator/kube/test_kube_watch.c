// SPDX-License-Identifier: Apache-2.0
/* Lines of a watch, and a watch of a server that talks nonsense; real ones: tests/k8s. */
#include "operator/kube/kube_watch.h"

#include <sched.h>

#include "net/odd.h"
#include "base/buf.h"
#include "unit.h"

static struct dlc_err err;

static void test_events(void **state)
{
    static const struct {
        const char *line;
        enum watch_type type;
        int code;
    } cases[] = {
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}"
         "}",
         WATCH_ADDED, 0},
        {"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":"
         "\"1\"}"
         "}}",
         WATCH_MODIFIED, 0},
        {"{\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}},\"type\":"
         "\"DELETED\"}"
         "\r",
         WATCH_DELETED, 0},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}",
         WATCH_BOOKMARK, 0},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}", WATCH_ERROR, 410},
        {"{\"type\":\"ERROR\",\"object\":{\"code\":\"410\"}}", WATCH_ERROR, 0},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct watch_event e;

        assert_int_equal(watch_event_parse(cases[i].line, strlen(cases[i].line), &e, &err), 0);
        assert_int_equal(e.type, cases[i].type);
        assert_int_equal(e.code, cases[i].code);
        watch_event_release(&e);
    }
}

static void test_lines_that_are_none(void **state)
{
    static const char *const lines[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"type\":\"ADDED\"}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"added\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}",
        "{\"type\":7,\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":1}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}",
        "{\"type\":\"BOOKMARK\",\"object\":{}}",
    };

    (void)state;
    for (size_t i = 0; i < unit_count(lines); i++) {
        struct watch_event e;

        assert_int_equal(watch_event_parse(lines[i], strlen(lines[i]), &e, &err), DLC_EPROTO);
        assert_null(e.object);
    }
}

/* It is asked again and again, ever more seldom, and can be stopped at any time. */
static void test_servers_of_nonsense(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"
        "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}\n", /* then no event either */
        "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
        NULL,
    };

    (void)state;
    for (size_t i = 0; i < unit_count(answers); i++) {
        struct objects *objects = objects_new(NULL);
        struct kube_watch_figures f = {0};
        struct kube_config config = {.from = (char *)"test"};
        struct kube_watch_config c = {
            .kube = {.config = &config, .timeout = DLC_MS(100)}, .kind = KUBE_POD, .into = objects};
        struct kube_watch *w;
        struct odd o;

        odd_open(&o, answers[i]);
        config.server = o.base;
        assert_int_equal(kube_watch_start(&c, &w, &err), 0);
        while (f.failures < 3) {
            sched_yield();
            kube_watch_figures(w, &f);
        }
        assert_true(f.last_error[0] != '\0' || i == 1);
        assert_int_equal(f.synced, i == 1);
        kube_watch_stop(&w);
        assert_null(w);
        odd_close(&o);
        objects_free(&objects);
    }
}

/* A quiet kind is followed without a failure: the watch ends by itself first. */
static void test_watches_end_before_they_seem_dead(void **state)
{
    struct rng rng = {1};

    (void)state;
    for (int64_t s = 0; s <= 600; s++) {
        unsigned open = kube_watch_open_seconds(DLC_SEC(s), &rng);

        assert_true(open >= 1 && open >= s / 2);
        assert_true(s < 4 || open < s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_lines_that_are_none),
        cmocka_unit_test(test_servers_of_nonsense),
        cmocka_unit_test(test_watches_end_before_they_seem_dead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
