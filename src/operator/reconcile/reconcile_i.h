// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of reconcile(), private to this directory.
 *
 *     reconcile.c          a DLTPod: the order of its steps, and its phase
 *     reconcile_job.c      one of its jobs at the manager: data, registration, warm-up
 *     reconcile_job_end.c  the end of that job, and of its data
 *     reconcile_pods.c     its pods: their states, which to delete, which to create
 *     pod_trouble.c        what keeps a pod from running; evictions in a row
 *     reconcile_dataset.c  a CachedDataset
 *     reconcile_delete.c   deletion of a DLTPod
 *     reconcile_tenant.c   tenant and credentials, for both
 *     node_filter.c        which nodes may run a pod
 *     warm_progress.c      how much of the data the nodes hold
 *     status.c             status and events
 *     observed.c           memory of observed states and action lists
 */
#ifndef DLC_OPERATOR_RECONCILE_RECONCILE_I_H
#define DLC_OPERATOR_RECONCILE_RECONCILE_I_H

#include "operator/reconcile/manifest_i.h"
#include "operator/reconcile/pod_trouble.h"
#include "operator/reconcile/reconcile.h"

/* ---- observed.c ---- */

int64_t time_at(const json_t *o, const char *path); /* 0 when absent */
double spent_at(const json_t *dataset); /* money, as the manager answers; < 0: it does not say */
const char *annotation(const json_t *object, const char *name);
const char *label(const json_t *object, const char *name);
bool is_owned(const json_t *object, const json_t *by);
bool has_finalizer(const json_t *object);
bool is_deleted(const json_t *object);
/* How much of an error's words is the same when it happens again: all but how often and how long it
 * was tried. Otherwise each time would be news. */
int lasting_len(const char *error);
bool same_json(const json_t *a, const json_t *b); /* 1 and 1.0 are the same */
void cut_text(char *s); /* what was cut by its length: no half of a character at its end */
const json_t *status_of_job(const struct observed *o, const char *name, const char *dataset);

struct action *add_action(struct actions *a, enum action_kind kind);
void look_after(struct actions *a, struct dlc_dur after); /* then or sooner */
void look_after_s(struct actions *a, int64_t seconds);    /* likewise; a day at most */

/* ---- status.c ---- */

enum phase { PENDING, PREPARING, PLACED, RUNNING, SUCCEEDED, FAILED };
extern const char *const phase_names[];

enum { COND_DATASET, COND_PLACED, COND_RUNNING, COND_SUCCEEDED, COND_FAILED, CONDS_DLTPOD };
enum { COND_WARMED = COND_PLACED, CONDS_DATASET }; /* of a CachedDataset: DatasetReady, Warmed */

struct condition {
    const char *status; /* "True", "False", "Unknown"; NULL: not said */
    bool warning;       /* people should look: an event when it is new */
    char reason[64], message[500];
};

struct job_round;
struct round {
    const struct observed *o;
    bool tenant_again;            /* is ordered */
    const struct job_round *jobs; /* of spec.jobs, when they are looked at */
    struct actions *out;
    const json_t *was; /* the status that is there; NULL: none */
    struct condition conds[CONDS_DLTPOD];
    size_t n_conds;
    const char *phase;
    char message[500];
    json_t *fields;  /* owned: members of status beside phase, message and conditions */
    json_t *figures; /* owned: likewise; those that change alone are written every `every` s */
    int64_t every;
};

void round_init(struct round *r, const struct observed *o, struct actions *out);
void round_release(struct round *r);
void say(struct round *r, size_t cond, const char *status, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same with an event. */
void warn(struct round *r, size_t cond, const char *status, const char *reason, const char *fmt,
          ...) __attribute__((format(printf, 5, 6)));
/* Figures: shares to a thousandth; money likewise, < 0: not known. */
double round3(double x);
void set_cost(struct round *r, double money);
/* STATUS and EVENTs, if anything is new. */
void status_write(struct round *r);
/* A condition as it was; NULL: there was none. */
const json_t *condition_was(const struct round *r, const char *type);

/* ---- reconcile_tenant.c ---- */

/* GO: they are in place. AGAIN: actions were added. WAIT: the condition says for what. */
enum step { GO, WAIT, AGAIN };
enum step tenant_step(struct round *r);
/* The control plane does not know the tenant although there is its Secret: it has lost its records.
 * Another token, and the credentials once more. */
void tenant_again(struct round *r);

/* ---- warm_progress.c ---- */

/* Bytes of a dataset (the control plane's answer) that are there, truthfully: copies do not count
 * for what is missing. */
int64_t prepared_bytes(const json_t *data);
/* Has fetching ended, ordered so long ago: everything is there, or no node is at it any more? */
bool prepared_is_over(const json_t *data, int64_t ordered_s);

/* ---- node_filter.c ---- */

/* Nodes that may run a pod of the spec: names, those of `placement` (or nodeSequence) in its order.
 * Gives. *any: is there one at all? If not, `why` tells. */
json_t *nodes_for(const struct observed *o, const json_t *placement, bool *any,
                  char why[static 300]);
/* Was this node lost: unknown, or not ready for RECON_NODE_LOST_S? *in: it may be lost after so
 * many seconds (0: it is well). */
bool node_lost(const struct observed *o, const char *name, int64_t *in);

/* ---- one job ---- */

/* What this round has found out about one job, and is doing for it. */
struct job_round {
    struct round *r;
    size_t i;
    const struct seen_job *j;
    const struct spec_job *sj;
    const json_t *was; /* of status.jobs; NULL: none */
    struct spec_qos qos;
    struct build_input in;
    char template[HASH_LEN], ask[HASH_LEN], id[SPEC_NAME_LEN];
    bool known;      /* qos, template and ask are */
    bool registered; /* the control plane may have job `id` */
    bool released;   /* the data has been given up */
    bool over;       /* all pods have ended, or one has failed */
    bool warm_now;   /* order it */
    int64_t warm_time, end_time;

    /* pods */
    /* of this template: there, running; of another; on their way out */
    int made, running, old, going;
    int ended;                 /* ranks that succeeded and whose pods are gone */
    bool conflict;             /* a foreign object has our name */
    bool rejected;             /* what it needs was not taken */
    bool away;                 /* a pod goes: let those who wait for it look again */
    json_t *nodes, *succeeded; /* owned: by rank; ranks */

    enum phase state;
    enum step data; /* GO: the control plane is ready for the pods */
    struct condition ready, placed, failed;
    struct condition trouble; /* of a pod that neither runs nor ends */
    struct evictions evictions;
};

/* reconcile_job.c */
/* Is this dataset of the control plane the data that is meant? Other data that bears our name is
 * neither read nor deleted (RECONCILE-2). */
bool data_is(const json_t *body, const char *tenant, const struct spec_data *d);
void job_init(struct job_round *w, struct round *r, size_t i);
void job_round_release(struct job_round *w);
enum step job_step(struct job_round *w); /* the control plane's side; sets data, ready */
/* What the control plane is told when nothing has to be looked at again: warm-up, and, since a job
 * that is not heard of is ended, that it lives until its pods read. */
void job_orders(struct job_round *w);
json_t *job_entry(const struct job_round *w); /* of status.jobs; gives */
/* Register it. The key has a hash of the body in it: a manager refuses a key that it knows with
 * another body, and an operator of another version may make another. */
void job_make(struct job_round *w);
enum step job_end(struct job_round *w, const char *id); /* deregister it */
void job_note(struct condition *c, const char *status, bool warning, const char *reason,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* reconcile_job_end.c */
enum step job_end_step(struct job_round *w); /* of one that is over */
enum step orphan_step(struct round *r, size_t i);
/* There may be something of it in the control plane: it stays in status.jobs until that is gone. */
bool orphan_waits(const struct observed *o, size_t i);
json_t *orphan_entry(const struct observed *o, size_t i); /* gives */

/* reconcile_pods.c */
bool pod_has_ended(const json_t *pod);
void pod_remove(struct actions *out, const json_t *pod, bool now); /* now: without grace */
void pods_see(struct job_round *w);                                /* what they say */
void pods_act(struct job_round *w);      /* which are to go; with data GO: which to come */
void pods_conclude(struct job_round *w); /* what that makes of the job */

/* reconcile_delete.c, reconcile_dataset.c */
void reconcile_away(struct round *r);
void reconcile_dataset(struct round *r);

#endif
