// SPDX-License-Identifier: Apache-2.0
// timeout: 120
/* The shared tier on real Redis servers: one, a Cluster, and none. */
#include "cluster/peer/redis_tier.h"

#include <poll.h>
#include <semaphore.h>

#include "base/hash.h"
#include "base/mem.h"
#include "manager/store/redis_servers.h"
#include "unit.h"

#define SNAPSHOT 0x0123456789abcdefu

struct resolve_request {
    struct shared_read r;
    sem_t done;
    int times;
};

static void on_done(struct shared_read *r)
{
    struct resolve_request *q = r->priv;

    q->times++;
    sem_post(&q->done);
}

static void ask(struct shared *s, struct resolve_request *q, const char *dataset, uint64_t sample,
                uint64_t length)
{
    *q = (struct resolve_request){.r = {.dataset = dataset,
                                        .snapshot = SNAPSHOT,
                                        .sample = sample,
                                        .dst = mem_zero(length),
                                        .length = length,
                                        .done = on_done,
                                        .priv = q}};
    sem_init(&q->done, 0, 0);
    shared_read(s, &q->r);
}

static unsigned char byte_of(uint64_t sample, size_t j)
{
    return (unsigned char)((sample * 31 + j) % 251);
}

static int await(struct resolve_request *q)
{
    sem_wait(&q->done);
    assert_int_equal(q->times, 1);
    for (size_t j = 0; j < q->r.length && q->r.rc == 0; j++)
        assert_int_equal(((unsigned char *)q->r.dst)[j], byte_of(q->r.sample, j));
    sem_destroy(&q->done);
    mem_free(&q->r.dst);
    return q->r.rc;
}

static int get(struct shared *s, const char *dataset, uint64_t sample, uint64_t length)
{
    struct resolve_request q;

    ask(s, &q, dataset, sample, length);
    return await(&q);
}

static void put(struct shared *s, uint64_t sample, uint64_t length)
{
    unsigned char *data = mem_alloc(length);

    for (size_t j = 0; j < length; j++)
        data[j] = byte_of(sample, j);
    shared_put(s, "d", SNAPSHOT, sample, data, length, hash64(data, length), 0.5);
    mem_free(&data); /* it was copied */
}

static struct shared_figures figures(struct shared *s)
{
    struct shared_figures f;

    shared_figures(s, &f);
    return f;
}

/* Wait until n puts have been stored or dropped. */
static void settle(struct shared *s, uint64_t n)
{
    struct dlc_mono from = dlc_mono_now();

    while (figures(s).puts + figures(s).dropped < n) {
        poll(NULL, 0, 1);
        if (dlc_mono_since(from).ns > DLC_SEC(20).ns)
            fail_msg("%llu puts never settle: %s", (unsigned long long)n, figures(s).why);
    }
}

static struct shared *shared_like(struct shared_config c)
{
    struct shared *s;
    struct dlc_err err;

    if (c.deadline.ns == 0)
        c.deadline = DLC_SEC(5); /* sanitizers are slow */
    if (shared_new(&c, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static void there_and_back(struct redis_servers *r)
{
    static const uint64_t sizes[] = {0, 1, 7, 8, 1000, 100000, 3000000};
    char url[400];
    struct shared *s, *other;

    redis_servers_url(r, url);
    s = shared_like((struct shared_config){.url = url});
    other = shared_like((struct shared_config){.url = url});
    for (size_t i = 0; i < unit_count(sizes); i++)
        assert_int_equal(get(s, "d", i, sizes[i]), DLC_EMISS);
    for (size_t i = 0; i < unit_count(sizes); i++)
        put(s, i, sizes[i]);
    settle(s, unit_count(sizes));
    assert_int_equal(figures(s).puts, unit_count(sizes));
    for (size_t i = 0; i < unit_count(sizes); i++) {
        assert_int_equal(get(other, "d", i, sizes[i]), 0);
        assert_int_equal(get(other, "e", i, sizes[i]), DLC_EMISS);     /* another dataset */
        assert_int_equal(get(other, "d", i, sizes[i] + 1), DLC_EMISS); /* another length */
    }
    assert_int_equal(figures(other).hits, unit_count(sizes));
    assert_int_equal(figures(other).damaged, unit_count(sizes));
    assert_int_equal(figures(other).failures, 0);
    assert_true(figures(other).p99_ms > 0);
    shared_free(&s);
    shared_free(&other);
}

static void many(struct redis_servers *r)
{
    enum { N = 2000 };
    static struct resolve_request q[N];
    char url[400];
    struct shared *s;

    redis_servers_url(r, url);
    s = shared_like((struct shared_config){.url = url, .deadline = DLC_SEC(30)});
    for (size_t i = 0; i < N; i++)
        put(s, i, 1000 + i);
    settle(s, N);
    for (size_t i = 0; i < N; i++)
        ask(s, &q[i], "d", i, 1000 + i);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(await(&q[i]), 0);
    assert_int_equal(figures(s).hits, N);
    shared_free(&s);
}

static void test_one_server(void **state)
{
    struct redis_servers r;

    (void)state;
    redis_servers_start_one(&r, "s3cret");
    there_and_back(&r);
    many(&r);
    redis_servers_stop(&r);
}

static void test_a_cluster(void **state)
{
    struct redis_servers r;

    (void)state;
    redis_servers_start_cluster(&r, 3, 0);
    there_and_back(&r);
    many(&r);
    redis_servers_stop(&r);
}

static void test_damage_is_a_miss(void **state)
{
    struct redis_servers r;
    struct shared *s;
    char url[400], *answer;

    (void)state;
    redis_servers_start_one(&r, "");
    redis_servers_url(&r, url);
    s = shared_like((struct shared_config){.url = url});
    put(s, 1, 100);
    settle(s, 1);
    answer = redis_server_ask(&r, 0, "SETRANGE dlcache:sample:d:0123456789abcdef:1 50 X");
    assert_string_equal(answer, "108");
    mem_free(&answer);
    assert_int_equal(get(s, "d", 1, 100), DLC_EMISS);
    assert_int_equal(figures(s).damaged, 1);
    answer = redis_server_ask(&r, 0, "DEL dlcache:sample:d:0123456789abcdef:1");
    mem_free(&answer);
    answer = redis_server_ask(&r, 0, "LPUSH dlcache:sample:d:0123456789abcdef:1 x");
    mem_free(&answer);
    assert_int_equal(get(s, "d", 1, 100), DLC_EMISS); /* not even a string */
    put(s, 2, 100);
    settle(s, 2);
    assert_int_equal(get(s, "d", 2, 100), 0);
    answer = redis_server_ask(&r, 0,
                              "RENAME dlcache:sample:d:0123456789abcdef:2 "
                              "dlcache:sample:d:0123456789abcdef:1");
    assert_string_equal(answer, "OK");
    mem_free(&answer);
    assert_int_equal(get(s, "d", 1, 100), DLC_EMISS); /* whole, but of another sample */
    assert_int_equal(figures(s).damaged, 2);
    shared_free(&s);
    redis_servers_stop(&r);
}

static void test_limits(void **state)
{
    struct redis_servers r;
    struct shared *s;
    char url[400], *answer;

    (void)state;
    redis_servers_start_one(&r, "");
    redis_servers_url(&r, url);
    s = shared_like((struct shared_config){
        .url = url, .value_max = 1000, .queue_max = 5000, .keep = DLC_SEC(50)});
    put(s, 1, 1001);
    assert_int_equal(figures(s).dropped, 1);
    put(s, 2, 1000);
    settle(s, 2);
    assert_int_equal(figures(s).puts, 1);
    answer = redis_server_ask(&r, 0, "TTL dlcache:sample:d:0123456789abcdef:2");
    assert_in_range(atoi(answer), 1, 50);
    mem_free(&answer);
    for (uint64_t i = 0; i < 1000; i++)
        put(s, i, 900);
    settle(s, 1002);
    assert_true(figures(s).dropped > 1); /* the queue holds five */
    answer = redis_server_ask(&r, 0, "CONFIG SET maxmemory 1");
    mem_free(&answer);
    put(s, 5000, 500);
    settle(s, 1003);
    assert_int_equal(get(s, "d", 5000, 500), DLC_EMISS);
    assert_false(figures(s).skipping); /* full, but well */
    shared_free(&s);
    redis_servers_stop(&r);
}

static void test_redis_dies_and_comes_back(void **state)
{
    struct redis_servers r;
    struct shared *s;
    struct dlc_mono from;
    char url[400];

    (void)state;
    redis_servers_start_one(&r, "");
    redis_servers_url(&r, url);
    s = shared_like((struct shared_config){.url = url, .deadline = DLC_MS(500)});
    put(s, 1, 100);
    settle(s, 1);
    redis_server_kill(&r, 0);
    while (!figures(s).skipping)
        assert_int_equal(get(s, "d", 1, 100), DLC_EMISS);
    from = dlc_mono_now();
    for (int i = 0; i < 100; i++) /* misses at once */
        assert_int_equal(get(s, "d", 1, 100), DLC_EMISS);
    assert_true(figures(s).failures >= 3);
    assert_true(figures(s).why[0] != '\0');
    assert_true(dlc_mono_since(from).ns < DLC_SEC(10).ns);
    redis_server_start(&r, 0);
    from = dlc_mono_now();
    while (get(s, "d", 1, 100) != 0) {
        dlc_clock_advance(DLC_MS(100));
        if (dlc_mono_since(from).ns > DLC_SEC(300).ns)
            fail_msg("it never comes back: %s", figures(s).why);
    }
    assert_false(figures(s).skipping);
    shared_free(&s);
    redis_servers_stop(&r);
}

static void test_nobody_is_there(void **state)
{
    static struct resolve_request q[100];
    struct shared *s = shared_like(
        (struct shared_config){.url = "redis://:pa55@127.0.0.1:1", .deadline = DLC_MS(50)});

    (void)state;
    for (size_t i = 0; i < unit_count(q); i++) {
        ask(s, &q[i], "d", i, 10);
        put(s, i, 10);
    }
    for (size_t i = 0; i < unit_count(q); i++)
        assert_int_equal(await(&q[i]), DLC_EMISS);
    settle(s, unit_count(q));
    assert_int_equal(figures(s).puts, 0);
    assert_null(strstr(figures(s).why, "pa55"));
    shared_free(&s);
}

static void test_closing_ends_all(void **state)
{
    static struct resolve_request q[200];
    struct shared *s = shared_like((struct shared_config){
        .url = "redis://127.0.0.1:1", .deadline = DLC_MS(300), .threads = 1});

    (void)state;
    for (size_t i = 0; i < unit_count(q); i++) {
        ask(s, &q[i], "d", i, 10);
        put(s, i, 10);
    }
    shared_free(&s);
    for (size_t i = 0; i < unit_count(q); i++)
        assert_int_equal(await(&q[i]), DLC_EMISS);
}

static void test_bad_urls(void **state)
{
    static const char *const bad[] = {"", "http://x", "redis://", "redis://x:99999"};
    struct shared *s;
    struct dlc_err err;

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        assert_int_equal(shared_new(&(struct shared_config){.url = bad[i]}, &s, &err), DLC_EINVAL);
        assert_null(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_nobody_is_there),
        cmocka_unit_test(test_closing_ends_all),
        cmocka_unit_test(test_one_server),
        cmocka_unit_test(test_damage_is_a_miss),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_redis_dies_and_comes_back),
        cmocka_unit_test(test_a_cluster),
    };

    if (!redis_servers_exist()) {
        printf("1..0 # skipped: redis-server is absent\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
