// SPDX-License-Identifier: Apache-2.0
/*
 * One API server of Kubernetes: blocking requests over a connection that stays open.
 *
 * (KUBE-1) A `struct kube` belongs to one thread; only kube_interrupt() may come from another. They
 *          share nothing but the config (borrowed, never changed) and the metrics.
 * (KUBE-2) Nothing is tried a second time here: a write that comes late could be an old leader's.
 *          What failed goes back into the queue, not before kube_retry_after().
 * (KUBE-3) With may_write, no write begins unless it says yes; and none is under way for longer
 *          than the timeout, which must be less than what is left of a lease when it says no
 *          (lease.h).
 * (KUBE-4) An object is at most KUBE_OBJECT_MAX bytes of JSON, an answer at most KUBE_ANSWER_MAX.
 *          Lists come in pages, smaller ones when a page would be larger.
 *
 * Errors: 401, 403 DLC_EDENIED; 404 DLC_ENOTFOUND; 409 DLC_EBUSY when the name is taken
 * (AlreadyExists) and DLC_ECHANGED otherwise (another version, uid or field manager); 410
 * DLC_ECHANGED; other 4xx DLC_EINVAL; 429 and 5xx DLC_EBUCKET; nobody answers DLC_EBUCKET or
 * DLC_ETIMEDOUT; an answer that is not JSON or too long DLC_EPROTO; DLC_ECANCELED when interrupted
 * or refused by may_write. The text is the server's own, with method and object before it.
 */
#ifndef DLC_OPERATOR_KUBE_KUBE_H
#define DLC_OPERATOR_KUBE_KUBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "operator/kube/kube_config.h"
#include "operator/metrics.h"

#define KUBE_OBJECT_MAX (2u << 20)
#define KUBE_ANSWER_MAX (16u << 20)
#define KUBE_MANAGER    "dlcache.io/operator" /* field manager; the finalizer has the same name */

enum kube_kind {
#define KIND(name, api, kind, plural, namespaced) KUBE_##name,
#include "operator/kinds.def"
#undef KIND
    KUBE_KINDS
};

struct kube_kind_info {
    const char *api, *kind, *plural; /* "apps/v1", "Deployment", "deployments" */
    bool namespaced;
};
extern const struct kube_kind_info kube_kinds[KUBE_KINDS];

struct kube_options {
    const struct kube_config *config;
    struct metrics *metrics;      /* each request is counted; NULL: nowhere */
    struct dlc_dur timeout;       /* of a request but a watch; 0: 5 s */
    bool (*may_write)(void *arg); /* NULL: yes */
    void *arg;
};

struct kube;

int kube_open(const struct kube_options *o, struct kube **out, struct dlc_err *err);
void kube_close(struct kube **kp);
/* Any thread: the request under way ends with DLC_ECANCELED at once, and so do all after it. */
void kube_interrupt(struct kube *k);

/* 0, or DLC_ECANCELED: may_write says no. Each write asks it; so does who writes elsewhere. */
int kube_ask_to_write(struct kube *k, struct dlc_err *err);

/* Of the last answer: its HTTP status (0: none), and how long the server asks us to leave it alone
 * (0: it did not). */
int kube_status(const struct kube *k);
struct dlc_dur kube_retry_after(const struct kube *k);

/* Each gives *out, the object as it is now (out may be NULL); NULL on failure. `ns` is ignored for
 * kinds without namespaces. Bodies are borrowed; apiVersion, kind and name are put in when absent.
 */
int kube_get(struct kube *k, enum kube_kind kind, const char *ns, const char *name, json_t **out,
             struct dlc_err *err);
int kube_create(struct kube *k, enum kube_kind kind, const char *ns, const json_t *body,
                json_t **out, struct dlc_err *err);

enum kube_write_flags {
    KUBE_STATUS = 1 << 0,  /* the status subresource */
    KUBE_FORCE = 1 << 1,   /* apply: take fields that another manager owns */
    KUBE_DRY_RUN = 1 << 2, /* checked and defaulted, not kept */
};
/* Server-side apply: makes the object or changes it so that our fields are those of `body`. With
 * metadata.uid or metadata.resourceVersion in it: only that object, only that version. */
int kube_apply(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
               const json_t *body, unsigned flags, json_t **out, struct dlc_err *err);
/* JSON merge patch (null removes). Likewise. */
int kube_patch(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
               const json_t *body, unsigned flags, json_t **out, struct dlc_err *err);
/* The whole object, of the version that is in it. */
int kube_replace(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
                 const json_t *body, unsigned flags, json_t **out, struct dlc_err *err);

struct kube_delete_options {
    const char *uid, *version; /* only this object, this version; NULL: any */
    const char *propagation;   /* "Background", "Foreground", "Orphan"; NULL: the kind's default */
    int64_t grace_s;           /* < 0: the object's own */
};
#define KUBE_DELETE_INIT                                                                           \
    {                                                                                              \
        NULL, NULL, NULL, -1                                                                       \
    }
/* o may be NULL. Objects with finalizers are only marked. */
int kube_delete(struct kube *k, enum kube_kind kind, const char *ns, const char *name,
                const struct kube_delete_options *o, struct dlc_err *err);

/* ns NULL: of all namespaces. Selectors may be NULL: "a=b,c", "metadata.name=x". */
struct kube_query {
    const char *ns, *labels, *fields;
};
/*
 * Every object, in pages. each() may take *object, of which there is no other reference (and sets
 * it to NULL then); false ends the list with DLC_ECANCELED. Gives *version, where a watch can begin
 * (may be NULL). DLC_ECHANGED: the list grew old while it was read; begin again.
 */
int kube_list(struct kube *k, enum kube_kind kind, const struct kube_query *q,
              bool (*each)(json_t **object, void *arg), void *arg, char **version,
              struct dlc_err *err);

/*
 * Tell people: an Event about an object (of the cache or an answer: kind, apiVersion and metadata
 * are read). The same reason and text again raises the count of the first one. type: "Normal" or
 * "Warning". One request, three when it is repeated.
 */
int kube_event(struct kube *k, const json_t *about, const char *type, const char *reason,
               struct dlc_err *err, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* Any path of the server: "/version", "/readyz". Gives *out, a text when it is not JSON. */
int kube_raw(struct kube *k, const char *method, const char *path, const json_t *body, json_t **out,
             struct dlc_err *err);

/* Lines of a stream, of at most KUBE_OBJECT_MAX + some bytes, until it ends (0), each() returns
 * false (0), `silence` passes without a byte (DLC_ETIMEDOUT), or it fails. For kube_watch.c. */
int kube_lines(struct kube *k, const char *path, struct dlc_dur silence,
               bool (*each)(const char *line, size_t len, void *arg), void *arg,
               struct dlc_err *err);
/* "/apis/GROUP/VERSION/namespaces/NS/PLURAL"; ns NULL: all. Gives. */
char *kube_path(enum kube_kind kind, const char *ns);

/* Now, as Kubernetes writes it: "2026-11-15T17:24:16Z", with microseconds for a Lease. */
#define KUBE_TIME_LEN 32
const char *kube_time(bool micro, char out[static KUBE_TIME_LEN]);

/* Of an object: texts of its metadata, "" when absent. Borrowed from it. */
const char *kube_name(const json_t *object);
const char *kube_namespace(const json_t *object);
const char *kube_uid(const json_t *object);
const char *kube_version(const json_t *object);
bool kube_is_deleted(const json_t *object); /* marked: metadata.deletionTimestamp */

#endif
