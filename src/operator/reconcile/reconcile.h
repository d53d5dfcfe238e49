// SPDX-License-Identifier: Apache-2.0
/*
 * reconcile(): compare the observed state with the spec, return the actions to take. Pure.
 *
 *     observed_init(&o, object, now)    which objects to look up: names in o
 *     ... the caller fills in what it found ...
 *     reconcile(&o, &actions)
 *     ... the caller executes them in order and stops at the first that fails ...
 *     actions.again:  put the results into o and call reconcile() once more, without waiting
 *     actions.after:  reconcile again then, even without an event
 *
 * Phases of a DLTPod:
 *
 *     Pending --finalizer, tenant, dataset, job--> Preparing --admitted, warmed--> Placed
 *     Placed --a pod runs--> Running --all jobs ended--> Succeeded, or Failed if one has
 *     Placed, Running --template changed, node lost--> Placed
 *     any --deleted--> job deregistered, pods deleted, data handed on --> finalizer dropped
 *
 * (RECONCILE-1) The same observed state gives the same actions; from any state that a crash can
 *               leave, repeated rounds reach the same end. All state is in Kubernetes and in the
 *               manager.
 * (RECONCILE-2) An object that does not name this DLTPod's uid as its owner is not ours: it is
 *               neither changed nor deleted. The conflict is a condition and an event.
 * (RECONCILE-3) The finalizer is dropped only when the jobs are deregistered, or the manager says
 *               that it does not know them.
 * (RECONCILE-4) A DLTPod with one pod costs at most 12 writes to the API server from creation to
 *               running and deletion, beside those of its namespace's tenant (once) and figures
 *               (once a minute at most).
 * (RECONCILE-5) While the manager does not answer, the operator changes only conditions, and
 *               deletes the pods of deleted objects.
 * (RECONCILE-6) A status is written only if it differs from the one that is there.
 *
 * Jobs are found again by a key that is made of uid, job, what is asked for, and the number of the
 * job before (status.jobs[].id): sent twice it makes one job; after that one was lost, another.
 */
#ifndef DLC_OPERATOR_RECONCILE_RECONCILE_H
#define DLC_OPERATOR_RECONCILE_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "operator/reconcile/manifest.h"
#include "operator/kube/kube.h"
#include "operator/reconcile/spec.h"

/* ---- what is ---- */

/* The manager's response to one request. Both NULL and false: not asked. */
struct response {
    json_t *body;      /* owned */
    bool absent;       /* 404, or deleted in this round */
    bool ended;        /* deleted in this round */
    int refused;       /* HTTP status (4xx, 507) of the POST of this round; 0: none */
    char message[500]; /* of the refusal */
};

/* One job: of spec.jobs in its order, then those that only status.jobs knows. */
struct seen_job {
    /* names: what to look up. "" : nothing */
    char name[SPEC_NAME_LEN];
    char id[SPEC_NAME_LEN];      /* GET /v1/jobs/ID, GET /v1/jobs/ID?ended */
    char dataset[SPEC_NAME_LEN]; /* GET /v1/datasets/NAME */
    char ref[254];               /* CachedDataset of the namespace */
    char qos_from[254];          /* ConfigMap of the namespace */
    bool ask_job, ask_data;      /* to be looked up at all */
    bool ask_ended;              /* it has ended: its last figures are of interest */
    bool in_spec;                /* observed.spec.jobs of the same index */
    bool shared; /* fill in: another DLTPod or CachedDataset that is not deleted names this dataset
                  */

    /* found; Kubernetes objects are borrowed, NULL: there is none */
    struct response job, data, ended;
    const json_t *cached_dataset, *qos_map;
};

/* An object that the API server did not take in this round (403, 422): as it is it never will be.
 */
struct rejection {
    enum kube_kind kind;
    int status;        /* HTTP; 0: there is none */
    char name[254];    /* which; "": not known */
    char message[500]; /* the server's */
};

struct observed {
    const json_t *object; /* DLTPod or CachedDataset; borrowed */
    int64_t now;          /* Unix time */
    bool invalid;         /* the spec makes no sense: `why` */
    struct dlc_err why;
    char tenant[SPEC_NAME_LEN]; /* the namespace's */
    char secret[254];           /* secretRef: look it up. "": none */

    /* fill in */
    bool manager_away;       /* no question was answered */
    char manager_error[200]; /* why */
    const json_t *tenant_secret, *secret_object;
    bool secret_forbidden; /* we may not read secret_object: the namespace has not bound the role */
    /* Another DLTPod or CachedDataset of this namespace names the Secret that the annotation
     * ANNOTATION_CREDENTIALS of the tenant's Secret names. */
    bool credentials_used;
    int credentials_refused; /* HTTP status of the PUT of this round */
    char credentials_error[500];
    struct rejection rejected;
    const json_t *pods, *configmaps, *services; /* arrays: owned by the object, or called as what
                                                 * it wants; borrowed, NULL: none */
    const json_t *nodes;                        /* array of all Nodes; borrowed */
    /* Of a CachedDataset: array of names of DLTPods that have a job on its data and are not
     * deleted. */
    const json_t *used_by;

    /* a DLTPod's */
    struct spec spec;
    struct seen_job *jobs;
    size_t n_jobs;
    /* a CachedDataset's; its answer is jobs[0].data */
    bool is_dataset;
    struct dataset_spec dataset;
};

/* Borrows the object until observed_release(). An invalid spec is no failure. */
void observed_init(struct observed *o, const json_t *object, int64_t now);
void observed_release(struct observed *o); /* frees answers; not what was borrowed */
/* The names that a pod, ConfigMap or Service of this DLTPod may have: to find foreign ones. Gives
 * an array of texts. */
json_t *observed_names(const struct observed *o, enum kube_kind kind);

/* ---- what is to be done ---- */

/* ACTION(name, in the control plane, API calls): what it is */
/* clang-format off */
#define ACTIONS(ACTION)                                                                            \
    ACTION(ADD_FINALIZER, false, 1)  /* merge patch, with the version */                           \
    ACTION(DROP_FINALIZER, false, 1) /* likewise */                                                \
    ACTION(APPLY, false, 1)          /* kind, name, body: server-side apply */                     \
    ACTION(DELETE, false, 1)         /* kind, name, uid, grace_s */                                \
    ACTION(STATUS, false, 1)         /* body: the whole status, with the object's version */       \
    ACTION(EVENT, false, 1)          /* warning, reason, text */                                   \
    ACTION(TENANT, true, 1)          /* name; body: Secret without its token. One at a time in a   \
                                      * process, and only if the cache still has no such Secret:   \
                                      * POST /v1/tenants; 409: POST .../token; token into          \
                                      * stringData.token; create. key "again": another token into  \
                                      * the Secret that is there, its annotation away */           \
    ACTION(CREDENTIALS, true, 1)     /* name; key: the annotation's value. PUT from secret_object, \
                                      * then annotate the tenant's Secret */                       \
    ACTION(MAKE_DATASET, true, 0)    /* job; body: POST /v1/datasets, 409 is well: GET; 404: no    \
                                      * such tenant */                                             \
    ACTION(END_DATASET, true, 0)     /* job; name: DELETE /v1/datasets/NAME; 404 is well */        \
    ACTION(LIST, true, 0)            /* job; name: POST .../snapshot: list the bucket again */     \
    ACTION(WARM, true, 0)            /* job; name, body: POST .../warm */                          \
    ACTION(EVICT, true, 0)           /* job; name, body: POST .../evict; 409 is well */            \
    ACTION(MAKE_JOB, true, 0)        /* job; key, body: POST /v1/jobs with Idempotency-Key */      \
    ACTION(END_JOB, true, 0)         /* job; name: DELETE /v1/jobs/ID; 404 is well */              \
    ACTION(HEARTBEAT, true, 0)       /* job; name: POST /v1/jobs/ID/heartbeat {}; 404 is well */
/* clang-format on */

enum action_kind {
#define ACTION(name, control, calls) ACT_##name,
    ACTIONS(ACTION)
#undef ACTION
        ACT_KINDS
};
struct action_info {
    const char *name;
    bool control; /* needs the manager */
    int calls;    /* of the API server, at least */
};
extern const struct action_info action_infos[ACT_KINDS];

/* In the namespace of the object. Members that a kind does not name are 0. */
struct action {
    enum action_kind kind;
    enum kube_kind object; /* APPLY, DELETE */
    size_t job;            /* of observed.jobs: where the answer goes */
    char name[254], uid[64], key[256];
    int64_t grace_s; /* < 0: its own */
    json_t *body;    /* owned */
    bool warning;
    char reason[64], text[500];
};

struct actions {
    struct action *v;
    size_t n, cap;
    bool again;           /* reconcile once more with the answers, at once */
    struct dlc_dur after; /* look again; ns < 0: only when something changes */
};
#define ACTIONS_INIT                                                                               \
    {                                                                                              \
        NULL, 0, 0, false,                                                                         \
        {                                                                                          \
            -1                                                                                     \
        }                                                                                          \
    }
void actions_release(struct actions *a);
/* How often reconcile() may ask for `again` before the key goes back into the queue. */
#define RECONCILE_ROUNDS 16

/*
 * Where responses go, when `again` is set (execute.c):
 *     ADD_FINALIZER, STATUS      o->object = the object of the response (the caller holds it)
 *     TENANT                     o->tenant_secret = the Secret
 *     CREDENTIALS                o->tenant_secret likewise; refused: credentials_refused, _error
 *     MAKE_DATASET               jobs[i].data = body of the response, or refused
 *     END_DATASET, END_JOB       response_ended(); 409: response_refused()
 *     WARM, EVICT, LIST          nothing, or data.refused
 *     MAKE_JOB                   jobs[i].job = body (201), or refused. jobs[i].id stays
 *     HEARTBEAT                  job.absent = true when it is not known
 *     APPLY, DELETE              nothing: the watch brings it. APPLY answered with 403 or 422:
 *                                rejected, and reconcile() once more
 * A failure that is not a refusal (5xx): the key fails (queue_failed). If the manager does not
 * answer: manager_away with manager_error, and reconcile() once more.
 */
void response_set(struct response *a, json_t *body); /* takes body */
void response_absent(struct response *a);
void response_ended(struct response *a);
void response_refused(struct response *a, int status, const char *message);

/* `out` is ACTIONS_INIT. */
void reconcile(const struct observed *o, struct actions *out);

/* ---- times ---- */

#define RECON_LOOK_AWAY      DLC_SEC(5)  /* the manager is away */
#define RECON_LOOK_PREPARING DLC_SEC(2)  /* listing, queued, warming */
#define RECON_LOOK_WAITING   DLC_SEC(30) /* for what a watch will tell: only to be sure */
#define RECON_LOOK_RUNNING   DLC_SEC(15) /* heartbeats for a job that does not read */
#define RECON_LOOK_READING   DLC_SEC(30) /* figures; half of what the manager waits for a job */
#define RECON_SILENT_MS      10000       /* a job is spoken for that was not heard of for so long */
#define RECON_NODE_LOST_S    40          /* a node is given up that was not ready for so long */
#define RECON_FIGURES_S      60          /* figures are written at most so often */
#define RECON_SETTLE_S       15 /* by then nodes have told the figures of a job that ended */
#define RECON_PROGRESS_S     5  /* progress of preparation likewise */
#define RECON_WARM_S         20 /* no node warms, so long after it was ordered: it is over */

#endif
