// SPDX-License-Identifier: Apache-2.0
#include "base/heap.h"

#include "base/check.h"
#include "base/mem.h"

#define BELOW 4 /* places below each */

static bool before(const struct heap_place *a, const struct heap_place *b)
{
    return a->key < b->key || (a->key <= b->key && a->seq < b->seq);
}

static void put(struct heap *h, size_t i, struct heap_place p)
{
    h->places[i] = p;
    p.node->at = i + 1;
}

static void up(struct heap *h, size_t i)
{
    struct heap_place p = h->places[i];

    while (i > 0 && before(&p, &h->places[(i - 1) / BELOW])) {
        put(h, i, h->places[(i - 1) / BELOW]);
        i = (i - 1) / BELOW;
    }
    put(h, i, p);
}

/* The least of those below i, or i itself when it is not greater than `than`. */
static size_t least_below(const struct heap *h, size_t i, const struct heap_place *than)
{
    size_t first = BELOW * i + 1, least = i;

    for (size_t c = first; c < h->n && c < first + BELOW; c++) {
        if (before(&h->places[c], than)) {
            than = &h->places[c];
            least = c;
        }
    }
    return least;
}

static void down(struct heap *h, size_t i)
{
    struct heap_place p = h->places[i];
    size_t c;

    while ((c = least_below(h, i, &p)) != i) {
        put(h, i, h->places[c]);
        i = c;
    }
    put(h, i, p);
}

void heap_push_tied(struct heap *h, struct heap_node *n, double key, uint64_t tie)
{
    dlc_check(n->at == 0);
    n->key = key;
    mem_reserve(h->places, h->n, h->cap);
    h->places[h->n++] = (struct heap_place){key, tie, n};
    up(h, h->n - 1);
}

void heap_push(struct heap *h, struct heap_node *n, double key)
{
    heap_push_tied(h, n, key, h->seq++);
}

void heap_update_tied(struct heap *h, struct heap_node *n, double key, uint64_t tie)
{
    dlc_check(n->at != 0 && h->places[n->at - 1].node == n);
    n->key = key;
    h->places[n->at - 1] = (struct heap_place){key, tie, n};
    up(h, n->at - 1);
    down(h, n->at - 1);
}

void heap_update(struct heap *h, struct heap_node *n, double key)
{
    heap_update_tied(h, n, key, h->seq++);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    size_t i = n->at;

    if (i-- == 0)
        return;
    dlc_check(h->places[i].node == n);
    n->at = 0;
    h->n--;
    if (i == h->n)
        return;
    put(h, i, h->places[h->n]);
    n = h->places[i].node;
    up(h, i);
    down(h, n->at - 1);
}

struct heap_node *heap_top(const struct heap *h)
{
    return h->n == 0 ? NULL : h->places[0].node;
}

struct heap_node *heap_pop(struct heap *h)
{
    struct heap_node *n = heap_top(h);

    if (n != NULL)
        heap_remove(h, n);
    return n;
}

void heap_release(struct heap *h)
{
    mem_free(&h->places);
    h->n = h->cap = 0;
}
