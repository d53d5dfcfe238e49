// SPDX-License-Identifier: Apache-2.0
/*
 * A bucket: where data lives permanently. Read-only. One interface for all kinds (s3, gs, http,
 * file), which adds to a single attempt (origin.h) all that makes remote reads reliable and fast: a
 * queue, adaptive concurrency, retries with full jitter, hedging, deadlines, parallel ranges,
 * counting.
 *
 * All requests are asynchronous. A request belongs to the caller, who fills the first part and must
 * not touch it until done() is called, exactly once, on one of the bucket's lanes (threads), also
 * after a cancel and on close. done() must not block.
 */
#ifndef DLC_BUCKET_BUCKET_H
#define DLC_BUCKET_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/event_loop.h"
#include "bucket/url.h"

struct address_rules;
struct bucket;

#define ETAG_MAX 128 /* with its NUL; ETags are kept without quotes and without W/ */

/* What came of one attempt. */
enum bucket_outcome {
    BUCKET_OK,
    BUCKET_THROTTLED, /* it asked to slow down */
    BUCKET_DENIED,
    BUCKET_NOT_FOUND,
    BUCKET_CHANGED, /* the object is not the one of the catalog */
    BUCKET_CORRUPT,
    BUCKET_FAILED, /* no answer, a late one, or an error of the bucket */
    BUCKET_OUTCOMES
};
extern const char *const bucket_outcome_names[BUCKET_OUTCOMES];

/* Traffic of one bucket or of several: as the counters of these names. X. */
struct bucket_tally {
    _Atomic uint64_t requests, gets, lists, bytes, money_nano; /* relaxed: statistics */
    _Atomic uint64_t retries, hedges, errors;
    _Atomic uint64_t outcomes[BUCKET_OUTCOMES]; /* of attempts that were waited for */
};

/*
 * Credentials from another source (a manager keeps those of tenants): they take precedence over all
 * other sources. Counted; may be changed while buckets use them. X.
 */
struct bucket_keys;
struct bucket_keys *bucket_keys_new(void); /* empty */
struct bucket_keys *bucket_keys_get(struct bucket_keys *k);
void bucket_keys_put(struct bucket_keys **kp); /* wipes with the last; NULL is fine */
/* session_token may be NULL. True: they have changed. */
bool bucket_keys_set(struct bucket_keys *k, const char *access_key, const char *secret_key,
                     const char *session_token);

struct bucket_config {
    const char *endpoint; /* NULL: environment, then the cloud's own */
    /* Another user or a tenant has named the endpoint. A signature is worth nothing there; a bearer
     * token would be theirs: it goes to hosts of googleapis.com alone then. */
    bool foreign_endpoint;
    const char *region;  /* NULL: environment, profile, then us-east-1 */
    const char *profile; /* NULL: AWS_PROFILE, then "default" */
    bool anonymous;
    /* Not with the role of this machine, which its metadata service gives to whoever asks: the
     * reader is a guest here, such as a pod. */
    bool no_machine_role;
    /* A tenant has chosen the address: where it may lead, and the proxy to use (NULL: none, not
     * that of the environment). Both are borrowed until bucket_close(). NULL: anywhere. */
    const struct address_rules *address_rules;
    const char *proxy;
    bool confined; /* file: links do not lead out of the root */
    /* file: the root is this directory or lies below it, and no part of the path in between is a
     * link. NULL: the root is as it was named. Borrowed for bucket_open(). */
    const char *below;
    struct bucket_keys *keys; /* NULL: look for credentials. file and http ignore them */
    int path_style;           /* 1 yes, 0 no, -1: yes for custom endpoints */
    unsigned lanes;           /* 0: one per two cores, 1 to 8 */
    unsigned max_requests;    /* in flight at once, over all lanes; 0: 1024 */
    unsigned retries;         /* attempts after the first. For 30 s, answers that ask to slow
                               * down do not count */
    bool no_hedge;
    struct dlc_dur connect_timeout; /* 0: 5 s */
    struct dlc_dur stall_timeout; /* an attempt without a byte for this long is given up; 0: 20 s */
    /* For one question with its retries, from its first attempt on: a read, a part of a large one,
     * a page of a listing. Time in our own queue does not count. 0: 5 min */
    struct dlc_dur deadline;
    /* Prices in money per 1000 requests and per GB, for the estimate. Negative: the cloud's
     * default. */
    double price_get, price_list, price_gb;
    struct bucket_tally *tally; /* borrowed until bucket_close(): counts here too; NULL: no */
};

#define BUCKET_CONFIG_INIT                                                                         \
    {                                                                                              \
        .path_style = -1, .retries = 8, .price_get = -1, .price_list = -1, .price_gb = -1          \
    }

struct bucket_object {
    const char
        *key; /* relative to nothing: the whole key (file: relative to the prefix directory) */
    uint64_t size;
    const char *etag; /* "" when the bucket gives none */
};

/* Read [offset, offset + length) of an object into dst. */
struct bucket_read {
    const char *key;
    const char *etag; /* only this version; NULL or "": any */
    uint64_t offset;
    uint64_t length; /* exact; a shorter body is an error. The whole object: its catalogued size */
    bool whole;      /* offset 0 and length is the object's size: checksums can be verified */
    void *dst;
    void (*done)(struct bucket_read *r);
    void *priv; /* the caller's */

    /* the answer */
    int rc;
    struct dlc_err err;
    struct dlc_dur took;   /* from submission to the last byte */
    struct dlc_dur waited; /* of that, before the first attempt was sent */
    unsigned attempts;
    void *engine; /* the bucket's */
};

struct bucket_stat {
    const char *key;
    void (*done)(struct bucket_stat *s);
    void *priv;

    int rc;
    struct dlc_err err;
    uint64_t size;
    char etag[ETAG_MAX];
};

/*
 * List every object below prefix. page() is called for each page, on a lane, several at once never
 * for the same request, in no particular order between sub-prefixes: objects and strings are valid
 * for the call. It returns false to stop early. Listing goes on in parallel below the common
 * prefixes found.
 */
struct bucket_list {
    const char *prefix; /* NULL: that of the URL */
    bool (*page)(struct bucket_list *l, const struct bucket_object *objects, size_t n);
    void (*done)(struct bucket_list *l);
    void *priv;

    int rc;
    struct dlc_err err;
    uint64_t n_objects, n_pages;
};

/* Gives *out. No request is made yet; credentials are looked for when the first one is. */
int bucket_open(const struct url *u, const struct bucket_config *c, struct bucket **out,
                struct dlc_err *err);

/* X. Cancels requests in progress (done() with DLC_ECANCELED), joins the lanes, frees. */
void bucket_close(struct bucket **bp);

void bucket_read(struct bucket *b, struct bucket_read *r); /* X */
void bucket_stat(struct bucket *b, struct bucket_stat *s); /* X */
void bucket_list(struct bucket *b, struct bucket_list *l); /* X */

/* X. Ask for a read to end soon; done() is still called. Harmless if it is ending already, but the
 * caller must know that done() has not returned yet. */
void bucket_read_cancel(struct bucket *b, struct bucket_read *r);

/* Expected mean size of objects, from the catalog: sets the initial number of parallel requests. */
void bucket_hint_size(struct bucket *b, uint64_t mean_bytes); /* X */

/* The same, waiting for the answer. For programs and fallbacks, never on a loop thread. */
int bucket_read_wait(struct bucket *b, const char *key, const char *etag, uint64_t offset,
                     uint64_t length, bool whole, void *dst, struct dlc_err *err);
/* Several reads at once; done and priv are not the caller's here. The first error; all have ended. */
int bucket_read_all_wait(struct bucket *b, struct bucket_read *reads, size_t n,
                         struct dlc_err *err);
int bucket_stat_wait(struct bucket *b, const char *key, struct bucket_stat *out,
                     struct dlc_err *err);
int bucket_list_wait(struct bucket *b, const char *prefix,
                     bool (*page)(struct bucket_list *, const struct bucket_object *, size_t),
                     void *priv, struct dlc_err *err);

/* Figures that the bucket measures. */
struct bucket_figures {
    unsigned in_flight, queued, limit; /* limit: concurrency now allowed, over all lanes */
    struct dlc_dur p50, p99;           /* of one attempt, to its last byte */
    double bytes_per_s;                /* lately */
};
void bucket_figures(struct bucket *b, struct bucket_figures *out); /* X */

/* How many requests a read of so many bytes makes, if none is repeated. whole: as in bucket_read. X. */
uint64_t bucket_read_requests(const struct bucket *b, uint64_t length, bool whole);

/* The estimated cost of a read: money for a GET and for a byte. X. */
void bucket_prices(const struct bucket *b, double *get, double *byte);

#endif
