// SPDX-License-Identifier: Apache-2.0
/*
 * The memory tier as text, for debugging (`dlcache stat --shm`). The format is not a contract.
 * Lists are truncated, so the text stays readable with millions of samples; and what is not shown is
 * not looked at for long: the loop makes it, and the work does not grow with what there is.
 */
#include <inttypes.h>

#include "base/buf.h"
#include "cache/memory/memory_i.h"

#define SHOWN  100  /* lines of each list */
#define LOOKED 4096 /* entries of each list, and pin blocks in all */

static void dump_more(struct buf *out, uint64_t n, const char *what)
{
    if (n > SHOWN)
        buf_addf(out, "    ... and %s%" PRIu64 " more %s\n", n < LOOKED ? "" : "at least ",
                 n - SHOWN, what);
}

static void dump_segment(const struct memory *m, struct buf *out)
{
    const struct shm_segment_hdr *h = extents_header(&m->extents);
    const struct arena *a = &m->arena;

    buf_addf(out, "segment version %u, size %" PRIu64 ", owner pid %u started %" PRIu64 "%s\n",
             h->version, h->size, h->owner_pid, h->owner_start,
             atomic_load_explicit(&h->closing, memory_order_relaxed) ? ", closing" : "");
    buf_addf(out, "arena ceiling %" PRIu64 ", used %" PRIu64 ", free %" PRIu64, a->ceiling, a->used,
             a->free);
    buf_addf(out, ", largest hole %" PRIu64 "%s\n", arena_largest(a),
             !dlc_list_empty(&a->gone) ? ", pages to give back" : "");
    buf_addf(out, "extents %u of %" PRIu64 " bytes, dropped so far %" PRIu64, m->extents.n,
             extents_granularity(&m->extents), m->extents.drops);
    buf_addf(out, ", dropped and not yet unmapped by clients %" PRIu64 " bytes\n",
             m->extents.dropped_bytes);
    buf_addf(out, "samples %" PRIu64 " resident; retired %" PRIu64 " bytes\n", m->residents,
             m->retired_bytes);
}

static void dump_block(struct arena_block *b, struct buf *out)
{
    static const char *const kinds[] = {"free", "used", "out"};
    static const char *const states[] = {"filling", "resident", "retired"};

    buf_addf(out, "    %#012" PRIx64 " %12" PRIu64 " %s", b->off, b->size, kinds[b->kind]);
    if (b->kind == ARENA_USED) {
        const struct mem_fill *f = mem_fill_of_block(b);
        const struct shm_index_hdr *h = f->x->seg.map;

        buf_addf(out, " %s snapshot %" PRIu64 " sample %" PRIu64 " len %u", states[f->state],
                 h->snapshot, f->sample, f->len);
        if (f->holds > 0)
            buf_addf(out, " held %u", f->holds);
    }
    buf_addc(out, '\n');
}

static void dump_blocks(const struct memory *m, struct buf *out)
{
    uint64_t n = 0;

    buf_adds(out, "blocks in address order\n");
    for (struct arena_block *b = m->arena.first; b != NULL && n < LOOKED; b = b->next)
        if (n++ < SHOWN)
            dump_block(b, out);
    dump_more(out, n, "blocks");
}

static void dump_retired(const struct memory *m, struct buf *out)
{
    uint64_t n = 0;

    buf_adds(out, "retired, the oldest first\n");
    dlc_list_each (l, &m->retired) {
        if (n++ < SHOWN)
            dump_block(&mem_fill_of(l)->block, out);
        if (n == LOOKED)
            break;
    }
    dump_more(out, n, "retired");
}

static void dump_pins(const struct mem_session *s, struct buf *out)
{
    unsigned n, high;
    uint64_t pins = 0;
    struct shm_pin_block *b = session_blocks(s, &high);

    for (n = 0; n < high; n++) {
        for (unsigned i = 0; i < SHM_PINS; i++) {
            uint64_t pin = atomic_load_explicit(&b[n].pins[i], memory_order_relaxed);

            if (pin != 0 && pins++ < SHOWN)
                buf_addf(out, "    block %u entry %u sample %" PRIu64 "%s\n", n, i, pin - 1,
                         pin - 1 < s->x->n ? "" : " (no such sample)");
        }
    }
    dump_more(out, pins, "pins");
}

/* *left: pin blocks that may still be looked at. */
static void dump_session(const struct mem_session *s, unsigned number, unsigned *left,
                         struct buf *out)
{
    struct mem_session_stats st;
    unsigned high;

    session_blocks(s, &high);
    if (high > *left) {
        buf_addf(out, "  session %u: %u blocks, not looked at\n", number, high);
        return;
    }
    *left -= high;
    mem_session_stats(s, &st);
    buf_addf(out, "  session %u: %u blocks, hits %" PRIu64 ", misses %" PRIu64, number, high,
             st.hits, st.misses);
    buf_addf(out, ", bypasses %" PRIu64 ", pins %" PRIu64 "\n", st.bypasses, st.pins);
    dump_pins(s, out);
}

static void dump_index(const struct mem_index *x, unsigned *left, struct buf *out)
{
    const struct shm_index_hdr *h = x->seg.map;
    uint64_t number = 0;

    buf_addf(out, "index snapshot %" PRIu64 ", slots %" PRIu64 ", resident %" PRIu64, h->snapshot,
             h->n_slots, x->resident);
    buf_addf(out, " (%" PRIu64 " bytes), filling %" PRIu64 ", retired %" PRIu64 "\n", x->bytes,
             x->filling, x->retired);
    dlc_list_each (n, &x->sessions) {
        if (number++ < SHOWN)
            dump_session(dlc_container(n, struct mem_session, node), (unsigned)number - 1, left,
                         out);
        if (number == LOOKED)
            break;
    }
    dump_more(out, number, "sessions");
}

static void dump_indexes(const struct memory *m, struct buf *out)
{
    unsigned left = LOOKED;
    uint64_t n = 0;

    dlc_list_each (l, &m->indexes) {
        if (n++ < SHOWN)
            dump_index(dlc_container(l, struct mem_index, node), &left, out);
        if (n == LOOKED)
            break;
    }
    dump_more(out, n, "indexes");
}

void memory_dump(const struct memory *m, struct buf *out)
{
    dump_segment(m, out);
    dump_indexes(m, out);
    dump_blocks(m, out);
    dump_retired(m, out);
}
