// SPDX-License-Identifier: Apache-2.0
#include "base/heap.h"

#include "base/check.h"
#include "base/mem.h"

static bool before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key < b->key || (a->key <= b->key && a->seq < b->seq);
}

static void put(struct heap *h, size_t i, struct heap_node *n)
{
    h->nodes[i] = n;
    n->at = i + 1;
}

static void up(struct heap *h, size_t i)
{
    struct heap_node *n = h->nodes[i];

    while (i > 0 && before(n, h->nodes[(i - 1) / 2])) {
        put(h, i, h->nodes[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(h, i, n);
}

static void down(struct heap *h, size_t i)
{
    struct heap_node *n = h->nodes[i];

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= h->n)
            break;
        if (c + 1 < h->n && before(h->nodes[c + 1], h->nodes[c]))
            c++;
        if (!before(h->nodes[c], n))
            break;
        put(h, i, h->nodes[c]);
        i = c;
    }
    put(h, i, n);
}

void heap_push_tied(struct heap *h, struct heap_node *n, double key, uint64_t tie)
{
    dlc_check(n->at == 0);
    n->key = key;
    n->seq = tie;
    mem_reserve(h->nodes, h->n, h->cap);
    put(h, h->n++, n);
    up(h, h->n - 1);
}

void heap_push(struct heap *h, struct heap_node *n, double key)
{
    heap_push_tied(h, n, key, h->seq++);
}

void heap_update_tied(struct heap *h, struct heap_node *n, double key, uint64_t tie)
{
    dlc_check(n->at != 0 && h->nodes[n->at - 1] == n);
    n->key = key;
    n->seq = tie;
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
    dlc_check(h->nodes[i] == n);
    n->at = 0;
    h->n--;
    if (i == h->n)
        return;
    put(h, i, h->nodes[h->n]);
    up(h, i);
    down(h, h->nodes[i]->at - 1);
}

struct heap_node *heap_top(const struct heap *h)
{
    return h->n == 0 ? NULL : h->nodes[0];
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
    mem_free(&h->nodes);
    h->n = h->cap = 0;
}
