// SPDX-License-Identifier: Apache-2.0
/* What workers read for the peer server: files of large samples, and pieces of catalogs. */
#include "cluster/peer_server_i.h"

#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/state.h"

#define PIECE (384u << 10) /* of a catalog, in one answer */

/* ---- large samples: each lies in a file of the disk tier ---- */

/* What goes out of a file, summed on the way. */
struct file_sum {
    struct disk *disk;
    struct chunk_id chunk;
    uint64_t len, checksum; /* of the chunk */
    struct hash64_stream *sum;
    uint64_t summed; /* bytes */
};

/* On a worker. False: it is not the chunk; the disk tier drops it, and the peer is not sent the
 * end. */
static bool sums_up(void *arg, uint64_t at, const void *data, size_t n)
{
    struct file_sum *s = arg;

    if (s->sum == NULL || at != s->summed)
        return true; /* a range: whoever asked for it knows the checksum of the whole */
    hash64_add(s->sum, data, n);
    s->summed += n;
    if (s->summed < s->len || hash64_end(&s->sum) == s->checksum)
        return true;
    disk_verify(s->disk, s->chunk, s->len, NULL);
    return false;
}

static void sum_over(void *arg)
{
    struct file_sum *s = arg;

    hash64_end(&s->sum);
    mem_free(&s);
}

static struct file_sum *sum_begin(const struct peer_request *a)
{
    struct file_sum *s = mem_new(struct file_sum);

    s->disk = a->peer_server->node->disk;
    s->chunk = a->chunk;
    s->len = a->len;
    s->checksum = a->checksum;
    s->sum = hash64_begin();
    return s;
}

static void on_opened(struct task *t)
{
    struct peer_request *a = peer_request_of(dlc_container(t, struct peer_request, task));
    struct http_reply reply = {.type = "application/octet-stream", .file = true};

    if (a->rc < 0) {
        peer_request_fail(a, a->rc, a->err.text);
        return;
    }
    if (a->call != NULL) {
        reply.file_fd = a->fd;
        reply.file_check = sums_up;
        reply.file_over = sum_over;
        reply.file_arg = sum_begin(a);
        reply.data_len = a->len;
        http_reply_header(&reply, "Dlcache-From", "%s", "disk");
        http_reply_header(&reply, "Dlcache-Checksum", "%016llx", (unsigned long long)a->checksum);
        peer_request_answer(a, &reply);
    } else {
        os_close(&a->fd);
    }
    peer_request_end(a);
}

static void open_work(struct work *w)
{
    struct peer_request *a = peer_request_of(dlc_container(w, struct peer_request, work));

    /* It is not verified before: that takes as long as to send it, and the peer compares. */
    a->rc = disk_open_chunk(a->peer_server->node->disk, a->chunk, a->len, &a->fd, &a->checksum,
                            &a->err);
    loop_post(a->peer_server->node->loop, &a->task);
}

void peer_request_open_large(struct peer_request *a, const struct catalog_entry *e)
{
    a->chunk = dataset_chunk(a->ds, e->key, e->etag);
    a->len = e->size;
    a->work.run = open_work;
    a->task.run = on_opened;
    if (!work_try(a->peer_server->node->work, WORK_DEMAND, &a->work, 0))
        peer_request_fail(a, DLC_EBUSY, "too many disk reads wait");
}

/* ---- catalogs ---- */

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

static void on_catalog_read(struct task *t)
{
    struct peer_request *a = peer_request_of(dlc_container(t, struct peer_request, task));
    struct http_reply reply = {.body = a->piece};

    if (a->piece == NULL) {
        peer_request_fail(a, DLC_ENOTFOUND, "the catalog does not go that far");
        return;
    }
    if (a->call != NULL)
        peer_request_answer(a, &reply);
    else
        json_decref(a->piece);
    peer_request_end(a);
}

static void catalog_work(struct work *w)
{
    struct peer_request *a = peer_request_of(dlc_container(w, struct peer_request, work));

    a->piece = catalog_piece(a->ds->catalog, a->sample);
    loop_post(a->peer_server->node->loop, &a->task);
}

void peer_request_give_catalog(struct peer_request *a, struct dataset *ds)
{
    if (ds == NULL) {
        peer_request_fail(a, DLC_ENOTFOUND, "this node has no such catalog");
        return;
    }
    a->ds = ds;
    dataset_ref(ds);
    a->work.run = catalog_work;
    a->task.run = on_catalog_read;
    if (!work_try(ds->node->work, WORK_CATALOG, &a->work, 0))
        peer_request_fail(a, DLC_EBUSY, "too many catalogs are being read");
}
