// SPDX-License-Identifier: Apache-2.0
/*
 * Records of datasets: how the manager registered what this node has opened, as it sealed it. A
 * manager whose store is new or an old backup asks for them and registers these datasets again,
 * exactly as they were. A node cannot change a record: the manager's key authenticates it.
 *
 *     DIR/catalogs/NAME@TENANT.record    {"id", "tenant", "version", "sealed"}
 *     DIR/catalogs/NAME@TENANT.deleted   the same of one that was deleted: it must not come back
 *
 * Only nodes with a disk tier keep them.
 */
#ifndef DLC_CLUSTER_DATASET_RECORDS_H
#define DLC_CLUSTER_DATASET_RECORDS_H

struct grant;
struct node;

/* L: the manager's answer brought another record than before, or the first one. */
void dataset_record_keep(struct node *n, const struct grant *g);
/* X, blocks: the dataset was deleted. */
void dataset_record_delete(struct node *n, const char *name, const char *tenant);
/* L: tell the manager all of them. */
void dataset_records_tell(struct node *n);

#endif
