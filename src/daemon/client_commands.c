// SPDX-License-Identifier: Apache-2.0
/* Commands of clients over the daemon's socket; docs/format/protocol.md lists them. */
#include "daemon/client_commands.h"

#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "daemon/client_conn.h"
#include "daemon/client_fds.h"
#include "daemon/client_open.h"
#include "daemon/client_rights.h"
#include "daemon/dataset.h"
#include "daemon/dataset_table.h"
#include "daemon/dataset_chunks.h"
#include "daemon/decoded_cache.h"
#include "daemon/ending.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/order_limits.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/warm.h"
#include "daemon/session.h"
#include "daemon/stat.h"
#include "daemon/state.h"
#include "base/thread_pool.h"
#include "catalog/catalog.h"
#include "daemon/work.h"
#include "order/order.h"
#include "order/schedule.h"
#include "order/substitution.h"

#define BACKGROUND_MAX 16 /* of one client; the library sends one at a time */

#define OPERATION(name, right, fds) static void op_##name(struct conn *c, struct msg *m);
#include "daemon/operations.def"
#undef OPERATION

static bool reads_samples(const struct conn *c)
{
    return c->session != NULL && c->session->decoded == NULL;
}

/* ---- commands that a worker thread executes ---- */

struct background_command {
    struct work work;
    struct task task;
    struct node *node;
    uint64_t conn;
    struct dataset *ds; /* NULL: all */
    /* map */
    struct chunk_id chunk;
    uint64_t size, checksum;
    bool suspects; /* the client has read it, and the checksum was wrong */
    int fd;
    /* order */
    struct {
        bool more;
        uint64_t position, epoch, epochs, begin;
        uint64_t length, bytes; /* of the list, and with its index in memory */
    } order;
    struct schedule_list *list;
    struct schedule *computed; /* with swaps to be read */
    /* evict */
    uint64_t id;           /* the dataset, ... */
    struct evict_place at; /* ... and how far in it */
    uint64_t memory_bytes, disk_bytes;
    bool from_disk;
    int rc;
    struct dlc_err err;
};

/* NULL: the client asks for more at once than it could want; it has been told. */
static struct background_command *background_new(struct conn *c, struct dataset *ds)
{
    struct background_command *e;

    if (c->n_background >= BACKGROUND_MAX) {
        conn_fail(c, DLC_EBUSY, "too many questions at once: wait for the answers");
        return NULL;
    }
    e = mem_new(struct background_command);
    c->n_background++;
    e->node = c->node;
    e->node->pending++;
    e->conn = c->id;
    e->ds = ds;
    if (ds != NULL)
        ds->refs++;
    e->fd = -1;
    return e;
}

static void background_run(struct background_command *e, enum work_class class,
                           void (*work)(struct work *), void (*back)(struct task *))
{
    e->work.run = work;
    e->task.run = back;
    work_run(e->node->work, class, &e->work);
}

static void background_end(struct background_command *e)
{
    struct conn *c = conn_by_id(e->node, e->conn);

    if (c != NULL)
        c->n_background--;
    e->node->pending--;
    if (e->ds != NULL)
        dataset_put(&e->ds);
    os_close(&e->fd);
    mem_free(&e);
}

/* ---- map: a descriptor of a large sample, and its checksum ---- */

static void map_work(struct work *w)
{
    struct background_command *e = dlc_container(w, struct background_command, work);

    if (e->suspects)
        e->rc = disk_verify(e->node->disk, e->chunk, e->size, &e->err);
    if (e->rc == 0)
        e->rc = disk_open_chunk(e->node->disk, e->chunk, e->size, &e->fd, &e->checksum, &e->err);
    loop_post(e->node->loop, &e->task);
}

static json_t *map_answer(const struct background_command *e)
{
    char checksum[17];

    snprintf(checksum, sizeof(checksum), "%016llx", (unsigned long long)e->checksum);
    return json_pack("{s:b, s:I, s:s}", "ok", 1, "size", (json_int_t)e->size, "checksum", checksum);
}

static void map_back(struct task *t)
{
    struct background_command *e = dlc_container(t, struct background_command, task);
    struct conn *c = conn_by_id(e->node, e->conn);

    if (c != NULL && e->rc < 0)
        conn_fail_err(c, &e->err);
    else if (c != NULL)
        conn_send(c, map_answer(e), &e->fd, 1);
    background_end(e);
}

static void op_map(struct conn *c, struct msg *m)
{
    json_int_t sample = json_integer_value(json_object_get(m->body, "sample"));
    struct catalog_entry entry;
    struct dlc_err err;
    struct background_command *e;

    if (!reads_samples(c) || c->node->disk == NULL || sample < 0) {
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
    e = background_new(c, c->session->ds);
    if (e == NULL)
        return;
    e->chunk = dataset_chunk(e->ds, entry.key, entry.etag);
    e->size = entry.size;
    e->suspects = json_is_true(json_object_get(m->body, "suspects"));
    /* To verify takes long, and clients may suspect what they like. */
    background_run(e, e->suspects ? WORK_BACKGROUND : WORK_DEMAND, map_work, map_back);
}

/* ---- evict ---- */

static void evict_work(struct work *w)
{
    struct background_command *e = dlc_container(w, struct background_command, work);

    e->disk_bytes = e->ds != NULL ? dataset_drop_chunks(e->ds) : disk_drop_all(e->node->disk);
    loop_post(e->node->loop, &e->task);
}

static void evict_back(struct task *t)
{
    struct background_command *e = dlc_container(t, struct background_command, task);
    struct conn *c = conn_by_id(e->node, e->conn);

    if (c != NULL)
        conn_send(c,
                  json_pack("{s:b, s:I, s:I}", "ok", 1, "memory_bytes", (json_int_t)e->memory_bytes,
                            "disk_bytes", (json_int_t)e->disk_bytes),
                  NULL, 0);
    background_end(e);
}

static void evict_memory_done(struct background_command *e)
{
    if (e->from_disk)
        background_run(e, WORK_BACKGROUND, evict_work, evict_back);
    else
        evict_back(&e->task);
}

/* The dataset to evict from: the one that was asked for or, of all, the one of the next number. */
static struct dataset *evict_from(const struct background_command *e)
{
    struct dataset *next = NULL;

    if (e->ds != NULL)
        return e->id <= e->ds->id ? e->ds : NULL;
    dlc_list_each (l, &e->node->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        if (ds->index != NULL && ds->id >= e->id && (next == NULL || ds->id < next->id))
            next = ds;
    }
    return next;
}

/* Whoever empties a tier wants the memory before the answer. */
static void give_back_step(struct task *t)
{
    struct background_command *e = dlc_container(t, struct background_command, task);

    if (tenant_memories_free_some(&e->node->memories))
        loop_post(e->node->loop, t);
    else
        evict_memory_done(e);
}

/* A slice in each turn of the loop. */
static void evict_step(struct task *t)
{
    struct background_command *e = dlc_container(t, struct background_command, task);
    struct dataset *ds = evict_from(e);

    if (ds == NULL) {
        tenant_memories_give_back(&e->node->memories);
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
    loop_post(e->node->loop, t);
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
    struct background_command *e;

    if (!all && strcmp(tier, "memory") != 0 && strcmp(tier, "disk") != 0) {
        conn_fail(c, DLC_EINVAL, "evict: tier is memory, disk or all");
        return;
    }
    if (url != NULL && ds == NULL) {
        conn_fail(c, DLC_ENOTFOUND, "no dataset of that URL is open (see `dlcache stat`)");
        return;
    }
    e = background_new(c, ds);
    if (e == NULL)
        return;
    e->from_disk = c->node->disk != NULL && (all || strcmp(tier, "disk") == 0);
    e->task.run = evict_step;
    if (all || strcmp(tier, "memory") == 0)
        evict_step(&e->task);
    else
        evict_memory_done(e);
}

/* ---- order: what the session will read ---- */

/* How many numbers a file has; 0: it is none of numbers. DLC_E*: it cannot be seen. */
static int64_t numbers_in(int fd, struct dlc_err *err)
{
    struct stat st;

    if (os_fstat(fd, &st) < 0)
        return dlc_err_sys(err, "order: cannot look at the list");
    return st.st_size % 8 == 0 ? st.st_size / 8 : 0;
}

/* Copied: the client could change or cut the memory it handed over. NULL: *err. */
static uint64_t *read_numbers(int fd, uint64_t n, struct dlc_err *err)
{
    uint64_t *list = mem_try_alloc(n * sizeof(*list));

    if (list == NULL)
        dlc_err_set(err, DLC_ENOMEM, "order: no memory for %llu numbers", (unsigned long long)n);
    else if (os_pread_all(fd, list, n * sizeof(*list), 0) < 0) {
        dlc_err_sys(err, "order: cannot read the list");
        mem_free(&list);
    }
    return list;
}

/* A list, its copy and its index are long: up to 1.2 GB. So all that is done away from the loop. */
static void list_work(struct work *w)
{
    struct background_command *e = dlc_container(w, struct background_command, work);
    uint64_t *list = read_numbers(e->fd, e->order.length, &e->err);

    if (list != NULL)
        e->list = schedule_list_new(list, e->order.length, catalog_count(e->ds->catalog), &e->err);
    os_close(&e->fd); /* here: to free that memory takes a while, too */
    loop_post(e->node->loop, &e->task);
}

/* The session follows it, or has one list more. 0 or DLC_E*. */
static int follow_list(struct session *s, struct background_command *e)
{
    if (e->list == NULL)
        return e->err.code;
    if (e->order.more)
        return prefetch_append_list(s, &e->list, &e->err);
    /* A cursor never gets that far: positions of all lists that may come can be counted on. */
    prefetch_start(s,
                   schedule_new_list(&e->list, e->order.epoch, e->order.epochs,
                                     DLC_MIN(e->order.begin, (uint64_t)1 << 62)),
                   e->order.position, false);
    return 0;
}

static void list_back(struct task *t)
{
    struct background_command *e = dlc_container(t, struct background_command, task);
    struct conn *c = conn_by_id(e->node, e->conn);

    if (c != NULL)
        c->lists -= e->order.bytes;
    if (c != NULL && c->session == NULL)
        c = NULL; /* it is on its way out */
    if (c != NULL && e->order.more && !prefetch_reads_lists(c->session))
        conn_fail(c, DLC_EINVAL, "order: one list more needs an explicit order before it");
    else if (c != NULL && follow_list(c->session, e) < 0)
        conn_fail_err(c, &e->err);
    else if (c != NULL)
        conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
    schedule_list_free(&e->list);
    background_end(e);
}

static void order_list(struct conn *c, struct msg *m, bool more)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t samples = catalog_count(c->session->ds->catalog), bytes;
    int64_t length = m->n_fds > 0 ? numbers_in(m->fds[0], &err) : 0; /* sealed: does not wait */
    struct background_command *e;

    bytes = schedule_list_bytes((uint64_t)DLC_MAX(length, 0), samples);
    if (length < 0 || order_length_check((uint64_t)length, samples, &err) < 0 ||
        order_budget_check(c, more, bytes, &err) < 0) {
        conn_fail_err(c, &err);
        return;
    }
    e = background_new(c, c->session->ds);
    if (e == NULL)
        return;
    c->lists += bytes;
    e->order.bytes = bytes;
    e->order.length = (uint64_t)length;
    e->order.more = more;
    e->order.position = json_u64_at(m->body, "position");
    e->order.epoch = json_u64_at(m->body, "epoch");
    e->order.epochs = json_u64_at(m->body, "epochs");
    e->order.begin = json_u64_at(m->body, "begin");
    e->fd = msg_take_fd(m, 0);
    background_run(e, WORK_COPY, list_work, list_back);
}

static struct schedule *computed_order(struct session *s, const json_t *body, const char *kind,
                                       struct dlc_err *err)
{
    uint64_t samples = catalog_count(s->ds->catalog);
    struct order_spec spec = {
        .kind = strcmp(kind, "shuffled") == 0 ? ORDER_SHUFFLED : ORDER_SEQUENTIAL,
        .n = json_u64_at(body, "n"),
        .first = json_u64_at(body, "first"),
        .seed = (uint64_t)json_integer_value(json_object_get(body, "seed")),
        .rank = (uint32_t)json_u64_at(body, "rank"),
        .world = (uint32_t)json_u64_at(body, "world"),
        .drop_last = json_is_true(json_object_get(body, "drop_last")),
    };

    if (spec.first > samples || spec.n > samples - spec.first) {
        dlc_err_set(err, DLC_EINVAL, "order: samples beyond the dataset's %llu",
                    (unsigned long long)samples);
        return NULL;
    }
    return schedule_new(&spec, json_u64_at(body, "epoch"), json_u64_at(body, "epochs"), err);
}

/* What a client has swapped in an order that it tells again, from `pos` on: in two epochs at most,
 * so more than they have is not even read. */
static int take_swaps(struct schedule *t, int fd, uint64_t pos, struct dlc_err *err)
{
    uint64_t most = 2 * DLC_MIN(t->length, (uint64_t)SWAPS_MAX), len, *pairs;
    int64_t numbers = numbers_in(fd, err);
    int rc;

    if (numbers < 0)
        return err->code;
    len = (uint64_t)numbers;
    if (len == 0 || len % 2 != 0 || len / 2 > most)
        return dlc_err_set(err, DLC_EINVAL,
                           "order: swaps are a list of 1 to %llu pairs of numbers of 8 bytes",
                           (unsigned long long)most);
    pairs = read_numbers(fd, len, err);
    if (pairs == NULL)
        return err->code;
    schedule_move(t, pos);
    rc = schedule_set_swaps(t, (const struct swap_pair *)pairs, len / 2, err);
    mem_free(&pairs);
    return rc;
}

/* Up to 128 MB of them. Nobody else has the schedule yet. */
static void swaps_work(struct work *w)
{
    struct background_command *e = dlc_container(w, struct background_command, work);

    e->rc = take_swaps(e->computed, e->fd, e->order.position, &e->err);
    os_close(&e->fd);
    loop_post(e->node->loop, &e->task);
}

static void swaps_back(struct task *t)
{
    struct background_command *e = dlc_container(t, struct background_command, task);
    struct conn *c = conn_by_id(e->node, e->conn);

    if (c != NULL && c->session != NULL && e->rc < 0) {
        conn_fail_err(c, &e->err);
    } else if (c != NULL && c->session != NULL) {
        prefetch_start(c->session, e->computed, e->order.position, true);
        e->computed = NULL;
        conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
    }
    schedule_free(&e->computed);
    background_end(e);
}

/* Takes t. */
static void order_swaps(struct conn *c, struct msg *m, struct schedule *t, uint64_t pos)
{
    struct background_command *e = background_new(c, c->session->ds);

    if (e == NULL) {
        schedule_free(&t);
        return;
    }
    e->computed = t;
    e->order.position = pos;
    e->fd = msg_take_fd(m, 0);
    background_run(e, WORK_COPY, swaps_work, swaps_back);
}

static bool is_order_kind(const char *kind)
{
    return kind != NULL && (strcmp(kind, "sequential") == 0 || strcmp(kind, "shuffled") == 0 ||
                            strcmp(kind, "explicit") == 0);
}

static void op_order(struct conn *c, struct msg *m)
{
    const char *kind = json_string_value(json_object_get(m->body, "kind"));
    uint64_t pos = json_u64_at(m->body, "position");
    bool swaps = json_is_true(json_object_get(m->body, "swaps"));
    struct dlc_err err = DLC_ERR_INIT;
    struct schedule *t;

    if (json_is_true(json_object_get(m->body, "more"))) {
        if (reads_samples(c) && prefetch_reads_lists(c->session))
            order_list(c, m, true);
        else
            conn_fail(c, DLC_EINVAL, "order: one list more needs an explicit order before it");
        return;
    }
    if (!reads_samples(c) || !is_order_kind(kind)) {
        conn_fail(c, DLC_EINVAL,
                  "order: needs an open dataset and a kind: sequential, shuffled or explicit");
        return;
    }
    if (strcmp(kind, "explicit") == 0) {
        order_list(c, m, false);
        return;
    }
    if (m->n_fds > 0 && !swaps) {
        conn_fail(c, DLC_EINVAL, "order: a computed order without swaps takes no descriptor");
        return;
    }
    t = computed_order(c->session, m->body, kind, &err);
    if (t == NULL) {
        conn_fail_err(c, &err);
        return;
    }
    if (m->n_fds > 0) {
        order_swaps(c, m, t, pos);
        return;
    }
    prefetch_start(c->session, t, pos, swaps);
    conn_send(c, json_pack("{s:b}", "ok", 1), NULL, 0);
}

/* ---- weights: what the session's job has yet to learn ---- */

static void op_weights(struct conn *c, struct msg *m)
{
    const char *job = json_string_value(json_object_get(m->body, "job"));
    struct dlc_err err = DLC_ERR_INIT;
    struct session *s = c->session;
    int fd;

    if (!reads_samples(c) || job == NULL || !str_is_name(job)) {
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

    if (!reads_samples(c))
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

static void op_stat(struct conn *c, struct msg *m)
{
    stat_handle(c, m);
}

static void op_stop(struct conn *c, struct msg *m)
{
    (void)m;
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
}

const struct client_ops client_command_ops = {
    .message = client_command,
    .ended = client_ended,
    .closed = client_closed,
};
