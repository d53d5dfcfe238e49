// SPDX-License-Identifier: Apache-2.0
/*
 * Requests for samples: the public calls of fetch.h. A request joins the fetch of its sample that is
 * in progress, or begins one: memory is reserved for it, or waited for (room.c), and the walk over
 * the sources starts (fetch.c: RESERVE, WALK).
 */
#include "daemon/fetch/fetch.h"

#include "base/counters.h"
#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/dataset_chunks.h"
#include "daemon/fetch/fetch_i.h"
#include "daemon/fetch/room.h"
#include "daemon/fetch/source.h"
#include "daemon/session.h"
#include "daemon/state.h"

/* Who wants a sample, and what for. */
struct fetch_request {
    enum fetch_goal goal;
    struct waiter *waiter;
    const struct session *session; /* whose reader wants it, or will; or NULL */
    struct fetch_listener *listener;
    bool for_peer, bypass;
    const char *take_from; /* or NULL: any source will do */
};

/* Another wants the same sample. */
static void fetch_join(struct fetch *f, const struct fetch_request *r)
{
    struct fetch_listener *l = r->listener;

    if (r->waiter != NULL)
        dlc_list_push_tail(&f->waiters, &r->waiter->of_fetch);
    if (l != NULL && f->listener == NULL)
        f->listener = l;
    else if (l != NULL)
        l->ended(l, f->size, 0, NULL); /* two warm-ups of one dataset: the other one waits */
    f->for_peer |= r->for_peer;
    f->bypass = f->bypass && r->bypass;
    if (r->take_from == NULL)
        mem_free(&f->take_from); /* who joins wants it wherever it is */
}

/* RESERVE has ended. */
static void fetch_reserved(struct fetch *f, int rc)
{
    if (rc == 0 || (rc == DLC_ELARGE && f->ds->node->disk != NULL)) {
        f->to_disk = rc != 0;
        fetch_walk(f);
        return;
    }
    if (rc == DLC_ELARGE || rc == DLC_EBUSY) /* the memory tier counts its own */
        count(mem_bypasses);
    if (rc != DLC_ELARGE)
        budget_memory_full(f->ds);
    dlc_err_set(&f->err, DLC_EBYPASS, /* for readers that cannot read the bucket themselves */
                rc == DLC_ELARGE ? "larger than a quarter of --memory, and there is no disk tier"
                                 : "programs hold what is in memory");
    fetch_end(f, DLC_EBYPASS);
}

static bool fetch_reserve(struct fetch *f)
{
    int rc = fetch_reserve_memory(f);

    if (rc == DLC_EBUSY && room_wait(f, fetch_reserve))
        return false;
    fetch_reserved(f, rc);
    return true;
}

static void fetch_begin(struct fetch *f, enum fetch_goal goal)
{
    if (goal == FETCH_DISK)
        fetch_reserved(f, DLC_ELARGE);
    else if (!room_is_awaited(f->ds->tenant_memory) || !room_wait(f, fetch_reserve))
        fetch_reserve(f);
}

static void fetch_request(struct dataset *ds, uint64_t sample, const struct fetch_request *r)
{
    struct fetch *f = map_get(&ds->fetching, sample);

    if (f != NULL) {
        struct fetch_attempt *a = f->attempt;

        count(requests_joined);
        fetch_join(f, r);
        if (r->waiter != NULL)
            room_hurry(f);
        if (r->waiter != NULL && a != NULL && a->source->hurry != NULL)
            a->source->hurry(a);
        return;
    }
    f = fetch_new(ds, sample);
    f->on_demand = r->waiter != NULL;
    f->user = r->session != NULL ? r->session->user : MEM_NOBODY;
    f->bypass = true; /* unless one that wants it does not */
    f->take_from = mem_str(r->take_from);
    fetch_join(f, r);
    f->rc = catalog_get(ds->catalog, sample, &f->entry, &f->err);
    if (f->rc < 0) {
        fetch_end(f, f->rc);
        return;
    }
    f->size = f->entry.size;
    f->chunk = dataset_chunk(ds, f->entry.key, f->entry.etag);
    fetch_begin(f, r->goal);
}

void fetch_start(struct dataset *ds, uint64_t sample, enum fetch_goal goal, struct waiter *w,
                 struct fetch_listener *l)
{
    struct fetch_request r = {.goal = goal, .waiter = w, .listener = l};

    if (goal == FETCH_MEMORY && mem_index_ready(ds->index, sample)) {
        if (w != NULL)
            session_answer(w, 0, NULL);
        if (l != NULL)
            l->ended(l, 0, 0, NULL);
        return;
    }
    r.session = w != NULL ? w->session : NULL;
    r.bypass = r.session != NULL && r.session->bypasses_cache;
    fetch_request(ds, sample, &r);
}

void fetch_ahead(struct session *s, uint64_t sample)
{
    struct fetch_request r = {.session = s, .bypass = s->bypasses_cache};

    fetch_request(s->ds, sample, &r);
}

bool fetch_for_peer(struct dataset *ds, uint64_t sample, struct waiter *w)
{
    const struct fetch *f = map_get(&ds->fetching, sample);
    struct fetch_request r = {.goal = FETCH_MEMORY, .waiter = w, .for_peer = true};

    if (f != NULL && f->attempt != NULL && f->attempt->source->waits_for_owner)
        return false; /* that peer may be waiting for us; a previous owner waits for nobody */
    if (mem_index_ready(ds->index, sample))
        session_answer(w, 0, NULL);
    else
        fetch_request(ds, sample, &r);
    return true;
}

bool fetch_from_bucket_now(const struct dataset *ds, uint64_t sample)
{
    const struct fetch *f = map_get(&ds->fetching, sample);

    return f != NULL && f->attempt != NULL && f->attempt->source == &fetch_from_bucket;
}

void fetch_take(struct dataset *ds, uint64_t sample, enum fetch_goal goal, const char *from,
                struct waiter *w)
{
    fetch_request(ds, sample,
                  &(struct fetch_request){.goal = goal, .waiter = w, .take_from = from});
}
