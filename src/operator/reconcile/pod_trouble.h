// SPDX-License-Identifier: Apache-2.0
/*
 * What keeps a pod from doing its work: containers that do not start or crash again and again, and
 * evictions. Kubernetes shows such a pod as Running or Pending. Pure.
 */
#ifndef DLC_OPERATOR_RECONCILE_POD_TROUBLE_H
#define DLC_OPERATOR_RECONCILE_POD_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* Was it ended by the cluster, not by itself? */
bool pod_is_evicted(const json_t *pod);
/* How its program ended, for people. */
void pod_why_failed(const json_t *pod, char out[static 300]);
/* True: a container waits for something that may never come; `reason` is Kubernetes' word for it
 * (CrashLoopBackOff, ErrImagePull, ...), `out` says it in a sentence. */
bool pod_trouble(const json_t *pod, char reason[static 64], char out[static 300]);

/*
 * Evictions of a job's pods in a row: status.jobs[].evictions. The first pod is replaced at once,
 * later ones after a delay that doubles. A pod that lasts for EVICTIONS_FORGET_S ends the row.
 *
 * (POD-TROUBLE-1) A pod counts once: one that is older than the last eviction belongs to it.
 */
#define EVICTIONS_FORGET_S 600
struct evictions {
    int64_t count, time; /* 0: none */
    char why[300];
};
void evictions_read(struct evictions *e, const json_t *entry); /* of status.jobs; NULL: none */
void evictions_add(struct evictions *e, const json_t *pod, int64_t now);
int64_t evictions_until(const struct evictions *e); /* no pod is made before; 0: at once */
json_t *evictions_json(const struct evictions *e);  /* gives; NULL: there were none */

#endif
