// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs inside the manager.
 *
 *     jobs.c        the routes, and what documents look like
 *     job_register.c    registering
 *     job_table.c   jobs as the leader knows them: who was heard of when, the queue, the clock
 *     capacity.c        the numbers of admission: pure, over copies
 *     weight_exchange.c     what nodes tell each other of the weights of a job
 *
 * The store has what must outlive the manager: what was asked for, and the state. When a job was
 * last heard of, and its figures, are in memory only: with a new leader every job has a full
 * job_ttl.
 *
 * (J1) Whoever decides (a registration, the tick) holds jobs->admit from the look at the numbers
 * until the job is in the table: no byte is promised twice. (J2) A queued job starts before every
 * other that came later with the same priority and needs room, unless it could not run even in an
 * empty cluster. (J3) The table is guarded by control->mtx; what leaves it is a copy, JSON
 * values too.
 */
#ifndef DLC_MANAGER_ROUTES_JOBS_I_H
#define DLC_MANAGER_ROUTES_JOBS_I_H

#include "manager/tables/admission.h"
#include "manager/manager_i.h"
#include "manager/tables/placement.h"

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_REFUSED };
const char *job_state_name(enum job_state s);

struct job {
    char id[20];
    char dataset[NAME_MAX_LEN + 1], tenant[NAME_MAX_LEN + 1];
    enum job_state state;
    struct qos qos;
    bool queue; /* wait when there is no room */
    unsigned gpus, node_count;
    json_t *splits; /* array; empty: all */
    json_t *nodes;  /* array of those it may use; NULL: any the dataset lies on */
    int64_t created_ms;

    /* of its dataset */
    json_t *snapshot; /* NULL: not listed yet */
    json_t *lies_on;  /* array; NULL: on all nodes */

    /* in memory only */
    struct dlc_mono heard;
    uint64_t epochs_done;
    json_t *figures; /* as its last heart-beat said; NULL: none */
};

struct jobs {
    struct job *jobs; /* G: control->mtx; sorted by id */
    size_t n, cap;
    struct dlc_mtx admit;      /* rank LCK_jobs */
    bool runs_changed;         /* G: control->mtx; the next tick makes a view of it */
    struct dlc_mono listed_at; /* the thread's: when unlisted datasets were last asked for */
};

#define EPOCHS_MAX 1000000000

/* ---- jobs.c ---- */

extern const char *const job_modes[2];                                /* by enum qos_mode */
int name_index(const char *const *names, size_t n, const char *name); /* -1: none of them */
/* As the API shows it; and what is known of it now. Gives. */
json_t *job_json(const struct store_doc *d);
void job_add_live(struct control *c, json_t *out, const char *id);
http_handler_f job_create;  /* job_register.c */
http_handler_f job_weights; /* weight_exchange.c */

/* From and to documents. job_of_doc() gives; false: it makes no sense. */
bool job_of_doc(struct job *j, const struct store_doc *d);
json_t *job_body(const struct job *j, const struct admission *a);
json_t *admission_json(const struct admission *a);
void job_release(struct job *j);

/* ---- job_table.c ---- */

/* Hold jobs->admit. False: we do not lead, and the reply says so. */
bool jobs_lock(struct control *c, struct http_reply *reply);
void jobs_unlock(struct control *c);

/* A copy of all, so that nothing is computed or written with the mutex held. Gives. */
struct job *jobs_copy(struct control *c, size_t *n);
void jobs_copy_release(struct job **jobs, size_t n);
bool jobs_find(struct control *c, const char *id, struct job *out); /* gives a copy */
void jobs_add(struct control *c, struct job *j);                    /* takes what is in it */
bool jobs_remove(struct control *c, const char *id);
bool jobs_heard(struct control *c, const char *id, const uint64_t *epochs_done,
                const json_t *figures, enum job_state *state);
/* Its dataset was listed, or lies elsewhere now. */
void jobs_dataset_changed(struct control *c, const char *dataset, const json_t *body);
/* Of a dataset: jobs that run, those of them that keep what they read, and the runs over it that
 * such jobs declared and that are still to come. A run of a job with priority p counts 2^(p/100)
 * times: when space is short the data of those that matter less goes first. */
struct job_use {
    unsigned running, keepers;
    uint64_t runs;
};
struct job_use jobs_of_dataset(const struct job *jobs, size_t n, const char *dataset);
bool job_keeps(const struct job *j); /* what it reads: uses the cache, and all of it */
uint64_t
job_part(const struct job *j); /* bytes it reads at a time, on a node; 0: it has no parts */
/* Nodes say who reads from them: those jobs live. figures: of a heart-beat. */
void jobs_seen(struct control *c, const json_t *figures);
size_t jobs_running(struct control *c, const char *dataset); /* none when we do not lead */
size_t jobs_count(struct control *c, const char *dataset);   /* running or waiting */
/* End those of a dataset that goes away. */
void jobs_end_of_dataset(struct control *c, const char *dataset);

/* ---- capacity.c ---- */

/* May it run? `j` itself may be among jobs and does not count there. False in *known: its dataset
 * was not listed yet, so that nobody can tell. */
void capacity_admit(const struct node_info *nodes, size_t n, const struct job *jobs, size_t n_jobs,
                    const struct job *j, struct admission *out, bool *known);
/*
 * Nodes for a dataset or a job by DLCache's rule: an array of {"node", "weight"}, best first; NULL:
 * they cannot hold it. only: an array of those that may be used; NULL: all.
 */
json_t *capacity_place(const struct node_info *nodes, size_t n, const struct job *jobs,
                       size_t n_jobs, const char *dataset, const json_t *only,
                       const struct place_ask *ask);

#endif
