// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/dataset_cost.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "manager/tables/tables.h"

json_t *dataset_cost(struct tables *t, const struct store_doc *d)
{
    char *of = mem_fmt("%s/%s", d->tenant, d->id);
    const json_t *sum;
    struct usage u;

    dlc_mtx_lock(&t->mtx);
    sum = json_object_get(t->costs.sums, of);
    usage_of_json(&u, sum);
    dlc_mtx_unlock(&t->mtx);
    mem_free(&of);
    if (sum == NULL)
        return NULL;
    return json_pack("{s:f, s:I, s:I}", "money", (double)u.n[USAGE_money_nano] / 1e9, "requests",
                     (json_int_t)u.n[USAGE_requests], "bytes", (json_int_t)u.n[USAGE_bytes]);
}

static json_t *sums_locked(struct tables *t)
{
    dlc_mtx_assert_held(&t->mtx);
    if (t->costs.sums == NULL)
        t->costs.sums = json_object();
    return t->costs.sums;
}

void costs_add(struct tables *t, const char *of, const struct usage *more)
{
    struct usage sum;

    dlc_mtx_lock(&t->mtx);
    usage_of_json(&sum, json_object_get(t->costs.sums, of));
    usage_add(&sum, more);
    json_object_set_new(sums_locked(t), of, usage_json(&sum));
    dlc_mtx_unlock(&t->mtx);
}

unsigned costs_begin(struct tables *t)
{
    unsigned begun;

    dlc_mtx_lock(&t->mtx);
    begun = t->costs.forgot;
    t->costs.uncertain = false;
    dlc_mtx_unlock(&t->mtx);
    return begun;
}

/* (SPENT-1) Batches that came while the store was read are in `sums` or not. */
void costs_read(struct tables *t, unsigned begun, const json_t *sums)
{
    const char *of;
    json_t *row;

    dlc_mtx_lock(&t->mtx);
    if (begun != t->costs.forgot) {
        t->costs.uncertain = true; /* once more */
        goto out;
    }
    json_object_foreach((json_t *)(uintptr_t)sums, of, row)
    {
        struct usage stored, known;

        usage_of_json(&stored, row);
        usage_of_json(&known, json_object_get(t->costs.sums, of));
        for (int i = 0; i < USAGE_COUNTERS; i++)
            stored.n[i] = DLC_MAX(stored.n[i], known.n[i]);
        json_object_set_new(sums_locked(t), of, usage_json(&stored));
    }
out:
    dlc_mtx_unlock(&t->mtx);
}

void costs_forget_tenant(struct tables *t, const char *tenant)
{
    size_t len = strlen(tenant);
    const char *of;
    json_t *row;
    void *next;

    dlc_mtx_lock(&t->mtx);
    t->costs.forgot++;
    json_object_foreach_safe(t->costs.sums, next, of, row)
    {
        if (strncmp(of, tenant, len) == 0 && of[len] == '/')
            json_object_del(t->costs.sums, of);
    }
    dlc_mtx_unlock(&t->mtx);
}

void costs_clear(struct tables *t)
{
    dlc_mtx_lock(&t->mtx);
    json_decref(t->costs.sums);
    t->costs.sums = NULL;
    dlc_mtx_unlock(&t->mtx);
}
