// SPDX-License-Identifier: Apache-2.0
/*
 * One pass of a worker over one object: observe (observe.c), decide (reconcile.h), execute
 * (execute.c), and repeat while the decision asks for it.
 *
 * (PASS-1) Nothing is remembered between passes except what the caches hold.
 * (PASS-2) Actions are executed in order; the first that fails ends the pass, and the key is queued
 *          again.
 * (PASS-3) An object is created by POST, never by a write that would change an existing one.
 * (PASS-4) No action begins, in Kubernetes or at the manager, unless this replica leads.
 */
#ifndef DLC_OPERATOR_RECONCILE_PASS_H
#define DLC_OPERATOR_RECONCILE_PASS_H

#include "base/mutex.h"
#include "operator/kube/get_cache.h"
#include "operator/manager_calls.h"
#include "operator/reconcile/reconcile.h"
#include "operator/reconcile/references.h"

/* What a worker needs for its passes. All borrowed; kube and manager are its own, the rest is
 * shared by all workers. */
struct reconciler {
    struct objects *objects;
    struct fetched *fetched;
    struct users *users;
    struct dlc_mtx *tenants; /* one tenant is made at a time */
    struct kube *kube;
    struct manager_client *manager;
};

/*
 * *after: look again then; ns < 0: when something changes. The object that is gone is no failure.
 * DLC_ECANCELED: we do not lead any more. Otherwise *after is how long to leave the server alone.
 */
int pass_run(struct reconciler *r, const struct object_key *key, struct dlc_dur *after,
             struct dlc_err *err);

/* ---- between pass.c, observe.c and execute.c ---- */

struct pass {
    struct reconciler *reconciler;
    char *key; /* of the object */
    struct observed seen;
    json_t *held; /* owned array: objects of the cache, for objects_put() */
    json_t *own;  /* owned array: what only we have */
    /* owned arrays of borrowed objects: what `seen` points to */
    json_t *pods, *configmaps, *services;
};

/* Look at everything that concerns the object. What the manager does not answer is in `seen`; a
 * failure is the API server's. `object` is taken. */
int observe_begin(struct pass *p, struct reconciler *r, json_t *object, struct dlc_err *err);
void observe_end(struct pass *p);
/* The manager did not answer. */
void observe_manager_away(struct pass *p, const struct dlc_err *why);
/* One more object of a kind that a pass looks at. Takes. */
void observe_add(struct pass *p, enum kube_kind kind, json_t *object);

enum action_result {
    ACTION_DONE,
    ACTION_OBSERVED,     /* what was found instead is in `seen` now: decide again */
    ACTION_MANAGER_AWAY, /* the manager does not answer: `seen` says so */
    ACTION_FAILED        /* *err */
};
enum action_result action_execute(struct pass *p, const struct action *a, struct dlc_err *err);

#endif
