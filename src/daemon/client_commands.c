// SPDX-License-Identifier: Apache-2.0
#include "daemon/client_commands.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "daemon/background_command.h"
#include "daemon/client_audit.h"
#include "daemon/client_conn.h"
#include "daemon/client_fds.h"
#include "daemon/client_open.h"
#include "daemon/client_order.h"
#include "daemon/client_rights.h"
#include "daemon/dataset.h"
#include "daemon/dataset_table.h"
#include "daemon/dataset_chunks.h"
#include "daemon/decoded_cache.h"
#include "daemon/ending.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/warm.h"
#include "daemon/session.h"
#include "daemon/stat.h"
#include "daemon/state.h"
#include "catalog/catalog.h"
#include "daemon/work.h"

#define OPERATION(name, right, fds) static void op_##name(struct conn *c, struct msg *m);
#include "daemon/operations.def"
#undef OPERATION

/* ---- map: a descriptor of a large sample, and its checksum ---- */

struct map_command {
    struct background_command base;
    struct chunk_id chunk;
    uint64_t size, checksum;
    bool suspects; /* the client has read it, and the checksum was wrong */
    int fd;
};

static void map_work(struct work *w)
{
    struct map_command *e = dlc_container(w, struct map_command, base.work);
    struct background_command *b = &e->base;

    if (e->suspects)
        b->rc = disk_verify(b->node->disk, e->chunk, e->size, &b->err);
    if (b->rc == 0)
        b->rc = disk_open_chunk(b->node->disk, e->chunk, e->size, &e->fd, &e->checksum, &b->err);
    loop_post(b->node->loop, &b->task);
}

static json_t *map_answer(const struct map_command *e)
{
    char checksum[17];

    snprintf(checksum, sizeof(checksum), "%016llx", (unsigned long long)e->checksum);
    return json_pack("{s:b, s:I, s:s}", "ok", 1, "size", (json_int_t)e->size, "checksum", checksum);
}

static void map_back(struct task *t)
{
    struct map_command *e = dlc_container(t, struct map_command, base.task);
    struct conn *c = conn_by_id(e->base.node, e->base.conn);

    if (c != NULL && e->base.rc < 0)
        conn_fail_err(c, &e->base.err);
    else if (c != NULL)
        conn_send(c, map_answer(e), &e->fd, 1);
    os_close(&e->fd);
    background_end(&e->base);
}

static void op_map(struct conn *c, struct msg *m)
{
    json_int_t sample = json_integer_value(json_object_get(m->body, "sample"));
    struct catalog_entry entry;
    struct dlc_err err;
    struct map_command *e;

    if (!session_reads_samples(c->session) || c->node->disk == NULL || sample < 0) {
        conn_fail(c, DLC_EINVAL, "map: needs an open dataset, a disk tier and a sample number");
        return;
    }
    if (!json_is_true(json_object_get(m->body, "compares"))) { /* nobody has verified the file */
        conn_fail(c, DLC_EPROTO,
                  "map: the client must compare the checksum of what it reads; "
                  "update libdlcache");
        return;
    }
    if (catalog_get(c->session->ds->catalog, (uint64_t)sample, &entry, &err) < 0) {
        conn_fail_err(c, &err);
        return;
    }
    e = background_new(c, c->session->ds, sizeof(*e));
    if (e == NULL)
        return;
    e->fd = -1;
    e->chunk = dataset_chunk(e->base.ds, entry.key, entry.etag);
    e->size = entry.size;
    e->suspects = json_is_true(json_object_get(m->body, "suspects"));
    /* To verify takes long, and clients may suspect what they like. */
    background_run(&e->base, e->suspects ? WORK_BACKGROUND : WORK_DEMAND, map_work, map_back);
}

/* ---- evict ---- */

struct evict_command {
    struct background_command base;
    uint64_t id;           /* the dataset, ... */
    struct evict_place at; /* ... and how far in it */
    uint64_t memory_bytes, disk_bytes;
    bool from_disk;
};

static void evict_work(struct work *w)
{
    struct evict_command *e = dlc_container(w, struct evict_command, base.work);

    e->disk_bytes = e->base.ds != NULL ? dataset_drop_chunks(e->base.ds, NULL, 0)
                                       : disk_drop_all(e->base.node->disk);
    loop_post(e->base.node->loop, &e->base.task);
}

static void evict_back(struct task *t)
{
    struct evict_command *e = dlc_container(t, struct evict_command, base.task);
    struct conn *c = conn_by_id(e->base.node, e->base.conn);

    if (c != NULL)
        conn_send(c,
                  json_pack("{s:b, s:I, s:I}", "ok", 1, "memory_bytes", (json_int_t)e->memory_bytes,
                            "disk_bytes", (json_int_t)e->disk_bytes),
                  NULL, 0);
    background_end(&e->base);
}

static void evict_memory_done(struct evict_command *e)
{
    if (e->from_disk)
        background_run(&e->base, WORK_BACKGROUND, evict_work, evict_back);
    else
        evict_back(&e->base.task);
}

/* The dataset to evict from: the one that was asked for or, of all, the one of the next number. */
static struct dataset *evict_from(const struct evict_command *e)
{
    struct dataset *next = NULL;

    if (e->base.ds != NULL)
        return e->id <= e->base.ds->id ? e->base.ds : NULL;
    do {
        next = dataset_from(e->base.node, next == NULL ? e->id : next->id + 1);
    } while (next != NULL && next->index == NULL);
    return next;
}

/* Whoever empties a tier wants the memory before the answer. */
static void give_back_step(struct task *t)
{
    struct evict_command *e = dlc_container(t, struct evict_command, base.task);

    if (tenant_memories_free_some(&e->base.node->memories))
        loop_post(e->base.node->loop, t);
    else
        evict_memory_done(e);
}

/* A slice in each turn of the loop. */
static void evict_step(struct task *t)
{
    struct evict_command *e = dlc_container(t, struct evict_command, base.task);
    struct dataset *ds = evict_from(e);

    if (ds == NULL) {
        tenant_memories_give_back(&e->base.node->memories);
        t->run = give_back_step;
        give_back_step(t);
        return;
    }
    if (e->id < ds->id)
        e->at = (struct evict_place){0};
    e->id = ds->id;
    if (!dataset_evict_some(ds, &e->at, &e->memory_bytes)) {
        e->id++;
        e->at = (struct evict_place){0};
    }
    loop_post(e->base.node->loop, t);
}

/* The dataset that is meant, of those that the caller may evict; NULL: none. */
static struct dataset *evict_named(const struct conn *c, const char *url)
{
    struct dataset *own = c->session != NULL ? c->session->ds : NULL;

    if (own != NULL && dataset_is_at(own, url))
        return own;
    return c->admin ? dataset_find(c->node, url) : NULL;
}

static void op_evict(struct conn *c, struct msg *m)
{
    const char *url = json_string_value(json_object_get(m->body, "url"));
    const char *tier = json_string_value(json_object_get(m->body, "tier"));
    bool all = tier == NULL || strcmp(tier, "all") == 0;
    struct dataset *ds = url != NULL ? evict_named(c, url) : NULL;
    struct evict_command *e;

    if (!all && strcmp(tier, "memory") != 0 && strcmp(tier, "disk") != 0) {
        conn_fail(c, DLC_EINVAL, "evict: tier is memory, disk or all");
        return;
    }
    if (url != NULL && ds == NULL) {
        conn_fail(c, DLC_ENOTFOUND, "no dataset of that URL is open (see `dlcache stat`)");
        return;
    }
    e = background_new(c, ds, sizeof(*e));
    if (e == NULL)
        return;
    client_audit(c, "evict", ds != NULL ? ds->url.shown : NULL, AUDIT_OK, NULL);
    e->from_disk = c->node->disk != NULL && (all || strcmp(tier, "disk") == 0);
    e->base.task.run = evict_step;
    if (all || strcmp(tier, "memory") == 0)
        evict_step(&e->base.task);
    else
        evict_memory_done(e);
}

/* ---- weights: what the session's job has yet to learn ---- */

static void op_weights(struct conn *c, struct msg *m)
{
    const char *job = json_string_value(json_object_get(m->body, "job"));
    struct dlc_err err = DLC_ERR_INIT;
    struct session *s = c->session;
    int fd;

    if (!session_reads_samples(c->session) || job == NULL || !str_is_name(job)) {
        conn_fail(c, DLC_EINVAL,
                  "weights: needs an open dataset and the name of a job, " STR_NAME_RULE);
        return;
    }
    if (job_weights_get(s, job, json_is_true(json_object_get(m->body, "own")), &err) < 0) {
        conn_fail_err(c, &err);
        return;
    }
    if (s->reader.active)
        next_use_changed(s->ds); /* what was not known may be expected now */
    fd = mem_common_fd(s->job_weights->memory);
    conn_send(c,
              json_pack("{s:b, s:I}", "ok", 1, "size",
                        (json_int_t)weights_size(catalog_count(s->ds->catalog))),
              &fd, 1);
}

/* ---- the others ---- */

/* On the connection of a session, so that the dataset is open. */
static void op_warm(struct conn *c, struct msg *m)
{
    const char *tier = json_string_value(json_object_get(m->body, "tier"));
    bool disk = tier != NULL && strcmp(tier, "disk") == 0;

    if (!session_reads_samples(c->session))
        conn_fail(c, DLC_EINVAL, "warm: open the dataset on this connection first");
    else if (tier != NULL && !disk && strcmp(tier, "memory") != 0)
        conn_fail(c, DLC_EINVAL, "warm: tier is memory or disk");
    else if (disk && c->node->disk == NULL)
        conn_fail(c, DLC_EINVAL, "warm: this daemon has no disk tier (started with --disk 0?)");
    else if (!warm_start(c, c->session->ds, disk ? FETCH_DISK : FETCH_MEMORY))
        conn_fail(c, DLC_EBUSY, "warm: too many are under way: wait for one to end");
}

static void op_open(struct conn *c, struct msg *m)
{
    client_open(c, m);
}

static void op_order(struct conn *c, struct msg *m)
{
    client_order(c, m);
}

static void op_stat(struct conn *c, struct msg *m)
{
    stat_handle(c, m);
}

static void op_stop(struct conn *c, struct msg *m)
{
    (void)m;
    client_audit(c, "stop", NULL, AUDIT_OK, NULL);
    conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
    node_stop(c->node);
}

static void op_dump(struct conn *c, struct msg *m)
{
    struct buf text = BUF_INIT;

    (void)m;
    tenant_memories_dump(&c->node->memories, &text);
    conn_send(c, json_pack("{s:b, s:o}", "ok", 1, "text", msg_string(buf_str(&text))), NULL, 0);
    buf_release(&text);
}

/* ---- extents: descriptors of the segment's memory ---- */

static void op_extents(struct conn *c, struct msg *m)
{
    json_int_t from = json_integer_value(json_object_get(m->body, "from"));
    struct mem_extent some[MSG_FDS];
    int fds[MSG_FDS];
    unsigned n;
    json_t *all;

    if (c->session == NULL || from < 0) {
        conn_fail(c, DLC_EINVAL, "extents: open a dataset first, and give the number of an extent");
        return;
    }
    n = mem_session_extents(c->session->mem, (uint64_t)from, some, MSG_FDS);
    all = json_array();
    for (unsigned i = 0; i < n; i++) {
        json_array_append_new(
            all, json_pack("[I, I]", (json_int_t)some[i].number, (json_int_t)some[i].generation));
        fds[i] = some[i].fd;
    }
    conn_send(c, json_pack("{s:b, s:o}", "ok", 1, "extents", all), fds, n);
}

/* The table: operations.def. */
static const struct operation ops[] = {
#define OPERATION(name, right, fds) {#name, RIGHT_##right, fds, op_##name},
#include "daemon/operations.def"
#undef OPERATION
};

/* Handlers see no descriptor that is anything but sealed memory: of other files each call may wait
 * for whom the client chose. false: the client has been told. */
static bool takes_fds(struct conn *c, const struct msg *m, unsigned most)
{
    char text[128];

    if (m->n_fds > most) {
        snprintf(text, sizeof(text), "a message with %u descriptors: this operation takes %s",
                 m->n_fds, most == 0 ? "none" : "one");
        conn_fail(c, DLC_EINVAL, text);
        return false;
    }
    for (unsigned i = 0; i < m->n_fds; i++) {
        if (!client_fd_is_sealed(m->fds[i])) {
            conn_fail(
                c, DLC_EINVAL,
                "a descriptor that is not sealed memory: hand over a memfd with F_SEAL_SHRINK "
                "and F_SEAL_WRITE (update libdlcache if this is its message)");
            return false;
        }
    }
    return true;
}

static void client_command(struct conn *c, struct msg *m)
{
    const char *op = json_string_value(json_object_get(m->body, "op"));

    for (size_t i = 0; op != NULL && i < DLC_COUNT(ops); i++) {
        if (strcmp(op, ops[i].name) == 0) {
            if (takes_fds(c, m, ops[i].fds))
                client_authorise(c, m, &ops[i]);
            return;
        }
    }
    conn_fail(c, DLC_EINVAL, "no such operation; there are:"
#define OPERATION(name, right, fds) " " #name
#include "daemon/operations.def"
#undef OPERATION
    );
}

/* ---- what hangs on a connection ---- */

static uint64_t client_ended(struct conn *c)
{
    struct mem_session_stats st = {0};

    session_abandon(c->session);
    session_add_stats(c->session, &st);
    return st.pins;
}

static void client_closed(struct conn *c)
{
    session_free(&c->session);
    dlc_list_remove(&c->waiting);
    if (c->opening != NULL)
        dataset_put(&c->opening);
    client_open_forget(c);
}

const struct client_ops client_command_ops = {
    .message = client_command,
    .ended = client_ended,
    .closed = client_closed,
};
