// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/spread.h"

#include "base/check.h"
#include "base/mem.h"

#define RESERVE 16 /* one part of so many of a node's room stays free */

static double usable_room(const struct spread_node *n)
{
    return (double)(n->room - n->room / RESERVE);
}

/* Gives out `bytes` among the nodes whose base is positive, by their bases, each up to its room.
 * Returns what found none. */
static double spread_fill(struct spread_node *nodes, double *base, size_t n, double bytes)
{
    double left = bytes;
    bool capped = true;

    while (capped && left > 0) {
        double sum = 0, give = left;

        for (size_t i = 0; i < n; i++)
            sum += base[i];
        if (sum <= 0)
            break;
        capped = false;
        for (size_t i = 0; i < n; i++) {
            double part = give * base[i] / sum, open = usable_room(&nodes[i]) - nodes[i].share;

            if (base[i] <= 0)
                continue;
            if (part >= open) { /* full: the next round gives the rest to the others */
                part = open > 0 ? open : 0;
                base[i] = 0;
                capped = true;
            }
            nodes[i].share += part;
            left -= part;
        }
    }
    return left > 0 ? left : 0;
}

/* Shares by weight alone, of the homes if there are any. */
static void spread_evenly(struct spread_node *nodes, size_t n, bool homes, double bytes)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += nodes[i].live && (nodes[i].home || !homes) ? nodes[i].weight : 0;
    for (size_t i = 0; i < n && sum > 0; i++)
        if (nodes[i].live && (nodes[i].home || !homes))
            nodes[i].share += bytes * nodes[i].weight / sum;
}

void spread_compute(struct spread_node *nodes, size_t n, uint64_t bytes)
{
    double *base = mem_zero((n + 1) * sizeof(*base)), left = (double)bytes, sum = 0;
    bool homes = false;

    for (size_t i = 0; i < n; i++) {
        homes = homes || (nodes[i].live && nodes[i].home);
        nodes[i].share = 0;
    }
    for (size_t i = 0; i < n; i++)
        base[i] = nodes[i].live && (nodes[i].home || !homes) ? nodes[i].weight : 0;
    if (bytes == 0)
        spread_evenly(nodes, n, homes, 1);
    else
        left = spread_fill(nodes, base, n, left);
    if (bytes > 0 && left > 0 && homes) {
        for (size_t i = 0; i < n; i++)
            base[i] = nodes[i].live && !nodes[i].home ? usable_room(&nodes[i]) : 0;
        left = spread_fill(nodes, base, n, left);
    }
    if (bytes > 0 && left > 0)
        spread_evenly(nodes, n, false, left);
    for (size_t i = 0; i < n; i++)
        sum += nodes[i].share;
    for (size_t i = 0; i < n && sum > 0; i++)
        nodes[i].share /= sum;
    mem_free(&base);
}

uint64_t spread_excess(const struct spread_node *nodes, size_t n, uint64_t bytes)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        double over = nodes[i].share * (double)bytes - (double)nodes[i].room;

        sum += nodes[i].live && over > 0 ? over : 0;
    }
    return (uint64_t)(sum + 0.5);
}
