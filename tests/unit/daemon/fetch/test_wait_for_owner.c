// SPDX-License-Identifier: Apache-2.0
/* Nodes that are restarted: who waits for them, for how long, and whom they ask meanwhile. */
#include "daemon/played.h"

#include <poll.h>

#include "base/counters.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/session.h"
#include "net/server.h"

#define N 40u

static struct node n;
static struct dataset *ds;

/* Node b, or c: what it has has 'p' in every byte. */
static struct {
    struct http_server *server;
    char address[64];
    unsigned char bytes[PARTS_SIZE];
    _Atomic unsigned asked, asked_for_copies;
    _Atomic bool has, ends;
    _Atomic bool has_for_owner; /* it has what it is asked for as the owner */
} other;

static void on_sample(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    other.asked++;
    other.asked_for_copies += strcmp(http_query(r, "cached"), "1") == 0;
    if (other.ends) {
        http_problem(reply, 503, "Not now", "the node is ending");
        http_reply_header(reply, "Retry-After", "1");
        return;
    }
    if (!other.has && !(other.has_for_owner && strcmp(http_query(r, "cached"), "1") != 0)) {
        http_problem(reply, 404, "No", "it is not here");
        return;
    }
    reply->data = other.bytes;
    reply->data_len = sizeof(other.bytes);
    http_reply_header(reply, "Dlcache-Checksum", "%016llx",
                      (unsigned long long)hash64(reply->data, reply->data_len));
}

static void on_health(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    if (other.ends)
        http_problem(reply, 503, "Not now", "the node is ending");
    else
        reply->body = json_pack("{s:s}", "status", "ok");
}

static void other_open(void)
{
    static const struct http_route routes[] = {
        {"GET", "/v1/health", 0, on_health},
        {"GET", "/v1/peer/{dataset}/{snapshot}/samples/{i}", 0, on_sample},
        {NULL, NULL, 0, NULL},
    };
    struct http_server_config c = {.address = "127.0.0.1:0", .routes = routes};
    struct dlc_err err;

    memset(other.bytes, 'p', sizeof(other.bytes));
    other.asked = other.asked_for_copies = 0;
    other.has = true;
    other.ends = other.has_for_owner = false;
    if (http_server_open(&c, &other.server, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(other.address, sizeof(other.address), "http://%s", http_server_address(other.server));
}

/* b's state, if it has a disk, and if c is there, too: both are at the same address. */
static void view(const char *state, bool disk, bool with_c)
{
    static int version;
    json_t *v = json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}, {s:s, s:s, s:i, s:s, s:b}]}", "version",
                          ++version, "nodes", "name", "a", "address", "http://127.0.0.1:1",
                          "weight", 1, "state", "live", "name", "b", "address", other.address,
                          "weight", 2, "state", state, "disk", disk);

    if (with_c)
        json_array_append_new(json_object_get(v, "nodes"),
                              json_pack("{s:s, s:s, s:i, s:s}", "name", "c", "address",
                                        other.address, "weight", 1, "state", "live"));
    assert_int_equal(cluster_take_view(n.cluster, v, NULL), 0);
    json_decref(v);
}

static int set_up(void **state)
{
    static const struct fetch_source *const sources[] = {&fetch_from_peer, &fetch_wait_for_owner,
                                                         &played_source};
    struct peers_config pc = {.least = DLC_SEC(30), .most = DLC_SEC(30)};

    (void)state;
    played_open(&n, (uint64_t)64 << 20);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, sources, 3, prefetch_pump);
    played.at_once = true; /* the bucket */
    n.events[0] = &ownership_events;
    n.cluster = cluster_new("a");
    n.peers = peers_new(&pc, NULL);
    other_open();
    ds = played_dataset(&n, "a", N);
    parts_belongs(ds, "train", "ann");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    peers_free(&n.peers);
    http_server_close(&other.server);
    played_close(&n);
    cluster_free(&n.cluster);
    return 0;
}

/* A sample that b owns if it is live. */
static uint64_t of_b(bool with_c)
{
    struct owner_absence o;
    uint64_t sample = 0;

    view("away", true, with_c);
    while (sample < N && !dataset_owner_is_absent(ds, sample, &o))
        sample++;
    assert_true(sample < N);
    return sample;
}

static void pass(struct dlc_dur d)
{
    dlc_clock_advance(d);
    for (int i = 0; i < 5; i++)
        played_turn(&n);
}

static bool has(uint64_t sample)
{
    return mem_index_ready(ds->index, sample);
}

static void await_sample(uint64_t sample)
{
    for (unsigned i = 0; i < 20000 && !has(sample); i++) {
        dlc_clock_advance(DLC_MS(1));
        played_turn(&n);
        poll(NULL, 0, 1);
    }
    assert_true(has(sample));
}

/* True: it came from a peer. */
static bool is_of_peer(uint64_t sample)
{
    uint64_t len;
    const unsigned char *p = memory_hold(n.own_memory->memory, ds->index, sample, &len);
    bool is = p != NULL && p[0] == 'p';

    memory_unhold(n.own_memory->memory, ds->index, sample);
    return is;
}

static void prefetch(uint64_t sample)
{
    fetch_start(ds, sample, FETCH_MEMORY, NULL, NULL);
}

static int answers;

static void on_answer(struct waiter *w, int rc, const char *text)
{
    (void)w;
    (void)text;
    assert_int_equal(rc, 0);
    answers++;
}

static void read_it(struct waiter *w, uint64_t sample)
{
    *w = (struct waiter){.done = on_answer};
    dlc_list_init(&w->of_fetch);
    dlc_list_init(&w->of_session);
    answers = 0;
    fetch_start(ds, sample, FETCH_MEMORY, w, NULL);
}

static void an_owner_comes_back(void **state)
{
    uint64_t sample = of_b(false), waits = counters.owner_waits;

    (void)state;
    prefetch(sample);
    pass(DLC_SEC(10));
    assert_false(has(sample));
    assert_int_equal(counters.owner_waits, waits + 1);
    view("live", true, false);
    await_sample(sample);
    assert_true(is_of_peer(sample));
    assert_int_equal(other.asked_for_copies, 0); /* as its owner */
    assert_int_equal(played.n_asked, 0);
}

/* (WAIT-OWNER-1) A reader waits for 5 s after the goodbye, a prefetch for 20. */
static void an_owner_stays_away(void **state)
{
    uint64_t sample = of_b(false), second = sample + 1;
    struct owner_absence o;
    struct waiter w;

    (void)state;
    while (!dataset_owner_is_absent(ds, second, &o))
        second++;
    pass(DLC_SEC(3));
    prefetch(sample);
    prefetch(second);
    pass(DLC_MS(1000));
    read_it(&w, sample);
    pass(DLC_MS(800));
    assert_int_equal(answers, 0);
    pass(DLC_MS(400));
    await_sample(sample);
    assert_int_equal(answers, 1);
    assert_false(is_of_peer(sample));
    assert_int_equal(played.n_asked, 1);
    pass(DLC_SEC(14));
    assert_false(has(second));
    pass(DLC_SEC(2));
    await_sample(second);
    assert_int_equal(played.n_asked, 2);
    memory_evict(n.own_memory->memory, ds->index, sample);
    prefetch(sample); /* it has been away for too long: nobody waits any more */
    await_sample(sample);
    assert_int_equal(other.asked, 0);
}

/* Others are asked for a copy, and not to read the bucket for us. */
static void others_have_copies(void **state)
{
    uint64_t sample = of_b(true);

    (void)state;
    prefetch(sample);
    await_sample(sample);
    assert_true(is_of_peer(sample));
    assert_int_equal(other.asked_for_copies, 1);
    memory_evict(n.own_memory->memory, ds->index, sample);
    other.has = false;
    prefetch(sample);
    for (int i = 0; i < 20000 && other.asked < 2; i++) {
        played_turn(&n);
        poll(NULL, 0, 1);
    }
    pass(DLC_SEC(1));
    assert_false(has(sample));
    assert_int_equal(other.asked_for_copies, 2);
    assert_int_equal(played.n_asked, 0);
    pass(DLC_SEC(20));
    await_sample(sample);
}

/* A node that ends, before the view tells: 2.5 s, if it has a disk. */
static void an_owner_ends(void **state)
{
    uint64_t sample = of_b(false);

    (void)state;
    other.ends = true;
    view("live", false, false);
    prefetch(sample);
    await_sample(sample);
    assert_int_equal(played.n_asked, 1); /* its memory goes with it */
    memory_evict(n.own_memory->memory, ds->index, sample);
    view("away", true, false);
    view("live", true, false);
    peers_is_back(n.peers, "b");
    prefetch(sample);
    for (int i = 0; i < 20000 && other.asked < 2; i++) {
        played_turn(&n);
        poll(NULL, 0, 1);
    }
    pass(DLC_MS(1000));
    assert_false(has(sample));
    peers_is_back(n.peers, "b");
    other.ends = false;
    await_sample(sample);
    assert_true(is_of_peer(sample));
    memory_evict(n.own_memory->memory, ds->index, sample);
    other.ends = true;
    prefetch(sample);
    for (int i = 0; i < 20000 && other.asked < 4; i++) {
        played_turn(&n);
        poll(NULL, 0, 1);
    }
    pass(DLC_SEC(3));
    await_sample(sample);
    assert_int_equal(played.n_asked, 2);
}

/* It is back at the same address before any view has told of its goodbye. */
static void an_owner_is_back_unheard(void **state)
{
    uint64_t sample = of_b(false), waits = counters.owner_waits;

    (void)state;
    other.ends = true;
    view("live", true, false);
    prefetch(sample);
    for (int i = 0; i < 20000 && counters.owner_waits == waits; i++) {
        played_turn(&n);
        poll(NULL, 0, 1);
    }
    other.ends = false;
    await_sample(sample);
    assert_true(is_of_peer(sample));
    assert_int_equal(played.n_asked, 0);
}

/* It is back while another peer is asked for a copy in its place. */
static void an_owner_comes_back_meanwhile(void **state)
{
    uint64_t sample = of_b(true);

    (void)state;
    other.has = false;
    prefetch(sample);
    view("live", true, true);
    other.has_for_owner = true;
    await_sample(sample);
    assert_true(is_of_peer(sample));
    assert_int_equal(other.asked_for_copies, 1);
    assert_int_equal(played.n_asked, 0);
}

/* (WAIT-OWNER-3) Others find it well each time. */
static void an_owner_ends_whenever_it_is_asked(void **state)
{
    uint64_t sample = of_b(false), waits = counters.owner_waits;

    (void)state;
    other.ends = true;
    view("live", true, false);
    prefetch(sample);
    for (unsigned i = 0; i < 20000 && !has(sample); i++) {
        if (counters.owner_waits != waits)
            peers_is_back(n.peers, "b");
        waits = counters.owner_waits;
        dlc_clock_advance(DLC_MS(10));
        played_turn(&n);
        poll(NULL, 0, 1);
    }
    assert_true(has(sample));
    assert_int_equal(played.n_asked, 1);
    assert_in_range(other.asked, 3, 12);
}

/* (WAIT-OWNER-2) A peer waits itself, and is told so if we do; who bypasses the cache does not. */
static void some_do_not_wait(void **state)
{
    uint64_t sample = of_b(false);
    struct waiter w = {.done = on_answer};

    (void)state;
    fetch_ahead(&(struct session){.ds = ds, .bypasses_cache = true}, sample);
    await_sample(sample);
    memory_evict(n.own_memory->memory, ds->index, sample);
    dlc_list_init(&w.of_fetch);
    dlc_list_init(&w.of_session);
    answers = 0;
    assert_true(fetch_for_peer(ds, sample, &w));
    await_sample(sample);
    assert_int_equal(answers, 1);
    assert_int_equal(played.n_asked, 2);
    memory_evict(n.own_memory->memory, ds->index, sample);
    prefetch(sample);
    assert_false(fetch_for_peer(ds, sample, &w));
    view("live", true, false);
    await_sample(sample);
    assert_int_equal(played.n_asked, 2);
}

static int taken_rc;

static void on_taken(struct waiter *w, int rc, const char *text)
{
    (void)w;
    (void)text;
    taken_rc = rc;
}

/* Who wants the copy of one peer does not wait for another. */
static void a_copy_is_taken(void **state)
{
    struct waiter w = {.done = on_taken};

    (void)state;
    taken_rc = 0;
    dlc_list_init(&w.of_fetch);
    fetch_take(ds, of_b(false), FETCH_MEMORY, "c", &w);
    assert_true(taken_rc < 0); /* none of these sources gives copies */
    assert_int_equal(other.asked + played.n_asked, 0);
}

/* The daemon ends: so do waits. */
static void nobody_waits_at_the_end(void **state)
{
    uint64_t sample = of_b(false);

    (void)state;
    prefetch(sample);
    pass(DLC_MS(100));
    assert_int_equal(ds->node->pending, 1);
    n.stopping = true;
    pass(DLC_MS(100));
    assert_int_equal(ds->node->pending, 0);
    assert_false(has(sample));
    assert_int_equal(played.n_asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_owner_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_stays_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_have_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_ends_whenever_it_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_is_back_unheard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_comes_back_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(some_do_not_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_waits_at_the_end, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
