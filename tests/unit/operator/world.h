// SPDX-License-Identifier: Apache-2.0
/*
 * Both worlds in a few lines: Kubernetes with one namespace, and the control plane, so that what
 * reconcile() wants can be carried out, interrupted anywhere, and looked at.
 *
 * What others do there is world_nature(): a bucket is listed, a job admitted, a pod bound and
 * started, what was deleted goes, what has lost its owner too. Time passes only by `now`.
 */
#ifndef DLC_TESTS_OPERATOR_WORLD_H
#define DLC_TESTS_OPERATOR_WORLD_H

#include "unit.h"

#include "operator/reconcile/reconcile.h"

#define WORLD_NS "team"

struct world {
    json_t *objects;  /* "Kind/name" -> object */
    json_t *tenants;  /* name -> credentials or null */
    json_t *datasets; /* name -> body */
    json_t *jobs;     /* id -> body */
    json_t *ended;    /* likewise, of jobs that were deregistered */
    json_t *keys;     /* Idempotency-Key -> id */
    json_t *events;   /* "reason" */
    int64_t now;
    int version;

    /* what fails */
    bool away;             /* the manager */
    bool deaf;             /* nobody lists buckets */
    bool idle;             /* nobody binds or starts pods */
    bool secret_forbidden; /* the namespace does not let us read its Secrets */
    const char *bad_url;   /* the bucket that does not exist */
    int refuse_jobs;       /* HTTP status */
    const char *reject;    /* the kind that the API server does not take */

    /* what was done */
    int actions, calls, control;
    int left; /* actions until the operator dies; < 0: it lives */
};

void world_init(struct world *w);
void world_release(struct world *w);

/* Borrowed from the world. */
json_t *world_put(struct world *w, json_t *object); /* takes; makes uid, version, creation */
json_t *world_get(const struct world *w, const char *kind, const char *name);
json_t *world_node(struct world *w, const char *name, bool ready);
json_t *world_secret(struct world *w, const char *name);
json_t *world_dltpod(struct world *w, const char *name, const char *spec);
json_t *world_dataset(struct world *w, const char *name, const char *spec);
void world_delete(struct world *w, const char *kind, const char *name); /* as kubectl does */
void world_spec(struct world *w, const char *kind, const char *name, const char *spec);
void world_end_pods(struct world *w, const char *phase);
/* A text at a path: "status.phase", "status.jobs.0.id"; "" when absent. */
const char *world_text(const struct world *w, const char *kind, const char *name, const char *path);
/* "True:Ready" */
const char *world_condition(const struct world *w, const char *kind, const char *name,
                            const char *type);
size_t world_count(const struct world *w, const char *kind);

/* Look at what concerns this object. Borrows from the world until the next change. */
void world_observe(struct world *w, const char *kind, const char *name, struct observed *o);
void world_unobserve(struct observed *o);
/* Carry one out; false: the operator died (after it was done). */
bool world_act(struct world *w, struct observed *o, const struct action *a);
/* A whole round of one object, with what `again` asks for. False: died. True in *did: it acted. */
bool world_round(struct world *w, const char *kind, const char *name, bool *did);
bool world_nature(struct world *w); /* did anything happen? */
/* Rounds, nature and time until nothing happens. An operator that dies is started again. */
void world_settle(struct world *w);
/* Actions of one reconcile() as one line: "STATUS Placed; APPLY Pod x-train-0; again". Gives. */
char *world_say(const struct actions *a);
/* Everything but times, versions and numbers, as one text. Gives. */
char *world_sum(const struct world *w);

#endif
