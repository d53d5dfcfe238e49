// SPDX-License-Identifier: Apache-2.0
/*
 * Which keys to enqueue after a change in the object cache, and which parts of an object the cache
 * keeps.
 *
 *     DLTPod, CachedDataset   itself, unless only its status changed (the operator wrote that)
 *     CachedDataset           also the DLTPods that read it, when its phase changes
 *     DLTPod                  also the CachedDatasets that it reads or has read, when it is
 *                             created, changed, finished or deleted, or one of its jobs begins or
 *                             ends
 *     Pod, ConfigMap, Service the DLTPod that owns it
 *     Node                    every DLTPod that has not finished, when the node becomes usable or
 *                             unusable
 */
#ifndef DLC_OPERATOR_RECONCILE_ENQUEUE_H
#define DLC_OPERATOR_RECONCILE_ENQUEUE_H

#include "operator/kube/object_cache.h"
#include "operator/kube/work_queue.h"
#include "operator/reconcile/references.h"

struct enqueuer {
    struct objects *objects;
    struct users *users;
    struct queue *queue;
};

/* As objects_config.changed and .trim; arg is a struct enqueuer. */
void enqueue_changed(enum kube_kind kind, const json_t *before, const json_t *after, void *arg);
void enqueue_trim(enum kube_kind kind, json_t *object, void *arg);
/* Everything there is: who begins to lead looks at all of it. */
void enqueue_all(struct enqueuer *w);

#endif
