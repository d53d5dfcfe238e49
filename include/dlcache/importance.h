// SPDX-License-Identifier: Apache-2.0
/*
 * Importance sampling: epochs drawn by what the model has yet to learn (docs/importance.md).
 *
 *     struct dlc_importance spec = {.mode = DLC_COVERAGE, .seed = 1};
 *
 *     dlc_importance(ds, &spec);
 *     for each epoch: n = dlc_draw(ds, epoch, list, cap, NULL), then dlc_follow() the list, or
 *     dlc_follow_more() it while another epoch is being read
 *     for each batch: dlc_learn(ds, epoch, samples, losses, n, NULL)
 *
 * The daemon keeps the weights, one set for all ranks of a job on its node. Without a daemon, or
 * when it was lost, the process uses weights of its own and takes them to the next daemon. The same
 * happens to a ninth job on one dataset: it uses its own weights until one of the eight has ended
 * and it calls dlc_importance() again.
 */
#ifndef DLCACHE_IMPORTANCE_H
#define DLCACHE_IMPORTANCE_H

#include "dlcache/core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dlc_importance_mode {
    DLC_COVERAGE = 0, /* without replacement, and each sample at least once in `every` epochs */
    DLC_SHADE = 1,    /* with replacement; resident samples first and repeated */
};

/* How losses become weights. */
enum dlc_importance_rule {
    DLC_RULE_RANK = 0,  /* by the rank of a loss in its batch, and the mean loss of the epoch */
    DLC_RULE_PLAIN = 1, /* the value that is given is the weight; not negative */
};

/* Zero-initialise; a zero member means the default. */
struct dlc_importance {
    uint32_t mode, rule;
    uint32_t rank, world; /* world 0 counts as 1 */
    uint64_t seed;
    uint64_t first, count; /* a range of samples (a split); count 0: to the last */
    uint64_t length;       /* positions of an epoch over all ranks; 0: count (shade), half of it
                            * or as many as `every` needs (coverage) */
    uint32_t every;        /* coverage: epochs in which each sample comes at least once; 0: 4 */
    uint32_t reserved0;
    double replication; /* shade: 0.5 to 100 in steps of 0.5; 0: 1 */
    double prefer;      /* coverage: 1 to 1000, factor for resident samples; 0: 1 */
    const char
        *job; /* owner of the weights: 1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter
                         * or a digit; NULL: that of DLCACHE_JOB, else the process's own. Borrowed
                         * for the call */
    /* Instead of a range, any set of samples: dlc_draw() then gives positions in this list, from 0.
     * Borrowed for the call; NULL: first and count say which. */
    const uint64_t *samples;
    uint64_t n_samples;
    uint64_t reserved[4];
};

/* The result of dlc_learn(). */
struct dlc_learnt {
    uint64_t used, ignored; /* losses; ignored: NaN */
    double mean;            /* of those used that are finite */
    uint64_t reserved[5];
};

/* The result of dlc_draw(). */
struct dlc_drawn {
    uint64_t distinct; /* different samples in the list */
    uint64_t forced;   /* coverage: positions that `every` required */
    uint64_t resident; /* positions whose sample was resident */
    uint64_t part;     /* samples that could be drawn */
    double effective;  /* how many samples the draw is worth: (sum of w)^2 / sum of w^2 */
    uint64_t reserved[6];
};

/* What DLC_RULE_RANK remembers of past losses: save and restore it with the weights. */
struct dlc_scale {
    double first, mean, sum;
    uint64_t count, epoch;
    uint64_t reserved[3];
};

/*
 * Begin importance sampling, or go on with another spec: existing weights stay unless the job
 * changes. After fork() the child has no weights until it calls this itself.
 * Borrows: spec.   Threads: one at a time, as dlc_follow(); the same for dlc_draw().
 */
DLC_API int dlc_importance(struct dlc_dataset *ds, const struct dlc_importance *spec);

/*
 * Learn from one batch: losses[i] is the loss of samples[i]. Makes no request.
 * Borrows: samples, losses.   Gives: *out (out may be NULL).
 * Returns: 0; DLC_EINVAL: a sample does not exist, or a loss is negative with DLC_RULE_PLAIN; then
 * nothing was learnt.   Threads: any.
 */
DLC_API int dlc_learn(struct dlc_dataset *ds, uint64_t epoch, const uint64_t *samples,
                      const float *losses, size_t n, struct dlc_learnt *out);

/*
 * Draw this rank's list of an epoch from the present weights and resident samples.
 * Gives: *out (out may be NULL).
 * Returns: the length of the list (larger than cap: nothing was drawn), or DLC_E*.
 */
DLC_API int64_t dlc_draw(struct dlc_dataset *ds, uint64_t epoch, uint64_t *list, uint64_t cap,
                         struct dlc_drawn *out);

/* Save and restore the weights of samples [first, first + n). 0: never learnt; others are positive
 * and finite. Threads: any. */
DLC_API int dlc_weights(struct dlc_dataset *ds, uint64_t first, uint64_t n, float *out);
DLC_API int dlc_set_weights(struct dlc_dataset *ds, uint64_t first, uint64_t n, const float *in);
DLC_API int dlc_scale(struct dlc_dataset *ds, struct dlc_scale *out);
DLC_API int dlc_set_scale(struct dlc_dataset *ds, const struct dlc_scale *in);

#ifdef __cplusplus
}
#endif
#endif
