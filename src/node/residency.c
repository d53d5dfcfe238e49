// SPDX-License-Identifier: Apache-2.0
/*
 * What a dataset's chunks are worth to the disk tier: which jobs read it, how often they still
 * will, and what its chunks cost to bring back. The disk tier and its policy decide
 * (docs/policies.md).
 */
#include "node/node_i.h"

#include "base/hash.h"
#include "storage/policy/policy.h"

void dataset_enter_group(struct dataset *ds)
{
    if (ds->node->disk != NULL)
        ds->group = disk_group(ds->node->disk, hash64_str(ds->catalog_path), ds->url.shown);
}

void dataset_join(struct dataset *ds)
{
    if (ds->node->disk != NULL)
        disk_group_join(ds->node->disk, ds->group);
}

void dataset_leave(struct dataset *ds)
{
    if (ds->node->disk != NULL)
        disk_group_leave(ds->node->disk, ds->group);
}

struct chunk_id dataset_chunk(const struct dataset *ds, const char *key, const char *etag)
{
    struct chunk_id id = chunk_id_of(ds->disk_id, key, etag);

    id.group = ds->group;
    return id;
}

void dataset_fetched(struct dataset *ds, struct dlc_dur took, uint64_t bytes)
{
    double second = ds->node->config->price_second;
    struct policy_prices prices = {.share = second / (1 + second)};

    if (ds->node->disk == NULL || ds->bucket == NULL)
        return;
    bucket_prices(ds->bucket, &prices.request, &prices.transfer);
    disk_group_cost(ds->node->disk, ds->group, policy_cost(&prices, dlc_dur_seconds(took), bytes),
                    bytes);
}

/* Epochs that the session has still to read, this one included; POLICY_UNKNOWN: it did not say. */
static int64_t runs_left(const struct follow *f)
{
    const struct cursor *c = f->active ? &f->told->cursor : NULL;
    uint64_t over;

    if (c == NULL || c->length == 0 || c->epochs > INT32_MAX)
        return POLICY_UNKNOWN; /* no order, a list for each epoch, or no end */
    over = f->pos / c->length;
    return (int64_t)(c->epochs > over ? c->epochs - over : 0);
}

void dataset_expect(struct dataset *ds)
{
    int64_t sum = dlc_list_empty(&ds->sessions) ? POLICY_UNKNOWN : 0;

    if (ds->node->disk == NULL || ds->state != DATASET_READY)
        return;
    dlc_list_each (l, &ds->sessions) {
        int64_t runs = runs_left(&dlc_container(l, struct session, link)->follow);

        sum = runs < 0 || sum < 0 ? POLICY_UNKNOWN : sum + runs;
    }
    disk_group_expect(ds->node->disk, ds->group, (int32_t)DLC_MIN(sum, INT32_MAX));
}
