// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of a catalog are sorted, so what its first and its last key have in common all of them have.
 * Datasets at one place are grouped by that beginning. A key can be in those groups only whose
 * beginning is its own: one lookup for each length that occurs at the place. Most have one.
 *
 * Samples that are parts of objects are not sorted by key: their datasets are in the group of the
 * empty beginning.
 *
 * (OBJECT-INDEX-1) A search looks at LOOKS datasets at most. A copy that it does not find is read
 *                  from elsewhere: that costs a request, and no wrong answer.
 */
#include "daemon/fetch/object_index.h"

#include <string.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sorted.h"
#include "catalog/catalog.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

#define LOOKS 64

struct object_group {
    struct dlc_list all; /* object_entry.link */
};

struct object_place {
    struct {
        unsigned len, datasets;
    } * lengths; /* of the beginnings that occur, rising */
    size_t n, cap;
};

static uint64_t hash_of(uint64_t place, const char *key, unsigned len)
{
    uint64_t parts[] = {place, hash64(key, len)};

    return hash64(parts, sizeof(parts));
}

static uint64_t place_of(const struct dataset *ds)
{
    return hash64(&ds->disk.id, sizeof(ds->disk.id));
}

static int compare_length(const void *element, const void *key)
{
    unsigned a = *(const unsigned *)element, b = *(const unsigned *)key;

    return (a > b) - (a < b);
}

static void count_length(struct object_place *p, unsigned len, bool more)
{
    bool found;
    size_t at = sorted_find(p->lengths, p->n, sizeof(*p->lengths), compare_length, &len, &found);

    if (!found) {
        sorted_insert(p->lengths, p->n, p->cap, at);
        p->lengths[at].len = len;
        p->lengths[at].datasets = 0;
    }
    p->lengths[at].datasets += more ? 1u : -1u;
    if (p->lengths[at].datasets == 0)
        sorted_remove(p->lengths, p->n, at);
}

/* What its keys have in common; "" if it cannot be told. */
static unsigned common_beginning(const struct catalog *c, struct catalog_entry *first)
{
    struct catalog_entry last;
    uint64_t n = catalog_count(c);
    unsigned len = 0;

    if (!catalog_is_whole(c) || catalog_get(c, 0, first, NULL) < 0 ||
        catalog_get(c, n - 1, &last, NULL) < 0)
        return 0;
    while (first->key[len] != '\0' && first->key[len] == last.key[len])
        len++;
    return len;
}

static void object_index_add(struct dataset *ds)
{
    struct object_index *x = &ds->node->objects;
    struct object_entry *e = &ds->objects;
    uint64_t place = place_of(ds);
    struct object_place *p = map_get(&x->places, place);
    struct object_group *g;
    struct catalog_entry first = {0};

    if (e->indexed || catalog_count(ds->catalog) == 0)
        return;
    e->indexed = true;
    e->len = common_beginning(ds->catalog, &first);
    e->of = hash_of(place, first.key, e->len);
    if (p == NULL) {
        p = mem_new(struct object_place);
        map_set(&x->places, place, p);
    }
    count_length(p, e->len, true);
    g = map_get(&x->groups, e->of);
    if (g == NULL) {
        g = mem_new(struct object_group);
        dlc_list_init(&g->all);
        map_set(&x->groups, e->of, g);
    }
    dlc_list_push_head(&g->all, &e->link);
}

static void object_index_remove(struct dataset *ds)
{
    struct object_index *x = &ds->node->objects;
    struct object_entry *e = &ds->objects;
    struct object_place *p;
    struct object_group *g;

    if (!e->indexed)
        return;
    e->indexed = false;
    dlc_list_remove(&e->link);
    g = map_get(&x->groups, e->of);
    if (dlc_list_empty(&g->all)) {
        map_remove(&x->groups, e->of);
        mem_free(&g);
    }
    p = map_get(&x->places, place_of(ds));
    count_length(p, e->len, false);
    if (p->n == 0) {
        map_remove(&x->places, place_of(ds));
        mem_free(&p->lengths);
        mem_free(&p);
    }
    if (x->places.n == 0) { /* the last of all leaves no table either */
        map_release(&x->places);
        map_release(&x->groups);
    }
}

struct dataset *object_index_find(const struct dataset *ds, const char *key,
                                  bool (*has)(struct dataset *of, void *arg), void *arg)
{
    const struct object_index *x = &ds->node->objects;
    uint64_t place = place_of(ds);
    const struct object_place *p = map_get(&x->places, place);
    size_t len = strlen(key);
    unsigned looks = 0;

    /* The longest first: few datasets have it in common. */
    for (size_t i = p != NULL ? p->n : 0; i > 0; i--) {
        const struct object_group *g = NULL;

        if (p->lengths[i - 1].len <= len)
            g = map_get(&x->groups, hash_of(place, key, p->lengths[i - 1].len));
        if (g == NULL)
            continue;
        dlc_list_each (l, &g->all) {
            struct dataset *of = dlc_container(l, struct dataset, objects.link);

            if (of == ds)
                continue;
            if (looks++ == LOOKS)
                return NULL;
            count(same_object_looks);
            if (has(of, arg))
                return of;
        }
    }
    return NULL;
}

const struct node_events object_index_events = {.dataset_ready = object_index_add,
                                                .dataset_closing = object_index_remove};
