// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <sched.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "net/sync_call.h"
#include "odd.h"

#define LINES "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\na\n\nbc\nrest"

struct seen {
    struct buf text;
    unsigned n, enough;
};

static bool on_line(const char *line, size_t len, void *arg)
{
    struct seen *s = arg;

    assert_int_equal(strlen(line), len);
    buf_addf(&s->text, "%s|", line);
    return ++s->n != s->enough;
}

static struct sync_handle *handle_new(int stop_fd)
{
    struct sync_handle *h;

    assert_int_equal(sync_handle_new(stop_fd, &h, NULL), 0);
    return h;
}

/* The same answer for a call that reads lines; most: as in struct sync_call. */
static bool ask(const char *answer, struct seen *s, struct sync_call *c, CURLcode *code)
{
    struct sync_handle *h = handle_new(-1);
    struct odd o;
    bool good;

    odd_open(&o, answer);
    o.stays = c->silence.ns > 0;
    c->method = "GET";
    c->url = o.base;
    c->timeout = DLC_SEC(30);
    c->most = c->most != 0 ? c->most : 1000;
    c->each = s != NULL ? on_line : NULL;
    c->arg = s;
    good = sync_call(h, c, code);
    odd_close(&o);
    sync_handle_free(&h);
    return good;
}

static void lines_are_handed_over(void **state)
{
    struct seen s = {BUF_INIT, 0, 0};
    struct sync_call c = {0};
    CURLcode code;

    (void)state;
    assert_true(ask(LINES, &s, &c, &code));
    assert_string_equal(buf_str(&s.text), "a||bc|");
    assert_string_equal(buf_str(&c.body), "rest");
    assert_true(c.status == 200 && c.given && !c.stopped);
    sync_call_release(&c);
    buf_release(&s.text);
}

static void the_caller_may_have_enough(void **state)
{
    struct seen s = {BUF_INIT, 0, 2};
    struct sync_call c = {0};
    CURLcode code;

    (void)state;
    assert_true(ask(LINES, &s, &c, &code));
    assert_string_equal(buf_str(&s.text), "a||");
    assert_true(c.status == 200 && c.stopped);
    sync_call_release(&c);
    buf_release(&s.text);
}

static void an_error_is_not_a_stream(void **state)
{
    struct seen s = {BUF_INIT, 0, 0};
    struct sync_call c = {0};
    CURLcode code;

    (void)state;
    assert_true(
        ask("HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\na\nb\n", &s, &c, &code));
    assert_true(c.status == 503 && !c.given && s.n == 0);
    assert_string_equal(buf_str(&c.body), "a\nb\n");
    assert_int_equal(c.retry_after.ns, DLC_SEC(7).ns);
    assert_true(
        ask("HTTP/1.1 429 No\r\nRetry-After: 100000\r\nContent-Length: 0\r\n\r\n", &s, &c, &code));
    assert_int_equal(c.retry_after.ns, DLC_SEC(300).ns);
    sync_call_release(&c);
    buf_release(&s.text);
}

static void an_answer_has_a_limit(void **state)
{
    struct sync_call c = {.most = 9};
    CURLcode code;

    (void)state;
    assert_false(ask(LINES, NULL, &c, &code));
    assert_true(c.too_long && !c.interrupted);
    c.most = 10;
    assert_true(ask(LINES, NULL, &c, &code));
    assert_int_equal(c.body.len, 10);
    sync_call_release(&c);
}

static void silence_ends_a_stream(void **state)
{
    struct seen s = {BUF_INIT, 0, 0};
    struct sync_call c = {.silence = DLC_MS(50)};
    CURLcode code;

    (void)state;
    assert_false(ask("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na\n", &s, &c, &code));
    assert_int_equal(code, CURLE_OPERATION_TIMEDOUT);
    assert_string_equal(buf_str(&s.text), "a|");
    assert_false(c.interrupted);
    sync_call_release(&c);
    buf_release(&s.text);
}

static void a_descriptor_interrupts(void **state)
{
    struct sync_call c = {.method = "GET", .timeout = DLC_SEC(60), .most = 1000};
    struct sync_handle *h;
    struct odd o;
    CURLcode code;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    h = handle_new(fds[0]);
    odd_open(&o, NULL);
    c.url = o.base;
    assert_false(sync_call(h, &c, &code));
    assert_true(c.interrupted && !c.too_long);
    assert_false(sync_handle_is_interrupted(h));
    odd_close(&o);
    sync_handle_free(&h);
    sync_call_release(&c);
    os_close(&fds[0]);
    os_close(&fds[1]);
}

struct other {
    struct odd odd;
    struct sync_handle *handle;
};

static void *interrupt(void *arg)
{
    struct other *o = arg;

    while (o->odd.asked == 0)
        sched_yield();
    sync_handle_interrupt(o->handle);
    return NULL;
}

static void another_thread_interrupts(void **state)
{
    struct sync_call c = {.method = "GET", .timeout = DLC_SEC(60), .most = 1000};
    struct other o;
    CURLcode code;
    pthread_t t;

    (void)state;
    odd_open(&o.odd, NULL);
    o.handle = handle_new(-1);
    c.url = o.odd.base;
    assert_int_equal(pthread_create(&t, NULL, interrupt, &o), 0);
    assert_false(sync_call(o.handle, &c, &code));
    assert_true(c.interrupted);
    pthread_join(t, NULL);
    assert_false(sync_call(o.handle, &c, &code)); /* and all after it */
    assert_true(c.interrupted && sync_handle_is_interrupted(o.handle));
    assert_int_equal(o.odd.asked, 1);
    odd_close(&o.odd);
    sync_handle_free(&o.handle);
    sync_call_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_handed_over),     cmocka_unit_test(the_caller_may_have_enough),
        cmocka_unit_test(an_error_is_not_a_stream),  cmocka_unit_test(an_answer_has_a_limit),
        cmocka_unit_test(silence_ends_a_stream),     cmocka_unit_test(a_descriptor_interrupts),
        cmocka_unit_test(another_thread_interrupts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
