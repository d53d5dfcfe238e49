// SPDX-License-Identifier: Apache-2.0
/*
 * The decoded cache. A client decodes a sample and uploads it; all processes of the same user and
 * token that decode in the same way read it from memory (docs/design/0007). To the daemon a decoded
 * sample is a header with a checksum and some bytes.
 *
 *     upload --> copied by a worker --> header and checksum right --> READY for its users
 *           \                                                   \--> DLC_ECORRUPT
 *            \--> no room, or it is there already
 *
 * (DECODED-CACHE-1) A decoded sample takes memory that is free and that no dataset in use could
 *                   fill with samples: of its tenant.
 * (DECODED-CACHE-2) The daemon checks its own copy, which no client can write. If the client
 *                   changes the upload slot while it is copied, the checksum does not match.
 * (DECODED-CACHE-3) A decoded cache belongs to a user and a token: a process cannot inject decoded
 *                   data into another user's jobs.
 * (DECODED-CACHE-4) Decoded samples without users are evicted to make room for new ones.
 */
#include "daemon/decoded_cache.h"

#include <stdio.h>
#include <string.h>

#include "base/counters.h"
#include "base/mem.h"
#include "cache/decoded/decoded_header.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/job_weights.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "base/thread_pool.h"
#include "catalog/catalog.h"
#include "daemon/work.h"

#define SHELVES_MAX 8    /* of one dataset */
#define CLEAR_STEPS 4    /* per decoded sample: later ones find more room */
#define TELL_STEP   256u /* caches whose clients are told of room in one turn of the loop */

/* ---- caches ---- */

void decoded_key(unsigned char key[static SHA256_LEN], uid_t uid, const char *token,
                 const char *policy)
{
    char *text = mem_fmt("%u %zu %s %s", (unsigned)uid, token != NULL ? strlen(token) : 0,
                         token != NULL ? token : "", policy);

    sha256(text, strlen(text), key);
    memset(text, 0, strlen(text));
    mem_free(&text);
}

/* One more, or one less, uses it. */
static void decoded_use(struct decoded_cache *s, int more)
{
    bool was = s->users > 0;

    s->users += (unsigned)more;
    if (was == (s->users > 0))
        return;
    mem_index_set_unused(s->index, was);
    if (was && mem_index_resident(s->index) > 0)
        dlc_list_push_tail(&s->memory->unused, &s->unused);
    else
        dlc_list_remove(&s->unused);
}

static void decoded_free(struct decoded_cache *s)
{
    dlc_check(s->users == 0);
    dlc_list_remove(&s->link);
    dlc_list_remove(&s->unused);
    dlc_list_remove(&s->of_node);
    s->node->n_decoded--;
    mem_index_free(&s->index);
    mem_free(&s);
}

/* What datasets in use may still bring in is kept free for them (DECODED-CACHE-1); what is unused
 * can be freed (DECODED-CACHE-4). */
static uint64_t room_of(const struct tenant_memory *m)
{
    uint64_t to_come = memory_to_come(m->memory), unused = memory_unused(m->memory);
    uint64_t both = DLC_MIN(to_come, unused);

    return memory_room_decoded(m->memory, to_come - both) + (unused - both);
}

static void decoded_tell_room(struct decoded_cache *s)
{
    mem_index_tell_room(s->index, room_of(s->memory));
}

/* The one that was used longest ago, of those that nobody uses. */
static struct decoded_cache *decoded_oldest(struct dataset *ds, unsigned *n)
{
    struct decoded_cache *oldest = NULL;

    *n = 0;
    dlc_list_each (l, &ds->decoded_caches) {
        struct decoded_cache *s = dlc_container(l, struct decoded_cache, link);

        (*n)++;
        if (s->users == 0 && (oldest == NULL || s->last_used.ns < oldest->last_used.ns))
            oldest = s;
    }
    return oldest;
}

static struct decoded_cache *decoded_find(struct dataset *ds, const unsigned char *key)
{
    dlc_list_each (l, &ds->decoded_caches) {
        struct decoded_cache *s = dlc_container(l, struct decoded_cache, link);

        if (memcmp(s->key, key, sizeof(s->key)) == 0)
            return s;
    }
    return NULL;
}

int decoded_get(struct dataset *ds, const unsigned char key[static SHA256_LEN],
                struct decoded_cache **out, struct dlc_err *err)
{
    struct decoded_cache *s = decoded_find(ds, key), *old;
    unsigned n;
    int rc;

    *out = NULL;
    if (s == NULL) {
        old = decoded_oldest(ds, &n);
        if (n >= SHELVES_MAX && old == NULL)
            return dlc_err_set(err, DLC_EBUSY,
                               "decoded cache: all %u slots of this dataset are in use",
                               SHELVES_MAX);
        if (n >= SHELVES_MAX)
            decoded_free(old);
        s = mem_new(struct decoded_cache);
        rc = mem_index_new(dataset_memory(ds), catalog_count(ds->catalog),
                           catalog_snapshot(ds->catalog), &s->index, err);
        if (rc < 0) {
            mem_free(&s);
            return rc;
        }
        mem_index_set_decoded(s->index);
        s->id = ++ds->node->next_id;
        memcpy(s->key, key, sizeof(s->key));
        s->node = ds->node;
        s->memory = ds->tenant_memory;
        dlc_list_init(&s->unused);
        dlc_list_push_tail(&ds->decoded_caches, &s->link);
        dlc_list_push_tail(&s->node->decoded, &s->of_node);
        s->node->n_decoded++;
    }
    decoded_use(s, 1);
    decoded_tell_room(s);
    *out = s;
    return 0;
}

void decoded_put(struct decoded_cache **sp)
{
    struct decoded_cache *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    decoded_use(s, -1);
    s->last_used = dlc_mono_now();
}

static void decoded_caches_free(struct dataset *ds)
{
    while (!dlc_list_empty(&ds->decoded_caches))
        decoded_free(dlc_container(ds->decoded_caches.next, struct decoded_cache, link));
}

/* The cache of this number, or of the next one. NULL: none. */
static struct decoded_cache *decoded_from(struct dataset *ds, uint64_t id)
{
    struct decoded_cache *next = NULL;

    dlc_list_each (l, &ds->decoded_caches) {
        struct decoded_cache *s = dlc_container(l, struct decoded_cache, link);

        if (s->id >= id && (next == NULL || s->id < next->id))
            next = s;
    }
    return next;
}

bool dataset_evict_some(struct dataset *ds, struct evict_place *at, uint64_t *bytes)
{
    struct decoded_cache *s = at->decoded > 0 ? decoded_from(ds, at->decoded) : NULL;

    if (at->decoded > 0 && s == NULL)
        return false;
    if (s != NULL && s->id > at->decoded)
        *at = (struct evict_place){.decoded = s->id};
    if (!mem_index_evict_some(s != NULL ? s->index : ds->index, &at->sample, bytes))
        *at = (struct evict_place){.decoded = at->decoded + 1};
    return true;
}

void decoded_caches_figures(const struct dataset *ds, uint64_t *samples, uint64_t *bytes)
{
    *samples = *bytes = 0;
    dlc_list_each (l, &ds->decoded_caches) {
        const struct decoded_cache *s = dlc_container(l, struct decoded_cache, link);

        *samples += mem_index_resident(s->index);
        *bytes += mem_index_bytes(s->index);
    }
}

/* ---- room ---- */

void decoded_caches_tell_room(struct node *n)
{
    for (unsigned i = DLC_MIN(n->n_decoded, TELL_STEP); i > 0; i--) {
        struct dlc_list *head = dlc_list_pop_head(&n->decoded);

        dlc_list_push_tail(&n->decoded, head); /* each in its turn */
        decoded_tell_room(dlc_container(head, struct decoded_cache, of_node));
    }
}

/* (DECODED-CACHE-4): some of the cache in this memory that was left longest ago. False: there is
 * none. */
static bool clear_some(const struct tenant_memory *m)
{
    struct decoded_cache *oldest;
    uint64_t bytes = 0;

    if (dlc_list_empty(&m->unused))
        return false;
    oldest = dlc_container(m->unused.next, struct decoded_cache, unused);
    if (!mem_index_evict_some(oldest->index, &oldest->cleared, &bytes))
        oldest->cleared = 0;
    if (mem_index_resident(oldest->index) == 0)
        dlc_list_remove(&oldest->unused); /* nothing comes in before it has a user */
    return true;
}

/* ---- uploads ---- */

struct upload_copy {
    struct work work;
    struct task task;
    struct node *node;
    struct dataset *ds;
    struct decoded_cache *decoded;
    struct mem_uploads *uploads;
    struct mem_fill *fill;
    uint64_t sample, len;
    uint32_t slot;
    uint64_t conn;            /* who gave it ... */
    decoded_uploaded_f *done; /* ... and is told */
    bool sound;
};

static void copy(struct work *w)
{
    struct upload_copy *g = dlc_container(w, struct upload_copy, work);
    void *to = mem_fill_data(g->fill);

    g->sound = mem_upload_read(g->uploads, g->slot, to, g->len) &&
               decoded_is_sound(to, g->len, g->sample); /* (DECODED-CACHE-2) */
    loop_post(g->node->loop, &g->task);
}

static void copied(struct task *t)
{
    struct upload_copy *g = dlc_container(t, struct upload_copy, task);
    struct conn *c = conn_by_id(g->node, g->conn);

    if (g->sound) {
        memory_publish(dataset_memory(g->ds), &g->fill);
    } else {
        memory_abandon(dataset_memory(g->ds), &g->fill);
        count(decoded_bad);
    }
    decoded_tell_room(g->decoded);
    if (c != NULL && c->session != NULL)
        g->done(c->session, g->slot, g->sound ? 0 : DLC_ECORRUPT);
    g->node->pending--;
    decoded_put(&g->decoded);
    mem_uploads_put(&g->uploads);
    dataset_put(&g->ds);
    mem_free(&g);
}

int decoded_upload(struct session *s, uint64_t sample, uint32_t slot, uint64_t len,
                   decoded_uploaded_f *done)
{
    struct tenant_memory *m = s->ds->tenant_memory;
    struct node *n = s->ds->node;
    unsigned steps = CLEAR_STEPS;
    struct mem_fill *fill;
    struct upload_copy *g;
    int rc;

    if (mem_index_known(s->decoded->index, sample))
        return 0;
    do
        rc = memory_reserve_decoded(m->memory, s->decoded->index, sample, len,
                                    memory_to_come(m->memory), &fill);
    while (rc < 0 && len <= room_of(m) && steps-- > 0 && clear_some(m));
    if (rc < 0) {
        count(decoded_refusals);
        return rc;
    }
    g = mem_new(struct upload_copy);
    *g = (struct upload_copy){.work.run = copy,
                              .task.run = copied,
                              .node = n,
                              .ds = s->ds,
                              .decoded = s->decoded,
                              .uploads = mem_uploads_ref(s->uploads),
                              .fill = fill,
                              .sample = sample,
                              .len = len,
                              .slot = slot,
                              .conn = s->conn->id,
                              .done = done};
    dataset_ref(g->ds);
    decoded_use(g->decoded, 1);
    n->pending++;
    work_run(n->work, WORK_COPY, &g->work); /* a session has SHM_UPLOAD_SLOTS at most */
    return 1;
}

const struct node_events decoded_cache_events = {.dataset_closing = decoded_caches_free};
