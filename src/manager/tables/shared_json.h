// SPDX-License-Identifier: Apache-2.0
/*
 * A JSON value that threads share by reference: the contents of a node's last heartbeat.
 *
 * It never changes: a new one replaces it. Readers look at `json` and copy what they pass on. No
 * code takes a reference to it or to a value inside: jansson's counts are not safe where threads
 * share a value.
 */
#ifndef DLC_MANAGER_TABLES_SHARED_JSON_H
#define DLC_MANAGER_TABLES_SHARED_JSON_H

#include <stdatomic.h>

#include <jansson.h>

#include "base/mem.h"

struct shared_json {
    _Atomic unsigned refs;
    json_t *json;
};

/* Takes json; NULL gives NULL. */
static inline struct shared_json *shared_json_new(json_t *json)
{
    struct shared_json *s = json != NULL ? mem_new(struct shared_json) : NULL;

    if (s != NULL) {
        s->refs = 1;
        s->json = json;
    }
    return s;
}

/* Gives another reference; the caller, or a lock that it holds, must keep one. NULL gives NULL. */
static inline struct shared_json *shared_json_get(struct shared_json *s)
{
    if (s != NULL)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); /* there is one already */
    return s;
}

static inline void shared_json_put(struct shared_json **sp)
{
    struct shared_json *s = *sp;

    *sp = NULL;
    /* Pairs with itself: the thread that frees it comes after all that have read it. */
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    json_decref(s->json);
    mem_free(&s);
}

static inline json_t *shared_json_value(const struct shared_json *s)
{
    return s != NULL ? s->json : NULL;
}

#endif
