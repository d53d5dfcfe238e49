// SPDX-License-Identifier: Apache-2.0
/* What the server for other nodes answers: to whom, about which dataset and snapshot. */
#include "cluster/turns.h"
#include "daemon/parts.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/event_loop.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "cluster/member.h"
#include "cluster/peer_server.h"
#include "daemon/work.h"
#include "net/json_client.h"

#define N     120000u /* its catalog takes more than one piece */
#define TOKEN "dlc_0123456789012345678901234567890123456789012"

static struct node n;
static struct member member;
static struct config config;
static struct dataset *ds;
static char path[300];

static int set_up(void **state)
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
    n.token = mem_str(TOKEN);
    assert_non_null(n.loop = loop_new(NULL));
    loop_stop(n.loop); /* from now on loop_run() is one turn */
    assert_non_null(n.work = work_new(NULL));
    ds = parts_dataset(&n, "x", parts_catalog("k", N));
    parts_belongs(ds, "train", "ann");
    ds->refs = 1;
    assert_int_equal(peer_server_open(&n, "127.0.0.1:0", &member.peer_server, NULL), 0);
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
    mem_free(&n.token);
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
        assert_int_equal(ask(TOKEN, &body), 200);
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
    assert_int_equal(ask(TOKEN, NULL), 404);
    buf_release(&got);
    buf_release(&want);
}

/* (PEER-SERVER-1) A name alone proves nothing: the dataset must be that tenant's. */
static void another_tenant_gets_nothing(void **state)
{
    (void)state;
    catalog_of("train", "bob", snapshot(), 0);
    assert_int_equal(ask(TOKEN, NULL), 404);
    catalog_of("train", "", snapshot(), 0);
    assert_int_equal(ask(TOKEN, NULL), 404);
    catalog_of("test", "ann", snapshot(), 0);
    assert_int_equal(ask(TOKEN, NULL), 404);
    catalog_of("train", "ann", snapshot() + 1, 0);
    assert_int_equal(ask(TOKEN, NULL), 404);
}

/* Only nodes get catalogs; a token that is not the node's own opens none. */
static void tokens(void **state)
{
    (void)state;
    catalog_of("train", "ann", snapshot(), 0);
    assert_int_equal(ask(NULL, NULL), 401);
    assert_int_equal(ask("dlc_9123456789012345678901234567890123456789012", NULL), 404);
    assert_int_equal(ask(TOKEN, NULL), 200);
}

static void paths_that_make_no_sense(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/v1/peer/train/xyz/samples/1?tenant=ann");
    assert_int_equal(ask(TOKEN, NULL), 400);
    sample_of(1);
    *strstr(path, "/1?") = '\0';
    strncat(path, "/-1?tenant=ann", sizeof(path) - strlen(path) - 1);
    assert_int_equal(ask(TOKEN, NULL), 400);
    sample_of(N);
    assert_int_equal(ask(TOKEN, NULL), 404);
    snprintf(path, sizeof(path), "/v1/peer");
    assert_int_equal(ask(TOKEN, NULL), 404);
}

static void a_node_that_ends_serves_nothing(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/v1/health");
    assert_int_equal(ask(NULL, NULL), 200);
    peer_server_cancel(member.peer_server);
    catalog_of("train", "ann", snapshot(), 0);
    assert_int_equal(ask(TOKEN, NULL), 503);
    sample_of(1);
    assert_int_equal(ask(TOKEN, NULL), 503);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_catalog_goes_out_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_tenant_gets_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_that_make_no_sense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_ends_serves_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
