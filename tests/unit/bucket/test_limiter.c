// SPDX-License-Identifier: Apache-2.0
/* The limiter against a simulated bucket: a latency, then one link that sends answers in turn. */
#include "bucket/limiter_i.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/rng.h"

#define MS 1000000ll

struct sim {
    double latency, jitter; /* ns */
    double bandwidth;       /* bytes per second */
    uint64_t size;
    unsigned n; /* requests in all */
    unsigned max;
    bool latency_known;    /* from a LIST */
    double throttle_per_s; /* requests per second beyond which the answer is 503; 0: never */

    struct limiter l;
    unsigned highest, last; /* limit: highest seen, and at the end */
    double seconds;
};

struct flight {
    struct heap_node node; /* key: when the answer is complete */
    struct dlc_mono sent;
    bool throttled;
};

struct state {
    struct heap flying;
    struct rng rng;
    double now, link_free, bucket_tokens, tokens_at;
    unsigned sent, answered;
};

/* The bucket's own limit: a second's worth of tokens. */
static bool is_throttled(const struct sim *s, struct state *x)
{
    if (s->throttle_per_s == 0)
        return false;
    x->bucket_tokens += (x->now - x->tokens_at) / 1e9 * s->throttle_per_s;
    x->bucket_tokens = DLC_MIN(x->bucket_tokens, s->throttle_per_s / 10);
    x->tokens_at = x->now;
    if (x->bucket_tokens < 1)
        return true;
    x->bucket_tokens -= 1;
    return false;
}

static void send_one(struct sim *s, struct state *x)
{
    struct flight *f = mem_new(struct flight);
    double arrival = x->now + s->latency + s->jitter * rng_unit(&x->rng);
    double begin = DLC_MAX(arrival, x->link_free);

    f->sent.ns = (int64_t)x->now;
    f->throttled = is_throttled(s, x);
    if (f->throttled) {
        heap_push(&x->flying, &f->node, arrival);
    } else {
        x->link_free = begin + (double)s->size * 1e9 / s->bandwidth;
        heap_push(&x->flying, &f->node, x->link_free);
    }
    limiter_sent(&s->l, f->sent);
    x->sent++;
}

static void answer(struct sim *s, struct state *x, struct flight *f)
{
    struct dlc_mono now = {(int64_t)x->now};

    if (f->throttled) {
        limiter_throttled(&s->l, now);
        x->sent--; /* again, later */
    } else {
        limiter_began(&s->l, (struct dlc_dur){(int64_t)s->latency});
        limiter_answered(&s->l, now, dlc_mono_sub(now, f->sent), s->size);
        x->answered++;
    }
    mem_free(&f);
}

/* Until all requests are answered, sending whenever the limiter allows; a tick every 5 ms. */
static void run(struct sim *s)
{
    struct state x = {.rng = {42}, .now = 1e12};
    double start = x.now, tick = x.now;

    limiter_init(&s->l, s->max == 0 ? 1024 : s->max, 1);
    limiter_hint(&s->l, s->size);
    if (s->latency_known)
        limiter_began(&s->l, (struct dlc_dur){(int64_t)s->latency});
    while (x.answered < s->n) {
        unsigned allowed = limiter_allows(&s->l, (struct dlc_mono){(int64_t)x.now});
        const struct heap_node *top;

        assert_in_range(allowed, 1, s->l.max);
        while (x.sent < s->n && x.sent - x.answered < allowed)
            send_one(s, &x);
        if (x.sent == s->n)
            limiter_slack(&s->l);
        s->highest = DLC_MAX(s->highest, allowed);
        top = heap_top(&x.flying);
        while (tick <= x.now)
            tick += 5 * MS;
        if (top == NULL || top->key > tick) {
            x.now = tick;
        } else {
            x.now = top->key;
            answer(s, &x, dlc_container(heap_pop(&x.flying), struct flight, node));
        }
    }
    for (struct heap_node *n; (n = heap_pop(&x.flying)) != NULL;)
        free(dlc_container(n, struct flight, node));
    heap_release(&x.flying);
    s->last = limiter_allows(&s->l, (struct dlc_mono){(int64_t)x.now});
    s->seconds = (x.now - start) / 1e9;
}

static double share_of_link(const struct sim *s)
{
    return (double)s->n * (double)s->size / s->seconds / s->bandwidth;
}

/* The targets: 95 % of 400 MB/s with 10,000 objects of 100 KB, from first request to last byte. */
static void test_fills_the_link(void **state)
{
    static const double latencies[] = {1, 10, 30, 60, 100};

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(latencies); i++) {
        for (int known = 0; known < 2; known++) {
            struct sim s = {.latency = latencies[i] * MS,
                            .bandwidth = 400e6,
                            .size = 100000,
                            .n = 10000,
                            .latency_known = known};

            run(&s);
            print_message("%3.0f ms, latency %s: %.1f %% of the link, limit %u, at most %u\n",
                          latencies[i], known ? "known" : "unknown", 100 * share_of_link(&s),
                          s.last, s.highest);
            assert_true(share_of_link(&s) >= 0.95);
        }
    }
}

static void test_fills_the_link_with_jitter(void **state)
{
    struct sim s = {.latency = 30 * MS,
                    .jitter = 30 * MS,
                    .bandwidth = 400e6,
                    .size = 100000,
                    .n = 40000,
                    .latency_known = true};

    (void)state;
    run(&s);
    assert_true(share_of_link(&s) >= 0.95);
}

/* More than the first guess of 1 GB/s must be found by climbing. */
static void test_climbs(void **state)
{
    struct sim s = {
        .latency = 20 * MS, .bandwidth = 4e9, .size = 100000, .n = 400000, .latency_known = true};

    (void)state;
    run(&s);
    print_message("4 GB/s: %.1f %% of the link, limit %u\n", 100 * share_of_link(&s), s.last);
    assert_true(s.last >= 700); /* 800 fill it */
    assert_true(share_of_link(&s) >= 0.9);
}

/* A server next door: 8,000 answers per second whatever we do. More in flight is only waste. */
static void test_stays_small_on_loopback(void **state)
{
    struct sim s = {
        .latency = 0.5 * MS, .bandwidth = 800e6, .size = 100000, .n = 40000, .latency_known = true};

    (void)state;
    run(&s);
    print_message("loopback: limit %u, at most %u\n", s.last, s.highest);
    assert_in_range(s.last, 16, 64);
    assert_in_range(s.highest, 16, 64);
    assert_true(share_of_link(&s) >= 0.97);
}

static void test_bounds(void **state)
{
    struct sim small = {
        .latency = 100 * MS, .bandwidth = 400e6, .size = 100000, .n = 2000, .max = 5};
    struct sim one = {.latency = 1 * MS, .bandwidth = 400e6, .size = 1000, .n = 2000, .max = 1};

    (void)state;
    run(&small);
    assert_int_equal(small.highest, 5);
    run(&one);
    assert_int_equal(one.highest, 1);
}

/* A bucket that answers 503 beyond 1,000 requests per second: slow down to about that. */
static void test_throttling(void **state)
{
    struct sim s = {.latency = 30 * MS,
                    .bandwidth = 400e6,
                    .size = 100000,
                    .n = 20000,
                    .latency_known = true,
                    .throttle_per_s = 1000};

    (void)state;
    run(&s);
    print_message("throttled: limit %u, %.0f requests per second\n", s.last, s.n / s.seconds);
    assert_true(s.last < 120); /* 30 would do */
    assert_true(s.n / s.seconds > 700);
}

/* All answers are 503 for a while; then it must come back. */
static void test_recovers_from_a_storm(void **state)
{
    struct sim s = {
        .latency = 30 * MS, .bandwidth = 400e6, .size = 100000, .n = 10000, .latency_known = true};
    struct dlc_mono t = {1000 * MS};
    unsigned before;

    (void)state;
    run(&s);
    before = limiter_allows(&s.l, t);
    for (int i = 0; i < 10000; i++) {
        t.ns += MS;
        limiter_throttled(&s.l, t);
    }
    assert_in_range(limiter_allows(&s.l, t), 1, 8);
    assert_true(before > 64);
    for (int i = 0; i < 4000 && limiter_allows(&s.l, t) < 64; i++) {
        unsigned allowed = limiter_allows(&s.l, t);

        t.ns += 30 * MS / allowed;
        limiter_answered(&s.l, t, (struct dlc_dur){30 * MS}, 100000);
    }
    assert_true(limiter_allows(&s.l, t) >= 64);
}

/* A stray 503 is no reason to slow down. */
static void test_stray_errors(void **state)
{
    struct limiter l;
    struct dlc_mono t = {MS};
    unsigned before;

    (void)state;
    limiter_init(&l, 1024, 1);
    limiter_hint(&l, 100000);
    limiter_began(&l, (struct dlc_dur){30 * MS});
    before = limiter_allows(&l, t);
    for (int i = 1; i <= 10000; i++) {
        if (i % 100 == 0)
            limiter_throttled(&l, t);
        else
            limiter_answered(&l, t, (struct dlc_dur){30 * MS}, 0);
    }
    assert_int_equal(limiter_allows(&l, t), before);
}

/* Not enough to do says nothing about the link: the limit stays. */
static void test_slack(void **state)
{
    struct limiter l;
    struct dlc_mono t = {MS};
    unsigned before;

    (void)state;
    limiter_init(&l, 1024, 1);
    limiter_hint(&l, 100000);
    limiter_began(&l, (struct dlc_dur){30 * MS});
    before = limiter_allows(&l, t);
    for (int i = 0; i < 2000; i++) {
        t.ns += MS;
        limiter_slack(&l);
        limiter_answered(&l, t, (struct dlc_dur){30 * MS}, 100000);
    }
    assert_int_equal(limiter_allows(&l, t), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills_the_link),
        cmocka_unit_test(test_fills_the_link_with_jitter),
        cmocka_unit_test(test_climbs),
        cmocka_unit_test(test_stays_small_on_loopback),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_throttling),
        cmocka_unit_test(test_recovers_from_a_storm),
        cmocka_unit_test(test_stray_errors),
        cmocka_unit_test(test_slack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
