// SPDX-License-Identifier: Apache-2.0
/*
 * Copies a catalog from a peer. The manager knows the current snapshot of a dataset. A node that
 * has another one, or none, downloads it in pieces from a node that made it, instead of listing the
 * bucket and reading the heads of its archives again. So all nodes use the same sample numbers.
 *
 * Runs on a worker. The download is written beside the catalog's final path and opened like any
 * catalog, which verifies it; it is renamed to the final path only if it is the snapshot that was
 * asked for.
 */
#include "cluster/catalog_from_peer.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "net/json_client.h"
#include "daemon/catalog_load.h"
#include "daemon/dataset.h"
#include "daemon/snapshot.h"
#include "daemon/state.h"
#include "base/thread_pool.h"
#include "catalog/catalog.h"
#include "cluster/certificate.h"
#include "cluster/member.h"
#include "cluster/peer/view.h"
#include "daemon/work.h"

#define ASK_TIMEOUT DLC_SEC(5)
#define PEERS_MAX   16
#define SIZE_MAX_MB 65536u /* a catalog of four billion samples is smaller */

struct borrowing {
    struct dataset *ds;
    uint64_t snapshot;
    char *ticket;
    char *addresses[PEERS_MAX], *names[PEERS_MAX];
    unsigned n;
    struct work work;
    struct task task;
    int rc;
    struct dlc_err err;
    struct catalog *catalog;
    borrowed_f *done;
};

/* ---- on a worker ---- */

static bool is_ending(const struct borrowing *b)
{
    return node_is_ending(b->ds->node);
}

/* One piece to its place in the file. *size: of the whole. Bytes, or DLC_E*. */
static int64_t take_piece(struct http_client *http, const char *path, int fd, uint64_t at,
                          uint64_t *size, struct dlc_err *err)
{
    char *piece = mem_fmt("%s&offset=%llu", path, (unsigned long long)at);
    struct buf data = BUF_INIT;
    json_t *answer = NULL;
    const char *text;
    int64_t rc = http_json(http, "GET", piece, NULL, &answer, NULL, err);

    text = json_string_value(json_object_get(answer, "data"));
    *size = (uint64_t)json_integer_value(json_object_get(answer, "size"));
    if (rc == 0 && (text == NULL || !str_unbase64(text, &data) || data.len == 0 ||
                    *size >> 20 > SIZE_MAX_MB || data.len > *size - DLC_MIN(at, *size)))
        rc = dlc_err_set(err, DLC_EPROTO, "the peer sent an inconsistent catalog");
    else if (rc == 0 && os_pwrite_all(fd, data.data, data.len, at) < 0)
        rc = dlc_err_sys(err, "cannot write a catalog");
    else if (rc == 0)
        rc = (int64_t)data.len;
    buf_release(&data);
    json_decref(answer);
    mem_free(&piece);
    return rc;
}

static int take_all(struct borrowing *b, unsigned i, int fd, struct dlc_err *err)
{
    struct certificate *certificate = b->ds->node->member->certificate;
    bool tls = certificate_for_peers(certificate);
    struct tls_identity *id = tls ? certificate_get(certificate) : NULL;
    const struct http_client_config c = {.base = b->addresses[i],
                                         .token = b->ticket,
                                         .node = tls ? b->names[i] : NULL,
                                         .identity = id,
                                         .timeout = ASK_TIMEOUT};
    char *path = mem_fmt("/v1/peer/%s/%016llx/catalog?tenant=%s", b->ds->cid,
                         (unsigned long long)b->snapshot, b->ds->tenant);
    struct http_client *http = NULL;
    uint64_t at = 0, size = 1;
    int64_t rc = http_client_open(&c, &http, err);

    while (rc >= 0 && at < size && !is_ending(b)) {
        rc = take_piece(http, path, fd, at, &size, err);
        at += rc > 0 ? (uint64_t)rc : 0;
    }
    if (rc >= 0 && at < size)
        rc = dlc_err_set(err, DLC_ECANCELED, "the daemon is stopping");
    http_client_close(&http);
    tls_identity_put(&id);
    mem_free(&path);
    return rc < 0 ? (int)rc : 0;
}

/* Is it what we asked for? */
static int verify(const struct borrowing *b, const char *file, struct dlc_err *err)
{
    struct catalog *c = NULL;
    int rc = catalog_load(file, &c, err);

    if (rc == 0 &&
        (catalog_snapshot(c) != b->snapshot || strcmp(catalog_url(c), b->ds->url.text) != 0))
        rc = dlc_err_set(err, DLC_EPROTO, "the peer's catalog is another one");
    catalog_close(&c);
    return rc;
}

static int borrow_from(struct borrowing *b, unsigned i, struct dlc_err *err)
{
    char *file = mem_fmt("%s.%llu.tmp", b->ds->catalog_path, (unsigned long long)b->ds->id);
    int fd = os_open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int rc = fd < 0 ? dlc_err_sys(err, "cannot make %s", file) : take_all(b, i, fd, err);

    os_close(&fd);
    if (rc == 0)
        rc = verify(b, file, err);
    if (rc == 0)
        rc = snapshot_install(b->ds, file, err);
    if (rc == 0)
        rc = load_catalog(b->ds, b->ds->opening.pinned, &b->catalog, err);
    if (rc < 0)
        os_unlink(file);
    mem_free(&file);
    return rc;
}

static void borrow_work(struct work *w)
{
    struct borrowing *b = dlc_container(w, struct borrowing, work);

    b->rc = DLC_ENOTFOUND;
    for (unsigned i = 0; i < b->n && b->rc < 0 && !is_ending(b); i++) {
        b->rc = borrow_from(b, i, &b->err);
        if (b->rc < 0)
            log_debug("no catalog of %s at %s: %s", b->ds->cid, b->addresses[i], b->err.text);
        else
            log_info("%s: the catalog comes from %s", b->ds->url.shown, b->addresses[i]);
    }
    loop_post(b->ds->node->loop, &b->task);
}

/* ---- on the loop ---- */

static void borrowed(struct task *t)
{
    struct borrowing *b = dlc_container(t, struct borrowing, task);
    struct dataset *ds = b->ds;
    struct node *n = ds->node;
    struct catalog *catalog = b->catalog;
    borrowed_f *done = b->done;
    int rc = b->rc;

    n->pending--;
    for (unsigned i = 0; i < b->n; i++) {
        mem_free(&b->addresses[i]);
        mem_free(&b->names[i]);
    }
    secret_free(&b->ticket);
    mem_free(&b);
    done(ds, rc, &catalog);
    catalog_close(&catalog);
    dataset_put(&ds);
}

bool catalog_from_peer(struct dataset *ds, uint64_t snapshot, borrowed_f *done)
{
    struct node *n = ds->node;
    struct borrowing *b;
    struct cluster_peer peer;

    if (ds->ticket.text == NULL)
        return false;
    b = mem_new(struct borrowing);
    b->ticket = mem_str(ds->ticket.text);
    b->ds = ds;
    b->snapshot = snapshot;
    b->done = done;
    for (size_t i = 0; b->n < PEERS_MAX && cluster_peer_at(n->cluster, i, &peer); i++) {
        b->names[b->n] = mem_str(peer.name);
        b->addresses[b->n++] = mem_str(peer.address);
    }
    if (b->n == 0) {
        secret_free(&b->ticket);
        mem_free(&b);
        return false;
    }
    b->work.run = borrow_work;
    b->task.run = borrowed;
    dataset_ref(ds);
    n->pending++;
    work_run(n->work, WORK_CATALOG, &b->work);
    return true;
}
