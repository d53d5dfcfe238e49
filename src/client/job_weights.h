// SPDX-License-Identifier: Apache-2.0
/*
 * The importance weights of a job as this process maps them: the daemon's, or its own while there
 * is no daemon.
 *
 * (LEARN-1) A batch is learnt, and mappings are exchanged, under the lock: no batch goes into a
 *           mapping that is given up. A list is drawn without the lock, on a counted mapping.
 */
#ifndef DLC_CLIENT_JOB_WEIGHTS_H
#define DLC_CLIENT_JOB_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mutex.h"
#include "importance/sample.h"
#include "importance/weights.h"

struct attachment;
struct dlc_dataset;

/* State of dlc_learn() and dlc_draw(). */
struct importance {
    struct dlc_mtx mtx;    /* rank LCK_weights */
    char *job;             /* NULL: none was begun. G: dataset.mtx and the process-wide lock */
    bool own;              /* the job has no name: the process's. G: dataset.mtx */
    struct draw_spec spec; /* one thread at a time, by contract */
    uint64_t *samples; /* sample numbers of the spec's places; NULL: the same. One thread, too */
    enum weights_rule rule;        /* G: mtx */
    struct weights_scale scale;    /* G: mtx */
    struct mapped_weights *mapped; /* G: mtx; changed under the process-wide lock too */
};

/* The weights of a job in shared memory that is mapped here. */
struct mapped_weights {
    unsigned refs;       /* G: importance.mtx */
    uint64_t generation; /* of the attachment they came through; 0: our own */
    struct weights w;
    void *map;
    size_t size;
};

/* NULL: dlc_importance() was not called. Gives; return it with mapped_weights_put(). */
struct mapped_weights *mapped_weights_get(struct dlc_dataset *ds);
void mapped_weights_put(struct dlc_dataset *ds, struct mapped_weights **wp);
/* In memory of our own. */
int mapped_weights_own(const struct dlc_dataset *ds, struct mapped_weights **out,
                       struct dlc_err *err);
/* The daemon's. Returns as attach_call(). */
int mapped_weights_ask(struct dlc_dataset *ds, struct attachment *a, const char *job, bool own,
                       struct mapped_weights **out, struct dlc_err *err);
/* Use these from now on. Takes. (LEARN-1) */
void mapped_weights_install(struct dlc_dataset *ds, struct mapped_weights *w, bool same_job);

/* Map the weights that a daemon keeps for the job, if there is one, and send it those that are new
 * to it. The caller holds dataset.mtx. Returns as reading_tell(). */
int importance_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err);
void importance_init(struct importance *im);    /* also again in a child, whatever was locked */
void importance_release(struct importance *im); /* when no thread uses it */

#endif
