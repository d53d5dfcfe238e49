// SPDX-License-Identifier: Apache-2.0
/*
 * The memory tier's objects and the life of a sample in it. States and invariants are in
 * memory_i.h, the protocol with readers in shm.h.
 *
 * (PUBLISH-1) A slot turns READY in memory_publish() only, after its bytes are written.
 *
 * Not here: choosing and freeing victims (evict.c), reading what clients wrote (session_shm.c).
 */
#include "cache/memory/memory.h"

#include <math.h>
#include <unistd.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

/* Of one step that evicts from an index: about a millisecond, also when nothing is in the cache. */
#define STEP_SAMPLES 256u
#define STEP_SLOTS   65536u
#define STEP_BYTES   ((uint64_t)8 << 20) /* of an index that is released */

static_assert(SHM_GRAIN == ARENA_GRAIN && SHM_OFFSET_BITS == ARENA_BITS, "one grain, one width");
static_assert(SHM_HDR_SIZE % ARENA_GRAIN == 0, "the arena begins on a grain");

/* ---- segment ---- */

/* Whole extents, or all, so that what lies above it can be given back; of less than one whole pages,
 * at the least one besides that of the header: then the extent goes when it is empty. */
static uint64_t clamp_ceiling(const struct extents *e, uint64_t bytes)
{
    uint64_t one = extents_granularity(e);
    uint64_t least = DLC_ALIGN_UP((uint64_t)SHM_HDR_SIZE, e->page) + e->page;

    if (bytes >= e->size)
        return e->size;
    return DLC_CLAMP(bytes >= one ? bytes & ~(one - 1) : bytes & ~(e->page - 1), least, e->size);
}

int memory_new(uint64_t max, uint64_t ceiling, struct memory **out, struct dlc_err *err)
{
    uint64_t page = os_page_size();
    struct memory *m = mem_new(struct memory);
    struct extents *e = &m->extents;
    int rc;

    *out = NULL;
    max = DLC_CLAMP(max, DLC_ALIGN_UP((uint64_t)SHM_HDR_SIZE, page) + page, ARENA_MAX);
    rc = extents_open(e, max & ~(page - 1), err);
    if (rc < 0) {
        mem_free(&m);
        return rc;
    }
    m->tag = MEMORY_TAG;
    *extents_header(e) = (struct shm_segment_hdr){.magic = SHM_SEGMENT_MAGIC,
                                                  .version = SHM_VERSION,
                                                  .size = e->size,
                                                  .owner_pid = (uint32_t)getpid(),
                                                  .owner_start = segment_owner_start(),
                                                  .extent_shift = e->shift,
                                                  .n_extents = e->n};
    m->wanted = clamp_ceiling(e, ceiling);
    arena_init(&m->arena, SHM_HDR_SIZE, m->wanted, e->size, extents_granularity(e),
               sizeof(struct mem_fill));
    dlc_list_init(&m->indexes);
    dlc_list_init(&m->sessions);
    pin_scan_init(&m->scan);
    m->policy = policy_new(&policy_clairvoyant, NULL);
    m->decoded_order = policy_new(&policy_clairvoyant, NULL);
    dlc_list_init(&m->retired);
    dlc_list_init(&m->freed);
    *out = m;
    return 0;
}

void memory_free(struct memory **mp)
{
    struct memory *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    dlc_check(m->tag == MEMORY_TAG && dlc_list_empty(&m->indexes));
    while (!dlc_list_empty(&m->freed))
        memory_free_some(m);
    dlc_check(m->arena.used == 0);
    arena_release(&m->arena);
    policy_free(&m->policy);
    policy_free(&m->decoded_order);
    user_pins_release(m);
    memory_end_owner(m);
    extents_close(&m->extents);
    m->tag = 0;
    mem_free(&m);
}

int memory_fd(const struct memory *m)
{
    return m->extents.header.fd;
}

uint64_t memory_header_size(const struct memory *m)
{
    return m->extents.header.size;
}

uint64_t memory_size(const struct memory *m)
{
    return m->extents.size;
}

void memory_set_closing(struct memory *m)
{
    struct shm_segment_hdr *h = extents_header(&m->extents);

    atomic_store_explicit(&h->closing, 1, memory_order_release); /* R clients */
}

bool memory_is_closing(const struct memory *m)
{
    const struct shm_segment_hdr *h = extents_header(&m->extents);

    return atomic_load_explicit(&h->closing, memory_order_relaxed) != 0; /* our own store */
}

void memory_beat(struct memory *m)
{
    struct shm_segment_hdr *h = extents_header(&m->extents);

    atomic_store_explicit(&h->heartbeat, (uint64_t)dlc_mono_now().ns,
                          memory_order_relaxed); /* R clients */
}

uint64_t memory_ceiling(const struct memory *m)
{
    return m->arena.ceiling;
}

void memory_figures(const struct memory *m, struct memory_figures *out)
{
    *out = (struct memory_figures){.max = m->extents.size,
                                   .ceiling = m->arena.ceiling,
                                   .used = m->arena.used,
                                   .retired = m->retired_bytes,
                                   .residents = m->residents,
                                   .decoded = m->decoded,
                                   .decoded_bytes = m->decoded_bytes,
                                   .largest_free = arena_largest(&m->arena),
                                   .populated = extents_populated(&m->extents)};
}

void memory_set_ceiling(struct memory *m, uint64_t bytes)
{
    uint64_t wanted = clamp_ceiling(&m->extents, bytes);

    if (wanted == m->wanted)
        return;
    if (wanted > m->arena.ceiling)
        count(mem_grows);
    else
        count(mem_shrinks);
    m->wanted = wanted;
    memory_settle_ceiling(m);
}

void memory_tick(struct memory *m)
{
    memory_scan_tick(m);
    if (m->n_behind > 0)
        memory_announce(m);
    extents_look_freed(&m->extents);
    memory_settle_ceiling(m);
}

/* ---- index ---- */

static size_t fills_size(uint64_t n)
{
    return (size_t)DLC_MAX(n, 1u) * sizeof(struct mem_fill *);
}

int mem_index_new(struct memory *m, uint64_t n, uint64_t snapshot, struct mem_index **out,
                  struct dlc_err *err)
{
    struct segment seg;
    int rc;

    *out = NULL;
    if (n > (uint64_t)1 << 40)
        return dlc_err_set(err, DLC_EINVAL, "a dataset of %llu samples cannot be indexed",
                           (unsigned long long)n);
    rc = segment_open(&seg, "dlcache-index", SHM_HDR_SIZE + n * sizeof(struct shm_slot),
                      SEGMENT_CLIENTS_READ, err);
    if (rc < 0)
        return rc;
    struct mem_fill **fills = os_map_private(fills_size(n));
    if (fills == NULL) {
        rc = dlc_err_sys(err, "no address space for an index of %llu samples: raise ulimit -v",
                         (unsigned long long)n);
        segment_close(&seg);
        return rc;
    }
    struct mem_index *x = mem_new(struct mem_index);
    struct shm_index_hdr *h = seg.map;

    *h = (struct shm_index_hdr){.magic = SHM_INDEX_MAGIC,
                                .version = SHM_VERSION,
                                .n_slots = n,
                                .slots_off = SHM_HDR_SIZE,
                                .snapshot = snapshot};
    x->tag = MEM_INDEX_TAG;
    x->m = m;
    x->seg = seg;
    x->slots = (struct shm_slot *)((char *)seg.map + SHM_HDR_SIZE);
    x->n = n;
    x->fills = fills;
    x->version = 1;
    x->serial = m->serials++ & 0xffffffu;
    dlc_list_init(&x->sessions);
    dlc_list_push_tail(&m->indexes, &x->node);
    *out = x;
    return 0;
}

void mem_index_free(struct mem_index **xp)
{
    struct mem_index *x = *xp;

    *xp = NULL;
    if (x == NULL)
        return;
    dlc_check(x->tag == MEM_INDEX_TAG && dlc_list_empty(&x->sessions) && x->filling == 0);
    x->value = NULL;
    mem_index_expect(x, 0);
    mem_index_set_unused(x, false);
    if (!x->decoded)
        mem_index_set_next_use(x, NULL, NULL);
    dlc_list_remove(&x->node);
    dlc_list_push_tail(&x->m->freed, &x->node);
    memory_free_some(x->m); /* small ones at once */
}

/* What an index of a hundred million samples has taken is not freed in one go. True: there is more.
 */
static bool index_release_some(struct mem_index *x)
{
    uint64_t size = fills_size(x->n), at = x->released;

    if (at < size)
        os_discard((char *)x->fills + at, (size_t)DLC_MIN(STEP_BYTES, size - at));
    x->released += STEP_BYTES;
    return x->released < size;
}

static void index_release(struct mem_index *x)
{
    dlc_check(x->retired == 0); /* no session pins; a hold that outlives its index is a bug */
    dlc_list_remove(&x->node);
    os_unmap(x->fills, fills_size(x->n));
    map_release(&x->retired_samples);
    segment_close_later(&x->seg);
    x->tag = 0;
    mem_free(&x);
}

bool memory_free_some(struct memory *m)
{
    struct mem_index *x;
    uint64_t bytes = 0;

    memory_scan_on(m);
    if (dlc_list_empty(&m->freed))
        return memory_settle_ceiling(m);
    x = dlc_container(m->freed.next, struct mem_index, node);
    if (mem_index_evict_some(x, &x->freeing, &bytes))
        return true;
    if (x->retired > 0) /* until the look at the pins that is under way has ended */
        return memory_settle_ceiling(m);
    if (!index_release_some(x)) {
        index_release(x);
        memory_give_back(m); /* whoever frees an index wants the memory */
    }
    return true;
}

int mem_index_fd(const struct mem_index *x)
{
    return x->seg.fd;
}

uint64_t mem_index_size(const struct mem_index *x)
{
    return x->seg.size;
}

uint64_t mem_index_resident(const struct mem_index *x)
{
    return x->resident;
}

uint64_t mem_index_bytes(const struct mem_index *x)
{
    return x->bytes;
}

/* The sample's copy that readers can see; NULL when there is none. Clients name samples too. */
static struct mem_fill *resident(const struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f = sample < x->n ? x->fills[sample] : NULL;

    return f != NULL && f->state == MEM_RESIDENT ? f : NULL;
}

bool mem_index_ready(const struct mem_index *x, uint64_t sample)
{
    return resident(x, sample) != NULL;
}

bool mem_index_known(const struct mem_index *x, uint64_t sample)
{
    return sample < x->n && x->fills[sample] != NULL;
}

void mem_index_set_decoded(struct mem_index *x)
{
    dlc_check(x->resident == 0 && x->filling == 0);
    x->decoded = true;
}

void mem_index_tell_room(struct mem_index *x, uint64_t room)
{
    struct shm_index_hdr *h = x->seg.map;

    /* relaxed: figures */
    atomic_store_explicit(&h->decoded, x->resident, memory_order_relaxed);
    atomic_store_explicit(&h->decoded_bytes, x->bytes, memory_order_relaxed);
    atomic_store_explicit(&h->decoded_room, room, memory_order_relaxed);
}

/* ---- sums over indexes ---- */

static uint64_t to_come_of(const struct mem_index *x)
{
    return x->expected - DLC_MIN(x->expected, x->bytes);
}

/* Its part of the sums is taken out, and put in again after a change. */
static void sums_without(struct mem_index *x)
{
    x->m->to_come -= to_come_of(x);
    x->m->unused -= x->unused ? x->bytes : 0;
}

static void sums_with(struct mem_index *x)
{
    x->m->to_come += to_come_of(x);
    x->m->unused += x->unused ? x->bytes : 0;
}

void index_count(struct mem_index *x, int samples, uint64_t bytes)
{
    sums_without(x);
    x->resident += (uint64_t)(int64_t)samples;
    x->bytes += samples < 0 ? -bytes : bytes;
    sums_with(x);
}

void mem_index_expect(struct mem_index *x, uint64_t bytes)
{
    sums_without(x);
    x->expected = bytes;
    sums_with(x);
}

void mem_index_set_unused(struct mem_index *x, bool unused)
{
    sums_without(x);
    x->unused = unused;
    sums_with(x);
}

uint64_t memory_to_come(const struct memory *m)
{
    return m->to_come;
}

uint64_t memory_unused(const struct memory *m)
{
    return m->unused;
}

/* ---- the life of a sample ---- */

static struct mem_fill *fill_begin(struct mem_index *x, struct arena_block *b, uint64_t sample,
                                   uint64_t len)
{
    struct mem_fill *f = mem_fill_of_block(b);

    policy_item_init(&f->item, (uint64_t)x->serial << 40 | sample, b->size, 0);
    f->x = x;
    f->sample = sample;
    f->checksum = 0;
    f->len = (uint32_t)len;
    f->seen = 0;
    f->holds = 0;
    f->state = MEM_FILLING;
    f->waited = false;
    f->known = 0;
    x->fills[sample] = f;
    x->filling++;
    return f;
}

/* Have memory under the block; else it is freed. */
static struct arena_block *with_memory(struct memory *m, struct arena_block *b)
{
    uint32_t made = m->extents.generations;

    if (b != NULL && !extents_ensure(&m->extents, b->off, b->size))
        arena_free(&m->arena, &b);
    if (m->extents.generations != made)
        memory_announce(m); /* before the sample is READY */
    return b;
}

int memory_reserve(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len,
                   struct mem_fill **out)
{
    return memory_reserve_for(m, x, sample, len, MEM_NOBODY, out);
}

int memory_reserve_for(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len,
                       uint64_t user, struct mem_fill **out)
{
    struct arena_block *b;

    dlc_check(x->tag == MEM_INDEX_TAG && sample < x->n && !x->decoded);
    dlc_check(x->fills[sample] == NULL);
    *out = NULL;
    if (memory_is_closing(m))
        return DLC_EBYPASS; /* nobody is asked any more what is pinned, and clients still read */
    if (len > m->arena.ceiling / 4 || len > UINT32_MAX)
        return DLC_ELARGE;
    b = memory_alloc_below(m, len, user_pins_limit(m, user));
    if (b == NULL)
        b = memory_make_room(m, len, user);
    if (b == NULL && memory_room_is_coming(m))
        return DLC_EBUSY;
    b = with_memory(m, b);
    if (b == NULL) {
        count(mem_bypasses);
        return DLC_EBYPASS;
    }
    *out = fill_begin(x, b, sample, len);
    return 0;
}

uint64_t memory_room_decoded(const struct memory *m, uint64_t keep)
{
    uint64_t kept = m->arena.ceiling - memory_usable(m);
    uint64_t stay = m->arena.ceiling / 16 + kept + DLC_MIN(keep, m->arena.ceiling);

    return m->arena.free - DLC_MIN(stay, m->arena.free);
}

int memory_reserve_decoded(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len,
                           uint64_t keep, struct mem_fill **out)
{
    struct arena_block *b = NULL;

    dlc_check(x->tag == MEM_INDEX_TAG && sample < x->n && x->decoded);
    dlc_check(x->fills[sample] == NULL);
    *out = NULL;
    if (len <= UINT32_MAX && !memory_is_closing(m) &&
        arena_rounded(len) <= memory_room_decoded(m, keep))
        b = with_memory(m, arena_alloc_high(&m->arena, len));
    if (b == NULL)
        return DLC_EBUSY;
    *out = fill_begin(x, b, sample, len);
    return 0;
}

void *mem_fill_data(const struct mem_fill *f)
{
    return f->x->m->extents.map + f->block.off;
}

void mem_fill_set_checksum(struct mem_fill *f, uint64_t checksum)
{
    dlc_check(f->state == MEM_FILLING);
    f->checksum = checksum;
}

void mem_fill_set_cost(struct mem_fill *f, double cost)
{
    dlc_check(f->state == MEM_FILLING);
    f->item.cost = cost;
}

/* FILLING ends. */
static struct mem_fill *fill_take(struct mem_fill **fp)
{
    struct mem_fill *f = *fp;

    *fp = NULL;
    dlc_check(f->state == MEM_FILLING);
    f->x->filling--;
    return f;
}

/* Tell the policy what it is to know of a new sample. */
static void fill_rank(struct mem_fill *f)
{
    struct policy *p = mem_fill_policy(f);
    unsigned steps = 0;

    if (policy_input_of(p) != POLICY_NEXT_USE) { /* a look at one place */
        memory_ask(f, &steps);
        return;
    }
    mem_fill_set_known(f, f->x->next_use == NULL);
    /* When it is used next is asked for when that matters. Where nobody knows, it goes before those
     * of which that is known. Of decoded samples the lowest goes first: it lies next to the
     * samples, which then get one large hole. */
    policy_next_use(p, &f->item, f->x->decoded ? -(double)f->block.off : INFINITY);
    if (f->x->next_use != NULL)
        policy_forget_use(p, &f->item);
}

void memory_publish(struct memory *m, struct mem_fill **fp)
{
    struct mem_fill *f = fill_take(fp);
    struct mem_index *x = f->x;
    struct shm_slot *s = &x->slots[f->sample];
    /* Only we write slots. */
    uint32_t gen = shm_where_generation(atomic_load_explicit(&s->where, memory_order_relaxed));

    f->state = MEM_RESIDENT;
    index_count(x, 1, f->len);
    fill_rank(f);
    policy_insert(mem_fill_policy(f), &f->item);
    policy_access(mem_fill_policy(f), &f->item, memory_now(m));
    if (x->decoded) {
        m->decoded++;
        m->decoded_bytes += f->block.size;
        count(decoded_fills);
    } else {
        m->residents++;
        count(mem_fills);
    }
    /* Release after the EMPTY of the last eviction: a reader that gets this len also gets that
     * where, or a later one, when it looks again. (SHM-2) */
    atomic_store_explicit(&s->len, f->len, memory_order_release);
    /* Release of the bytes to readers. (PUBLISH-1) */
    atomic_store_explicit(&s->where, shm_where_make(SHM_READY, f->block.off, gen),
                          memory_order_release);
    m->above |= arena_block_end(&f->block) > m->arena.ceiling;
}

void memory_abandon(struct memory *m, struct mem_fill **fp)
{
    struct mem_fill *f = fill_take(fp);
    struct arena_block *b = &f->block;

    if (f->x->fills[f->sample] == f) /* else it was detached */
        f->x->fills[f->sample] = NULL;
    arena_free(&m->arena, &b); /* nobody saw it: no scan needed */
}

void memory_detach(struct memory *m, struct mem_fill *f)
{
    (void)m;
    dlc_check(f->state == MEM_FILLING && f->x->fills[f->sample] == f);
    f->x->fills[f->sample] = NULL;
}

void memory_touch(struct memory *m, struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f = resident(x, sample);

    if (f != NULL)
        policy_access(mem_fill_policy(f), &f->item, memory_now(m));
}

/* ---- next uses ---- */

void mem_index_set_next_use(struct mem_index *x, mem_next_use_f *fn, void *arg)
{
    dlc_check(!x->decoded);
    x->next_use = fn;
    x->next_use_arg = arg;
    mem_index_forget_uses(x);
}

void mem_index_set_value(struct mem_index *x, const struct mem_value_ops *ops, void *arg)
{
    x->value = ops;
    x->value_arg = arg;
    mem_index_forget_uses(x);
}

void mem_index_runs_changed(struct mem_index *x)
{
    if (policy_input_of(x->m->policy) == POLICY_EXPECTED)
        mem_index_forget_uses(x);
}

void mem_index_forget_uses(struct mem_index *x)
{
    x->m->known -= x->known;
    x->known = 0;
    if (++x->version == 0)
        x->version = 1; /* a sample not asked about for 2^32 changes may count as known once */
}

void memory_forget_use(struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f = resident(x, sample);
    unsigned steps = 0;

    if (f != NULL && policy_input_of(mem_fill_policy(f)) == POLICY_WEIGHT)
        memory_ask(f, &steps); /* its weight has changed: that is known at once */
    if (f == NULL || x->next_use == NULL || policy_input_of(mem_fill_policy(f)) != POLICY_NEXT_USE)
        return;
    mem_fill_set_known(f, false);
    policy_forget_use(mem_fill_policy(f), &f->item);
}

void memory_use_is_sooner(struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f = resident(x, sample);

    if (f != NULL && x->next_use != NULL)
        mem_fill_set_known(f, false);
}

void memory_set_policy(struct memory *m, const struct policy_ops *ops,
                       const struct policy_options *o)
{
    dlc_check(m->residents == 0);
    policy_free(&m->policy);
    m->policy = policy_new(ops, o);
}

void memory_set_clock(struct memory *m, const double *seconds)
{
    m->clock = seconds;
}

bool memory_evict_soon(struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f = resident(x, sample);

    if (f == NULL)
        return false;
    memory_retire(f);
    return true;
}

bool memory_evict(struct memory *m, struct mem_index *x, uint64_t sample)
{
    if (!memory_evict_soon(x, sample))
        return false;
    memory_sweep_retired(m);
    return true;
}

bool mem_index_evict_some(struct mem_index *x, uint64_t *place, uint64_t *bytes)
{
    uint64_t end = DLC_MIN(x->n, *place + STEP_SLOTS);

    for (unsigned n = 0; *place < end && x->resident > 0 && n < STEP_SAMPLES; (*place)++) {
        struct mem_fill *f = resident(x, *place);

        if (f == NULL)
            continue;
        *bytes += f->len;
        memory_retire(f);
        n++;
    }
    memory_sweep_retired(x->m);
    return *place < x->n && x->resident > 0;
}

uint64_t memory_evict_all(struct memory *m, struct mem_index *x)
{
    uint64_t bytes = 0;

    for (struct arena_block *b = m->arena.first; b != NULL; b = b->next) {
        struct mem_fill *f = b->kind == ARENA_USED ? mem_fill_of_block(b) : NULL;

        if (f == NULL || f->state != MEM_RESIDENT || (x != NULL && f->x != x))
            continue;
        bytes += f->len;
        memory_retire(f);
    }
    memory_sweep_retired(m);
    memory_give_back(m); /* whoever empties a tier wants the memory */
    while (memory_settle_ceiling(m))
        ;
    return bytes;
}

/* ---- holds ---- */

/* The retired copy of the sample that is still held; NULL in all but the rarest case. */
static struct mem_fill *held_retired(struct memory *m, struct mem_index *x, uint64_t sample)
{
    if (m->retired_held == 0)
        return NULL;
    dlc_list_each (n, &m->retired) {
        struct mem_fill *f = mem_fill_of(n);

        if (f->x == x && f->sample == sample && f->holds > 0)
            return f;
    }
    return NULL;
}

const void *memory_hold(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t *len)
{
    struct mem_fill *f = resident(x, sample);

    *len = 0;
    if (f == NULL || held_retired(m, x, sample) != NULL) /* (MEMORY-3) */
        return NULL;
    f->holds++;
    *len = f->len;
    return mem_fill_data(f);
}

uint64_t mem_index_checksum(const struct mem_index *x, uint64_t sample)
{
    const struct mem_fill *f = resident(x, sample);

    dlc_check(f != NULL);
    return f->checksum;
}

void memory_unhold(struct memory *m, struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f = held_retired(m, x, sample);

    if (f == NULL)
        f = resident(x, sample);
    dlc_check(f != NULL && f->holds > 0);
    f->holds--;
    if (f->state == MEM_RETIRED && f->holds == 0)
        m->retired_held--; /* the next sweep frees it */
}
