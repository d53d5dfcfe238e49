// SPDX-License-Identifier: Apache-2.0
/*
 * Informer cache: kind, namespace and name -> JSON as the API server last returned it.
 *
 * (OBJECT-CACHE-1) An object in the cache is never changed, only replaced: readers share it. They
 *                  release it with objects_put(), never with json_decref() alone (it is freed under
 *                  the lock).
 * (OBJECT-CACHE-2) Versions only increase: an older state never replaces a newer one, and a state
 *                  that the watch has already passed does not bring back a deleted object.
 * (OBJECT-CACHE-3) changed() runs on the writing thread after the cache has changed, without a
 *                  lock; calls of two threads may come in any order. So: put a key into the queue,
 *                  then read the cache.
 *
 * metadata.managedFields and the annotation of kubectl's last apply are dropped on the way in.
 */
#ifndef DLC_OPERATOR_KUBE_OBJECT_CACHE_H
#define DLC_OPERATOR_KUBE_OBJECT_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "operator/kube/kube.h"

struct objects;

struct objects_config {
    /* before NULL: new; after NULL: deleted. Both borrowed for the call. May be NULL. */
    void (*changed)(enum kube_kind kind, const json_t *before, const json_t *after, void *arg);
    /* Drop what nobody will read of an object that is still ours alone. May be NULL. */
    void (*trim)(enum kube_kind kind, json_t *object, void *arg);
    void *arg;
};

struct objects *objects_new(const struct objects_config *c); /* c may be NULL */
void objects_free(struct objects **op);

/* -------- readers: any thread -------- */

/* Gives a reference, or NULL. ns: "" or NULL for kinds without. */
json_t *objects_get(struct objects *o, enum kube_kind kind, const char *ns, const char *name);
/* Gives an array: all of a kind, of one namespace (NULL: all); those that name `uid` as an owner
 * (found by an index); those with this label (every one is looked at). Never NULL. Order: none. */
json_t *objects_all(struct objects *o, enum kube_kind kind, const char *ns);
json_t *objects_owned(struct objects *o, enum kube_kind kind, const char *uid);
void objects_put(struct objects *o, json_t **jp); /* an object or an array of them; NULL is fine */
size_t objects_count(struct objects *o, enum kube_kind kind);
bool objects_synced(struct objects *o, enum kube_kind kind); /* listed whole at least once */

/* -------- workers: any thread -------- */

/* What our own write made of an object (an answer of kube.h), so that the next look does not have
 * to wait for the watch. Takes *object, which nobody else may hold. Nothing is kept of kinds that
 * no watch has listed. */
void objects_note(struct objects *o, enum kube_kind kind, json_t **object);

/* -------- the watch of a kind: one thread -------- */

void objects_seen(struct objects *o, enum kube_kind kind, json_t **object);     /* new or changed */
void objects_gone(struct objects *o, enum kube_kind kind, json_t **object);     /* its last state */
void objects_upto(struct objects *o, enum kube_kind kind, const char *version); /* a bookmark */
/* A list: begin, objects_seen() for each, end with the list's version. What was there before, was
 * not in the list and is not newer than it, is deleted. Without an end nothing is. False: time went
 * backwards (a restored store): versions are forgotten, list again. */
void objects_list_begin(struct objects *o, enum kube_kind kind);
bool objects_list_end(struct objects *o, enum kube_kind kind, const char *version);

/* -------- keys, for the queue: "DLTPod/ns/name" -------- */

char *object_key(enum kube_kind kind, const char *ns, const char *name); /* gives */
char *object_key_of(enum kube_kind kind, const json_t *object);          /* gives */
/* The owner of this kind that an object names (the controller, if one of them is it). Gives; NULL:
 * none. */
char *object_key_of_owner(enum kube_kind owner, const json_t *object);

struct object_key {
    enum kube_kind kind;
    char ns[64], name[254];
};
bool object_key_parse(const char *key, struct object_key *out);

#endif
