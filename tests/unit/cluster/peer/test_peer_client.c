// SPDX-License-Identifier: Apache-2.0
/* Peers against our own server, and against peers that are dead, slow, cut short or refuse. */
#include "cluster/peer/peer_client.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "net/odd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "net/async_server.h"
#include "net/server.h"
#include "unit.h"

#define SNAPSHOT 0x0123456789abcdefu

/* -------- an owner -------- */

/*
 * Sample i of dataset "good" has i bytes, byte j being (i + j) modulo 251. "held" waits until
 * `release` is posted. A number is a status to refuse with.
 */
static struct {
    struct http_server *server;
    char address[64];
    unsigned char bytes[251 + PEERS_SUM_MAX + 1];
    sem_t entered, release;
    _Atomic int given_back, most_at_once, at_once, asked_health;
    _Atomic bool holds_health;
} owner;

static void on_given_back(void *arg)
{
    (void)arg;
    owner.given_back++;
}

static void on_sample(struct http_request *r, struct http_reply *reply, void *ctx)
{
    size_t n = strtoul(r->params[2], NULL, 10);
    int status = atoi(r->params[0]), now = ++owner.at_once;

    (void)ctx;
    if (now > owner.most_at_once)
        owner.most_at_once = now;
    assert_string_equal(r->params[1], "0123456789abcdef");
    if (strcmp(r->params[0], "held") == 0) {
        sem_post(&owner.entered);
        sem_wait(&owner.release);
    }
    owner.at_once--;
    if (strcmp(r->params[0], "ending") == 0) {
        http_problem(reply, 503, "Not now", "the node is ending");
        http_reply_header(reply, "Retry-After", "1");
        return;
    }
    if (status > 0) {
        http_problem(reply, status, "No", "not for you");
        return;
    }
    if (strcmp(r->params[0], "token") == 0 && (r->token == NULL || strcmp(r->token, "t0k") != 0)) {
        http_problem(reply, 401, "No", "no token");
        return;
    }
    reply->data = owner.bytes + n % 251;
    reply->data_len = strcmp(r->params[0], "long") == 0 ? n + 1 : n;
    reply->done = on_given_back;
    http_reply_header(reply, "Dlcache-From", "%s", n % 2 == 0 ? "memory" : "disk");
    if (strcmp(r->params[0], "unsummed") != 0)
        http_reply_header(reply, "Dlcache-Checksum", "%016llx",
                          (unsigned long long)hash64(reply->data, reply->data_len) ^
                              (strcmp(r->params[0], "corrupt") == 0));
}

static void on_health(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    owner.asked_health++;
    if (owner.holds_health) {
        sem_post(&owner.entered);
        sem_wait(&owner.release);
    }
    reply->body = json_pack("{s:s}", "status", "ok");
}

static void owner_open(void)
{
    static const struct http_route routes[] = {
        {"GET", "/v1/health", 0, on_health},
        {"GET", "/v1/peer/{dataset}/{snapshot}/samples/{i}", 0, on_sample},
        {NULL, NULL, 0, NULL},
    };
    struct http_server_config c = {.address = "127.0.0.1:0", .routes = routes};
    struct dlc_err err;

    for (size_t i = 0; i < sizeof(owner.bytes); i++)
        owner.bytes[i] = (unsigned char)(i % 251);
    sem_init(&owner.entered, 0, 0);
    sem_init(&owner.release, 0, 0);
    owner.given_back = owner.most_at_once = owner.at_once = owner.asked_health = 0;
    owner.holds_health = false;
    if (http_server_open(&c, &owner.server, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(owner.address, sizeof(owner.address), "http://%s", http_server_address(owner.server));
}

static void owner_close(void)
{
    http_server_close(&owner.server);
    sem_destroy(&owner.entered);
    sem_destroy(&owner.release);
}

/* -------- questions -------- */

struct question {
    struct peer_read r;
    sem_t done;
    _Atomic int times;
    struct peers *again; /* ask these once more from inside done() */
};

static void on_done(struct peer_read *r)
{
    struct question *q = r->priv;
    struct peers *again = q->again;

    q->times++;
    q->again = NULL;
    if (again != NULL)
        peers_read(again, r);
    else
        sem_post(&q->done);
}

static void ask(struct peers *p, struct question *q, const char *address, const char *dataset,
                uint64_t length)
{
    *q = (struct question){.r = {.peer = "one",
                                 .address = address,
                                 .token = "t0k",
                                 .dataset = dataset,
                                 .snapshot = SNAPSHOT,
                                 .sample = length,
                                 .dst = mem_alloc(length),
                                 .length = length,
                                 .done = on_done,
                                 .priv = q}};
    sem_init(&q->done, 0, 0);
    peers_read(p, &q->r);
}

static int await(struct question *q)
{
    sem_wait(&q->done);
    if (q->r.rc == 0) {
        for (size_t j = 0; j < q->r.length; j++)
            assert_int_equal(((unsigned char *)q->r.dst)[j], (q->r.sample % 251 + j) % 251);
    } else {
        assert_non_null(strstr(q->r.err.text, "one"));
        assert_null(strstr(q->r.err.text, "t0k"));
    }
    sem_destroy(&q->done);
    mem_free(&q->r.dst);
    return q->r.rc;
}

static int ask_wait(struct peers *p, const char *address, const char *dataset, uint64_t length)
{
    struct question q;

    ask(p, &q, address, dataset, length);
    return await(&q);
}

static struct peers *peers_like(struct peers_config c)
{
    struct dlc_err err;
    struct peers *p = peers_new(&c, &err);

    if (p == NULL)
        fail_msg("%s", err.text);
    return p;
}

static struct peer_figures figures(struct peers *p)
{
    struct peer_figures f[2];

    assert_int_equal(peers_figures(p, f, 2), 1);
    assert_string_equal(f[0].peer, "one");
    return f[0];
}

static void test_samples_come(void **state)
{
    static const uint64_t sizes[] = {0, 1, 250, 251, 1000, 65536, 100001, 1 << 20};
    struct peers *p = peers_like((struct peers_config){0});
    struct question q;

    (void)state;
    owner_open();
    for (size_t i = 0; i < unit_count(sizes); i++) {
        ask(p, &q, owner.address, "good", sizes[i]);
        assert_int_equal(await(&q), 0);
        assert_int_equal(q.r.from_memory, sizes[i] % 2 == 0);
        assert_true(q.r.took.ns > 0);
    }
    assert_int_equal(ask_wait(p, owner.address, "token", 5), 0);
    assert_int_equal(figures(p).reads, unit_count(sizes) + 1);
    assert_int_equal(figures(p).failures, 0);
    assert_true(figures(p).p99_ms > 0);
    peers_free(&p);
    owner_close();
    assert_int_equal(owner.given_back, unit_count(sizes) + 1);
}

static void test_many_at_once(void **state)
{
    static struct question q[500];
    struct peers *p = peers_like((struct peers_config){.connections = 8});

    (void)state;
    owner_open();
    for (size_t i = 0; i < unit_count(q); i++)
        ask(p, &q[i], owner.address, "good", 1000 + i * 37);
    for (size_t i = 0; i < unit_count(q); i++)
        assert_int_equal(await(&q[i]), 0);
    assert_in_range(owner.most_at_once, 1, 8);
    peers_free(&p);
    owner_close();
}

static void test_refusals(void **state)
{
    static const struct {
        const char *dataset;
        int rc;
    } table[] = {
        {"401", DLC_EDENIED}, {"403", DLC_EDENIED},  {"404", DLC_ENOTFOUND}, {"409", DLC_ECHANGED},
        {"503", DLC_EBUCKET}, {"500", DLC_EBUCKET},  {"400", DLC_EBUCKET},   {"504", DLC_ETIMEDOUT},
        {"long", DLC_EPROTO}, {"507", DLC_ENOSPACE},
    };

    (void)state;
    owner_open();
    for (size_t i = 0; i < unit_count(table); i++) {
        struct peers *p = peers_like((struct peers_config){0});

        assert_int_equal(ask_wait(p, owner.address, table[i].dataset, 10), table[i].rc);
        assert_int_equal(figures(p).failures, 1);
        assert_int_equal(ask_wait(p, owner.address, "good", 10), 0);
        peers_free(&p);
    }
    owner_close();
}

static void test_refusing_is_no_illness(void **state)
{
    struct peers *p = peers_like((struct peers_config){0});

    (void)state;
    owner_open();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ask_wait(p, owner.address, "409", 10), DLC_ECHANGED);
        assert_int_equal(ask_wait(p, owner.address, "507", 10), DLC_ENOSPACE);
    }
    assert_true(peers_usable(p, "one", owner.address));
    peers_free(&p);
    owner_close();
}

/* A sample is not taken without its checksum, nor with another one; that is the peer's failure. */
static void test_checksums(void **state)
{
    struct peers *p = peers_like((struct peers_config){0});
    struct question q;

    (void)state;
    owner_open();
    ask(p, &q, owner.address, "good", 1000);
    assert_int_equal(await(&q), 0);
    assert_true(q.r.verified && !q.r.mismatch);
    assert_int_equal(q.r.checksum, hash64(owner.bytes + 1000 % 251, 1000));
    ask(p, &q, owner.address, "corrupt", 1000);
    assert_int_equal(await(&q), DLC_ECORRUPT);
    assert_true(!q.r.verified && q.r.mismatch);
    assert_non_null(strstr(q.r.err.text, "checksum"));
    ask(p, &q, owner.address, "unsummed", 1000);
    assert_int_equal(await(&q), DLC_EPROTO);
    assert_false(q.r.verified || q.r.mismatch);
    assert_int_equal(figures(p).failures, 2);
    assert_int_equal(figures(p).reads, 1);
    assert_true(peers_usable(p, "one", owner.address));
    assert_int_equal(ask_wait(p, owner.address, "corrupt", 10), DLC_ECORRUPT);
    assert_false(peers_usable(p, "one", owner.address));
    peers_free(&p);
    owner_close();
}

/* Up to PEERS_SUM_MAX bytes are compared on the thread that serves all peers, longer samples by the
 * caller, who says when they were wrong. */
static void test_checksums_of_long_samples(void **state)
{
    struct peers *p = peers_like((struct peers_config){0});
    struct question q;

    (void)state;
    owner_open();
    ask(p, &q, owner.address, "corrupt", PEERS_SUM_MAX);
    assert_int_equal(await(&q), DLC_ECORRUPT);
    assert_int_equal(figures(p).failures, 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(peers_usable(p, "one", owner.address));
        ask(p, &q, owner.address, "corrupt", PEERS_SUM_MAX + 1);
        assert_int_equal(await(&q), 0);
        assert_true(!q.r.verified && !q.r.mismatch);
        assert_int_equal(q.r.checksum, 1 ^ hash64(owner.bytes + q.r.sample % 251, q.r.length));
        peers_verified(p, &q.r, i == 0);
        assert_int_equal(figures(p).failures, 1 + i);
    }
    assert_false(peers_usable(p, "one", owner.address)); /* three in a row, after a good one */
    q.r.address = "http://elsewhere:1";
    peers_verified(p, &q.r, true);
    assert_false(peers_usable(p, "one", owner.address));
    peers_free(&p);
    owner_close();
}

static void test_bad_answers(void **state)
{
    static const struct {
        const char *answer;
        int rc;
    } table[] = {
        {"", DLC_EBUCKET},
        {"nonsense", DLC_EBUCKET},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", DLC_ECORRUPT},
        {"HTTP/1.1 200 OK\r\n\r\nshort", DLC_ECORRUPT},
        {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfar too long", DLC_EPROTO},
        {"HTTP/1.1 200 OK\r\n\r\nmuch too long, and without a length", DLC_EPROTO},
        {"HTTP/1.1 206 OK\r\nContent-Length: 10\r\n\r\n0123456789", DLC_EPROTO},
        {"HTTP/1.1 302 No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
         DLC_EBUCKET},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        struct peers *p = peers_like((struct peers_config){0});
        struct question q;
        struct odd o;
        int rc;

        odd_open(&o, table[i].answer);
        ask(p, &q, o.base, "good", 10);
        rc = await(&q);
        if (rc != table[i].rc)
            fail_msg("%d (%s) instead of %d for %s", rc, q.r.err.text, table[i].rc,
                     table[i].answer);
        peers_free(&p);
        odd_close(&o);
    }
}

static void test_a_dead_peer_is_left_alone(void **state)
{
    struct peers *p = peers_like((struct peers_config){0});
    char dead[64];

    (void)state;
    odd_dead(dead);
    owner_open();
    for (int i = 0; i < 3; i++) {
        assert_true(peers_usable(p, "one", dead));
        assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EBUCKET);
    }
    assert_false(peers_usable(p, "one", dead));
    assert_true(figures(p).skipping);
    assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EMISS);
    assert_int_equal(figures(p).skipped, 1);
    dlc_clock_advance(DLC_MS(1100));
    assert_true(peers_usable(p, "one", dead));
    assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EMISS); /* it is asked how it is */
    dlc_clock_advance(DLC_MS(1100));
    assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EMISS); /* two seconds this time */
    assert_true(peers_usable(p, "one", owner.address));
    assert_int_equal(ask_wait(p, owner.address, "good", 10), 0); /* back, elsewhere: at once */
    assert_false(figures(p).skipping);
    peers_free(&p);
    owner_close();
}

/* A peer that is restarted: it says that it ends, or its process is not there. Others are ill. */
static void test_a_peer_leaves_and_is_back(void **state)
{
    struct peers_config c = {.least = DLC_SEC(10), .most = DLC_SEC(10)};
    struct peers *p = peers_new(&c, NULL);
    struct dlc_mono since = {0}, first;
    char dead[64];

    (void)state;
    owner_open();
    assert_false(peers_left(p, "one", owner.address, &since)); /* nobody asked */
    assert_int_equal(ask_wait(p, owner.address, "503", 10), DLC_EBUCKET);
    assert_false(peers_left(p, "one", owner.address, &since)); /* not now: no reason to wait */
    assert_int_equal(ask_wait(p, owner.address, "ending", 10), DLC_EBUCKET);
    assert_true(peers_left(p, "one", owner.address, &since));
    assert_false(peers_left(p, "one", "http://127.0.0.1:1", &first)); /* it was not asked there */
    assert_int_equal(ask_wait(p, owner.address, "good", 10), 0);
    assert_false(peers_left(p, "one", owner.address, &since));
    owner_close();
    odd_dead(dead);
    assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EBUCKET);
    assert_true(peers_left(p, "one", dead, &first));
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EBUCKET);
    assert_true(peers_left(p, "one", dead, &since));
    assert_int_equal(since.ns, first.ns);
    assert_false(peers_usable(p, "one", dead));
    peers_is_back(p, "one"); /* the view says so */
    peers_is_back(p, "nobody");
    assert_false(peers_left(p, "one", dead, &since));
    assert_true(peers_usable(p, "one", dead));
    peers_free(&p);
}

/* One that ends cuts connections, some before it has read what was asked: that is no illness. */
static void test_a_peer_that_cuts_has_left(void **state)
{
    static const struct {
        const char *answer;
        bool left;
    } table[] = {
        {"", true},
        {"HTTP/1.1 200 OK\r\nContent-Le", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", true},
        {"nonsense", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfar too long", false},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        struct peers *p = peers_like((struct peers_config){0});
        struct dlc_mono since;
        struct odd o;

        odd_open(&o, table[i].answer);
        assert_int_not_equal(ask_wait(p, o.base, "good", 10), 0);
        if (peers_left(p, "one", o.base, &since) != table[i].left)
            fail_msg("not as expected: %s", table[i].answer);
        peers_free(&p);
        odd_close(&o);
    }
}

/* Somebody waits for it: it is asked how it is, once at a time, and has not left when it answers. */
static void test_a_peer_is_looked_for(void **state)
{
    struct peers_config c = {.least = DLC_SEC(10), .most = DLC_SEC(10)};
    struct peers *p = peers_new(&c, NULL);
    struct dlc_mono since;

    (void)state;
    owner_open();
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask_wait(p, owner.address, "ending", 10), DLC_EBUCKET);
    assert_false(peers_usable(p, "one", owner.address));
    owner.holds_health = true;
    peers_look(p, "one", owner.address);
    sem_wait(&owner.entered);
    peers_look(p, "one", owner.address); /* that is under way */
    assert_true(peers_left(p, "one", owner.address, &since));
    owner.holds_health = false;
    sem_post(&owner.release);
    while (peers_left(p, "one", owner.address, &since))
        sched_yield();
    assert_true(peers_usable(p, "one", owner.address));
    peers_look(p, "one", owner.address); /* it has not left */
    peers_look(p, "nobody", owner.address);
    assert_int_equal(ask_wait(p, owner.address, "good", 10), 0);
    assert_int_equal(owner.asked_health, 1);
    peers_free(&p);
    owner_close();
}

/* As often as it takes: its pause does not grow by that. */
static void test_a_peer_is_looked_for_in_vain(void **state)
{
    struct peers *p = peers_like((struct peers_config){0});
    struct dlc_mono since;
    char dead[64];

    (void)state;
    odd_dead(dead);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask_wait(p, dead, "good", 10), DLC_EBUCKET);
    for (int i = 0; i < 100; i++) {
        peers_look(p, "one", dead);
        sched_yield();
    }
    assert_true(peers_left(p, "one", dead, &since));
    dlc_clock_advance(DLC_MS(1100));
    assert_true(peers_usable(p, "one", dead)); /* the first pause is a second */
    peers_look(p, "one", dead);
    peers_free(&p); /* perhaps while it is asked */
}

static void until_usable(struct peers *p)
{
    struct dlc_mono begin = dlc_mono_now();

    while (!peers_usable(p, "one", owner.address)) {
        assert_true(dlc_mono_since(begin).ns < DLC_SEC(20).ns);
        sched_yield();
    }
}

/* No sample waits for a peer that failed before: it is asked how it is. */
static void test_a_peer_that_answers_again(void **state)
{
    struct peers *p = peers_like((struct peers_config){.most = DLC_SEC(30)});

    (void)state;
    owner_open();
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask_wait(p, owner.address, "500", 10), DLC_EBUCKET);
    assert_false(peers_usable(p, "one", owner.address));
    dlc_clock_advance(DLC_MS(1100));
    assert_true(peers_usable(p, "one", owner.address));
    owner.holds_health = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask_wait(p, owner.address, "good", 10), DLC_EMISS);
    sem_wait(&owner.entered);
    assert_false(peers_usable(p, "one", owner.address));
    sem_post(&owner.release);
    until_usable(p);
    assert_int_equal(owner.asked_health, 1);
    assert_int_equal(ask_wait(p, owner.address, "500", 10), DLC_EBUCKET); /* it lives: no more */
    assert_false(peers_usable(p, "one", owner.address));
    dlc_clock_advance(DLC_MS(1100));
    assert_false(peers_usable(p, "one", owner.address)); /* two seconds this time */
    dlc_clock_advance(DLC_MS(1000));
    owner.holds_health = false;
    assert_int_equal(ask_wait(p, owner.address, "good", 10), DLC_EMISS);
    until_usable(p);
    assert_int_equal(ask_wait(p, owner.address, "good", 10), 0);
    assert_int_equal(ask_wait(p, owner.address, "500", 10), DLC_EBUCKET);
    assert_true(peers_usable(p, "one", owner.address)); /* well: three are needed again */
    peers_free(&p);
    owner_close();
}

static void test_closing_while_it_is_asked(void **state)
{
    struct peers *p = peers_like((struct peers_config){.most = DLC_SEC(30)});

    (void)state;
    owner_open();
    for (int i = 0; i < 3; i++)
        ask_wait(p, owner.address, "500", 10);
    dlc_clock_advance(DLC_MS(1100));
    owner.holds_health = true;
    assert_int_equal(ask_wait(p, owner.address, "good", 10), DLC_EMISS);
    sem_wait(&owner.entered);
    peers_free(&p);
    sem_post(&owner.release);
    owner_close();
}

/* What was asked of a peer before it moved says nothing of where it is now. */
static void test_a_late_failure_at_the_old_address(void **state)
{
    struct peers *p = peers_like((struct peers_config){.most = DLC_MS(150)});
    struct question q[4];
    struct odd o;

    (void)state;
    odd_open(&o, NULL); /* it never answers */
    owner_open();
    for (int i = 0; i < 4; i++)
        ask(p, &q[i], o.base, "good", 10);
    assert_int_equal(ask_wait(p, owner.address, "good", 10), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(await(&q[i]), DLC_ETIMEDOUT);
    assert_true(peers_usable(p, "one", owner.address));
    assert_false(figures(p).skipping);
    assert_int_equal(figures(p).failures, 4);
    peers_free(&p);
    odd_close(&o);
    owner_close();
}

static void test_silence_is_given_up(void **state)
{
    struct peers *p = peers_like((struct peers_config){.least = DLC_MS(20), .most = DLC_MS(150)});
    struct odd silent;
    struct question q;

    (void)state;
    odd_open(&silent, NULL);
    ask(p, &q, silent.base, "good", 10);
    assert_int_equal(await(&q), DLC_ETIMEDOUT);
    assert_in_range(q.r.took.ns, DLC_MS(149).ns, DLC_SEC(5).ns);
    peers_free(&p);
    odd_close(&silent);
}

static void test_an_answer_that_stands_still_is_given_up(void **state)
{
    struct peers *p = peers_like((struct peers_config){.least = DLC_MS(20), .most = DLC_MS(150)});
    struct odd o;

    (void)state;
    odd_open(&o, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
    o.stays = true;
    assert_int_equal(ask_wait(p, o.base, "good", 10), DLC_ETIMEDOUT);
    peers_free(&p);
    odd_close(&o);
}

/* The server of real owners: it says by itself that a call is at work. */
static struct {
    struct async_server *server;
    struct async_call *working; /* the one that is not answered */
    sem_t entered;
} real;

static void answer_sample(struct async_call *call)
{
    static const unsigned char ten[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    struct http_reply reply = {.data = ten, .data_len = sizeof(ten)};

    http_reply_header(&reply, "Dlcache-Checksum", "%016llx",
                      (unsigned long long)hash64(reply.data, reply.data_len));
    async_answer(call, &reply);
}

static void on_real_sample(struct async_call *call, const struct http_request *r, void *ctx)
{
    (void)ctx;
    if (strcmp(r->params[0], "working") != 0) {
        answer_sample(call);
        return;
    }
    real.working = call;
    sem_post(&real.entered);
}

/* The time that an owner says it is at work does not count. */
static void test_an_owner_at_work(void **state)
{
    static const struct async_route routes[] = {
        {"/v1/peer/{dataset}/{snapshot}/samples/{i}", on_real_sample}, {NULL, NULL}};
    struct async_server_config c = {.address = "127.0.0.1:0", .routes = routes};
    struct peers *p = peers_like((struct peers_config){.least = DLC_MS(200), .most = DLC_SEC(20)});
    struct dlc_mono from;
    struct question q;
    char address[64];

    (void)state;
    sem_init(&real.entered, 0, 0);
    assert_int_equal(async_server_open(&c, &real.server, NULL), 0);
    snprintf(address, sizeof(address), "http://%s", async_server_address(real.server));
    for (int i = 0; i < 100; i++) /* patience is `least` from now on */
        assert_int_equal(ask_wait(p, address, "good", 10), 0);
    from = dlc_mono_now();
    ask(p, &q, address, "working", 10);
    sem_wait(&real.entered);
    while (dlc_mono_since(from).ns < DLC_MS(700).ns)
        assert_int_equal(q.times, 0);
    answer_sample(real.working);
    assert_int_equal(await(&q), 0);
    peers_free(&p);
    async_server_close(&real.server);
    sem_destroy(&real.entered);
}

/* Patience is short when answers were quick. */
static void test_patience(void **state)
{
    struct peers *p = peers_like((struct peers_config){.least = DLC_MS(100), .most = DLC_SEC(20)});
    struct dlc_mono from;
    struct question q;

    (void)state;
    owner_open();
    for (int i = 0; i < 100; i++)
        assert_int_equal(ask_wait(p, owner.address, "good", 1000), 0);
    from = dlc_mono_now();
    ask(p, &q, owner.address, "held", 10); /* it says nothing */
    assert_int_equal(await(&q), DLC_ETIMEDOUT);
    assert_true(dlc_mono_since(from).ns < DLC_SEC(15).ns);
    sem_post(&owner.release);
    peers_free(&p);
    owner_close();
}

static void test_closing_ends_all(void **state)
{
    static struct question q[40];
    struct peers *p = peers_like((struct peers_config){.connections = 4, .most = DLC_SEC(30)});

    (void)state;
    owner_open();
    for (size_t i = 0; i < unit_count(q); i++) {
        ask(p, &q[i], owner.address, "held", 10);
        if (i % 5 == 0)
            q[i].again = p;
    }
    for (int i = 0; i < 4; i++)
        sem_wait(&owner.entered);
    peers_free(&p);
    for (size_t i = 0; i < unit_count(q); i++) {
        assert_int_equal(await(&q[i]), DLC_ECANCELED);
        assert_int_equal(q[i].times, i % 5 == 0 ? 2 : 1);
    }
    for (int i = 0; i < 4; i++)
        sem_post(&owner.release);
    owner_close();
}

static void test_odd_questions(void **state)
{
    struct peers *p = peers_like((struct peers_config){0});

    (void)state;
    owner_open();
    assert_int_equal(ask_wait(p, "http://127.0.0.1:1\r\nX: y", "good", 10), DLC_EINVAL);
    assert_int_equal(ask_wait(p, "ftp://127.0.0.1", "good", 10), DLC_EBUCKET);
    assert_int_equal(ask_wait(p, owner.address, "a/../b", 10), DLC_EBUCKET);
    assert_true(peers_usable(p, "nobody ever heard of", "http://x"));
    peers_free(&p);
    owner_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_come),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refusing_is_no_illness),
        cmocka_unit_test(test_checksums),
        cmocka_unit_test(test_checksums_of_long_samples),
        cmocka_unit_test(test_bad_answers),
        cmocka_unit_test(test_a_dead_peer_is_left_alone),
        cmocka_unit_test(test_a_peer_that_cuts_has_left),
        cmocka_unit_test(test_a_peer_is_looked_for),
        cmocka_unit_test(test_a_peer_is_looked_for_in_vain),
        cmocka_unit_test(test_a_peer_leaves_and_is_back),
        cmocka_unit_test(test_a_peer_that_answers_again),
        cmocka_unit_test(test_closing_while_it_is_asked),
        cmocka_unit_test(test_a_late_failure_at_the_old_address),
        cmocka_unit_test(test_silence_is_given_up),
        cmocka_unit_test(test_an_answer_that_stands_still_is_given_up),
        cmocka_unit_test(test_an_owner_at_work),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_closing_ends_all),
        cmocka_unit_test(test_odd_questions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
