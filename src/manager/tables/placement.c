// SPDX-License-Identifier: Apache-2.0
/*
 * Nodes are chosen by weight, best first, but a node is passed over if the rest could then not hold
 * the dataset any more. So the fewest nodes are used that can hold it (or as many as were asked
 * for), and among such choices the one whose best node is best, then the second best, and so on.
 */
#include "manager/tables/placement.h"

#include "base/check.h"
#include "base/mem.h"

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)DLC_MIN(part, whole) / (double)whole;
}

/* What the node could have of the dataset. */
static uint64_t room(const struct place_node *n)
{
    return n->usable ? plus(n->cached, n->free) : 0;
}

static void weigh(struct place_node *nodes, size_t n, const struct place_ask *ask)
{
    uint64_t cached = 0, space = 0;

    for (size_t i = 0; i < n; i++) {
        cached = plus(cached, nodes[i].usable ? nodes[i].cached : 0);
        space = plus(space, nodes[i].usable ? nodes[i].free : 0);
    }
    for (size_t i = 0; i < n; i++) {
        struct place_node *p = &nodes[i];

        p->weight = !p->usable
                        ? 0
                        : (p->gpus_free >= ask->gpus ? 1 : 0) + share(p->cached, ask->bytes) +
                              (1 - share(cached, ask->bytes)) * share(p->free, space);
    }
}

static bool heavier(const struct place_node *a, const struct place_node *b)
{
    return a->weight > b->weight || (!(a->weight < b->weight) && room(a) > room(b));
}

static bool roomier(const struct place_node *a, const struct place_node *b)
{
    return room(a) > room(b);
}

/* Usable nodes in order; stable, so that the same input gives the same choice. Returns how many. */
static size_t sorted(const struct place_node *nodes, size_t n,
                     bool (*before)(const struct place_node *, const struct place_node *),
                     size_t *out)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = k;

        if (!nodes[i].usable)
            continue;
        for (; at > 0 && before(&nodes[i], &nodes[out[at - 1]]); at--)
            out[at] = out[at - 1];
        out[at] = i;
        k++;
    }
    return k;
}

/* How many of the roomiest it takes; 0: all together cannot. */
static size_t fewest(const struct place_node *nodes, const size_t *by_room, size_t k,
                     uint64_t bytes)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < k; i++) {
        sum = plus(sum, room(&nodes[by_room[i]]));
        if (sum >= bytes)
            return i + 1;
    }
    return 0;
}

/* The most that `more` nodes can add which are neither taken nor `but`. */
static uint64_t most(const struct place_node *nodes, const size_t *by_room, size_t k,
                     const bool *taken, size_t but, size_t more)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < k && more > 0; i++) {
        if (taken[by_room[i]] || by_room[i] == but)
            continue;
        sum = plus(sum, room(&nodes[by_room[i]]));
        more--;
    }
    return sum;
}

size_t place(struct place_node *nodes, size_t n, const struct place_ask *ask, size_t *out)
{
    size_t *by_weight = mem_zero((n + 1) * sizeof(*by_weight));
    size_t *by_room = mem_zero((n + 1) * sizeof(*by_room));
    bool *taken = mem_zero((n + 1) * sizeof(*taken));
    size_t usable, want, got = 0;
    uint64_t held = 0;

    weigh(nodes, n, ask);
    usable = sorted(nodes, n, heavier, by_weight);
    sorted(nodes, n, roomier, by_room);
    want = fewest(nodes, by_room, usable, ask->bytes);
    if (ask->nodes > 0)
        want = want > 0 && want <= ask->nodes ? DLC_MIN(ask->nodes, usable) : 0;
    for (size_t i = 0; i < usable && got < want; i++) {
        size_t c = by_weight[i];
        uint64_t with = plus(held, room(&nodes[c]));

        if (plus(with, most(nodes, by_room, usable, taken, c, want - got - 1)) < ask->bytes)
            continue;
        taken[c] = true;
        held = with;
        out[got++] = c;
    }
    dlc_check(got == want);
    mem_free(&by_weight);
    mem_free(&by_room);
    mem_free(&taken);
    return got;
}
