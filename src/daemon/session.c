// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions: one client process on one dataset. Requests come through the submission ring in shared
 * memory, which the client may fill with anything (ONE-NODE-4): the daemon copies every number once
 * and checks the copy; a client that breaks the rules is disconnected (CLIENT-CONN-4). The rules:
 *
 * (SESSION-1) tail is at most SHM_RING_LEN ahead of head.
 * (SESSION-2) a ring entry is below SHM_CELLS, a sample below the dataset's count, an op known.
 * (SESSION-3) a session waits for at most SHM_CELLS fetches at once.
 * (SESSION-4) a session of the decoded cache may only submit uploads; upload slot k completes in
 *             cell k.
 *
 * A client that never stops filling its ring gets SHM_RING_LEN requests per turn, like every other.
 * The doorbell is edge-triggered and never read: the client can change its flags too, so that a
 * read could block.
 */
#include "daemon/session.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "daemon/backlog.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/decoded_cache.h"
#include "daemon/events.h"
#include "daemon/fetch/fetch.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/pump.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/reserve.h"
#include "catalog/catalog.h"
#include "daemon/state.h"

#define SESSION_TAG DLC_TAG4('s', 'e', 's', 's')

static struct shm_session_hdr *hdr_of(const struct session *s)
{
    return mem_session_map(s->mem);
}

static _Atomic uint32_t *ring_of(const struct session *s)
{
    return (_Atomic uint32_t *)((char *)mem_session_map(s->mem) + SHM_RING_OFF);
}

static struct shm_cell *cell_of(const struct session *s, uint32_t i)
{
    return (struct shm_cell *)((char *)mem_session_map(s->mem) + SHM_CELLS_OFF) + i;
}

/* ---- answers ---- */

static void cell_set(struct shm_cell *c, uint32_t state)
{
    /* release: pairs with the client's acquire load of state before it reads rc and text */
    atomic_store_explicit(&c->state, state, memory_order_release);
    os_futex_wake(&c->state);
}

static void cell_answer(struct session *s, uint32_t cell, int rc, const char *text)
{
    struct shm_cell *c = cell_of(s, cell);

    c->rc = rc;
    c->text[0] = '\0';
    if (rc < 0 && text != NULL) {
        size_t n = DLC_MIN(strlen(text), sizeof(c->text) - 1);

        memcpy(c->text, text, n);
        c->text[n] = '\0';
    }
    cell_set(c, SHM_CELL_DONE);
}

static void waiter_free(struct waiter *w)
{
    if (--w->session->n_waiters == 0)
        prefetch_waits(w->session, false);
    dlc_list_remove(&w->of_session);
    dlc_list_remove(&w->of_fetch);
    mem_free(&w);
}

static void fetched(struct waiter *w, int rc, const char *text)
{
    cell_answer(w->session, w->cell, rc, text);
    waiter_free(w);
}

/* ---- requests ---- */

/* A field that the client may change under us: (ONE-NODE-4). */
#define once(field) (*(volatile const __typeof__(field) *)&(field))

static bool ask_fetch(struct session *s, uint32_t cell, uint64_t sample)
{
    struct waiter *w;

    if (sample >= catalog_count(s->ds->catalog) || s->n_waiters >= SHM_CELLS)
        return false;
    w = mem_new(struct waiter);
    w->session = s;
    w->done = fetched;
    w->cell = cell;
    w->asked = dlc_mono_now();
    dlc_list_init(&w->of_fetch);
    dlc_list_push_tail(&s->waiters, &w->of_session);
    if (s->n_waiters++ == 0)
        prefetch_waits(s, true);
    outcomes_mark_late(s, sample);
    fetch_start(s->ds, sample, FETCH_MEMORY, w, NULL);
    return true;
}

static bool ask_prefetch(struct session *s, struct shm_cell *c)
{
    uint64_t batch[SHM_CELL_BATCH];
    uint32_t count = once(c->count);

    if (count > SHM_CELL_BATCH)
        return false;
    memcpy(batch, c->batch, sizeof(batch));
    cell_set(c, SHM_CELL_FREE);
    for (uint32_t i = 0; i < count; i++) {
        if (batch[i] >= catalog_count(s->ds->catalog))
            return false;
        dataset_backlog_add(s->ds, batch[i]);
    }
    return true;
}

static void upload_done(struct session *s, uint32_t slot, int rc)
{
    s->n_uploads--;
    cell_answer(s, slot, rc, NULL);
}

static bool ask_upload(struct session *s, uint32_t slot, uint64_t sample, uint64_t len)
{
    int rc;

    if (slot >= SHM_UPLOAD_SLOTS || sample >= catalog_count(s->ds->catalog) ||
        len < sizeof(struct shm_decoded_hdr) || len > SHM_UPLOAD_SIZE ||
        s->n_uploads >= SHM_UPLOAD_SLOTS)
        return false;
    s->n_uploads++;
    rc = decoded_upload(s, sample, slot, len, upload_done);
    if (rc <= 0)
        upload_done(s, slot, rc);
    return true;
}

static bool take_request(struct session *s, uint32_t cell)
{
    struct shm_cell *c;
    uint32_t op;

    if (cell >= SHM_CELLS)
        return false;
    c = cell_of(s, cell);
    op = once(c->op);
    if (s->decoded != NULL)
        return op == SHM_OP_UPLOAD && ask_upload(s, cell, once(c->sample), once(c->len));
    if (op == SHM_OP_FETCH)
        return ask_fetch(s, cell, once(c->sample));
    return op == SHM_OP_PREFETCH && ask_prefetch(s, c);
}

/* Take what is in the ring, a turn's worth at most; false when the client wrote nonsense. */
static bool drain(struct session *s)
{
    struct shm_session_hdr *h = hdr_of(s);
    _Atomic uint32_t *ring = ring_of(s);
    unsigned taken = 0;

    while (taken < SHM_RING_LEN) {
        /* acquire: pairs with the client's release of tail after it filled ring and cell */
        uint32_t tail = atomic_load_explicit(&h->tail, memory_order_acquire);

        if (tail - s->head > SHM_RING_LEN)
            return false;
        if (tail == s->head) {
            atomic_store(&h->need_wake, 1);
            /* seq_cst on both sides: either we see the new tail, or the client sees need_wake */
            if (atomic_load(&h->tail) == s->head)
                return true;
            atomic_store(&h->need_wake, 0);
            continue;
        }
        while (s->head != tail) {
            /* relaxed: ordered by the acquire of tail */
            uint32_t cell =
                atomic_load_explicit(&ring[s->head % SHM_RING_LEN], memory_order_relaxed);

            s->head++;
            taken++;
            /* release: the client may reuse the entry when it sees this */
            atomic_store_explicit(&h->head, s->head, memory_order_release);
            if (!take_request(s, cell))
                return false;
        }
    }
    loop_timer_set(s->ds->node->loop, &s->again, loop_now(s->ds->node->loop));
    return true;
}

static void serve_ring(struct session *s)
{
    dlc_check(s->tag == SESSION_TAG);
    if (!drain(s)) {
        struct conn *c = s->conn;

        count(client_nonsense);
        conn_end(&c, "it wrote nonsense into its ring");
        return;
    }
    prefetch_pump(s->ds->node);
}

static void on_doorbell(struct watch *w, uint32_t events)
{
    (void)events;
    serve_ring(dlc_container(w, struct session, doorbell));
}

static void on_again(struct timer *t)
{
    serve_ring(dlc_container(t, struct session, again));
}

/* ---- life ---- */

static struct mem_index *index_of(const struct session *s)
{
    return s->decoded != NULL ? s->decoded->index : s->ds->index;
}

static json_t *welcome(const struct session *s)
{
    struct dataset *ds = s->ds;
    char snapshot[20];
    json_t *o;

    snprintf(snapshot, sizeof(snapshot), "%016llx",
             (unsigned long long)catalog_snapshot(ds->catalog));
    o = json_pack("{s:b, s:I, s:I, s:I, s:s, s:I, s:I}", "ok", 1, "dataset", (json_int_t)ds->id,
                  "samples", (json_int_t)catalog_visible(ds->catalog), "bytes",
                  (json_int_t)catalog_bytes(ds->catalog), "snapshot", snapshot, "segment_size",
                  (json_int_t)memory_header_size(dataset_memory(ds)), "index_size",
                  (json_int_t)mem_index_size(index_of(s)));
    if (ds->cid != NULL) { /* it may have been opened by its name */
        json_object_set_new(o, "url", msg_string(ds->asked.url));
        if (ds->asked.endpoint != NULL)
            json_object_set_new(o, "endpoint", msg_string(ds->asked.endpoint));
    }
    return o;
}

/* Those that read samples count as jobs, and are looked at for what they will read. */
static int join(struct session *s)
{
    dlc_list_push_tail(&s->ds->sessions, &s->link);
    s->ds->deleted = false; /* or it was made again */
    bypass_update(s);
    dataset_join(s->ds);
    dataset_run_begins(s->ds, s->conn->runs);
    return 0;
}

static int take_shelf(struct session *s, struct dlc_err *err)
{
    int rc = decoded_get(s->ds, s->conn->decoded_key, &s->decoded, err);

    return rc < 0 ? rc : mem_uploads_new(&s->uploads, err);
}

/* A tenant has memory of its own, and its users trust each other. */
static uint64_t user_of(const struct conn *c, const struct dataset *ds)
{
    bool own = c->uid == geteuid() || c->uid == 0;

    return own || (ds->tenant != NULL && ds->tenant[0] != '\0') ? MEM_OWNER : c->uid;
}

static int make_doorbell(struct session *s, struct dlc_err *err)
{
    s->doorbell.fd = os_eventfd();
    if (s->doorbell.fd < 0 ||
        loop_watch_set(s->conn->node->loop, &s->doorbell, EPOLLIN | EPOLLET) < 0)
        return dlc_err_sys(err, "cannot make a doorbell for client %d", (int)s->conn->pid);
    return 0;
}

int session_new(struct conn *c, struct dataset *ds, struct dlc_err *err)
{
    struct session *s = mem_new(struct session);
    int rc, channel;

    s->tag = SESSION_TAG;
    s->conn = c;
    s->ds = ds;
    s->user = user_of(c, ds);
    s->doorbell.fd = -1;
    s->doorbell.ready = on_doorbell;
    s->again.fire = on_again;
    dlc_list_init(&s->waiters);
    dlc_list_init(&s->link);
    dataset_ref(ds);
    c->session = s;
    errno = 0;
    rc = c->wants_decoded ? take_shelf(s, err) : join(s);
    if (rc == 0)
        rc = mem_session_new(index_of(s), &s->mem, err);
    if (rc == 0)
        mem_session_set_user(s->mem, s->user);
    if (rc == 0)
        rc = make_doorbell(s, err);
    if (rc == 0 && !reserve_leaves_slack())
        rc = dlc_err_sys(err, "cannot make a session");
    if (rc < 0 && is_shortage(errno)) {
        node_short(c->node, "cannot make a session");
        rc =
            dlc_err_set(err, DLC_EBUSY,
                        "cannot make a session: the daemon has no descriptor or memory left: raise "
                        "its limit on open files (ulimit -n, LimitNOFILE=)");
    }
    if (rc < 0)
        goto out;
    atomic_store(&hdr_of(s)->need_wake, 1);
    channel = mem_session_take_channel(s->mem);
    rc = conn_send_fds(c, welcome(s),
                       (int[]){memory_fd(dataset_memory(ds)), mem_index_fd(index_of(s)),
                               mem_session_fd(s->mem), s->doorbell.fd, catalog_fd(ds->catalog),
                               channel, s->uploads != NULL ? mem_uploads_fd(s->uploads) : -1},
                       s->uploads != NULL ? 7 : 6, err);
    os_close(&channel);
    if (rc == 0)
        count(sessions_opened);
out:
    if (rc < 0)
        session_free(&c->session);
    return rc;
}

static void add_stats(struct mem_session_stats *sum, const struct mem_session_stats *st)
{
    sum->hits += st->hits;
    sum->misses += st->misses;
    sum->bypasses += st->bypasses;
    sum->bytes += st->bytes;
    sum->stall_ns += st->stall_ns;
    sum->pins += st->pins;
}

void session_add_stats(const struct session *s, struct mem_session_stats *sum)
{
    struct mem_session_stats st;

    mem_session_stats(s->mem, &st);
    add_stats(sum, &st);
}

void session_abandon(struct session *s)
{
    dlc_check(s->tag == SESSION_TAG);
    if (s->abandoned)
        return;
    s->abandoned = true;
    prefetch_stop(s);
    while (!dlc_list_empty(&s->waiters))
        waiter_free(dlc_container(s->waiters.next, struct waiter, of_session));
    if (s->mem != NULL && s->decoded == NULL) {
        struct mem_session_stats st;

        mem_session_stats(s->mem, &st); /* a thousand may end at once */
        events_raise(s->ds->node, session_closed, s, &st);
        add_stats(&s->ds->readers.ended, &st);
        s->ds->readers.ended.pins = 0; /* told by zombies, or no more */
    }
    if (s->mem != NULL)
        mem_session_hang_up(s->mem);
    mem_uploads_put(&s->uploads);
    loop_timer_del(s->ds->node->loop, &s->again);
    loop_watch_del(s->ds->node->loop, &s->doorbell);
    os_close(&s->doorbell.fd);
    events_raise(s->ds->node, session_unlinked, s);
    dlc_list_remove(&s->link);
    s->ds->last_used = dlc_mono_now();
    if (!s->conn->wants_decoded)
        dataset_leave(s->ds);
    job_weights_put(&s->job_weights);
}

void session_free(struct session **sp)
{
    struct session *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SESSION_TAG);
    if (!s->abandoned && s->uploads != NULL && s->mem != NULL && !s->ds->node->stopping)
        drain(s); /* its last uploads: the client does not wait for them when it leaves */
    session_abandon(s);
    mem_session_free(&s->mem);
    decoded_put(&s->decoded);
    dataset_put(&s->ds);
    s->tag = 0;
    mem_free(&s);
}

bool session_reads_samples(const struct session *s)
{
    return s != NULL && s->decoded == NULL;
}
