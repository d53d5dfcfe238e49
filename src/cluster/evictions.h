// SPDX-License-Identifier: Apache-2.0
/*
 * Evictions that the manager has sent to all nodes lately. Each node hears of one with a heartbeat
 * of its own: until all have, a node that has not may still hand its copies over to one that has,
 * and they would stay. So the manager gives an eviction a mark, nodes say with a copy that they
 * offer which one they have heard of last, and who has heard of another refuses it for a while.
 *
 * (EVICTION-MARK-1) After SETTLE copies are taken whatever was heard of: a node may have been
 *                   restarted, or its manager may be older.
 * All functions are L.
 */
#ifndef DLC_CLUSTER_EVICTIONS_H
#define DLC_CLUSTER_EVICTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct dataset;
struct node;

#define EVICTIONS     64 /* remembered, by hash */
#define EVICTION_MARK 17 /* bytes: hexadecimal digits and the end */

struct eviction {
    uint64_t dataset; /* hash of tenant and id; 0: none */
    char mark[EVICTION_MARK];
    struct dlc_mono heard;
};

/* An eviction of this dataset is to be carried out. mark "": it is not for all nodes. */
void evictions_heard(struct node *n, const char *cid, const char *tenant, const char *mark);
/* The mark of the last one; "": none. */
const char *evictions_mark(const struct node *n, const struct dataset *ds);
/* Has one been heard of here that the node that offers a copy has not? mark: its last. */
bool evictions_forbid(const struct node *n, const struct dataset *ds, const char *mark);

#endif
