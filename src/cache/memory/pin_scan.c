// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at what clients wrote, in slices: pins, so that memory without pins can be used again, and
 * logs, so that the policy knows what was used.
 *
 * A pass visits every session, block by block, and then the retired samples, the oldest first:
 *
 *     IDLE --begin--> PINS --all sessions seen--> FREE --all retired before it seen--> IDLE
 *
 * (PIN-SCAN-1) A pass frees a sample only if it was retired before the pass began and the pass met
 *              no pin of it. A reader that pins later finds the slot EMPTY (SHM-1), and no reader
 *              moves a pin from one entry to another; so it does not matter that the pass takes
 *              several turns, nor that sessions come meanwhile.
 * (PIN-SCAN-2) Passes take SLICE of each WINDOW, whatever clients claim to hold; one that needs no
 *              more than SMALL steps is not divided. So with few sessions an eviction frees at once,
 *              and with many a fetch waits for the end of the pass (memory_room_is_coming()).
 *
 * A step takes about 50 ns: a pin that is set, an entry of a log. A block costs more, whether it is in
 * use or not: its page may have to be made first.
 */
#include "base/counters.h"
#include "base/mem.h"
#include "cache/memory/memory_i.h"

#define SMALL      1024 /* steps */
#define CHECK      256  /* steps between two looks at the clock */
#define SLICE      ((struct dlc_dur){1500000})
#define WINDOW     DLC_MS(5)
#define SUMS       1024 /* blocks that are summed up exactly in a window */
#define OF_SESSION 4    /* steps, besides its blocks */
#define OF_BLOCK   8
#define LAST_HITS  1024 /* at least, of a session that ends: 0.1 ms */

enum { IDLE, PINS, FREE };

void pin_scan_init(struct pin_scan *p)
{
    dlc_list_init(&p->sessions);
    p->left = SLICE;
    p->sums = SUMS;
    p->cost = 1;
}

/* ---- sessions ---- */

void pin_scan_join(struct mem_session *s)
{
    struct mem_user *u = s->user;

    if (u->last != NULL)
        dlc_list_push_head(u->last, &s->of_scan);
    else
        dlc_list_push_tail(&s->x->m->scan.sessions, &s->of_scan);
    u->last = &s->of_scan;
}

/* The session before it, if that is one of the same user. */
static struct dlc_list *previous_of_user(struct mem_session *s)
{
    struct dlc_list *prev = s->of_scan.prev;

    if (prev == &s->x->m->scan.sessions ||
        dlc_container(prev, struct mem_session, of_scan)->user != s->user)
        return NULL;
    return prev;
}

void pin_scan_leave(struct mem_session *s)
{
    struct pin_scan *p = &s->x->m->scan;

    if (p->phase == PINS && p->next == &s->of_scan) {
        p->next = p->next->next;
        p->block = 0;
    }
    if (s->user->last == &s->of_scan)
        s->user->last = previous_of_user(s);
    dlc_list_remove(&s->of_scan);
}

/* ---- retired samples ---- */

/* It has just been retired. */
void pin_scan_retired(struct mem_fill *f)
{
    struct mem_index *x = f->x;
    struct mem_retired *r = map_get(&x->retired_samples, f->sample);

    if (r == NULL) {
        r = mem_new(struct mem_retired);
        map_set(&x->retired_samples, f->sample, r);
    }
    r->copies++;
    r->bytes += f->block.size;
    f->retired_in = x->m->scan.pass;
    x->m->scan.fresh += f->block.size;
    dlc_list_push_tail(&x->m->retired, &f->block.node);
}

static void pin_scan_free(struct memory *m, struct mem_fill *f)
{
    struct arena_block *b = &f->block;
    struct mem_index *x = f->x;
    struct mem_retired *r = map_get(&x->retired_samples, f->sample);

    if (m->scan.phase == FREE && m->scan.next == &b->node)
        m->scan.next = b->node.next;
    r->bytes -= b->size;
    if (--r->copies == 0) {
        map_remove(&x->retired_samples, f->sample);
        mem_free(&r);
    }
    dlc_list_remove(&b->node);
    x->retired--;
    m->retired_bytes -= b->size;
    arena_free(&m->arena, &b);
}

static void pin_scan_seen(struct mem_session *s, uint64_t sample)
{
    struct mem_index *x = s->x;
    const struct pin_scan *p = &x->m->scan;
    struct mem_fill *f = x->fills[sample];
    struct mem_retired *r = x->retired > 0 ? map_get(&x->retired_samples, sample) : NULL;

    if (f != NULL) {
        if (p->all)
            user_pins_seen(s, f->block.size, f->seen, f->seen_by);
        f->seen = p->pass;
        f->seen_by = s->user->number;
    }
    if (r != NULL) {
        if (p->all)
            user_pins_seen(s, r->bytes, r->seen, r->seen_by);
        r->seen = p->pass;
        r->seen_by = s->user->number;
    }
}

/* ---- what clients wrote (SESSION-SHM-1) ---- */

struct shm_pin_block *session_blocks(const struct mem_session *s, unsigned *n)
{
    struct shm_session_hdr *h = s->seg.map;
    /* Seq_cst, as in_use and the pins: a client raises it before it pins. (SHM-1) */
    uint32_t high = atomic_load_explicit(&h->blocks_high, memory_order_seq_cst);

    *n = DLC_MIN(high, SHM_BLOCKS);
    return (struct shm_pin_block *)((char *)s->seg.map + SHM_BLOCKS_OFF);
}

static unsigned session_read_pins(struct mem_session *s, struct shm_pin_block *b)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SHM_PINS; i++) {
        /* Pairs with the reader's seq_cst store (SHM-1), and its release when it clears
         * (PIN-READER-3). */
        uint64_t pin = atomic_load_explicit(&b->pins[i], memory_order_seq_cst);

        n += pin != 0;
        if (pin != 0 && pin - 1 < s->x->n)
            pin_scan_seen(s, pin - 1);
    }
    return n;
}

static unsigned session_read_log(struct mem_session *s, unsigned block)
{
    unsigned n;
    struct shm_pin_block *b = &session_blocks(s, &n)[block];
    uint64_t seq = atomic_load_explicit(&b->log_seq, memory_order_acquire); /* pairs shm_log() */

    n = (unsigned)DLC_MIN(seq - s->log_seen[block], SHM_LOG);
    s->log_seen[block] = seq;
    for (uint64_t i = seq - n; i != seq; i++) {
        uint64_t sample = atomic_load_explicit(&b->log[i % SHM_LOG], memory_order_relaxed);

        memory_touch(s->x->m, s->x, sample);
    }
    return n;
}

void pin_scan_last_hits(struct mem_session *s)
{
    unsigned n, left = LAST_HITS;

    session_blocks(s, &n);
    for (unsigned i = 0; i < n && left > 0; i++) {
        unsigned heard = session_read_log(s, i); /* once: DLC_MIN() would read the log twice */

        left -= DLC_MIN(left, heard);
    }
}

static void session_add_block(const struct shm_pin_block *b, struct mem_session_stats *sum)
{
    sum->hits += atomic_load_explicit(&b->hits, memory_order_relaxed);
    sum->misses += atomic_load_explicit(&b->misses, memory_order_relaxed);
    sum->bypasses += atomic_load_explicit(&b->bypasses, memory_order_relaxed);
    sum->bytes += atomic_load_explicit(&b->bytes, memory_order_relaxed);
    sum->stall_ns += atomic_load_explicit(&b->stall_ns, memory_order_relaxed);
}

bool mem_fill_pinned(const struct mem_fill *f)
{
    return f->holds > 0 || (f->seen != 0 && f->seen >= f->x->m->scan.advice);
}

/* ---- a pass ---- */

static void begin(struct memory *m, bool all)
{
    struct pin_scan *p = &m->scan;

    p->pass++;
    p->phase = PINS;
    p->all = all;
    p->next = p->sessions.next;
    p->block = 0;
    p->cost = 0;
    p->took = (struct dlc_dur){0};
    p->covered += p->fresh;
    p->fresh = 0;
}

/* What this turn may do. */
struct slice {
    unsigned steps;      /* before the next look at the clock */
    struct dlc_mono end; /* 0: there is no time */
};

static bool may_go_on(struct slice *c)
{
    if (c->steps == 0 && dlc_mono_now().ns < c->end.ns)
        c->steps = CHECK;
    return c->steps > 0;
}

static void take(struct pin_scan *p, struct slice *c, unsigned steps)
{
    c->steps -= DLC_MIN(c->steps, steps);
    p->cost += steps;
}

/* One session, from block p->block on. */
static void look_at_session(struct pin_scan *p, struct mem_session *s, struct slice *c)
{
    unsigned n, pins;
    struct shm_pin_block *b = session_blocks(s, &n);
    bool wanted = s->x->retired > 0 || p->all;

    if (p->block == 0)
        s->next_stats = (struct mem_session_stats){0};
    for (; wanted && p->block < n && may_go_on(c); p->block++) {
        /* seq_cst: a client sets it before it pins (SHM-1) */
        bool in_use = atomic_load_explicit(&b[p->block].in_use, memory_order_seq_cst) != 0;

        take(p, c, OF_BLOCK);
        session_add_block(&b[p->block], &s->next_stats);
        if (!in_use)
            continue;
        pins = session_read_pins(s, &b[p->block]);
        s->next_stats.pins += pins;
        take(p, c, pins + session_read_log(s, p->block));
    }
    if (wanted && p->block < n)
        return;
    if (wanted)
        s->stats = s->next_stats;
    take(p, c, OF_SESSION);
    p->next = s->of_scan.next;
    p->block = 0;
}

static void look_at_retired(struct memory *m, struct mem_fill *f, struct slice *c)
{
    const struct mem_retired *r = map_get(&f->x->retired_samples, f->sample);

    take(&m->scan, c, 2);
    m->scan.next = f->block.node.next;
    if (f->holds == 0 && r->seen != m->scan.pass) {
        pin_scan_free(m, f);
    } else if (!f->waited) {
        f->waited = true;
        count(mem_eviction_waits);
    }
}

static void end(struct pin_scan *p)
{
    p->phase = IDLE;
    p->done = p->pass;
    p->covered = 0;
    if (p->all)
        p->advice = p->pass;
}

static void run(struct memory *m, struct slice *c)
{
    struct pin_scan *p = &m->scan;

    while (p->phase == PINS && may_go_on(c)) {
        if (p->next != &p->sessions) {
            look_at_session(p, dlc_container(p->next, struct mem_session, of_scan), c);
            continue;
        }
        p->phase = FREE;
        p->next = m->retired.next;
    }
    while (p->phase == FREE && may_go_on(c)) {
        if (p->next == &m->retired || mem_fill_of(p->next)->retired_in >= p->pass)
            end(p);
        else
            look_at_retired(m, mem_fill_of(p->next), c);
    }
}

/* (PIN-SCAN-2) */
static struct dlc_mono look_at_window(struct pin_scan *p)
{
    struct dlc_mono now = dlc_mono_now();

    if (dlc_mono_sub(now, p->window).ns >= WINDOW.ns) {
        p->window = now;
        p->left = SLICE;
        p->sums = SUMS;
    }
    return now;
}

/* May the figures of that many blocks be summed up now? There may be thousands of sessions. */
static bool pin_scan_may_sum(struct pin_scan *p, unsigned blocks)
{
    look_at_window(p);
    if (blocks > p->sums)
        return false;
    p->sums -= blocks;
    return true;
}

static bool is_small(const struct pin_scan *p)
{
    return p->phase == IDLE && p->cost <= SMALL;
}

static void begin_slice(struct pin_scan *p, struct slice *c, struct dlc_mono *began)
{
    *began = look_at_window(p);
    *c = (struct slice){.steps = is_small(p) ? SMALL : 0};
    if (p->left.ns > 0)
        c->end = dlc_mono_add(*began, p->left);
}

static void end_slice(struct pin_scan *p, struct dlc_mono began)
{
    int64_t took = dlc_mono_since(began).ns;

    p->left.ns -= DLC_MIN(p->left.ns, took);
    p->took.ns += took;
}

bool memory_scan(struct memory *m, bool all)
{
    struct pin_scan *p = &m->scan;
    uint64_t wanted = p->pass + 1; /* the first that begins after all retirements so far */
    struct dlc_mono began;
    struct slice c;

    begin_slice(p, &c, &began);
    while (p->done < wanted && may_go_on(&c)) {
        if (p->phase == IDLE)
            begin(m, all);
        run(m, &c);
    }
    end_slice(p, began);
    return p->done >= wanted;
}

void memory_scan_on(struct memory *m)
{
    struct dlc_mono began;
    struct slice c;

    if (!memory_room_is_coming(m))
        return; /* the tick goes on with it */
    begin_slice(&m->scan, &c, &began);
    if (m->scan.phase == IDLE && may_go_on(&c))
        begin(m, false);
    run(m, &c);
    end_slice(&m->scan, began);
}

void memory_scan_tick(struct memory *m)
{
    struct dlc_mono began;
    struct slice c;

    begin_slice(&m->scan, &c, &began);
    if (m->scan.phase == IDLE && may_go_on(&c))
        begin(m, true);
    run(m, &c);
    end_slice(&m->scan, began);
}

bool memory_scan_is_short(struct memory *m)
{
    struct pin_scan *p = &m->scan;

    look_at_window(p);
    return is_small(p) || (p->phase == IDLE && p->took.ns <= p->left.ns / 2);
}

bool memory_room_is_coming(const struct memory *m)
{
    return m->scan.covered + m->scan.fresh > 0;
}

/* ---- figures of sessions ---- */

static void sum_blocks(const struct mem_session *s, struct mem_session_stats *out)
{
    unsigned n;
    struct shm_pin_block *b = session_blocks(s, &n);

    *out = (struct mem_session_stats){0};
    for (struct shm_pin_block *end = b + n; b < end; b++) {
        session_add_block(b, out);
        if (atomic_load_explicit(&b->in_use, memory_order_relaxed) == 0)
            continue;
        for (unsigned i = 0; i < SHM_PINS; i++)
            out->pins += atomic_load_explicit(&b->pins[i], memory_order_relaxed) != 0;
    }
}

void mem_session_stats(const struct mem_session *s, struct mem_session_stats *out)
{
    unsigned n;

    session_blocks(s, &n);
    if (pin_scan_may_sum(&s->x->m->scan, n))
        sum_blocks(s, out);
    else
        *out = s->stats;
}
