// SPDX-License-Identifier: Apache-2.0
/* A node exchanges the weights of a job through a manager, here a server with a few routes. */
#include "cluster/turns.h"
#include "daemon/parts.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/config.h"
#include "base/event_loop.h"
#include "base/str.h"
#include "cluster/agent.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "cluster/weight_exchange.h"
#include "daemon/daemon.h"
#include "daemon/job_weights.h"
#include "importance/wire.h"
#include "net/server.h"

#define N 1000u

/* ---- the manager ---- */

static struct http_server *server;
static pthread_mutex_t mtx = PTHREAD_MUTEX_INITIALIZER;
static json_t *posted;    /* the last post; under mtx */
static json_t *answering; /* what the next one is answered with; under mtx. NULL: nothing new */
static _Atomic unsigned posts;
static _Atomic int refuses; /* HTTP status; 0: it does not */

static void on_join(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    reply->body = json_pack("{s:i}", "interval_ms", 20);
}

static void on_weights(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&mtx);
    json_decref(posted);
    posted = json_deep_copy(r->body);
    if (refuses != 0)
        http_problem(reply, refuses, "Refused", "no");
    else if (answering != NULL)
        reply->body = json_deep_copy(answering);
    else
        reply->body = json_pack("{s:s, s:[], s:b}", "after", "", "items", "more", 0);
    pthread_mutex_unlock(&mtx);
    posts++;
}

static const struct http_route routes[] = {
    {"PUT", "/v1/nodes/{name}", 0, on_join},
    {"POST", "/v1/nodes/{name}/heartbeat", 0, on_join},
    {"DELETE", "/v1/nodes/{name}", 0, on_join},
    {"POST", "/v1/jobs/{id}/weights", 0, on_weights},
    {NULL, NULL, 0, NULL},
};

/* The pairs (sample, weight) as they travel. Gives. */
static char *pairs_text(const uint64_t *samples, const float *weights, size_t k)
{
    struct buf text = BUF_INIT;
    struct pairs p = {0};
    char *out;

    for (size_t i = 0; i < k; i++)
        assert_true(pairs_add(&p, samples[i], weights[i]));
    str_base64(p.bytes.data, p.bytes.len, &text);
    out = mem_str(buf_str(&text));
    buf_release(&text);
    buf_release(&p.bytes);
    return out;
}

/* How many pairs the last post had; the first of them. */
static size_t posted_pairs(uint64_t *sample, float *weight)
{
    struct buf b = BUF_INIT;
    struct pairs_reader r;
    uint64_t s;
    float w;
    size_t k = 0;
    const char *text;

    pthread_mutex_lock(&mtx);
    text = json_string_value(json_object_get(posted, "pairs"));
    if (text != NULL)
        assert_true(str_unbase64(text, &b));
    pthread_mutex_unlock(&mtx);
    pairs_read(&r, b.data, b.len);
    while (pairs_next(&r, &s, &w))
        if (k++ == 0) {
            *sample = s;
            *weight = w;
        }
    buf_release(&b);
    return k;
}

/* ---- the node ---- */

static struct node n;
static struct member member;
static struct node_cluster settings;
static struct config config;
static struct job_weights w;
static struct dataset *ds;
static bool joined;

static json_t *gather(struct node *node, bool *more)
{
    (void)node;
    *more = false;
    return json_object();
}

static void digest(struct node *node, const struct agent_news *news)
{
    (void)node;
    joined |= news->joined;
}

static const struct agent_ops ops = {gather, digest};

static void take_view(const char *text)
{
    json_t *view = json_loads(text, 0, NULL);

    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

#define NODE(name)                                                                                 \
    "{\"name\": \"" name "\", \"address\": \"http://" name ":1\", \"weight\": 1, \"state\": "      \
    "\"live\"}"

static int set_up(void **state)
{
    const struct http_server_config sc = {.address = "127.0.0.1:0", .routes = routes};
    static char base[64], dir[256];
    struct dlc_err err = DLC_ERR_INIT;
    void *at =
        mmap(NULL, weights_size(N), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    posts = 0;
    refuses = 0;
    joined = false;
    assert_int_equal(http_server_open(&sc, &server, &err), 0);
    snprintf(base, sizeof(base), "http://%s", http_server_address(server));
    parts_node(&n);
    memset(&member, 0, sizeof(member));
    config.dir = (char *)(uintptr_t)unit_path("", dir);
    settings = (struct node_cluster){.manager = base, .name = "me"};
    n.member = &member;
    n.membership = &settings;
    n.config = &config;
    n.loop = loop_new(NULL);
    loop_stop(n.loop); /* from now on loop_run() is one turn */
    tenant_memories_init(&n.memories, 1u << 20, 1u << 20, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    parts_belongs(ds, "train", "ann");
    dlc_list_init(&ds->job_weights);
    memset(&w, 0, sizeof(w));
    w.job = mem_str("run");
    w.users = 1;
    weights_format(at, N, catalog_snapshot(ds->catalog));
    assert_int_equal(weights_open(&w.w, at, weights_size(N), N, NULL), 0);
    dlc_list_push_tail(&ds->job_weights, &w.link);
    assert_int_equal(agent_open(&n, &ops, "127.0.0.1:1", NULL, &member.agent, &err), 0);
    turns_until(n.loop, joined);
    take_view("{\"version\": 2, \"nodes\": [" NODE("me") ", " NODE("b") "]}");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_end(&member.agent, n.loop);
    cluster_free(&n.cluster);
    munmap(w.w.hdr, weights_size(N));
    mem_free(&w.job);
    mem_free(&w.send.samples);
    parts_free_all(&n);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    loop_free(&n.loop);
    http_server_close(&server);
    json_decref(posted);
    json_decref(answering);
    posted = answering = NULL;
    return 0;
}

/* It is time to send; until the answer is taken. */
static void exchange(void)
{
    unsigned before = posts;

    w.send.next = (struct dlc_mono){0};
    job_weights_all_send(&n);
    assert_true(member.sending_weights);
    turns_until(n.loop, posts > before && !member.sending_weights);
}

/* Answer with one item; item: as it travels, taken. */
static void answer_with(char *item, bool more)
{
    pthread_mutex_lock(&mtx);
    json_decref(answering);
    answering =
        json_pack("{s:s, s:[s], s:b}", "after", "000000000001", "items", item, "more", more);
    pthread_mutex_unlock(&mtx);
    mem_free(&item);
}

/* ---- tests ---- */

/* (WEIGHT-EXCHANGE-1) */
static void what_was_learnt_is_posted_once(void **state)
{
    uint64_t sample = 0;
    float weight = 0;

    (void)state;
    weights_set(&w.w, 7, 2.5f);
    weights_set(&w.w, 9, 1.0f);
    exchange();
    assert_int_equal(posted_pairs(&sample, &weight), 2);
    assert_int_equal(sample, 7);
    assert_true(weight == 2.5f);
    assert_string_equal(json_string_value(json_object_get(posted, "dataset")), "train");
    assert_string_equal(json_string_value(json_object_get(posted, "tenant")), "ann");
    assert_int_equal(w.send.sent, 2);
    exchange(); /* it only asks */
    assert_int_equal(posted_pairs(&sample, &weight), 0);
    assert_int_equal(w.send.sent, 2);
}

/* A post that the manager refuses is kept, and goes first when it takes posts again, with the
 * weight of then. */
static void what_was_refused_is_kept(void **state)
{
    uint64_t sample = 0;
    float weight = 0;

    (void)state;
    refuses = 429;
    weights_set(&w.w, 7, 2.5f);
    exchange();
    assert_int_equal(w.send.sent, 0);
    assert_true(w.send.refused);
    refuses = 0;
    weights_set(&w.w, 7, 3.5f);
    exchange();
    assert_int_equal(posted_pairs(&sample, &weight), 1);
    assert_true(weight == 3.5f);
    assert_false(w.send.refused);
}

static void others_weights_come_in(void **state)
{
    (void)state;
    answer_with(pairs_text((const uint64_t[]){3, 4}, (const float[]){1.5f, 0.5f}, 2), false);
    exchange();
    assert_true(weights_get(&w.w, 3) == 1.5f);
    assert_true(weights_get(&w.w, 4) == 0.5f);
    assert_int_equal(w.send.received, 2);
    assert_false(weights_is_marked(&w.w, WEIGHTS_SENDER, 3)); /* it does not go back */
    exchange();
    assert_string_equal(json_string_value(json_object_get(posted, "after")), "000000000001");
}

/* (WEIGHT-EXCHANGE-2) */
static void our_own_is_newer(void **state)
{
    (void)state;
    weights_set(&w.w, 3, 9.0f); /* posted with this call */
    answer_with(pairs_text((const uint64_t[]){3, 4}, (const float[]){1.5f, 0.5f}, 2), false);
    exchange();
    assert_true(weights_get(&w.w, 3) == 9.0f);
    assert_true(weights_get(&w.w, 4) == 0.5f);
    assert_int_equal(w.send.received, 1);
}

/* What the manager passes on may be anything. */
static void nonsense_changes_nothing(void **state)
{
    (void)state;
    answer_with(mem_str("%%% no base64"), false);
    exchange();
    answer_with(pairs_text((const uint64_t[]){N, N + 1}, (const float[]){1, 1}, 2), false);
    exchange();
    assert_int_equal(w.send.received, 0);
}

/* (WEIGHT-EXCHANGE-3) */
static void a_node_alone_sends_nothing(void **state)
{
    (void)state;
    take_view("{\"version\": 3, \"nodes\": [" NODE("me") "]}");
    weights_set(&w.w, 7, 2.5f);
    w.send.next = (struct dlc_mono){0};
    job_weights_all_send(&n);
    assert_false(member.sending_weights);
    assert_true(weights_is_marked(&w.w, WEIGHTS_SENDER, 7));
}

/* (WEIGHT-EXCHANGE-4) */
static void weights_may_go_while_a_call_is_under_way(void **state)
{
    (void)state;
    weights_set(&w.w, 7, 2.5f);
    job_weights_all_send(&n);
    assert_true(member.sending_weights);
    dlc_list_remove(&w.link);
    turns_until(n.loop, !member.sending_weights);
    assert_int_equal(w.send.sent, 0);
    dlc_list_push_tail(&ds->job_weights, &w.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_learnt_is_posted_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_refused_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_weights_come_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(our_own_is_newer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nonsense_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_alone_sends_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(weights_may_go_while_a_call_is_under_way, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
