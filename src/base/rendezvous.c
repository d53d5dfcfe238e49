// SPDX-License-Identifier: Apache-2.0
/*
 * The score of a node for a chunk is weight / -ln(u), with u uniform in (0, 1) from a hash of both.
 * The highest score belongs to a node with probability weight / sum of weights, and no score
 * depends on another node.
 */
#include "base/rendezvous.h"

#include <math.h>
#include <stdbool.h>

#include "base/hash.h"

uint64_t owner_id(const char *name)
{
    return hash64_str(name);
}

static double score(const struct owner_node *n, uint64_t chunk)
{
    const uint64_t both[2] = {n->id, chunk};
    double u = ((double)(hash64(both, sizeof(both)) >> 11) + 0.5) * 0x1p-53;

    return n->weight / -log(u);
}

static bool has_weight(const struct owner_node *n)
{
    return isfinite(n->weight) && n->weight > 0;
}

/* The order in which nodes were named never decides. */
static bool beats(double a, uint64_t a_id, double b, uint64_t b_id)
{
    return a != b ? a > b : a_id < b_id;
}

int owner_of(const struct owner_node *nodes, size_t n, uint64_t chunk)
{
    int best;

    return owner_rank(nodes, n, chunk, &best, 1) == 1 ? best : -1;
}

size_t owner_rank(const struct owner_node *nodes, size_t n, uint64_t chunk, int *out, size_t k)
{
    size_t found = 0;

    for (size_t i = 0; i < n && k > 0; i++) {
        double s = has_weight(&nodes[i]) ? score(&nodes[i], chunk) : 0;
        size_t at = found;

        if (!has_weight(&nodes[i]))
            continue;
        while (at > 0 &&
               beats(s, nodes[i].id, score(&nodes[out[at - 1]], chunk), nodes[out[at - 1]].id))
            at--;
        if (at == k)
            continue;
        found += found < k;
        for (size_t j = found - 1; j > at; j--)
            out[j] = out[j - 1];
        out[at] = (int)i;
    }
    return found;
}
