// SPDX-License-Identifier: Apache-2.0
/* The catalog of a dataset comes from a peer, here a server that sends what a test says. */
#include "daemon/parts.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/event_loop.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "cluster/catalog_from_peer.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "daemon/work.h"
#include "net/server.h"

#define N     300u
#define PIECE 1000u /* bytes of an answer */

/* ---- the peers ---- */

static struct http_server *server;
static struct buf file;                     /* of the catalog that they have */
static _Atomic unsigned asked, asked_first; /* all of them, and the first */
/* How the answers of the first peer are wrong. */
static _Atomic enum { HONEST, UNKNOWN, NO_BASE64, TOO_LONG, EMPTY } lie;

static void on_catalog(struct http_request *r, struct http_reply *reply, void *ctx)
{
    bool first = strcmp(r->params[0], "1") == 0;
    uint64_t at = 0;
    struct buf text = BUF_INIT;
    size_t len, size = file.len;

    (void)ctx;
    asked++;
    asked_first += first;
    assert_true(str_parse_u64(http_query(r, "offset"), &at));
    assert_true(at < file.len);
    assert_string_equal(http_query(r, "tenant"), "ann");
    len = DLC_MIN(PIECE, file.len - at);
    str_base64((const char *)file.data + at, first && lie == EMPTY ? 0 : len, &text);
    if (first && lie == UNKNOWN)
        http_problem(reply, 404, "Not found", "no such snapshot");
    else
        reply->body =
            json_pack("{s:s, s:I}", "data", first && lie == NO_BASE64 ? "%%%" : buf_str(&text),
                      "size", (json_int_t)(first && lie == TOO_LONG ? at + len - 1 : size));
    buf_release(&text);
}

static const struct http_route routes[] = {
    {"GET", "/{peer}/v1/peer/{dataset}/{snapshot}/catalog", 0, on_catalog},
    {NULL, NULL, 0, NULL},
};

/* ---- the node ---- */

static struct node n;
static struct member member; /* without a certificate: plain HTTP */
static struct config config;
static struct dataset *ds;
static char dir[256];
static uint64_t snapshot;

static void take_view(unsigned peers)
{
    const char *a = http_server_address(server);
    json_t *view = json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}]}", "version", 2 + (int)peers, "nodes",
                             "name", "me", "address", "http://x:1", "weight", 1, "state", "live"),
           *nodes = json_object_get(view, "nodes");

    for (unsigned i = 1; i <= peers; i++)
        json_array_append_new(
            nodes, json_pack("{s:o, s:o, s:i, s:s}", "name", json_sprintf("p%u", i), "address",
                             json_sprintf("http://%s/%u", a, i), "weight", 1, "state", "live"));
    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

static int set_up(void **state)
{
    const struct http_server_config sc = {.address = "127.0.0.1:0", .routes = routes};
    static unsigned runs;
    struct catalog *c = parts_catalog("k", N);
    char name[32], path[256];

    (void)state;
    asked = asked_first = 0;
    lie = HONEST;
    snapshot = catalog_snapshot(c);
    catalog_close(&c);
    unit_path("catalog", path);
    assert_int_equal(os_read_file(path, 1u << 20, &file, NULL), 0);
    assert_true(file.len > 3 * PIECE);
    assert_int_equal(http_server_open(&sc, &server, NULL), 0);
    snprintf(name, sizeof(name), "node%u", runs++);
    assert_int_equal(os_mkdirs(unit_path(name, dir), 0700), 0);
    parts_node(&n);
    memset(&config, 0, sizeof(config));
    n.member = &member;
    config.dir = dir;
    n.config = &config;
    assert_non_null(n.loop = loop_new(NULL));
    loop_stop(n.loop); /* from now on loop_run() is one turn */
    assert_non_null(n.work = work_new(NULL));
    n.cluster = cluster_new("me");
    ds = parts_dataset(&n, "x", NULL);
    ds->refs = 1;
    parts_belongs(ds, "train", "ann");
    ds->catalog_path = mem_fmt("%s/train.cat", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    work_free(&n.work);
    parts_free_all(&n);
    cluster_free(&n.cluster);
    loop_free(&n.loop);
    http_server_close(&server);
    buf_release(&file);
    return 0;
}

static bool is_done;
static int code;
static uint64_t samples;

static void done(struct dataset *of, int rc, struct catalog **catalog)
{
    assert_ptr_equal(of, ds);
    assert_int_equal(*catalog != NULL, rc == 0);
    code = rc;
    samples = *catalog != NULL ? catalog_count(*catalog) : 0;
    is_done = true;
}

static int borrow(uint64_t wanted)
{
    is_done = false;
    assert_true(catalog_from_peer(ds, wanted, done));
    assert_int_equal(ds->refs, 2);
    while (!is_done) {
        loop_run(n.loop);
        sched_yield();
    }
    assert_int_equal(ds->refs, 1);
    assert_int_equal(n.pending, 0);
    return code;
}

static bool is_stored(void)
{
    char *tmp = mem_fmt("%s.%llu.tmp", ds->catalog_path, (unsigned long long)ds->id);
    struct stat st;

    assert_int_equal(os_stat(tmp, &st), -1); /* nothing is left over */
    mem_free(&tmp);
    return os_stat(ds->catalog_path, &st) == 0;
}

/* ---- tests ---- */

static void it_comes_in_pieces(void **state)
{
    (void)state;
    take_view(1);
    assert_int_equal(borrow(snapshot), 0);
    assert_int_equal(samples, N);
    assert_int_equal(asked, (file.len + PIECE - 1) / PIECE);
    assert_true(is_stored());
}

/* Whatever is wrong with one peer, the next is asked, and nothing of the first stays. */
static void the_next_peer_is_asked(void **state)
{
    (void)state;
    take_view(2);
    for (int i = UNKNOWN; i <= EMPTY; i++) {
        lie = i;
        asked_first = 0;
        assert_int_equal(borrow(snapshot), 0);
        assert_int_equal(asked_first, 1);
        assert_int_equal(samples, N);
        assert_true(is_stored());
        assert_int_equal(os_unlink(ds->catalog_path), 0);
    }
}

static void no_peer_has_it(void **state)
{
    (void)state;
    take_view(1);
    for (int i = UNKNOWN; i <= EMPTY; i++) {
        lie = i;
        assert_true(borrow(snapshot) < 0);
        assert_false(is_stored());
    }
}

/* The peer is asked for one snapshot and has another: sample numbers would mean something else. */
static void another_snapshot_is_refused(void **state)
{
    (void)state;
    take_view(1);
    assert_int_equal(borrow(snapshot + 1), DLC_EPROTO);
    assert_false(is_stored());
}

static void a_damaged_catalog_is_refused(void **state)
{
    (void)state;
    take_view(1);
    ((char *)file.data)[file.len / 2] ^= 1;
    assert_true(borrow(snapshot) < 0);
    assert_false(is_stored());
}

static void a_node_alone_asks_nobody(void **state)
{
    (void)state;
    take_view(0);
    assert_false(catalog_from_peer(ds, snapshot, done));
    assert_int_equal(ds->refs, 1);
    assert_int_equal(n.pending, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_comes_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_next_peer_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_peer_has_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_snapshot_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_catalog_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_alone_asks_nobody, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
