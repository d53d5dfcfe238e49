// SPDX-License-Identifier: Apache-2.0
/*
 * Bucket traffic of this node for each dataset of the cluster, and its estimated price, for
 * heartbeats. Counted since the node was started. It is shown with the node; managers of older
 * versions sum it up by dataset, later ones have the accounts (usage.c).
 *
 * (COST-1) The sum of a dataset never decreases: the counts of a freed dataset are kept, since it
 *          may be opened or listed again under the same name. The latest CLOSED_MAX are kept.
 */
#include "cluster/cost.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/state.h"

#define CLOSED_MAX 256u

struct dataset_cost {
    char *of; /* TENANT/NAME: a name that was freed may be another tenant's by now */
    uint64_t money_nano, requests, bytes;
};

static struct dataset_cost *closed_cost(struct node *n, const char *of)
{
    struct dataset_cost *s;

    for (size_t i = 0; i < n->member->n_costs; i++)
        if (strcmp(n->member->costs[i].of, of) == 0)
            return &n->member->costs[i];
    if (n->member->n_costs == CLOSED_MAX) {
        mem_free(&n->member->costs[0].of);
        memmove(&n->member->costs[0], &n->member->costs[1],
                --n->member->n_costs * sizeof(n->member->costs[0]));
    }
    mem_reserve(n->member->costs, n->member->n_costs, n->member->cap_costs);
    s = &n->member->costs[n->member->n_costs++];
    *s = (struct dataset_cost){.of = mem_str(of)};
    return s;
}

static void add(json_t *all, const char *of, uint64_t money_nano, uint64_t requests, uint64_t bytes)
{
    json_t *o = json_object_get(all, of);

    if (o == NULL)
        json_object_set_new(all, of, o = json_object());
    json_add_int(o, "money_nano", (json_int_t)money_nano);
    json_add_int(o, "requests", (json_int_t)requests);
    json_add_int(o, "bytes", (json_int_t)bytes);
}

json_t *cost_begin(const struct node *n)
{
    json_t *all = json_object();

    for (size_t i = 0; i < n->member->n_costs; i++)
        add(all, n->member->costs[i].of, n->member->costs[i].money_nano,
            n->member->costs[i].requests, n->member->costs[i].bytes);
    return all;
}

void cost_add(json_t *all, const struct dataset *ds)
{
    if (ds->cid != NULL)
        add(all, ds->shared_as, ds->tally->money_nano, ds->tally->requests, ds->tally->bytes);
}

void cost_keep(struct dataset *ds)
{
    const struct bucket_tally *t = ds->tally;
    const struct figures *f = &ds->node->member->figures;
    struct dataset_cost *s;

    if (ds->cid == NULL || t->requests == 0)
        return;
    if (f->spent != NULL && ds->id >= f->at)
        cost_add(f->spent, ds); /* the pass would have come to it */
    s = closed_cost(ds->node, ds->shared_as);
    s->money_nano += t->money_nano;
    s->requests += t->requests;
    s->bytes += t->bytes;
}

void cost_close(struct node *n)
{
    for (size_t i = 0; i < n->member->n_costs; i++)
        mem_free(&n->member->costs[i].of);
    mem_free(&n->member->costs);
    n->member->n_costs = n->member->cap_costs = 0;
}

const struct node_events cost_events = {.dataset_closing = cost_keep};
