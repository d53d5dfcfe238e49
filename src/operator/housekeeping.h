// SPDX-License-Identifier: Apache-2.0
/*
 * Housekeeping of the installation, by a thread that wakes up periodically:
 *
 *     Secret dlcache-manager    created when it is missing (install_secret.h); at the start, by any
 *                               replica
 *     Secret dlcache-webhook    the webhook's certificate: created and renewed by the leader, read
 *                               by all; the CA goes into the MutatingWebhookConfiguration "dlcache-webhook"
 *     label dlcache.io/node     on Nodes with a live node of the cluster; by the leader
 *
 * (HOUSEKEEPING-1) Of objects that others created, only the label and caBundle are changed.
 * (HOUSEKEEPING-2) A failure is logged once and retried at the next wake-up; nothing else waits for
 *                  it.
 */
#ifndef DLC_OPERATOR_HOUSEKEEPING_H
#define DLC_OPERATOR_HOUSEKEEPING_H

#include "operator/kube/kube.h"
#include "operator/kube/lease.h"
#include "operator/manager_calls.h"
#include "operator/kube/object_cache.h"
#include "operator/webhook/endpoints.h"

#define WEBHOOK_SECRET "dlcache-webhook"
#define WEBHOOK_CONFIG "dlcache-webhook"
#define SERVICE_NAME   "dlcache-operator"

struct housekeeping;

struct housekeeping_config {
    const char *ns;   /* the installation's; borrowed, as all here */
    const char *host; /* where the webhook listens, if that is one address; NULL: anywhere */
    struct kube_options kube; /* with may_write */
    struct objects *objects;
    const struct lease *lease;
    struct serve *serve; /* NULL: no webhook */
    struct manager_client_config manager;
    _Atomic int64_t *certificate_end; /* Unix time; 0: there is none. Written, relaxed */
};

int housekeeping_start(const struct housekeeping_config *c, struct housekeeping **out,
                       struct dlc_err *err);
void housekeeping_stop(struct housekeeping **kp); /* joins */

/* The Secret of the installation, made when it is missing or not whole. Gives *out. */
int housekeeping_control_secret(struct kube *k, const char *ns, json_t **out, struct dlc_err *err);

/* Which Nodes need another label, given the nodes of the control plane. Gives an array of
 * {"name": .., "label": "ready" or null}. Pure. */
json_t *housekeeping_labels(const json_t *nodes, const json_t *live);

#endif
