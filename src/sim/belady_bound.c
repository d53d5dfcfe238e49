// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "sim/replay_i.h"

struct bound {
    const struct sim_trace *t;
    uint32_t *held; /* chunks, in no order */
    uint32_t n;
    uint32_t *place; /* of each chunk in held, or SIM_NONE */
    uint32_t *next;  /* of each chunk: its next read */
    uint64_t used;
};

static double value(const struct bound *b, uint32_t chunk, uint32_t now)
{
    const struct sim_chunk *c = &b->t->chunks[chunk];

    if (b->next[chunk] == SIM_NONE)
        return 0;
    return c->cost / ((double)c->size + 1) / (b->next[chunk] - now);
}

static void drop_least(struct bound *b, uint32_t now)
{
    uint32_t worst = 0;
    double least = value(b, b->held[0], now);

    for (uint32_t i = 1; i < b->n; i++) {
        double v = value(b, b->held[i], now);

        if (v < least) {
            least = v;
            worst = i;
        }
    }
    b->used -= b->t->chunks[b->held[worst]].size;
    b->place[b->held[worst]] = SIM_NONE;
    b->held[worst] = b->held[--b->n];
    if (worst < b->n)
        b->place[b->held[worst]] = worst;
}

void sim_bound(const struct sim_trace *t, const struct sim_options *o, struct sim_result *out)
{
    size_t room = ((size_t)t->n_chunks + 1) * sizeof(uint32_t);
    struct bound b = {t, mem_alloc(room), 0, mem_alloc(room), mem_alloc(room), 0};

    for (uint32_t i = 0; i < t->n_chunks; i++)
        b.place[i] = SIM_NONE;
    for (uint32_t i = 0; i < t->n_reads; i++) {
        uint32_t c = t->reads[i].chunk;
        bool hit = b.place[c] != SIM_NONE;

        if (i == t->warm)
            *out = (struct sim_result){0};
        b.next[c] = t->reads[i].next;
        sim_count(t, o, c, hit, out);
        if (hit)
            continue;
        b.place[c] = b.n;
        b.held[b.n++] = c;
        b.used += t->chunks[c].size;
        for (; b.used > o->capacity; out->evictions++)
            drop_least(&b, i);
    }
    mem_free(&b.held);
    mem_free(&b.place);
    mem_free(&b.next);
}
