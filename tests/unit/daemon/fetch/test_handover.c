// SPDX-License-Identifier: Apache-2.0
/* Copies of nodes that owned a sample before, as sources: who is asked, for whom, and what is
 * counted. This node is a; b and c are played. */
#include "daemon/played.h"

#include <poll.h>

#include "base/counters.h"
#include "cluster/peer/peer_client.h"
#include "cluster/peer/view.h"
#include "daemon/session.h"
#include "net/server.h"

#define N     40u
#define EMPTY (N - 1) /* a sample without bytes */

/* The bytes that a node has are its name. */
struct peer {
    char name;
    struct http_server *server;
    char address[64];
    unsigned char bytes[PARTS_SIZE];
    _Atomic int status; /* 200: it has it */
    _Atomic unsigned asked, asked_for_copies;
};

static struct node n;
static struct dataset *ds;
static struct peer b = {.name = 'b'}, c = {.name = 'c'};
static struct {
    struct waiter w;
    unsigned times;
    int rc;
    char text[200];
} reader;

static void on_sample(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct peer *p = ctx;

    p->asked++;
    p->asked_for_copies += strcmp(http_query(r, "cached"), "1") == 0;
    if (p->status != 200) {
        http_problem(reply, (unsigned)p->status, "No", "it is not at %c", p->name);
        return;
    }
    reply->data = p->bytes;
    reply->data_len = sizeof(p->bytes);
    http_reply_header(reply, "Dlcache-Checksum", "%016llx",
                      (unsigned long long)hash64(reply->data, reply->data_len));
}

static void peer_open(struct peer *p)
{
    static const struct http_route routes[] = {
        {"GET", "/v1/peer/{dataset}/{snapshot}/samples/{i}", 0, on_sample},
        {NULL, NULL, 0, NULL},
    };
    struct http_server_config config = {.address = "127.0.0.1:0", .routes = routes, .ctx = p};
    struct dlc_err err;

    memset(p->bytes, p->name, sizeof(p->bytes));
    p->status = 200;
    p->asked = p->asked_for_copies = 0;
    if (http_server_open(&config, &p->server, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(p->address, sizeof(p->address), "http://%s", http_server_address(p->server));
}

/* The dataset is this node's; NULL: of all that are live. */
static void take_view(const char *owner, const char *state_of_b)
{
    static int version;
    json_t *view = json_pack(
        "{s:i, s:[{s:s, s:s, s:i, s:s}, {s:s, s:s, s:i, s:s}, {s:s, s:s, s:i, s:s}]}", "version",
        ++version, "nodes", "name", "a", "address", "http://127.0.0.1:1", "weight", 1, "state",
        "live", "name", "b", "address", b.address, "weight", 1, "state", state_of_b, "name", "c",
        "address", c.address, "weight", 1, "state", "live");

    if (owner != NULL)
        json_object_set_new(view, "datasets",
                            json_pack("[{s:s, s:[s]}]", "id", "train", "nodes", owner));
    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

static struct catalog *make_catalog(void)
{
    struct catalog_builder *builder = catalog_builder_new();
    struct catalog *made = NULL;
    char path[256], key[20];

    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "k%02u", i);
        assert_int_equal(
            catalog_builder_add(builder, key, 3, i == EMPTY ? 0 : PARTS_SIZE, "e", NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(builder, unit_path("catalog", path), "s3://b/", NULL),
                     0);
    catalog_builder_free(&builder);
    assert_int_equal(catalog_load(path, &made, NULL), 0);
    return made;
}

static int set_up(void **state)
{
    static const struct fetch_source *const sources[] = {&fetch_from_draining_node,
                                                         &fetch_from_previous_owner,
                                                         &fetch_from_earlier_owner, &played_source};
    struct peers_config pc = {.least = DLC_SEC(30), .most = DLC_SEC(30)};

    (void)state;
    played_open(&n, (uint64_t)16 << 20);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, sources, DLC_COUNT(sources), prefetch_pump);
    played.at_once = true; /* the bucket */
    n.events[0] = &ownership_events;
    n.cluster = cluster_new("a");
    n.peers = peers_new(&pc, NULL);
    peer_open(&b);
    peer_open(&c);
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
    http_server_close(&b.server);
    http_server_close(&c.server);
    played_close(&n);
    cluster_free(&n.cluster);
    return 0;
}

static void on_answer(struct waiter *w, int rc, const char *text)
{
    (void)w;
    reader.times++;
    reader.rc = rc;
    snprintf(reader.text, sizeof(reader.text), "%s", text == NULL ? "" : text);
}

static struct waiter *new_reader(void)
{
    memset(&reader, 0, sizeof(reader));
    reader.w.done = on_answer;
    dlc_list_init(&reader.w.of_fetch);
    return &reader.w;
}

/* Until the reader has its answer. */
static int await(void)
{
    for (unsigned i = 0; i < 20000 && reader.times == 0; i++) {
        played_turn(&n);
        poll(NULL, 0, reader.times == 0);
    }
    assert_int_equal(reader.times, 1);
    return reader.rc;
}

/* Whose copy is resident; the bucket's is its number. It leaves. */
static char copy_of(uint64_t sample)
{
    uint64_t len;
    const char *p = memory_hold(n.own_memory->memory, ds->index, sample, &len);
    char of = p != NULL && len > 0 ? p[0] : '-';

    if (p != NULL) {
        memory_unhold(n.own_memory->memory, ds->index, sample);
        memory_evict(n.own_memory->memory, ds->index, sample);
    }
    return of;
}

static char get(uint64_t sample)
{
    fetch_start(ds, sample, FETCH_MEMORY, new_reader(), NULL);
    assert_int_equal(await(), 0);
    return copy_of(sample);
}

/* ---- tests ---- */

static void test_previous_owner(void **state)
{
    uint64_t hits = counters.handover_hits, bytes = counters.handover_bytes;

    (void)state;
    take_view("b", "live");
    take_view("a", "live");
    assert_int_equal(get(1), 'b');
    assert_int_equal(b.asked_for_copies, 1);
    assert_int_equal(c.asked, 0);
    assert_int_equal(counters.handover_hits, hits + 1);
    assert_int_equal(counters.handover_bytes, bytes + PARTS_SIZE);
    assert_int_equal(ds->peer.hits, 0); /* it was not asked as an owner */
}

/* Owners have changed twice: the one before the last one may have it. */
static void test_earlier_owner(void **state)
{
    uint64_t misses = counters.handover_misses, bytes = counters.handover_bytes;

    (void)state;
    take_view("c", "live");
    take_view("b", "live");
    take_view("a", "live");
    b.status = 404;
    assert_int_equal(get(1), 'c');
    assert_int_equal(b.asked, 1);
    assert_int_equal(c.asked_for_copies, 1);
    assert_int_equal(counters.handover_misses, misses + 1);
    assert_int_equal(counters.handover_bytes, bytes + PARTS_SIZE);
    c.status = 404;
    assert_int_equal(get(2), 2); /* of the bucket */
    assert_int_equal(counters.handover_misses, misses + 3);
    assert_int_equal(counters.handover_bytes, bytes + PARTS_SIZE);
}

/* Another node owns it: its copy is for that one to get. */
static void test_not_the_owner(void **state)
{
    (void)state;
    take_view("b", "live");
    take_view("c", "live");
    assert_int_equal(get(1), 1);
    assert_int_equal(b.asked + c.asked, 0);
}

static void test_nobody_is_asked(void **state)
{
    struct peers *peers = n.peers;

    (void)state;
    take_view("b", "live");
    take_view("a", "live");
    fetch_ahead(&(struct session){.ds = ds, .bypasses_cache = true}, 1);
    assert_int_equal(copy_of(1), 1);
    assert_int_equal(get(EMPTY), '-');
    n.peers = NULL;
    assert_int_equal(get(2), 2);
    n.peers = peers;
    mem_free(&ds->ticket.text);
    assert_int_equal(get(3), 3);
    assert_int_equal(b.asked, 0);
}

/* A peer asks us, and another node owns it: that one may have it, but is not to fetch it. */
static void test_for_a_peer(void **state)
{
    (void)state;
    take_view("c", "live");
    take_view("b", "live");
    assert_true(fetch_for_peer(ds, 1, new_reader()));
    assert_int_equal(await(), 0);
    assert_int_equal(copy_of(1), 'b');
    assert_int_equal(b.asked_for_copies, 1);
    b.status = 404;
    assert_true(fetch_for_peer(ds, 2, new_reader()));
    assert_int_equal(await(), 0);
    assert_int_equal(copy_of(2), 'c'); /* it owned it before */
    assert_int_equal(c.asked_for_copies, 1);
}

/* A copy is wanted of one node: nobody else is asked, and its answer is the answer. */
static void test_take(void **state)
{
    (void)state;
    take_view("b", "live");
    take_view("a", "live");
    fetch_take(ds, 1, FETCH_MEMORY, "c", new_reader());
    assert_int_equal(await(), 0);
    assert_int_equal(copy_of(1), 'c');
    assert_int_equal(b.asked, 0);
    c.status = 404;
    fetch_take(ds, 2, FETCH_MEMORY, "c", new_reader());
    assert_true(await() < 0);
    if (strstr(reader.text, "peer c at ") == NULL)
        fail_msg("%s", reader.text);
    fetch_take(ds, 3, FETCH_MEMORY, "nobody", new_reader());
    assert_true(await() < 0);
    assert_int_equal(b.asked, 0);
    assert_int_equal(c.asked, 2);
    assert_int_equal(played.n_asked, 0);
}

static void test_draining_node(void **state)
{
    uint64_t hits = counters.handover_hits;
    struct cluster_peer peer;
    uint64_t sample = 0;

    (void)state;
    take_view(NULL, "draining");
    while (sample < N &&
           (!dataset_owns(ds, sample) || !dataset_former_owner(ds, sample, FORMER_DRAINING, &peer)))
        sample++;
    assert_true(sample < N);
    assert_int_equal(get(sample), 'b');
    assert_int_equal(b.asked_for_copies, 1);
    assert_int_equal(counters.handover_hits, hits + 1);
}

/* A ticket that a peer refuses is renewed. */
static void test_ticket_is_refused(void **state)
{
    (void)state;
    take_view("b", "live");
    take_view("a", "live");
    ds->ticket.renew.ns = INT64_MAX;
    b.status = 404;
    get(1);
    assert_true(ds->ticket.renew.ns == INT64_MAX);
    b.status = 403;
    get(2);
    assert_int_equal(ds->ticket.renew.ns, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_previous_owner),  T(test_earlier_owner),     T(test_not_the_owner),
        T(test_nobody_is_asked), T(test_for_a_peer),        T(test_take),
        T(test_draining_node),   T(test_ticket_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
