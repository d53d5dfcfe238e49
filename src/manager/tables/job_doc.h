// SPDX-License-Identifier: Apache-2.0
/*
 * A job, and its document of kind STORE_JOB: {"dataset", "splits", "qos", "gpus", "nodes"?,
 * "node_count"?, "queue", "state", "created_ms", "started_ms"?, "admission", "snapshot"?}. Pure.
 */
#ifndef DLC_MANAGER_TABLES_JOB_DOC_H
#define DLC_MANAGER_TABLES_JOB_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/usage.h"
#include "manager/store/store.h"
#include "manager/tables/admission.h"

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_REFUSED };
const char *job_state_name(enum job_state s);

#define EPOCHS_MAX 1000000000

struct job {
    char id[20];
    char dataset[NAME_MAX_LEN + 1], tenant[NAME_MAX_LEN + 1];
    enum job_state state;
    struct qos qos;
    bool queue; /* wait when there is no room */
    unsigned gpus, node_count;
    json_t *splits; /* array; empty: all */
    json_t *nodes;  /* array of permitted nodes; NULL: any that the dataset lies on */
    int64_t created_ms;
    uint64_t reads; /* the snapshot that all its ranks read; 0: none has opened the dataset yet */

    /* of its dataset */
    json_t *snapshot; /* NULL: not listed yet */
    json_t *lies_on;  /* array; NULL: on all nodes */

    /* in memory only */
    struct dlc_mono heard;
    uint64_t epochs_done;
    bool says_epochs;           /* it said so itself; otherwise from the samples it has read */
    struct usage usage;         /* as accounting.c has it */
    struct dlc_mono read;       /* when a node last reported that it reads; 0: none has */
    json_t *figures;            /* of its last heartbeat; NULL: none */
    struct admission admission; /* of a job that waits, as it was judged last; need 0: never */
};

void job_copy(struct job *to, const struct job *from); /* gives *to */
void job_release(struct job *j);
extern const char *const job_modes[2];                                /* by enum qos_mode */
int name_index(const char *const *names, size_t n, const char *name); /* -1: none of them */
/* From and to documents. job_of_doc() gives; false: the document is invalid. */
bool job_of_doc(struct job *j, const struct store_doc *d);
uint64_t job_doc_snapshot(const json_t *body); /* what its ranks read; 0: not known yet */
json_t *job_body(const struct job *j, const struct admission *a);
json_t *admission_json(const struct admission *a);
bool job_keeps(const struct job *j); /* does it use the cache, for all it reads? */
/* Bytes it reads at a time on a node; 0: it does not read in parts. */
uint64_t job_part(const struct job *j);

#endif
