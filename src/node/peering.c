// SPDX-License-Identifier: Apache-2.0
/*
 * A peer asks for a sample of a chunk that we own, or that it believes we own. A thread of the HTTP
 * server hands the question to the node loop and waits; the loop treats it as a read of its own,
 * but never asks another peer; the bytes go out from the segment without a copy, or from the file
 * of a large sample. With them goes the checksum that they had when they came, for the peer to
 * compare: this node does not.
 *
 *     thread: parse --post--> loop: token, dataset, snapshot --> fetch --> hold --wake--> thread:
 * send loop: unhold <--post-- thread: sent
 *
 * An ask is shared by its thread and the loop, and goes with the last of them.
 *
 * (B1) Bytes leave only for the node's own token, or for one that the manager vouches for (K2), and
 *      only those of the tenant that asks: by the manager's word, or, as a peer says, by its own
 *      (?tenant=). A name alone says nothing: it may have been freed and taken by another tenant.
 * (B2) A sample that we are just asking a peer for is refused: that peer may be waiting for us.
 */
#include "node/peering.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mtx.h"
#include "base/os.h"
#include "base/str.h"
#include "base/token.h"
#include "http/server.h"
#include "node/node_i.h"

#define DOOR_TAG    DLC_TAG4('d', 'o', 'o', 'r')
#define ASK_TAG     DLC_TAG4('a', 's', 'k', 's')
#define CONNECTIONS 512
#define PIECE       (384u << 10) /* of a catalog, in one answer */
#define SIGN_AFTER  DLC_MS(10)
#define SIGN_EVERY  DLC_MS(500)
#define REFUSALS    16
#define REFUSED_FOR DLC_SEC(1)

/* A dataset that could not be opened: for a moment nobody need try again. */
struct refusal {
    uint64_t hash;
    struct dlc_mono until;
    struct dlc_err err;
};

struct door {
    uint32_t tag;
    struct node *node;
    struct http_server *server;
    bool cancelled;                    /* L, and what follows */
    struct refusal refusals[REFUSALS]; /* by hash */
};

struct ask {
    uint32_t tag;
    _Atomic unsigned refs;
    struct door *door;
    char *token; /* NULL: the node's own */
    char *cid;
    char *tenant; /* whose it must be; with a token that is known when the manager has answered */
    bool anew;    /* what was known of the name was about another tenant: the manager was asked */
    uint64_t snapshot, sample;
    bool catalog; /* it is asked for, not a sample */

    /* the loop's */
    struct dlc_list link; /* in node.asks */
    struct task task;
    struct needer needer;
    struct waiter waiter;
    struct dataset *ds; /* with a reference */
    bool resident;      /* it was when we were asked */
    bool held;

    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond answered;
    bool done; /* G: mtx; what follows is the thread's then */
    int rc;
    struct dlc_err err;
    const void *data;
    uint64_t len, checksum;
    const char *from;
    struct chunk_id chunk; /* DLC_ELARGE */
    int fd;                /* of its file; -1: none */
    struct hash64_stream *sum;
    uint64_t summed; /* bytes */
};

static struct ask *ask_of(void *arg)
{
    struct ask *a = arg;

    dlc_check(a != NULL && a->tag == ASK_TAG);
    return a;
}

static void ask_put(struct ask *a)
{
    /* Pairs with itself: the last one sees what the other did. */
    if (atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) > 1)
        return;
    token_free(&a->token);
    mem_free(&a->cid);
    mem_free(&a->tenant);
    dlc_cond_release(&a->answered);
    dlc_mtx_release(&a->mtx);
    a->tag = 0;
    mem_free(&a);
}

/* ---- on the loop ---- */

/* The thread gets its answer. Once. */
static void answer(struct ask *a, int rc, const char *text)
{
    dlc_list_remove(&a->link);
    dlc_mtx_lock(&a->mtx);
    if (!a->done) {
        a->done = true;
        a->rc = rc;
        if (rc < 0)
            dlc_err_set(&a->err, rc, "%s",
                        text != NULL && text[0] != '\0' ? text : dlc_strerror(rc));
        dlc_cond_signal(&a->answered);
    }
    dlc_mtx_unlock(&a->mtx);
}

/* The loop has nothing more to do for it until the thread says that the bytes are out. */
static void end(struct ask *a, int rc, const char *text)
{
    struct node *n = a->door->node;

    answer(a, rc, text);
    if (a->held)
        return;
    if (a->ds != NULL)
        dataset_put(&a->ds);
    n->jobs--;
    ask_put(a);
}

static void release_held(struct task *t)
{
    struct ask *a = ask_of(dlc_container(t, struct ask, task));
    struct node *n = a->door->node;

    if (!a->catalog)
        memory_unhold(n->memory, a->ds->index, a->sample);
    dataset_put(&a->ds);
    n->jobs--;
    ask_put(a);
}

static void hold(struct ask *a)
{
    struct dataset *ds = a->ds;

    if (a->done) { /* cancelled: nobody waits for it any more. Only the loop sets it */
        end(a, DLC_ECANCELED, NULL);
        return;
    }
    a->data = memory_hold(ds->node->memory, ds->index, a->sample, &a->len);
    if (a->data == NULL) {
        end(a, DLC_EBUSY, "the sample left memory as it came");
        return;
    }
    a->checksum = mem_index_checksum(ds->index, a->sample);
    memory_touch(ds->node->memory, ds->index, a->sample);
    a->held = true;
    a->from = a->resident ? "memory" : "bucket";
    ds->served++;
    ds->served_bytes += a->len;
    count(peer_served);
    count_add(peer_served_bytes, a->len);
    end(a, 0, NULL);
}

static void on_fetched(struct waiter *w, int rc, const char *text)
{
    struct ask *a = ask_of(dlc_container(w, struct ask, waiter));
    struct catalog_entry e;

    if (rc == 0) {
        hold(a);
        return;
    }
    if (rc == DLC_ELARGE && catalog_get(a->ds->catalog, a->sample, &e, NULL) == 0) {
        a->chunk = dataset_chunk(a->ds, e.key, e.etag);
        a->len = e.size;
        a->from = "disk";
    }
    end(a, rc, text);
}

static void read_sample(struct ask *a, struct dataset *ds)
{
    bool before = dataset_read_elsewhere(ds);

    a->ds = ds;
    ds->refs++;
    if (catalog_snapshot(ds->catalog) != a->snapshot) {
        end(a, DLC_ECHANGED, "this node has another snapshot of the dataset");
        return;
    }
    if (a->sample >= catalog_count(ds->catalog)) {
        end(a, DLC_ENOTFOUND, "there is no sample of that number");
        return;
    }
    ds->served_at = ds->last_used = loop_now(ds->node->loop);
    if (!before && dataset_read_elsewhere(ds))
        next_use_changed(ds);
    a->resident = mem_index_ready(ds->index, a->sample);
    a->waiter.done = on_fetched;
    a->waiter.asked = dlc_mono_now();
    dlc_list_init(&a->waiter.of_fetch);
    dlc_list_init(&a->waiter.of_session);
    if (!fetch_for_peer(ds, a->sample, &a->waiter))
        end(a, DLC_EBUSY, "this node is asking another one for that sample");
}

/* Of the dataset and snapshot that is asked for. */
static uint64_t hash_of(const struct ask *a)
{
    return (hash64_str(a->cid) * 31 + hash64_str(a->tenant)) * 31 + a->snapshot;
}

/* Where it is remembered that this dataset was refused. */
static struct refusal *refusal_of(const struct ask *a)
{
    return &a->door->refusals[hash_of(a) % REFUSALS];
}

static bool is_refused(const struct ask *a)
{
    const struct refusal *r = refusal_of(a);

    return r->hash == hash_of(a) && !dlc_mono_passed(r->until, dlc_mono_now());
}

static void on_dataset(struct needer *d, struct dataset *ds, const struct dlc_err *err)
{
    struct ask *a = ask_of(dlc_container(d, struct ask, needer));

    if (ds == NULL) {
        *refusal_of(a) =
            (struct refusal){hash_of(a), dlc_mono_add(dlc_mono_now(), REFUSED_FOR), *err};
        end(a, err->code, err->text);
    } else if (a->door->cancelled) {
        end(a, DLC_ECANCELED, "the node is ending");
    } else {
        read_sample(a, ds);
    }
}

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg);

static void ask_manager(struct ask *a, struct dlc_dur life)
{
    char *url = mem_fmt("dlcache://%s", a->cid);

    resolve(a->door->node, a->token, url, NULL, life, on_granted, a);
    mem_free(&url);
}

static void on_granted(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    struct ask *a = ask_of(arg);
    struct dataset *ds;

    if (g != NULL && a->token != NULL && a->tenant == NULL)
        a->tenant = mem_str(g->tenant);
    if (g != NULL && strcmp(g->tenant, a->tenant) != 0 && !a->anew && !a->door->cancelled) {
        a->anew = true;
        ask_manager(a, DLC_MS(0));
        return;
    }
    if (g == NULL || strcmp(g->dataset, a->cid) != 0 || strcmp(g->tenant, a->tenant) != 0 ||
        a->door->cancelled) {
        end(a, g == NULL ? err->code : DLC_EDENIED,
            g == NULL ? err->text : "the dataset is not that tenant's");
        return;
    }
    ds = dataset_of_cluster(n, a->cid, a->tenant, a->snapshot);
    if (ds != NULL)
        read_sample(a, ds);
    else if (is_refused(a))
        end(a, refusal_of(a)->err.code, refusal_of(a)->err.text);
    else
        dataset_need(n,
                     &(struct wanted){.url = g->url,
                                      .endpoint = g->endpoint,
                                      .anonymous = g->anonymous,
                                      .snapshot = a->snapshot,
                                      .grant = g},
                     &a->needer);
}

/* To nodes alone; only if it is here. It does not change while we hold the dataset. */
static void give_catalog(struct ask *a, struct dataset *ds)
{
    if (ds == NULL) {
        end(a, DLC_ENOTFOUND, "this node has no such catalog");
        return;
    }
    a->ds = ds;
    ds->refs++;
    a->held = true;
    end(a, 0, NULL);
}

static void on_ask(struct task *t)
{
    struct ask *a = ask_of(dlc_container(t, struct ask, task));
    struct node *n = a->door->node;
    struct dataset *ds =
        a->token == NULL ? dataset_of_cluster(n, a->cid, a->tenant, a->snapshot) : NULL;

    n->jobs++;
    dlc_list_push_tail(&n->asks, &a->link);
    a->needer.ready = on_dataset;
    if (a->door->cancelled || n->stopping) {
        end(a, DLC_ECANCELED, "the node is ending");
    } else if (a->catalog) {
        give_catalog(a, ds);
    } else if (ds != NULL) {
        read_sample(a, ds);
    } else {
        ask_manager(a, GRANT_LIFE);
    }
}

void door_cancel(struct door *d)
{
    d->cancelled = true;
    dlc_list_each_safe (l, &d->node->asks) {
        struct ask *a = dlc_container(l, struct ask, link);

        answer(a, DLC_ECANCELED, "the node is ending"); /* what it waits for ends it later */
    }
}

/* ---- on a thread of the server ---- */

/* Does not tell by its time how much of it was right: digests are compared. */
static bool same_token(const char *a, const char *b)
{
    unsigned char x[SHA256_LEN], y[SHA256_LEN];
    unsigned differ = 0;

    sha256(a, strlen(a), x);
    sha256(b, strlen(b), y);
    for (size_t i = 0; i < sizeof(x); i++)
        differ |= (unsigned)(x[i] ^ y[i]);
    return differ == 0;
}

static void sent(void *arg)
{
    struct ask *a = ask_of(arg);

    if (a->held)
        loop_post(a->door->node->loop, &a->task); /* the loop's reference goes there */
    os_close(&a->fd);
    hash64_end(&a->sum);
    ask_put(a);
}

/* What goes out from the first byte to the last is summed on the way. False: it is not the chunk;
 * the disk tier drops it, and the peer is not sent the end. */
static bool sums_up(struct ask *a, uint64_t at, const char *data, size_t n)
{
    struct disk *d = a->door->node->disk;
    int fd = -1;

    if (a->sum == NULL || at != a->summed)
        return true; /* a range: whoever asked for it knows the checksum of the whole */
    hash64_add(a->sum, data, n);
    a->summed += n;
    if (a->summed < a->len || hash64_end(&a->sum) == a->checksum)
        return true;
    disk_suspect(d, a->chunk);
    disk_map_fd(d, a->chunk, a->len, &fd, &a->err);
    os_close(&fd);
    return false;
}

/* A large sample lies in a file of the disk tier. It is read, not mapped: a device's error, or a
 * file that somebody cuts, ends the answer and not the daemon. */
static long read_file(void *arg, uint64_t at, char *buf, size_t cap)
{
    struct ask *a = ask_of(arg);
    size_t n = (size_t)DLC_MIN(a->len - at, (uint64_t)cap);

    if (at >= a->len || os_pread_all(a->fd, buf, n, at) < 0)
        return -1;
    return sums_up(a, at, buf, n) ? (long)n : -1;
}

/* It is not verified before: that takes as long as to send it, and the peer compares. */
static void open_file(struct ask *a)
{
    a->rc = disk_open_chunk(a->door->node->disk, a->chunk, a->len, &a->fd, &a->checksum, &a->err);
    a->sum = a->rc == 0 ? hash64_begin() : NULL;
}

static void reply_to(struct ask *a, struct http_reply *reply)
{
    if (a->rc == DLC_ELARGE && a->len > 0)
        open_file(a);
    reply->done = sent;
    reply->arg = a;
    if (a->rc == 0) {
        reply->type = "application/octet-stream";
        reply->data = a->data;
        reply->data_len = a->len;
        reply->read_at = a->fd >= 0 ? read_file : NULL;
        http_reply_header(reply, "Dlcache-From", "%s", a->from);
        http_reply_header(reply, "Dlcache-Checksum", "%016llx", (unsigned long long)a->checksum);
        return;
    }
    count(peer_refused);
    switch (a->rc) {
    case DLC_ECHANGED: http_problem(reply, 409, "Another snapshot", "%s", a->err.text); break;
    case DLC_EBUSY: http_problem(reply, 409, "Busy", "%s; read the bucket", a->err.text); break;
    case DLC_EDENIED: http_problem(reply, 403, "Not yours", "%s", a->err.text); break;
    case DLC_ENOTFOUND: http_problem(reply, 404, "Not found", "%s", a->err.text); break;
    case DLC_EBYPASS:
    case DLC_ENOSPACE:
    case DLC_ENOMEM: http_problem(reply, 507, "No room", "%s; read the bucket", a->err.text); break;
    default: http_problem(reply, 503, "Not now", "%s; read the bucket", a->err.text); break;
    }
}

static bool parse_path(const struct http_request *r, bool catalog, uint64_t *snapshot,
                       uint64_t *number)
{
    const char *text = catalog ? http_query(r, "offset") : r->params[2];

    return str_parse_hex64(r->params[1], snapshot) &&
           str_parse_u64(text != NULL ? text : "0", number);
}

/* Whoever asks is told that we are at work when it takes longer than from memory. */
static void wait_for(struct ask *a, const struct http_request *r)
{
    struct dlc_dur patience = SIGN_AFTER;

    dlc_mtx_lock(&a->mtx);
    while (!a->done) {
        if (dlc_cond_wait_for(&a->answered, &a->mtx, patience) == 0 || a->done)
            continue;
        dlc_mtx_unlock(&a->mtx);
        http_processing(r);
        dlc_mtx_lock(&a->mtx);
        patience = SIGN_EVERY;
    }
    dlc_mtx_unlock(&a->mtx);
}

/* Hands the question to the loop and waits for its answer. NULL: the path makes no sense. */
static struct ask *ask_loop(struct door *d, struct http_request *r, bool catalog,
                            struct http_reply *reply)
{
    const char *tenant = http_query(r, "tenant");
    struct ask *a = mem_new(struct ask);

    dlc_check(d->tag == DOOR_TAG);
    if (!parse_path(r, catalog, &a->snapshot, &a->sample)) {
        http_problem(reply, 400, "Bad path",
                     "a snapshot is 16 hexadecimal digits, a sample and an offset are numbers");
        mem_free(&a);
        return NULL;
    }
    a->tag = ASK_TAG;
    a->refs = 2;
    a->door = d;
    a->fd = -1;
    a->catalog = catalog;
    a->token = same_token(r->token, d->node->token) ? NULL : mem_str(r->token);
    a->cid = mem_str(r->params[0]);
    if (a->token == NULL)
        a->tenant = mem_str(tenant != NULL ? tenant : "");
    a->task.run = on_ask;
    dlc_list_init(&a->link);
    dlc_mtx_init(&a->mtx, LCK_sync);
    dlc_cond_init(&a->answered);
    loop_post(d->node->loop, &a->task);
    wait_for(a, r);
    a->task.run = release_held;
    return a;
}

static void get_sample(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct ask *a = ask_loop(ctx, r, false, reply);

    if (a != NULL)
        reply_to(a, reply);
}

/* A piece of it, from an offset on. */
static json_t *catalog_piece(const struct catalog *c, uint64_t at)
{
    uint64_t size = catalog_file_size(c);
    size_t len = at < size ? (size_t)DLC_MIN(size - at, (uint64_t)PIECE) : 0;
    char *raw = mem_alloc(len + 1);
    struct buf text = BUF_INIT;
    json_t *o = NULL;

    if (len > 0 && os_pread_all(catalog_fd(c), raw, len, at) == 0) {
        str_base64(raw, len, &text);
        o = json_pack("{s:I, s:s}", "size", (json_int_t)size, "data", buf_str(&text));
    }
    buf_release(&text);
    mem_free(&raw);
    return o;
}

static void get_catalog(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct ask *a = ask_loop(ctx, r, true, reply);

    if (a == NULL)
        return;
    if (a->rc == 0) {
        reply->body = catalog_piece(a->ds->catalog, a->sample);
        if (reply->body == NULL)
            http_problem(reply, 404, "Not found", "the catalog does not go that far");
        reply->done = sent;
        reply->arg = a;
    } else {
        reply_to(a, reply);
    }
}

static void get_health(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    reply->body = json_pack("{s:s}", "status", "ok");
}

#define NEEDS_TOKEN 1u

static bool check(struct http_request *r, const struct http_route *route, struct http_reply *reply,
                  void *ctx)
{
    (void)ctx;
    if ((route->roles & NEEDS_TOKEN) == 0 || r->token != NULL)
        return true;
    count(peer_refused);
    http_problem(reply, 401, "No token",
                 "send the token of a node or of the dataset's tenant: Authorization: Bearer ...");
    return false;
}

static const struct http_route routes[] = {
    {"GET", "/v1/peer/{dataset}/{snapshot}/samples/{sample}", NEEDS_TOKEN, get_sample},
    {"GET", "/v1/peer/{dataset}/{snapshot}/catalog", NEEDS_TOKEN, get_catalog},
    {"GET", "/v1/health", 0, get_health},
    {NULL, NULL, 0, NULL},
};

/* ---- life ---- */

int door_open(struct node *n, const char *listen, struct door **out, struct dlc_err *err)
{
    struct door *d = mem_new(struct door);
    struct http_server_config c = {
        .address = listen, .connections = CONNECTIONS, .routes = routes, .ctx = d, .check = check};
    int rc;

    d->tag = DOOR_TAG;
    d->node = n;
    rc = http_server_open(&c, &d->server, err);
    if (rc < 0)
        mem_free(&d);
    else
        log_info("peers are served at %s", http_server_address(d->server));
    *out = d;
    return rc;
}

const char *door_address(const struct door *d)
{
    return http_server_address(d->server);
}

void door_close(struct door *d)
{
    http_server_close(&d->server);
}

void door_free(struct door **dp)
{
    struct door *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    if (d->server != NULL)
        http_server_close(&d->server);
    d->tag = 0;
    mem_free(&d);
}
