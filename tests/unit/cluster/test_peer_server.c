// SPDX-License-Identifier: Apache-2.0
/* What the server for other nodes answers: to whom, about which dataset and snapshot. */
#include "cluster/turns.h"
#include "daemon/parts.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <openssl/evp.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/event_loop.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "base/ticket.h"
#include "cluster/member.h"
#include "cluster/peer_server.h"
#include "daemon/work.h"
#include "net/json_client.h"

#define N      120000u /* its catalog takes more than one piece */
#define NOW_MS 1700000000000
#define TOKEN  "dlc_0123456789012345678901234567890123456789012"

static struct node n;
static struct member member;
static struct config config;
static struct dataset *ds;
static char path[300];
static EVP_PKEY *pair;
static char *ticket; /* for train of ann */

static char *ticket_for(EVP_PKEY *by, const char *dataset, const char *tenant, int64_t expires_ms)
{
    struct ticket t = {.node = "b", .expires_ms = expires_ms};
    struct buf text = BUF_INIT;

    snprintf(t.dataset, sizeof(t.dataset), "%s", dataset);
    snprintf(t.tenant, sizeof(t.tenant), "%s", tenant);
    ticket_sign(by, &t, &text);
    return buf_take(&text);
}

/* The manager's word: its key and its clock. */
static void manager_says(EVP_PKEY *key, int64_t now_ms)
{
    struct buf text = BUF_INIT;
    struct ticket_key k;
    json_t *tickets;

    ticket_key_of(key, &k);
    str_base64(k.bytes, sizeof(k.bytes), &text);
    tickets = json_pack("{s:[s], s:I}", "keys", buf_str(&text), "now_ms", (json_int_t)now_ms);
    peer_server_heard(member.peer_server, tickets);
    json_decref(tickets);
    buf_release(&text);
}

static int set_up_unheard(void **state)
{
    (void)state;
    parts_node(&n);
    memset(&member, 0, sizeof(member));
    memset(&config, 0, sizeof(config));
    dlc_list_init(&member.requests);
    dlc_list_init(&member.resolves);
    member.node = &n;
    n.member = &member;
    n.config = &config;
    assert_non_null(n.loop = loop_new(NULL));
    loop_stop(n.loop); /* from now on loop_run() is one turn */
    assert_non_null(n.work = work_new(NULL));
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    parts_belongs(ds, "train", "ann");
    ds->refs = 1;
    assert_int_equal(peer_server_open(&n, "127.0.0.1:0", false, &member.peer_server, NULL), 0);
    pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    ticket = ticket_for(pair, "train", "ann", NOW_MS + 600000);
    return 0;
}

static int set_up(void **state)
{
    set_up_unheard(state);
    manager_says(pair, NOW_MS);
    return 0;
}

static _Atomic bool closed;

static void *close_main(void *arg)
{
    peer_server_close(arg);
    closed = true;
    return NULL;
}

static int tear_down(void **state)
{
    pthread_t t;

    (void)state;
    closed = false;
    assert_int_equal(pthread_create(&t, NULL, close_main, member.peer_server), 0);
    turns_until(n.loop, closed);
    pthread_join(t, NULL);
    peer_server_free(&member.peer_server);
    assert_int_equal(n.pending, 0);
    assert_int_equal(ds->refs, 1);
    work_free(&n.work);
    loop_free(&n.loop);
    parts_free_all(&n);
    mem_free(&ticket);
    EVP_PKEY_free(pair);
    return 0;
}

/* ---- a peer ---- */

struct peer {
    pthread_t thread;
    const char *token;
    _Atomic bool done;
    int status;
    json_t *body;
    struct dlc_err err;
};

static void *ask_main(void *arg)
{
    struct peer *p = arg;
    char *base = mem_fmt("http://%s", peer_server_address(member.peer_server));
    const struct http_client_config c = {.base = base, .token = p->token};
    struct http_client *http = NULL;

    assert_int_equal(http_client_open(&c, &http, &p->err), 0);
    http_json(http, "GET", path, NULL, &p->body, &p->status, &p->err);
    http_client_close(&http);
    mem_free(&base);
    p->done = true;
    return NULL;
}

/* GET path; the status, and *body (may be NULL) with what came. */
static int ask(const char *token, json_t **body)
{
    struct peer p = {.token = token};

    assert_int_equal(pthread_create(&p.thread, NULL, ask_main, &p), 0);
    turns_until(n.loop, p.done);
    pthread_join(p.thread, NULL);
    turns_until(n.loop, n.pending == 0);
    if (body != NULL)
        *body = p.body;
    else
        json_decref(p.body);
    return p.status;
}

static uint64_t snapshot(void)
{
    return catalog_snapshot(ds->catalog);
}

static void catalog_of(const char *cid, const char *tenant, uint64_t of, uint64_t offset)
{
    snprintf(path, sizeof(path), "/v1/peer/%s/%016llx/catalog?tenant=%s&offset=%llu", cid,
             (unsigned long long)of, tenant, (unsigned long long)offset);
}

static void sample_of(uint64_t sample)
{
    snprintf(path, sizeof(path), "/v1/peer/train/%016llx/samples/%llu?tenant=ann",
             (unsigned long long)snapshot(), (unsigned long long)sample);
}

/* ---- tests ---- */

/* Piece by piece it is the file that this node has. */
static void a_catalog_goes_out_in_pieces(void **state)
{
    struct buf got = BUF_INIT, want = BUF_INIT;
    unsigned pieces = 0;
    char file[256];

    (void)state;
    assert_int_equal(os_read_file(unit_path("catalog", file), 64u << 20, &want, NULL), 0);
    while (got.len < want.len) {
        struct buf piece = BUF_INIT;
        json_t *body = NULL;

        catalog_of("train", "ann", snapshot(), got.len);
        assert_int_equal(ask(ticket, &body), 200);
        assert_int_equal(json_integer_value(json_object_get(body, "size")), want.len);
        assert_true(str_unbase64(json_string_value(json_object_get(body, "data")), &piece));
        buf_add(&got, piece.data, piece.len);
        buf_release(&piece);
        json_decref(body);
        pieces++;
    }
    assert_true(pieces > 1);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.data, want.data, want.len);
    catalog_of("train", "ann", snapshot(), want.len);
    assert_int_equal(ask(ticket, NULL), 404);
    buf_release(&got);
    buf_release(&want);
}

/* (PEER-SERVER-1) A name alone proves nothing: the dataset must be that tenant's, and the ticket
 * for it. */
static void another_tenant_gets_nothing(void **state)
{
    char *bobs = ticket_for(pair, "train", "bob", NOW_MS + 600000);
    char *other = ticket_for(pair, "test", "ann", NOW_MS + 600000);

    (void)state;
    catalog_of("train", "bob", snapshot(), 0);
    assert_int_equal(ask(bobs, NULL), 404); /* bob has no such dataset */
    assert_int_equal(ask(ticket, NULL), 403);
    catalog_of("train", "ann", snapshot(), 0);
    assert_int_equal(ask(bobs, NULL), 403);
    assert_int_equal(ask(other, NULL), 403);
    catalog_of("train", "", snapshot(), 0);
    assert_int_equal(ask(ticket, NULL), 403);
    catalog_of("test", "ann", snapshot(), 0);
    assert_int_equal(ask(ticket, NULL), 403);
    assert_int_equal(ask(other, NULL), 404);
    catalog_of("train", "ann", snapshot() + 1, 0);
    assert_int_equal(ask(ticket, NULL), 404);
    mem_free(&bobs);
    mem_free(&other);
}

/* Only nodes get catalogs, by a ticket of the manager: no token opens one, nor does the token of
 * nodes. */
static void tokens(void **state)
{
    EVP_PKEY *stranger = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    char *forged = ticket_for(stranger, "train", "ann", NOW_MS + 600000);
    static char own[] = TOKEN;

    (void)state;
    n.token = own;
    catalog_of("train", "ann", snapshot(), 0);
    assert_int_equal(ask(NULL, NULL), 401);
    assert_int_equal(ask("dlc_9123456789012345678901234567890123456789012", NULL), 404);
    assert_int_equal(ask(TOKEN, NULL), 404);
    assert_int_equal(ask(forged, NULL), 403);
    assert_int_equal(ask("dlt1.nonsense", NULL), 403);
    assert_int_equal(ask(ticket, NULL), 200);
    manager_says(stranger, NOW_MS); /* another key counts from now on */
    assert_int_equal(ask(ticket, NULL), 403);
    assert_int_equal(ask(forged, NULL), 200);
    n.token = NULL;
    mem_free(&forged);
    EVP_PKEY_free(stranger);
}

/* Each request with the same ticket costs no further signature. */
static void a_ticket_is_verified_once(void **state)
{
    uint64_t before = counters.peer_tickets_checked;

    (void)state;
    catalog_of("train", "ann", snapshot(), 0);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(ask(ticket, NULL), 200);
    assert_int_equal(counters.peer_tickets_checked - before, 1);
}

static void paths_that_make_no_sense(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/v1/peer/train/xyz/samples/1?tenant=ann");
    assert_int_equal(ask(ticket, NULL), 400);
    sample_of(1);
    *strstr(path, "/1?") = '\0';
    strncat(path, "/-1?tenant=ann", sizeof(path) - strlen(path) - 1);
    assert_int_equal(ask(ticket, NULL), 400);
    sample_of(N);
    assert_int_equal(ask(ticket, NULL), 404);
    snprintf(path, sizeof(path), "/v1/peer");
    assert_int_equal(ask(ticket, NULL), 404);
}

/* It has just been started: peers that wait for it wait on, whatever they ask. */
static void a_node_that_begins_is_waited_for(void **state)
{
    (void)state;
    sample_of(1);
    assert_int_equal(ask(ticket, NULL), 503);
    snprintf(path, sizeof(path), "/v1/health");
    assert_int_equal(ask(NULL, NULL), 503);
    manager_says(pair, NOW_MS);
    assert_int_equal(ask(NULL, NULL), 200);
}

static void a_node_that_ends_serves_nothing(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/v1/health");
    assert_int_equal(ask(NULL, NULL), 200);
    peer_server_cancel(member.peer_server);
    catalog_of("train", "ann", snapshot(), 0);
    assert_int_equal(ask(ticket, NULL), 503);
    sample_of(1);
    assert_int_equal(ask(ticket, NULL), 503);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_catalog_goes_out_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_tenant_gets_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_is_verified_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_that_make_no_sense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_begins_is_waited_for, set_up_unheard,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_ends_serves_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
