// SPDX-License-Identifier: Apache-2.0
/* The Redis client and bad days: servers that die, move, stall, refuse, forget. */
#include "manager/store/store_unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "net/redis/redis.h"
#include "manager/store/redis_servers.h"

static struct redis_servers one, cluster;

static struct store *open_at(const struct redis_servers *r, const char *tail)
{
    struct store *m = NULL;
    char base[400], url[512];

    redis_servers_url(r, base);
    snprintf(url, sizeof(url), "%s%s", base, tail);
    ok(store_open(url, &m, &err));
    return m;
}

static int start_one(void **state)
{
    (void)state;
    redis_servers_start_one(&one, NULL);
    return 0;
}

static int start_cluster(void **state)
{
    (void)state;
    redis_servers_start_cluster(&cluster, 3, 1);
    return 0;
}

static int stop_one(void **state)
{
    (void)state;
    redis_servers_stop(&one);
    return 0;
}

static int stop_cluster(void **state)
{
    (void)state;
    redis_servers_stop(&cluster);
    return 0;
}

/* ---- what is parsed ---- */

static void test_urls(void **state)
{
    static const char *const bad[] = {
        "redis://",
        "redis://:0",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:x",
        "redis://h,",
        "redis://,h",
        "redis://h/a b",
        "redis://h/{a}",
        "redis://u:%zz@h",
        "redis://h?x=1",
        "redis://h?timeout=0",
        "redis://u:p@",
        "http://h",
        "redis://h h",
        "redis://u:secret%00@h",
        "redis://[::1",
        "redis://h/a/b",
        "redis://h:1:2",
        "rediss://",
        "redis://h?ca=/x",
        "rediss://h?ca=",
        "rediss://h?cert=/x",
        "rediss://h?key=/x",
        "rediss://h?ca=/x&ca=/y",
        "rediss://h?ca=/x&",
        "rediss://h?ca=%00",
    };
    struct redis_url u;

    (void)state;
    ok(redis_url_parse("redis://a", &u, &err));
    assert_string_equal(u.hosts[0], "a");
    assert_int_equal(u.ports[0], 6379);
    assert_null(u.password);
    redis_url_release(&u);
    ok(redis_url_parse("redis://us%3Aer:p%40ss:w@10.0.0.1:7000,[::1]:7001,c/pre.fix?timeout=250ms",
                       &u, &err));
    assert_int_equal(u.n, 3);
    assert_string_equal(u.user, "us:er");
    assert_string_equal(u.password, "p@ss:w");
    assert_string_equal(u.hosts[1], "::1");
    assert_int_equal(u.ports[1], 7001);
    assert_int_equal(u.ports[2], 6379);
    assert_string_equal(u.prefix, "pre.fix");
    assert_int_equal(u.timeout.ns, 250000000);
    redis_url_release(&u);
    ok(redis_url_parse("rediss://h/p?ca=/c%26a&timeout=2s&key=/k&cert=/c", &u, &err));
    assert_true(u.tls);
    assert_string_equal(u.ca, "/c&a");
    assert_string_equal(u.cert, "/c");
    assert_string_equal(u.key, "/k");
    assert_int_equal(u.timeout.ns, 2000000000);
    redis_url_release(&u);
    ok(redis_url_parse("redis://:pass@h", &u, &err));
    assert_false(u.tls);
    assert_null(u.user);
    assert_string_equal(u.password, "pass");
    redis_url_release(&u);
    for (size_t i = 0; i < unit_count(bad); i++) {
        if (redis_url_parse(bad[i], &u, &err) != DLC_EINVAL)
            fail_msg("%s was taken", bad[i]);
        assert_null(strstr(err.text, "secret"));
    }
}

static void test_answers(void **state)
{
    char address[80];
    int slot;

    (void)state;
    assert_int_equal(redis_answer_parse("MOVED 3999 127.0.0.1:6381", &slot, address), REDIS_MOVED);
    assert_int_equal(slot, 3999);
    assert_string_equal(address, "127.0.0.1:6381");
    assert_int_equal(redis_answer_parse("ASK 1 :7000", &slot, address), REDIS_ASK);
    assert_string_equal(address, ":7000");
    assert_int_equal(redis_answer_parse("MOVED 16384 h:1", &slot, address), REDIS_FINAL);
    assert_int_equal(redis_answer_parse("MOVED", &slot, address), REDIS_FINAL);
    assert_int_equal(redis_answer_parse("TRYAGAIN Multiple keys", &slot, address), REDIS_LATER);
    assert_int_equal(redis_answer_parse("LOADING", &slot, address), REDIS_LATER);
    assert_int_equal(redis_answer_parse("LOADINGS", &slot, address), REDIS_FINAL);
    assert_int_equal(redis_answer_parse("NOSCRIPT No matching", &slot, address), REDIS_SCRIPT);
    assert_int_equal(redis_answer_parse("ERR nonsense", &slot, address), REDIS_FINAL);
    assert_int_equal(redis_answer_parse("", &slot, address), REDIS_FINAL);
}

static void test_slots(void **state)
{
    (void)state;
    assert_int_equal(redis_slot("123456789", 9), 0x31c3 % REDIS_SLOTS);
    assert_int_equal(redis_slot("{user1000}.following", 20),
                     redis_slot("{user1000}.followers", 20));
    assert_int_equal(redis_slot("foo{}{bar}", 10), redis_slot("foo{}{bar}", 10));
    assert_int_equal(redis_slot("foo{{bar}}zap", 13), redis_slot("{bar", 4));
    assert_int_not_equal(redis_slot("foo{}{bar}", 10), redis_slot("bar", 3));
    assert_int_equal(redis_slot("foo{bar}{zap}", 13), redis_slot("bar", 3));
}

/* ---- one server ---- */

static void test_restart(void **state)
{
    struct store *m = open_at(&one, "/restart");

    (void)state;
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    put_chunk(m, "d", "n", "k", 5);
    for (int i = 2; i < 5; i++) {
        redis_server_kill(&one, 0);
        redis_server_start(&one, 0);
        ok(put(m, STORE_JOB, "a", "", i, (uint64_t)i - 1,
               NULL)); /* the connection is dead, and the scripts gone */
        expect_sums(m, "d", "n 1 5,");
    }
    assert_int_equal(value_of(m, STORE_JOB, "a", NULL), 4);
    store_close(&m);
}

struct one_put {
    struct store *m;
    int rc;
    struct dlc_err err;
};

/* A put by another thread: servers must be started by the first one, or they die with the thread.
 */
static void *put_main(void *arg)
{
    struct one_put *p = arg;
    struct store_doc d = {.id = mem_str("late"), .body = json_pack("{s:i}", "value", 7)};

    p->rc = store_put(p->m, STORE_JOB, &d, STORE_NEW, &p->err);
    store_doc_release(&d);
    return NULL;
}

static void test_away(void **state)
{
    struct store *m = open_at(&one, "/away?timeout=700ms"), *none = NULL;
    struct one_put p = {.rc = 1};
    pthread_t thread;
    char url[400], text[512];

    (void)state;
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    redis_server_kill(&one, 0);
    assert_int_equal(put(m, STORE_JOB, "a", "", 2, 1, NULL), DLC_EBUCKET);
    assert_non_null(strstr(err.text, "127.0.0.1:"));
    redis_servers_url(&one, url);
    snprintf(text, sizeof(text), "%s?timeout=100ms", url);
    assert_int_equal(store_open(text, &none, &err), DLC_EBUCKET);
    assert_null(none);
    store_close(&m);
    redis_server_start(&one, 0);
    p.m = m = open_at(&one, "/away?timeout=20s");
    redis_server_kill(&one, 0);
    assert_int_equal(pthread_create(&thread, NULL, put_main, &p), 0);
    redis_server_start(&one, 0);
    pthread_join(thread, NULL); /* it waited until it was back */
    if (p.rc != 0)
        fail_msg("%s", p.err.text);
    assert_int_equal(value_of(m, STORE_JOB, "late", NULL), 7);
    store_close(&m);
}

/* A server that accepts and says nothing. */
static void test_stalled(void **state)
{
    struct store *m = open_at(&one, "/stalled?timeout=300ms");

    (void)state;
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    redis_server_signal(&one, 0, SIGSTOP);
    assert_int_equal(put(m, STORE_JOB, "a", "", 2, 1, NULL), DLC_EBUCKET);
    redis_server_signal(&one, 0, SIGCONT);
    /* Nobody knows whether that was written; what is there is one or the other. */
    assert_in_range(value_of(m, STORE_JOB, "a", NULL), 1, 2);
    store_close(&m);
}

static void test_passwords(void **state)
{
    struct redis_servers closed;
    struct store *m = NULL;
    char url[200];

    (void)state;
    redis_servers_start_one(&closed, "right-secret");
    snprintf(url, sizeof(url), "redis://:wrong-secret@127.0.0.1:%d", closed.s[0].port);
    assert_int_equal(store_open(url, &m, &err), DLC_EDENIED);
    assert_null(strstr(err.text, "wrong-secret"));
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", closed.s[0].port);
    assert_int_equal(store_open(url, &m, &err), DLC_EDENIED);
    snprintf(url, sizeof(url), "redis://default:right%%2Dsecret@127.0.0.1:%d", closed.s[0].port);
    ok(store_open(url, &m, &err));
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    store_close(&m);
    redis_servers_stop(&closed);
}

/* Of two addresses the first is a replica. */
static void test_replica_first(void **state)
{
    struct redis_servers other;
    struct store *m = NULL;
    char text[100], url[200];

    (void)state;
    redis_servers_start_one(&other, NULL);
    snprintf(text, sizeof(text), "REPLICAOF 127.0.0.1 %d", one.s[0].port);
    free(redis_server_ask(&other, 0, text));
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d,127.0.0.1:%d/replica", other.s[0].port,
             one.s[0].port);
    ok(store_open(url, &m, &err));
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    /* They change roles. */
    free(redis_server_ask(&other, 0, "REPLICAOF NO ONE"));
    snprintf(text, sizeof(text), "REPLICAOF 127.0.0.1 %d", other.s[0].port);
    free(redis_server_ask(&one, 0, text));
    ok(put(m, STORE_JOB, "b", "", 2, STORE_NEW, NULL));
    free(redis_server_ask(&one, 0, "REPLICAOF NO ONE"));
    assert_int_equal(value_of(m, STORE_JOB, "b", NULL), 2);
    store_close(&m);
    redis_servers_stop(&other);
}

static void wait_for_replica(struct redis_servers *of, const char *what)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), DLC_SEC(30));
    char *got = redis_server_ask(of, 0, "INFO replication");

    while (strstr(got, what) == NULL) {
        assert_true(dlc_mono_now().ns < until.ns);
        mem_free(&got);
        (void)poll(NULL, 0, 10);
        got = redis_server_ask(of, 0, "INFO replication");
    }
    mem_free(&got);
}

/* A write that no replica has would be lost by a fail-over: it is not confirmed. */
static void test_no_replica_has_it(void **state)
{
    struct redis_servers master, copy;
    struct store *m = NULL;
    uint64_t fence = 0, again = 0;
    char text[100], url[200];
    json_t *events;

    (void)state;
    redis_servers_start_one(&master, NULL);
    redis_servers_start_one(&copy, NULL);
    snprintf(text, sizeof(text), "REPLICAOF 127.0.0.1 %d", master.s[0].port);
    free(redis_server_ask(&copy, 0, text));
    wait_for_replica(&master, "state=online");
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d,127.0.0.1:%d/copies?timeout=2s",
             master.s[0].port, copy.s[0].port);
    ok(store_open(url, &m, &err));
    ok(store_lock(m, "manager", "me", DLC_SEC(60), &fence, &err));
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    for (unsigned gone = 0; gone < 2; gone++) { /* it does not answer; it is not there */
        if (gone)
            redis_server_kill(&copy, 0);
        else
            redis_server_signal(&copy, 0, SIGSTOP);
        assert_int_equal(put(m, STORE_JOB, "b", "", 2, STORE_ANY, NULL), DLC_EBUCKET);
        assert_non_null(strstr(err.text, "no replica"));
        assert_int_equal(store_lock(m, "manager", "me", DLC_SEC(60), &again, &err), DLC_EBUCKET);
        assert_int_equal(store_event(m, "", json_pack("{}"), &err), DLC_EBUCKET);
        /* What is refused was not written, and reads need no replica. */
        assert_int_equal(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL), DLC_EBUSY);
        assert_int_equal(store_lock(m, "manager", "you", DLC_SEC(1), &again, &err), DLC_EBUSY);
        assert_int_equal(value_of(m, STORE_JOB, "a", NULL), 1);
        if (!gone)
            redis_server_signal(&copy, 0, SIGCONT);
        else {
            redis_server_start(&copy, 0);
            free(redis_server_ask(&copy, 0, text));
        }
        wait_for_replica(&copy, "master_link_status:up");
        ok(put(m, STORE_JOB, "b", "", 3, STORE_ANY, NULL));
        ok(store_lock(m, "manager", "me", DLC_SEC(60), &again, &err));
        assert_int_equal(again, fence);
    }
    ok(store_events(m, NULL, 0, 100, &events, &err));
    assert_int_equal(json_array_size(events), 2); /* each attempt found its mark */
    json_decref(events);
    store_close(&m);
    redis_servers_stop(&copy);
    redis_servers_stop(&master);
}

/* A fail-over lost the grant of the leader before, which wrote once more: who has the lock now does
 * not keep a fence with which it cannot write. */
static void test_fence_below_the_written_one(void **state)
{
    struct store *old = open_at(&one, "/below"), *new = open_at(&one, "/below");
    uint64_t fence = 0, again = 0, far;

    (void)state;
    ok(store_lock(new, "manager", "new", DLC_SEC(60), &fence, &err));
    store_set_fence(new, fence);
    ok(put(new, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    far = fence + 1000000000;
    store_set_fence(old, far);
    assert_int_equal(put(new, STORE_JOB, "a", "", 2, STORE_ANY, NULL), DLC_EBUSY);
    ok(store_lock(new, "manager", "new", DLC_SEC(60), &again, &err));
    assert_true(again > far);
    store_set_fence(new, again);
    ok(put(new, STORE_JOB, "a", "", 3, STORE_ANY, NULL));
    assert_int_equal(put(old, STORE_JOB, "a", "", 4, STORE_ANY, NULL), DLC_EBUSY);
    ok(store_lock(new, "manager", "new", DLC_SEC(60), &fence, &err));
    assert_int_equal(fence, again); /* and keeps it */
    store_close(&old);
    store_close(&new);
}

/* Whatever call of the system fails, once, in the middle: a write happens exactly once. */
static void test_faults(void **state)
{
    struct store *m = open_at(&one, "/faults");
    json_t *events;
    uint64_t version = 0;
    int nth = 1;

    (void)state;
    for (bool fired = true; fired; nth++) {
        struct store_chunk c = chunk("d", "n", "k", (uint64_t)nth);
        int rc[4];

        fault_arm(FAULT_SYSCALL, nth);
        rc[0] = put(m, STORE_JOB, "a", "", nth, nth == 1 ? STORE_NEW : STORE_ANY, &version);
        rc[1] = store_event(m, "t", json_pack("{s:i}", "nth", nth), &err);
        rc[2] = store_chunks_put(m, &c, 1, &err);
        rc[3] = store_delete(m, STORE_JOB, "never", STORE_ANY, &err);
        fired = fault_disarm();
        assert_int_equal(rc[0] | rc[1] | rc[2], 0);
        assert_int_equal(rc[3], DLC_ENOTFOUND);
        assert_int_equal(version, nth);
        assert_int_equal(value_of(m, STORE_JOB, "a", NULL), nth);
    }
    assert_true(nth > 8);
    ok(store_events(m, NULL, 0, 1000, &events, &err));
    assert_int_equal(json_array_size(events), nth - 1);
    json_decref(events);
    store_close(&m);
}

/* Under our prefix lies something that is not ours. */
static void test_foreign(void **state)
{
    struct store *m = open_at(&one, "/foreign");
    struct store_doc d;

    (void)state;
    free(redis_server_ask(&one, 0, "SET {foreign}:doc:job:a text"));
    assert_int_equal(store_get(m, STORE_JOB, "a", &d, &err), DLC_EPROTO);
    free(redis_server_ask(&one, 0, "HSET {foreign}:doc:job:b t x v 1 b not-json"));
    assert_int_equal(store_get(m, STORE_JOB, "b", &d, &err), DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "dlcache rebuild"));
    put_chunk(m, "d", "n", "k", 5);
    store_close(&m);
}

static void test_full(void **state)
{
    struct store *m = open_at(&one, "/full");

    (void)state;
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    free(redis_server_ask(&one, 0, "CONFIG SET maxmemory 1"));
    assert_int_equal(put(m, STORE_JOB, "a", "", 2, 1, NULL), DLC_ENOSPACE);
    free(redis_server_ask(&one, 0, "CONFIG SET maxmemory 0"));
    ok(put(m, STORE_JOB, "a", "", 2, 1, NULL));
    store_close(&m);
}

/* Expiry is the server's: a client whose clock runs ahead frees nothing. */
static void test_our_clock_does_not_matter(void **state)
{
    struct store *m = open_at(&one, "/clock");
    uint64_t a, b;

    (void)state;
    ok(store_lock(m, "l", "a", DLC_SEC(600), &a, &err));
    dlc_clock_advance(DLC_SEC(3600));
    assert_int_equal(store_lock(m, "l", "b", DLC_SEC(600), &b, &err), DLC_EBUSY);
    ok(store_unlock(m, "l", "a", &err));
    store_close(&m);
}

/* ---- a Cluster ---- */

static unsigned server_at(int port)
{
    for (unsigned i = 0; i < cluster.n; i++)
        if (cluster.s[i].port == port)
            return i;
    fail_msg("nobody is at %d", port);
    return 0;
}

/* Does a line of CLUSTER NODES ("id host:port@bus flags ... from-to ...") have the slot? */
static bool line_has(char *line, int slot)
{
    char *rest = line, *word;

    for (unsigned i = 0; (word = strsep(&rest, " ")) != NULL; i++) {
        int from, to, n = i < 8 || word[0] == '[' ? 0 : sscanf(word, "%d-%d", &from, &to);

        if ((n == 2 && slot >= from && slot <= to) || (n == 1 && slot == from))
            return true;
    }
    return false;
}

/* Port of the master that has the slot, as server `via` knows it. */
static int owner_of(unsigned via, int slot)
{
    char *text = redis_server_ask(&cluster, via, "CLUSTER NODES"), *rest = text, *line;
    int port = 0;

    while (port == 0 && (line = strsep(&rest, "\n")) != NULL) {
        bool live = strstr(line, "master") != NULL && strstr(line, "fail") == NULL;
        const char *colon = strchr(line, ':');
        int its = colon != NULL ? atoi(colon + 1) : 0;

        if (live && line_has(line, slot))
            port = its;
    }
    mem_free(&text);
    return port;
}

/* How often the server answered so. */
static int errors(unsigned server, const char *word)
{
    char *text = redis_server_ask(&cluster, server, "INFO errorstats"), name[64], *at;
    int n = 0;

    snprintf(name, sizeof(name), "errorstat_%s:count=", word);
    at = strstr(text, name);
    if (at != NULL)
        n = atoi(at + strlen(name));
    mem_free(&text);
    return n;
}

static void test_slots_move(void **state)
{
    struct store *m = open_at(&cluster, "/moving");
    int slot = redis_slot("{moving}", 8);
    unsigned from = server_at(owner_of(0, slot)), to = (from + 1) % 3;
    char *from_id = redis_server_ask(&cluster, from, "CLUSTER MYID");
    char *to_id = redis_server_ask(&cluster, to, "CLUSTER MYID"), *asked;
    struct one_put p = {.m = m, .rc = 1};
    pthread_t thread;
    char text[200];
    int before;

    (void)state;
    assert_true(from < 3);
    snprintf(text, sizeof(text), "CLUSTER SETSLOT %d IMPORTING %s", slot, from_id);
    free(redis_server_ask(&cluster, to, text));
    snprintf(text, sizeof(text), "CLUSTER SETSLOT %d MIGRATING %s", slot, to_id);
    free(redis_server_ask(&cluster, from, text));
    assert_int_equal(value_of(m, STORE_JOB, "nothing", NULL), -1); /* ASK: perhaps it is there */
    assert_int_equal(err.code, DLC_ENOTFOUND);
    asked = redis_server_ask(&cluster, to, "INFO commandstats");
    assert_non_null(strstr(asked, "cmdstat_asking"));
    /* A script with several keys is not run by either until the slot has moved. */
    before = errors(from, "ASK");
    assert_int_equal(pthread_create(&thread, NULL, put_main, &p), 0);
    while (errors(from, "ASK") == before)
        (void)poll(NULL, 0, 1);
    snprintf(text, sizeof(text), "CLUSTER SETSLOT %d NODE %s", slot, to_id);
    free(redis_server_ask(&cluster, to, text));
    free(redis_server_ask(&cluster, from, text));
    pthread_join(thread, NULL);
    if (p.rc != 0)
        fail_msg("%s", p.err.text);
    assert_int_equal(value_of(m, STORE_JOB, "late", NULL), 7);
    assert_int_equal(owner_of(to, slot), cluster.s[to].port);
    mem_free(&asked);
    mem_free(&from_id);
    mem_free(&to_id);
    store_close(&m);
}

struct writer {
    struct store *m;
    _Atomic bool stop;
    _Atomic unsigned done;
    _Atomic int rc;
    struct dlc_err err;
};

static void *writer_main(void *arg)
{
    struct writer *w = arg;

    while (w->rc == 0 && !w->stop) {
        struct store_chunk c[8];
        char keys[8][16];

        for (unsigned i = 0; i < 8; i++) {
            snprintf(keys[i], sizeof(keys[i]), "%u-%u", w->done, i);
            c[i] = chunk("failover", "n", keys[i], 1);
        }
        w->rc = store_chunks_put(w->m, c, 8, &w->err);
        if (w->rc == 0)
            w->rc = store_event(w->m, "", json_pack("{s:i}", "i", (int)w->done), &w->err);
        w->done += w->rc == 0;
    }
    return NULL;
}

/* The master of the documents dies under a writer; its replica takes over; nobody sees an error. */
static void test_fail_over(void **state)
{
    struct writer w = {.m = open_at(&cluster, "/failover?timeout=30s")};
    unsigned victim = server_at(owner_of(0, redis_slot("{failover}", 10))), before;
    pthread_t thread;
    json_t *events;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, writer_main, &w), 0);
    while (w.done < 50 && w.rc == 0)
        (void)poll(NULL, 0, 5);
    redis_server_kill(&cluster, victim);
    before = w.done;
    while (w.done < before + 50 && w.rc == 0)
        (void)poll(NULL, 0, 5);
    w.stop = true;
    pthread_join(thread, NULL);
    if (w.rc != 0)
        fail_msg("%d: %s", w.rc, w.err.text);
    assert_int_not_equal(owner_of((victim + 1) % 3, redis_slot("{failover}", 10)),
                         cluster.s[victim].port);
    ok(store_events(w.m, NULL, 0, 100000, &events, &err));
    assert_int_equal(json_array_size(events), w.done); /* none lost, none twice */
    json_decref(events);
    store_close(&w.m);
    redis_server_start(&cluster, victim);
    redis_servers_wait_ready(&cluster);
}

/* The next manager's fence is larger than all that wrote, also when a fail-over lost the grant. */
static void test_fences_fail_over(void **state)
{
    struct store *old = open_at(&cluster, "/fences?timeout=30s");
    struct store *new = open_at(&cluster, "/fences?timeout=30s");
    unsigned victim = server_at(owner_of(0, redis_slot("{fences}", 8))), heir;
    uint64_t a, b = 0, far;
    char text[100];

    (void)state;
    ok(store_lock(old, "manager", "old", DLC_SEC(2), &a, &err));
    store_set_fence(old, a);
    ok(put(old, STORE_NODE, "n", "", 1, STORE_NEW, NULL)); /* a replica has it */
    redis_server_kill(&cluster, victim);
    while (store_lock(new, "manager", "new", DLC_SEC(60), &b, &err) == DLC_EBUSY)
        (void)poll(NULL, 0, 20);
    assert_true(b > a);
    store_set_fence(new, b);
    assert_int_equal(put(old, STORE_NODE, "n", "", 2, STORE_ANY, NULL), DLC_EBUSY);
    assert_non_null(strstr(err.text, "another manager"));
    ok(put(new, STORE_NODE, "n", "", 3, 1, NULL));
    /* The grant is lost, and the new server's clock is behind that of the old one. */
    heir = server_at(owner_of((victim + 1) % 3, redis_slot("{fences}", 8)));
    far = b + 1000000000;
    snprintf(text, sizeof(text), "SET {fences}:fence %" PRIu64, far);
    free(redis_server_ask(&cluster, heir, text));
    free(redis_server_ask(&cluster, heir, "DEL {fences}:granted {fences}:lock:manager"));
    ok(store_lock(old, "manager", "old", DLC_SEC(60), &a, &err));
    assert_true(a > far);
    store_set_fence(old, a);
    ok(put(old, STORE_NODE, "n", "", 4, STORE_ANY, NULL));
    assert_int_equal(put(new, STORE_NODE, "n", "", 5, STORE_ANY, NULL), DLC_EBUSY);
    store_close(&old);
    store_close(&new);
    redis_server_start(&cluster, victim);
    redis_servers_wait_ready(&cluster);
}

int main(void)
{
    const struct CMUnitTest parsing[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_slots),
    };
    const struct CMUnitTest single[] = {
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_away),
        cmocka_unit_test(test_stalled),
        cmocka_unit_test(test_passwords),
        cmocka_unit_test(test_replica_first),
        cmocka_unit_test(test_no_replica_has_it),
        cmocka_unit_test(test_fence_below_the_written_one),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_our_clock_does_not_matter),
    };
    const struct CMUnitTest several[] = {
        cmocka_unit_test(test_slots_move),
        cmocka_unit_test(test_fail_over),
        cmocka_unit_test(test_fences_fail_over),
    };
    int failed = cmocka_run_group_tests(parsing, NULL, NULL);

    if (redis_servers_exist()) {
        failed += cmocka_run_group_tests(single, start_one, stop_one);
        failed += cmocka_run_group_tests(several, start_cluster, stop_cluster);
    }
    return failed;
}
