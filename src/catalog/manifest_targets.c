// SPDX-License-Identifier: Apache-2.0
#include "catalog/manifest_targets_i.h"

#include <string.h>

#include "base/mem.h"

static int put(struct grown *g, uint64_t v)
{
    unsigned char *out = grown_reserve(g, sizeof(v));

    if (out == NULL)
        return -1;
    memcpy(out, &v, sizeof(v));
    g->len += sizeof(v);
    return 0;
}

static uint64_t at(const struct grown *g, size_t k)
{
    uint64_t v;

    dlc_check((k + 1) * sizeof(v) <= g->len);
    memcpy(&v, g->p + k * sizeof(v), sizeof(v));
    return v;
}

bool targets_add_row(struct targets *t, uint32_t split, uint64_t ref, bool *no_memory)
{
    *no_memory = put(&t->refs, ref) < 0;
    while (t->n <= split) {
        mem_reserve(t->splits, t->n, t->cap);
        memset(&t->splits[t->n++], 0, sizeof(*t->splits));
    }
    if (ref == REF_NONE)
        t->splits[split].without = true;
    else
        t->splits[split].with = true;
    return !(t->splits[split].with && t->splits[split].without);
}

/* Reference or REF_NONE. */
static uint64_t targets_row(const struct targets *t, size_t row)
{
    return t->refs.len == 0 ? REF_NONE : at(&t->refs, row);
}

int targets_add_sample(struct targets *t, size_t row, uint64_t i)
{
    uint64_t ref = targets_row(t, row);

    return ref == REF_NONE ? 0 : put(&t->pairs, i) < 0 ? -1 : put(&t->pairs, ref);
}

int targets_finish(struct targets *t, struct refs *r, struct dlc_err *err)
{
    struct catalog_builder *b = r->p->l->builder;
    struct map numbers = MAP_INIT; /* reference -> number of its sample + 1 */
    size_t n = t->pairs.len / sizeof(uint64_t) / 2;
    int rc = n > 0 ? catalog_builder_split(b, LAYOUT_TARGETS, true, err) : 0;

    for (size_t k = 0; k < n && rc == 0; k++) {
        uint64_t ref = at(&t->pairs, 2 * k + 1), number = catalog_builder_samples(b);
        uintptr_t have = (uintptr_t)map_get(&numbers, ref);
        struct catalog_new_sample s = {.label = SAMPLE_NO_LABEL};

        if (have != 0) {
            number = have - 1;
        } else {
            map_set(&numbers, ref, (void *)(uintptr_t)(number + 1));
            rc = refs_add_sample(r, ref, &s, err);
        }
        if (rc == 0)
            rc = catalog_builder_target(b, at(&t->pairs, 2 * k), number, err);
    }
    map_release(&numbers);
    return rc;
}

void targets_release(struct targets *t)
{
    mem_free(&t->refs.p);
    mem_free(&t->pairs.p);
    mem_free(&t->splits);
}
