// SPDX-License-Identifier: Apache-2.0
/*
 * TTL cache of objects that are read by name and not watched, because a watch would need the right
 * to list them, or would return far too many: Secrets, and ConfigMaps of users. A thousand DLTPods
 * of a namespace cost one request, not a thousand.
 *
 * (GET-CACHE-1) An entry is at most FETCHED_GOOD old; an entry for a missing object,
 *               FETCHED_MISSING. The operator's own writes are visible at once.
 * (GET-CACHE-2) Every caller gets its own copy.
 * (GET-CACHE-3) An entry holds only the fields that the operator reads, no value over
 *               FETCHED_VALUE, and is dropped when it expires: foreign Secrets cannot fill the
 *               memory.
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
