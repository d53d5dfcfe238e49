// SPDX-License-Identifier: Apache-2.0
/*
 * Importance weights of jobs that nodes exchange (docs/design/0008). A post is a document of kind
 * STORE_WEIGHTS whose tenant is that of the dataset and whose id says the rest:
 *
 *     JOB/DATASET/SNAPSHOT/OWNER/NUMBER/SENDER/COUNT
 *
 * The first four identify the weights; OWNER distinguishes users of a dataset without a tenant.
 * NUMBER grows with each post of these weights (12 hexadecimal digits: the time in milliseconds, or
 * one more than the last). SENDER identifies a node's memory of these weights: it changes when the
 * node is restarted, which so gets its own posts back. COUNT is the number of pairs.
 *
 * (POST-1) Ids alone say which posts are new to a sender and which are too many: nothing is kept in
 *          memory, and the next leader continues.
 * (POST-2) At most SENDER_DOCS of a sender, GROUP_DOCS and GROUP_PAIRS of all, TENANT_DOCS of a
 *          tenant are kept, none for longer than a day, none of a job or dataset that does not
 *          exist any more. A lost post costs others freshness, never correctness.
 * (POST-3) Numbers are assigned and written under one lock: a node that has seen a number has seen
 *          all before it.
 */
#ifndef DLC_MANAGER_TABLES_WEIGHT_POSTS_H
#define DLC_MANAGER_TABLES_WEIGHT_POSTS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mutex.h"
#include "manager/store/store.h"

struct tables;

struct weight_posts {
    struct dlc_mtx mtx;    /* rank LCK_posting */
    struct dlc_mono swept; /* the thread's */
};

#define WEIGHTS_HEX_LEN    16 /* of snapshot, owner and sender */
#define WEIGHTS_NUMBER_LEN 12
#define WEIGHTS_COUNT_LEN  5
#define WEIGHTS_SUFFIX_LEN (WEIGHTS_NUMBER_LEN + 1 + WEIGHTS_HEX_LEN + 1 + WEIGHTS_COUNT_LEN)
#define WEIGHTS_PREFIX_MAX (2 * (NAME_MAX_LEN + 1) + 2 * (WEIGHTS_HEX_LEN + 1))

struct weight_post {
    const char *job, *dataset, *tenant, *snapshot, *owner, *sender;
    const char *after; /* the newest that the sender has seen; "": none */
    const char *pairs; /* NULL: none */
    size_t count;      /* of pairs */
};

bool weights_is_hex(const char *s, size_t len);
bool weights_is_cursor(const char *s); /* as "after" of an answer */
/* Is it a job of that dataset, as far as this manager knows? */
bool weights_job_fits(struct tables *t, const char *job, const char *dataset);
/*
 * Write the pairs of a post, if it has some, and give *answer: {"after", "items", "more"}, the
 * posts of others since. Returns 0, 1 if the tenant has posted too many within a day, or an error.
 */
int weights_exchange(struct tables *t, const struct weight_post *p, json_t **answer,
                     struct dlc_err *err);
/* Thread, only while leading, about once a second: deletes weights of jobs and datasets that are
 * gone. */
void weights_tick(struct tables *t, struct dlc_mono now);
void weights_forget(struct tables *t, const char *tenant); /* the tenant goes */

#endif
