// SPDX-License-Identifier: Apache-2.0
/*
 * Objects that are not followed by a watch, since that would need the right to list them, or would
 * bring far too many: Secrets, and ConfigMaps of users. Fetched by name, and remembered for a
 * while, so that a thousand DLTPods of a namespace cost one request and not a thousand.
 *
 * (F1) What is remembered is at most FETCHED_GOOD old; that there is none, FETCHED_MISSING. Our own
 *      writes are known at once. (F2) Everybody gets a copy of their own. (F3) Of an object only
 *      what the operator reads is remembered, no value over FETCHED_VALUE, and nothing for longer
 *      than it is good: nobody's Secrets fill the memory.
 */
#ifndef DLC_OPERATOR_KUBE_GET_CACHE_H
#define DLC_OPERATOR_KUBE_GET_CACHE_H

#include <jansson.h>

#include "operator/kube/kube.h"

#define FETCHED_GOOD    DLC_SEC(10)
#define FETCHED_MISSING DLC_SEC(2)
#define FETCHED_VALUE   4096
#define FETCHED_MOST    4096 /* remembered; then all are forgotten */

struct fetched;

struct fetched *fetched_new(void);
void fetched_free(struct fetched **fp);

/* Any thread, with its own kube. Gives *out; NULL: there is none. Fails if the server does. */
int fetched_get(struct fetched *f, struct kube *k, enum kube_kind kind, const char *ns,
                const char *name, json_t **out, struct dlc_err *err);
/* An answer to our own write. Borrowed. */
void fetched_note(struct fetched *f, enum kube_kind kind, const json_t *object);
/* Look at the server the next time. */
void fetched_forget(struct fetched *f, enum kube_kind kind, const char *ns, const char *name);

#endif
