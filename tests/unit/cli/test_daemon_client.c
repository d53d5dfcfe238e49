// SPDX-License-Identifier: Apache-2.0
/* The client of the control protocol, against a daemon of a few canned answers. */
#include "cli/daemon_client.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/syscalls.h"

static char dir[] = "/tmp/test-ctl-XXXXXX";
static char path[64];
static struct config config = CONFIG_INIT;
static int listener;
static pthread_t daemon_thread;
static const char *const *script; /* answers after hello's; "" closes */
static const char *hello_answer;
static char last_op[32];
static json_t *last_request;

#define HELLO "{\"ok\":true,\"version\":1,\"pid\":77,\"program\":\"0.1.0\"}"

static void say(int sock, const char *text)
{
    json_t *j = json_loads(text, 0, NULL);

    msg_send(sock, j, NULL, 0, NULL);
    json_decref(j);
}

static void *daemon_main(void *arg)
{
    int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct msg m = MSG_INIT;

    (void)arg;
    if (msg_recv(sock, &m, DLC_SEC(10), NULL) == 0) {
        msg_release(&m);
        say(sock, hello_answer);
    }
    if (msg_recv(sock, &m, DLC_SEC(10), NULL) == 0) {
        snprintf(last_op, sizeof(last_op), "%s", json_text_at(m.body, "op"));
        json_decref(last_request);
        last_request = json_incref(m.body);
        msg_release(&m);
        for (const char *const *s = script; *s != NULL && (*s)[0] != '\0'; s++)
            say(sock, *s);
    }
    close(sock);
    return NULL;
}

static void start(const char *hello, const char *const *answers)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    memcpy(a.sun_path, path, strlen(path));
    unlink(path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(0, bind(listener, (struct sockaddr *)&a, sizeof(a)));
    assert_int_equal(0, listen(listener, 1));
    hello_answer = hello;
    script = answers;
    assert_int_equal(0, pthread_create(&daemon_thread, NULL, daemon_main, NULL));
}

static void stop(struct ctl *c)
{
    ctl_close(c);
    pthread_join(daemon_thread, NULL);
    os_close(&listener);
}

static void test_no_daemon(void **state)
{
    struct ctl c = CTL_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    unlink(path);
    assert_int_equal(DLC_ENODAEMON, ctl_open(&c, &config, false, &err));
    assert_non_null(strstr(err.text, "start one with `dlcache serve`"));
    assert_non_null(strstr(err.text, path));
    assert_int_equal(-1, c.sock);
}

static void test_dead_socket(void **state)
{
    static const char *const none[] = {NULL};
    struct ctl c = CTL_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    start(HELLO, none);
    assert_int_equal(0, ctl_open(&c, &config, false, NULL));
    stop(&c); /* leaves the file behind */
    assert_int_equal(DLC_ENODAEMON, ctl_open(&c, &config, false, &err));
}

static void count_progress(const json_t *p, void *priv)
{
    *(uint64_t *)priv += json_u64_at(p, "done");
}

static void test_call(void **state)
{
    static const char *const answers[] = {
        "{\"progress\":{\"done\":1}}",
        "{\"progress\":{\"done\":10}}",
        "{\"ok\":true,\"a\":{\"n\":5,\"r\":1.5,\"t\":\"text\"}}",
        NULL,
    };
    struct ctl c = CTL_INIT;
    struct msg m = MSG_INIT;
    uint64_t sum = 0;

    (void)state;
    start(HELLO, answers);
    assert_int_equal(0, ctl_open(&c, &config, false, NULL));
    assert_int_equal(77, c.daemon_pid);
    assert_int_equal(
        0, ctl_call(&c, json_pack("{s:s}", "op", "warm"), count_progress, &sum, &m, NULL));
    assert_int_equal(11, sum);
    assert_string_equal("warm", last_op);
    assert_int_equal(5, json_u64_at(m.body, "a.n"));
    assert_true(json_number_at(m.body, "a.r") == 1.5 && json_number_at(m.body, "a.n") == 5.0);
    assert_string_equal("text", json_text_at(m.body, "a.t"));
    assert_int_equal(0, json_u64_at(m.body, "a.t"));
    assert_string_equal("", json_text_at(m.body, "a.b.c"));
    assert_true(json_true_at(m.body, "ok"));
    msg_release(&m);
    stop(&c);
}

static void expect_call(const char *const *answers, int code, const char *says)
{
    struct ctl c = CTL_INIT;
    struct msg m = MSG_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    start(HELLO, answers);
    assert_int_equal(0, ctl_open(&c, &config, false, NULL));
    assert_int_equal(code, ctl_call(&c, json_pack("{s:s}", "op", "stat"), NULL, NULL, &m, &err));
    if (strstr(err.text, says) == NULL)
        fail_msg("says: %s", err.text);
    assert_null(m.body);
    stop(&c);
}

static void test_errors(void **state)
{
    static const char *const gone[] = {NULL};
    static const char *const no_such[] = {
        "{\"ok\":false,\"code\":-4,\"error\":\"no bucket named x\"}", NULL};
    static const char *const odd_code[] = {"{\"ok\":false,\"code\":7,\"error\":\"odd\"}", NULL};
    static const char *const large_code[] = {"{\"ok\":false,\"code\":-99999999999}", NULL};
    static const char *const nothing[] = {"{\"hm\":1}", NULL};

    (void)state;
    expect_call(gone, DLC_EPROTO, "closed the connection");
    expect_call(no_such, DLC_ENOTFOUND, "no bucket named x");
    expect_call(odd_code, DLC_EPROTO, "odd");
    expect_call(large_code, DLC_EPROTO, "protocol error");
    expect_call(nothing, DLC_EPROTO, "protocol error");
}

/* What `open` asks for, as the daemon would see it. */
static void test_open_dataset(void **state)
{
    static const char *const answers[] = {"{\"ok\":true,\"samples\":3}", NULL};
    struct ctl c = CTL_INIT;
    struct msg m = MSG_INIT;

    (void)state;
    setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9", 1);
    start(HELLO, answers);
    assert_int_equal(0, ctl_open(&c, &config, false, NULL));
    assert_int_equal(0,
                     ctl_open_dataset(&c, &config, "s3://bird/\xff", true, NULL, NULL, &m, NULL));
    assert_int_equal(3, json_u64_at(m.body, "samples"));
    msg_release(&m);
    stop(&c);
    assert_string_equal("open", last_op);
    assert_string_equal("http://127.0.0.1:9", json_text_at(last_request, "endpoint"));
    assert_string_equal("s3://bird/\xef\xbf\xbd", json_text_at(last_request, "url"));
    assert_true(json_true_at(last_request, "refresh") && !json_true_at(last_request, "anonymous"));
    json_decref(last_request);
    last_request = NULL;
    unsetenv("AWS_ENDPOINT_URL");
}

static void test_other_version(void **state)
{
    static const char *const none[] = {NULL};
    struct ctl c = CTL_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    start("{\"ok\":true,\"version\":9,\"pid\":77,\"program\":\"9.0\"}", none);
    assert_int_equal(DLC_EPROTO, ctl_open(&c, &config, false, &err));
    assert_non_null(strstr(err.text, "process 77, dlcache 9.0"));
    stop(&c);
}

static int make_dir(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/socket", dir);
    if (config_load(&config, "/dev/null", NULL) < 0)
        return -1;
    return config_set(&config, "socket", path, NULL);
}

static int remove_dir(void **state)
{
    (void)state;
    json_decref(last_request);
    config_release(&config);
    os_rmtree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_daemon),    cmocka_unit_test(test_dead_socket),
        cmocka_unit_test(test_call),         cmocka_unit_test(test_errors),
        cmocka_unit_test(test_open_dataset), cmocka_unit_test(test_other_version),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
