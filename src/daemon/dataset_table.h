// SPDX-License-Identifier: Apache-2.0
/*
 * The table of open datasets: lookups, and the limit on their number. Lookups take no reference and
 * start nothing. However many are open, they look only at those of that name, URL or id.
 */
#ifndef DLC_DAEMON_DATASET_TABLE_H
#define DLC_DAEMON_DATASET_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct dataset;
struct dlc_list;
struct node;

#define DATASETS_MAX 8192 /* each has a thread and some descriptors */
#define IDLE_MAX     32   /* datasets without users that stay for the next run */

void dataset_table_add(struct dataset *ds); /* its name, URL and, if it has one, cluster id stay */
void dataset_table_remove(struct dataset *ds);
/* It has lost its last user, or has one again: dataset_put(), dataset_ref(). */
void dataset_table_idle(struct dataset *ds, bool idle);
/* The one with the lowest id that is not less; NULL: none. For passes over all in steps: ids grow,
 * so that one that is opened meanwhile comes last. */
struct dataset *dataset_from(const struct node *n, uint64_t id);

/* It is being listed, and will be newer than the stored catalog. */
bool dataset_is_listing(const struct dataset *ds);
/* The dataset with this name (dataset_name()) that is not stale. With refresh: the one that is
 * being listed, if any; otherwise the one that is ready. */
struct dataset *dataset_by_name(struct node *n, const char *name, bool refresh);
/* Is this its URL: of its bucket, or dlcache://NAME as its tenant says it? */
bool dataset_is_at(const struct dataset *ds, const char *url);
/* The next one of a pass that goes round; *at is where it is, at first 0. NULL: the end, once. */
struct dataset *dataset_step(const struct node *n, uint64_t *at);
/* Lists of dataset.same_url and dataset.same_cid, the newest last; URLs in their canonical form.
 * Compare the text: others may be among them. */
const struct dlc_list *datasets_at(const struct node *n, const char *url);
const struct dlc_list *datasets_of_cid(const struct node *n, const char *cid);
/* The newest ready one at this URL; NULL: none. */
struct dataset *dataset_find(struct node *n, const char *url);
/* The ready dataset with this cluster id; snapshot 0: the newest. tenant NULL: of any tenant; a
 * freed name may belong to another tenant by now (CLUSTER-2). NULL: none. */
struct dataset *dataset_of_cluster(struct node *n, const char *cid, const char *tenant,
                                   uint64_t snapshot);
/* The open dataset of that name and snapshot, or the one that is being opened for it. NULL: none.
 */
struct dataset *dataset_of_snapshot(struct node *n, const char *name, uint64_t snapshot);
/* The snapshot of that dataset that other sessions of the client's job read; 0: there is none. */
uint64_t dataset_job_snapshot(const struct conn *c, const char *name);
/* The one that a refresh is about to replace, or NULL. */
struct dataset *dataset_to_replace(const struct dataset *ds);
/* Another one that is ready with the same catalog, or NULL. */
struct dataset *dataset_twin(const struct dataset *ds);
/* Close a few of those without users that were left longest ago, if more than IDLE_MAX are there or
 * the table is full. True: there are more to close. */
bool dataset_trim(struct node *n);
bool dataset_room(struct node *n); /* the same. False: too many are in use */

#endif
