// SPDX-License-Identifier: Apache-2.0
/*
 * The cache of objects: kind, namespace and name -> JSON as the API server last showed it.
 *
 * (O1) An object in the cache is never changed, only replaced: readers share it. They give it back
 *      by objects_put(), never by json_decref() alone (freed under the lock: who read it last is
 *      done with it).
 * (O2) An older version of an object (the same uid, a smaller resourceVersion) never replaces a
 *      newer one, and what was removed does not come back by an answer that was sent before.
 * (O3) changed() runs on the writing thread after the cache has changed, without a lock; two
 *      threads' calls may come in any order. So: put a key into the queue, then look here.
 *
 * metadata.managedFields and the annotation of kubectl's last apply are dropped on the way in.
 */
#ifndef DLC_OPERATOR_OBJECTS_H
#define DLC_OPERATOR_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "operator/kube.h"

struct objects;

struct objects_config {
    /* before NULL: new; after NULL: deleted. Both borrowed for the call. May be NULL. */
    void (*changed)(enum kube_kind kind, const json_t *before, const json_t *after, void *arg);
    /* Drop what nobody will read of an object that is still ours alone. May be NULL. */
    void (*trim)(enum kube_kind kind, json_t *object, void *arg);
    void *arg;
};

struct objects *objects_new(const struct objects_config *c);
void objects_free(struct objects **op);

/* -------- readers: any thread -------- */

/* Gives a reference, or NULL. ns: "" or NULL for kinds without. */
json_t *objects_get(struct objects *o, enum kube_kind kind, const char *ns, const char *name);
/* Gives an array: all of a kind, of one namespace (NULL: all); those that name `uid` as an owner;
 * those with this label. Never NULL. Order: none. */
json_t *objects_all(struct objects *o, enum kube_kind kind, const char *ns);
json_t *objects_owned(struct objects *o, enum kube_kind kind, const char *uid);
json_t *objects_labelled(struct objects *o, enum kube_kind kind, const char *ns, const char *label,
                         const char *value);
void objects_put(struct objects *o, json_t **jp); /* an object or an array of them; NULL is fine */
size_t objects_count(struct objects *o, enum kube_kind kind);
bool objects_synced(struct objects *o, enum kube_kind kind); /* listed whole at least once */

/* -------- writers -------- */

/* Takes *object. Shows the outcome of our own write before the watch does (an answer of kube.h), or
 * what a watch brought. */
void objects_note(struct objects *o, enum kube_kind kind, json_t **object);
/* Deleted, as a watch saw it: the object in its last state. Takes. */
void objects_gone(struct objects *o, enum kube_kind kind, json_t **object);
/* A list: begin, objects_note() for each, end with the list's version. What was there before, was
 * not in the list and is not newer than it, is deleted. Without an end nothing is. One thread per
 * kind. */
void objects_list_begin(struct objects *o, enum kube_kind kind);
void objects_list_end(struct objects *o, enum kube_kind kind, const char *version);

/* -------- keys, for the queue: "DLTPod/ns/name" -------- */

char *object_key(enum kube_kind kind, const char *ns, const char *name); /* gives */
char *object_key_of(enum kube_kind kind, const json_t *object);          /* gives */
/* The owner of this kind that an object names (of its controller first). Gives NULL: none. */
char *object_key_of_owner(enum kube_kind owner, const json_t *object);

struct object_key {
    enum kube_kind kind;
    char ns[64], name[254];
};
bool object_key_parse(const char *key, struct object_key *out);

#endif
