// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of datasets so far, by "TENANT/ID", so that a later owner of a name does not see what
 * another tenant has spent. The accounts (accounting.h) are in the store; this is their sum in the
 * leader's memory, so that showing a dataset reads nothing.
 *
 * (SPENT-1) What is shown never falls: every part of it is in the store before it is added here, and
 *           what is read from the store again replaces a counter only if it is larger.
 */
#ifndef DLC_MANAGER_TABLES_DATASET_COST_H
#define DLC_MANAGER_TABLES_DATASET_COST_H

#include <jansson.h>

#include "base/usage.h"
#include "manager/store/store.h"

struct tables;

struct dataset_costs {
    json_t *sums;    /* G: mtx; {"TENANT/ID": counters}; NULL: none */
    unsigned forgot; /* G: mtx; how often costs_forget_tenant() was called */
    bool uncertain;  /* G: mtx; a write to the store failed, but may have been made */
};

/* {"money", "requests", "bytes"}. NULL: nothing is known of it. Gives. */
json_t *dataset_cost(struct tables *t, const struct store_doc *d);
/* The store has so much more. */
void costs_add(struct tables *t, const char *of, const struct usage *more);
/* sums: as the store has them, read since costs_begin(). Not used if a tenant was forgotten
 * meanwhile, whose name they may have. Borrows sums. */
unsigned costs_begin(struct tables *t);
void costs_read(struct tables *t, unsigned begun, const json_t *sums);
/* A tenant of this name was deleted, and another one gets it. */
void costs_forget_tenant(struct tables *t, const char *tenant);
void costs_clear(struct tables *t);

#endif
