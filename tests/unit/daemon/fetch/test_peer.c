// SPDX-License-Identifier: Apache-2.0
/* The owner of a sample as a source: who is asked, what is counted, and what a wrong answer does. */
#include "daemon/played.h"

#include <poll.h>

#include "base/counters.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/session.h"
#include "net/server.h"

#define LARGE (PEERS_SUM_MAX + 1000) /* the daemon compares its checksum, not the peer client */

enum { SMALL, BIG, EMPTY, OTHER, N };

static struct node n;
static struct dataset *ds;
static struct {
    struct http_server *server;
    unsigned char *bytes;
    _Atomic unsigned asked;
    _Atomic bool lies, refuses;
} owner;

static uint64_t size_of(uint64_t sample)
{
    return sample == BIG ? LARGE : sample == EMPTY ? 0 : PARTS_SIZE;
}

static void on_sample(struct http_request *r, struct http_reply *reply, void *ctx)
{
    uint64_t sample = strtoul(r->params[2], NULL, 10);

    (void)ctx;
    owner.asked++;
    assert_string_equal(r->params[0], "train");
    if (owner.refuses) {
        http_problem(reply, 404, "No", "it is not here");
        return;
    }
    reply->data = owner.bytes;
    reply->data_len = size_of(sample);
    http_reply_header(reply, "Dlcache-Checksum", "%016llx",
                      (unsigned long long)hash64(reply->data, reply->data_len) ^ owner.lies);
}

static void open_owner(char address[static 64])
{
    static const struct http_route routes[] = {
        {"GET", "/v1/peer/{dataset}/{snapshot}/samples/{i}", 0, on_sample},
        {NULL, NULL, 0, NULL},
    };
    struct http_server_config c = {.address = "127.0.0.1:0", .routes = routes};
    struct dlc_err err;

    owner.bytes = mem_alloc(LARGE);
    memset(owner.bytes, 'p', LARGE);
    owner.asked = 0;
    owner.lies = owner.refuses = false;
    if (http_server_open(&c, &owner.server, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(address, 64, "http://%s", http_server_address(owner.server));
}

static struct catalog *make_catalog(void)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    char path[256], key[20];

    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(catalog_builder_add(b, key, 2, size_of(i), "e", &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("catalog", path), "s3://b/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    return c;
}

static int set_up(void **state)
{
    static const struct fetch_source *const sources[] = {&fetch_from_peer, &played_source};
    struct peers_config pc = {.least = DLC_SEC(30), .most = DLC_SEC(30)};
    char address[64];
    json_t *view;

    (void)state;
    played_open(&n, (uint64_t)64 << 20);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, sources, 2, prefetch_pump);
    played.at_once = true; /* the bucket */
    n.events[0] = &ownership_events;
    n.cluster = cluster_new("a");
    n.peers = peers_new(&pc, NULL);
    open_owner(address);
    view = json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}]}", "version", 1, "nodes", "name", "b",
                     "address", address, "weight", 1, "state", "live");
    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
    ds = played_dataset(&n, "a", N);
    catalog_close(&ds->catalog);
    ds->catalog = make_catalog();
    parts_belongs(ds, "train", "ann");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    peers_free(&n.peers);
    http_server_close(&owner.server);
    mem_free(&owner.bytes);
    played_close(&n);
    cluster_free(&n.cluster);
    return 0;
}

static bool answered;

static void on_answer(struct waiter *w, int rc, const char *text)
{
    (void)w;
    (void)text;
    assert_int_equal(rc, 0);
    answered = true;
}

static void await(void)
{
    for (unsigned i = 0; i < 20000 && (!answered || n.pending > 0); i++) {
        played_turn(&n);
        poll(NULL, 0, !answered);
    }
    assert_true(answered);
}

/* True: its bytes are the peer's. */
static bool get(uint64_t sample)
{
    struct waiter w = {.done = on_answer};
    const unsigned char *p;
    uint64_t len;
    bool theirs;

    answered = false;
    dlc_list_init(&w.of_fetch);
    fetch_start(ds, sample, FETCH_MEMORY, &w, NULL);
    await();
    p = memory_hold(n.own_memory->memory, ds->index, sample, &len);
    assert_non_null(p);
    assert_int_equal(len, size_of(sample));
    theirs = len > 0 && p[0] == 'p';
    if (len > 0)
        assert_int_equal(p[len - 1], p[0]);
    memory_unhold(n.own_memory->memory, ds->index, sample);
    memory_evict(n.own_memory->memory, ds->index, sample);
    return theirs;
}

static void assert_counts(uint64_t hits, uint64_t misses, uint64_t bytes)
{
    assert_int_equal(ds->peer.hits, hits);
    assert_int_equal(ds->peer.misses, misses);
    assert_int_equal(ds->peer.bytes, bytes);
}

static unsigned failures(void)
{
    struct peer_figures f;

    assert_int_equal(peers_figures(n.peers, &f, 1), 1);
    return (unsigned)f.failures;
}

static void test_served(void **state)
{
    uint64_t bytes = counters.peer_bytes;

    (void)state;
    assert_true(get(SMALL));
    assert_counts(1, 0, PARTS_SIZE);
    assert_true(get(BIG));
    assert_counts(2, 0, PARTS_SIZE + LARGE);
    assert_int_equal(counters.peer_bytes, bytes + PARTS_SIZE + LARGE);
    assert_int_equal(played.n_asked, 0);
    assert_int_equal(failures(), 0);
}

/* An answer that has not its checksum: the bucket is read, and the peer's health suffers. */
static void test_lies(void **state)
{
    uint64_t corrupt = counters.peer_corrupt;

    (void)state;
    owner.lies = true;
    assert_false(get(SMALL));
    assert_int_equal(counters.peer_corrupt, corrupt + 1);
    assert_int_equal(failures(), 1);
    assert_false(get(BIG));
    assert_int_equal(counters.peer_corrupt, corrupt + 2);
    assert_int_equal(failures(), 2);
    assert_counts(0, 2, 0);
    assert_int_equal(played.n_asked, 2);
}

/* A peer is passed over after three failures in a row; a large sample that is right ends the row,
 * once the daemon has compared it. */
static void test_health(void **state)
{
    (void)state;
    owner.lies = true;
    get(SMALL);
    get(SMALL);
    owner.lies = false;
    assert_true(get(BIG));
    owner.lies = true;
    get(SMALL);
    owner.lies = false;
    assert_true(get(SMALL));
    owner.lies = true;
    get(SMALL);
    get(BIG);
    get(SMALL);
    assert_int_equal(owner.asked, 8);
    get(SMALL);
    assert_int_equal(owner.asked, 8); /* skipped */
}

static void test_refuses(void **state)
{
    uint64_t corrupt = counters.peer_corrupt;

    (void)state;
    owner.refuses = true;
    assert_false(get(SMALL));
    assert_counts(0, 1, 0);
    assert_int_equal(counters.peer_corrupt, corrupt);
    assert_int_equal(owner.asked, 1); /* once */
    assert_int_equal(played.n_asked, 1);
}

/* Not for another peer, not for sessions that bypass the cache, and not for nothing. */
static void test_not_asked(void **state)
{
    struct waiter w = {.done = on_answer};

    (void)state;
    get(EMPTY);
    answered = false;
    dlc_list_init(&w.of_fetch);
    assert_true(fetch_for_peer(ds, SMALL, &w));
    await();
    fetch_ahead(&(struct session){.ds = ds, .bypasses_cache = true}, OTHER);
    await();
    assert_int_equal(owner.asked, 0);
    assert_int_equal(played.n_asked, 3);
    assert_counts(0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_health, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_asked, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
