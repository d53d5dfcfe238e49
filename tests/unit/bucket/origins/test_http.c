// SPDX-License-Identifier: Apache-2.0
/* The web origin against scripted answers: objects, listings, and servers that say little. */
#include "bucket/origins/origin.h"

#include "bucket/origin_run.h"
#include "unit.h"

#define CLOSE   "Connection: close\r\n"
#define HEAD_OK "HTTP/1.1 200 OK\r\n" CLOSE
#define NINE    "123456789"

static struct script server;
static struct origin_run lane;
static char dst[9];

static int set_up_path(const char *path)
{
    struct bucket_config c = BUCKET_CONFIG_INIT;
    struct url u = {.scheme = URL_HTTP, .prefix = (char *)(uintptr_t)path};
    struct origin *o = NULL;

    script_start(&server);
    u.bucket = server.server.url + strlen("http://");
    assert_int_equal(origin_http_new(&u, &c, 1, &o, NULL), 0);
    origin_run_open(&lane, o);
    return 0;
}

static int set_up_object(void **state)
{
    (void)state;
    return set_up_path("/dir/a.bin?token=secret");
}

static int set_up_list(void **state)
{
    (void)state;
    return set_up_path("/dir/all.list");
}

static int tear_down(void **state)
{
    (void)state;
    origin_run_close(&lane);
    script_stop(&server);
    return 0;
}

static struct attempt run(enum attempt_op op, const char *key, const char *const *answers)
{
    struct attempt a = {.op = op,
                        .key = op == ATTEMPT_LIST ? NULL : key,
                        .prefix = op == ATTEMPT_LIST ? key : NULL,
                        .length = 9,
                        .whole = true,
                        .dst = dst};

    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    return a;
}

static void test_get(void **state)
{
    static const char *const answers[] = {HEAD_OK "Content-Length: 9\r\n\r\n" NINE, NULL};
    struct attempt a = run(ATTEMPT_GET, "/dir/a.bin?token=secret", answers);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_memory_equal(dst, NINE, 9);
    assert_true(script_saw(&server, "GET /dir/a.bin?token=secret HTTP/1.1\r\n"));
    a = run(ATTEMPT_GET, "b c", answers);
    assert_true(script_saw(&server, "GET /dir/b%20c HTTP/1.1\r\n"));
}

static void test_get_range(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 206 P\r\n" CLOSE "Content-Range: bytes 3-11/99\r\nContent-Length: 9\r\n\r\n" NINE,
        HEAD_OK "Content-Length: 99\r\n\r\n" NINE, NULL};
    struct attempt a = {
        .op = ATTEMPT_GET, .key = "x", .etag = "e", .offset = 3, .length = 9, .dst = dst};

    (void)state;
    script_set(&server, answers);
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, 0);
    assert_true(script_saw(&server, "\r\nRange: bytes=3-11\r\n"));
    assert_true(script_saw(&server, "\r\nIf-Match: \"e\"\r\n"));
    origin_run_attempt(&lane, &a);
    assert_int_equal(a.rc, DLC_EBUCKET);
    assert_non_null(strstr(a.err.text, "cannot serve parts"));
}

static void test_redirect(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 302 Found\r\n" CLOSE
                                          "Location: /other?x=1\r\nContent-Length: 4\r\n\r\nbody",
                                          HEAD_OK "Content-Length: 9\r\n\r\n" NINE, NULL};
    struct attempt a = run(ATTEMPT_GET, "x", answers);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.received, 9);
    assert_memory_equal(dst, NINE, 9);
    assert_true(script_saw(&server, "GET /other?x=1 HTTP/1.1\r\n"));
}

static void test_failures(void **state)
{
    static const struct {
        const char *answer;
        int rc;
        bool retryable, throttled;
    } cases[] = {
        {"HTTP/1.1 403 X\r\n" CLOSE "\r\n", DLC_EDENIED, false, false},
        {"HTTP/1.1 404 X\r\n" CLOSE "\r\n", DLC_ENOTFOUND, false, false},
        {"HTTP/1.1 412 X\r\n" CLOSE "\r\n", DLC_ECHANGED, false, false},
        {"HTTP/1.1 429 X\r\n" CLOSE "\r\n", DLC_EBUCKET, true, true},
        {"HTTP/1.1 500 X\r\n" CLOSE "\r\n", DLC_EBUCKET, true, false},
        {"HTTP/1.1 503 X\r\n" CLOSE "\r\n", DLC_EBUCKET, true, true},
        {"HTTP/1.1 418 X\r\n" CLOSE "\r\n", DLC_EBUCKET, false, false},
        {HEAD_OK "Content-Length: 9\r\n\r\n123", DLC_ECORRUPT, true, false},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        const char *const answers[] = {cases[i].answer, NULL};
        struct attempt a = run(ATTEMPT_GET, "/dir/a.bin?token=secret", answers);

        assert_int_equal(a.rc, cases[i].rc);
        assert_int_equal(a.retryable, cases[i].retryable);
        assert_int_equal(a.throttled, cases[i].throttled);
        assert_non_null(strstr(a.err.text, "/dir/a.bin"));
        assert_null(strstr(a.err.text, "secret"));
    }
}

static void test_stat(void **state)
{
    static const char *const head[] = {HEAD_OK "ETag: \"e\"\r\nContent-Length: 77\r\n\r\n", NULL};
    static const char *const weak[] = {HEAD_OK "ETag: W/\"e\"\r\nContent-Length: 77\r\n\r\n", NULL};
    static const char *const refused[] = {
        "HTTP/1.1 403 X\r\n" CLOSE "\r\n",
        "HTTP/1.1 206 P\r\n" CLOSE "Content-Range: bytes 0-0/78\r\nContent-Length: 1\r\n\r\nx",
        NULL};
    static const char *const empty[] = {
        "HTTP/1.1 405 X\r\n" CLOSE "\r\n",
        "HTTP/1.1 416 X\r\n" CLOSE "Content-Range: bytes */0\r\n\r\n", NULL};
    static const char *const no_ranges[] = {HEAD_OK "\r\n", HEAD_OK "Content-Length: 79\r\n\r\nxyz",
                                            NULL};
    struct attempt a = run(ATTEMPT_STAT, "x", head);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.size, 77);
    assert_string_equal(a.etag_seen, "e");
    assert_true(script_saw(&server, "HEAD /dir/x HTTP/1.1\r\n"));
    a = run(ATTEMPT_STAT, "x", weak);
    assert_string_equal(a.etag_seen, ""); /* If-Match with it would never hold */
    a = run(ATTEMPT_STAT, "x", refused);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.size, 78);
    assert_true(script_saw(&server, "GET /dir/x HTTP/1.1\r\n"));
    a = run(ATTEMPT_STAT, "x", empty);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.size, 0);
    a = run(ATTEMPT_STAT, "x", no_ranges);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.size, 79);
}

static void test_stat_fails(void **state)
{
    static const char *const silent[] = {HEAD_OK "\r\n", HEAD_OK "\r\nxyz", NULL};
    static const char *const absent[] = {"HTTP/1.1 404 X\r\n" CLOSE "\r\n", NULL};
    static const char *const ill[] = {"HTTP/1.1 500 X\r\n" CLOSE "\r\n", NULL};
    static const char *const better[] = {"HTTP/1.1 500 X\r\n" CLOSE "\r\n",
                                         HEAD_OK "Content-Length: 5\r\n\r\n", NULL};
    struct attempt a = run(ATTEMPT_STAT, "x", silent);

    (void)state;
    assert_int_equal(a.rc, DLC_EPROTO);
    assert_non_null(strstr(a.err.text, "size"));
    a = run(ATTEMPT_STAT, "x", absent);
    assert_int_equal(a.rc, DLC_ENOTFOUND);
    assert_int_equal(script_asked(&server), 1);
    a = run(ATTEMPT_STAT, "x", ill);
    assert_int_equal(a.rc, DLC_EBUCKET);
    assert_true(a.retryable);
    assert_int_equal(script_asked(&server), 3);
    a = run(ATTEMPT_STAT, "x", better);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.size, 5);
}

static void test_list_one(void **state)
{
    static const char *const answers[] = {HEAD_OK "ETag: \"e\"\r\nContent-Length: 77\r\n\r\n",
                                          NULL};
    struct attempt a = run(ATTEMPT_LIST, "/dir/a.bin?token=secret", answers);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.n_objects, 1);
    assert_string_equal(a.objects[0].key, "/dir/a.bin?token=secret");
    assert_int_equal(a.objects[0].size, 77);
    assert_string_equal(a.objects[0].etag, "e");
    assert_null(a.next);
    attempt_clear(&a);
}

/* Sizes that the listing does not give are asked for; more lines than probes. */
static void test_list_file(void **state)
{
    static const char listing[] = HEAD_OK "\r\n"
                                          "a\t5\te5\n"
                                          "b1\nb2\nb3\nb4\nb5\nb6\nb7\nb8\nb9\nb10\nb11\nb12\nb13\n"
                                          "b14\nb15\nb16\nb17\nb18\nb19\nb20\n"
                                          "/c\t7\n";
    static const char *const answers[] = {listing,
                                          HEAD_OK "ETag: \"x\"\r\nContent-Length: 3\r\n\r\n", NULL};
    struct attempt a = run(ATTEMPT_LIST, "/dir/all.list", answers);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.n_objects, 22);
    assert_string_equal(a.objects[0].key, "a");
    assert_int_equal(a.objects[0].size, 5);
    assert_string_equal(a.objects[0].etag, "e5");
    assert_string_equal(a.objects[20].key, "b20");
    assert_int_equal(a.objects[20].size, 3);
    assert_string_equal(a.objects[20].etag, "x");
    assert_string_equal(a.objects[21].key, "/c");
    assert_int_equal(script_asked(&server), 21);
    attempt_clear(&a);
}

static void test_list_by_type(void **state)
{
    static const char *const answers[] = {
        HEAD_OK "Content-Type: text/uri-list; charset=utf-8\r\nContent-Length: 8\r\n\r\n",
        HEAD_OK "Content-Length: 8\r\n\r\na\t1\nb\t2\n", NULL};
    struct attempt a = run(ATTEMPT_LIST, "/dir/a.bin", answers);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.n_objects, 2);
    attempt_clear(&a);
}

static void test_list_fails(void **state)
{
    static const char *const empty[] = {HEAD_OK "Content-Length: 0\r\n\r\n", NULL};
    static const char *const odd[] = {HEAD_OK "\r\na\tmany\n", NULL};
    static const char *const gone[] = {HEAD_OK "\r\na\nb\n", "HTTP/1.1 404 X\r\n" CLOSE "\r\n",
                                       NULL};
    struct attempt a = run(ATTEMPT_LIST, "/dir/all.list", empty);

    (void)state;
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.n_objects, 0);
    a = run(ATTEMPT_LIST, "/dir/all.list", odd);
    assert_int_equal(a.rc, DLC_EINVAL);
    assert_non_null(strstr(a.err.text, "/dir/all.list: line 1"));
    a = run(ATTEMPT_LIST, "/dir/all.list", gone);
    assert_int_equal(a.rc, DLC_ENOTFOUND);
    assert_int_equal(a.n_objects, 0);
}

static void test_cancel(void **state)
{
    struct attempt a = {.op = ATTEMPT_LIST, .prefix = "/dir/all.list"};

    (void)state;
    origin_run_cancelled(&lane, &a);
    assert_int_equal(a.rc, DLC_ECANCELED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_get, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_get_range, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_redirect, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_failures, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_stat, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_stat_fails, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_list_one, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_list_file, set_up_list, tear_down),
        cmocka_unit_test_setup_teardown(test_list_by_type, set_up_object, tear_down),
        cmocka_unit_test_setup_teardown(test_list_fails, set_up_list, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up_list, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
