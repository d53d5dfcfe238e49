// SPDX-License-Identifier: Apache-2.0
/*
 * An origin makes one attempt at one request. It knows nothing of retries, queues or deadlines:
 * those are in the bucket (bucket.h). Each kind of bucket is an origin: s3, gs, az, http,
 * file;
 * `shaped` wraps another one and makes it slow and unreliable.
 *
 * Lanes: the bucket runs `lanes` threads with a loop each. start() and cancel() of an attempt are
 * called on the lane's thread, and done() is called there too, exactly once and never from inside
 * start().
 *
 * (ORIGIN-1) After done(), the origin writes neither into the attempt nor into dst.
 * (ORIGIN-2) rc 0 of a GET means that exactly `length` bytes are in dst; length may be 0.
 * (ORIGIN-3) Counters and money are the bucket's; an origin counts nothing.
 */
#ifndef DLC_BUCKET_ORIGINS_ORIGIN_H
#define DLC_BUCKET_ORIGINS_ORIGIN_H

#include "bucket/bucket.h"
#include "bucket/checksum.h"

enum attempt_op { ATTEMPT_GET, ATTEMPT_STAT, ATTEMPT_LIST };

struct attempt {
    /* what to do; set by the bucket, borrowed until done() */
    enum attempt_op op;
    unsigned lane;
    const char *key, *etag;   /* GET, STAT */
    uint64_t offset, length;  /* GET */
    bool whole;               /* GET: verify the object's checksum where the origin gives one */
    bool want_sum;            /* STAT: say the object's checksum, where the origin has one */
    void *dst;                /* GET */
    const char *prefix;       /* LIST */
    const char *continuation; /* LIST: from the page before, or NULL */
    bool by_folder;           /* LIST: group below the next '/' (delimiter) */
    void (*done)(struct attempt *a);
    void *owner; /* the bucket's */

    /* the answer; set by the origin before done() */
    int rc;
    struct dlc_err err;
    bool retryable;                /* another attempt may succeed */
    bool throttled;                /* the origin asked to slow down */
    struct dlc_dur retry_after;    /* as asked by the origin; 0: not said */
    struct dlc_mono first_byte;    /* when the answer began; also kept current during the attempt */
    uint64_t received;             /* bytes of body that came, also of failed attempts; kept current
                                    * during the attempt: a stall is when it stands still */
    uint64_t size;                 /* STAT: object size */
    char etag_seen[ETAG_MAX];      /* STAT, GET */
    struct object_checksum sum;    /* STAT with want_sum */
    struct bucket_object *objects; /* LIST: objects with strings, freed by attempt_clear() */
    size_t n_objects;
    char **folders; /* LIST by_folder: common prefixes */
    size_t n_folders;
    char *next; /* LIST: continuation of the next page; NULL: this was the last */

    void *priv; /* the origin's, during the attempt */

    struct attempt_text *text; /* attempt_*: memory of the LIST answer */
    size_t cap_objects, cap_folders;
};

/* Free what an answer holds, so that the attempt can be used again. */
void attempt_clear(struct attempt *a);
/* Move an answer to another attempt; `from` is as after attempt_clear(). */
void attempt_move_answer(struct attempt *to, struct attempt *from);
/* Helpers for origins to fill a LIST answer; they copy. An ETag that cannot stand in a header counts
 * as none. */
void attempt_add_object(struct attempt *a, const char *key, size_t key_len, uint64_t size,
                        const char *etag);
void attempt_add_folder(struct attempt *a, const char *prefix, size_t len);

struct origin;

struct origin_ops {
    const char *name;
    /* Once per lane, before its thread runs. Optional. */
    int (*lane_open)(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err);
    /* L, on the lane's thread, after its last attempt. Optional. */
    void (*lane_close)(struct origin *o, unsigned lane);
    void (*start)(struct origin *o, struct attempt *a); /* L */
    void (*cancel)(struct origin *o,
                   struct attempt *a); /* L: done(DLC_ECANCELED) before it returns */
    /* L: bring a->received up to date. Optional: for origins that do not keep it current. */
    void (*progress)(struct origin *o, struct attempt *a);
    void (*free)(struct origin *o);
    uint64_t part_max; /* longer reads are made in parts of this; 0: as the bucket likes */
    bool sums;         /* STAT with want_sum may say one */
    bool folders;      /* LIST by_folder is supported */
    bool folders_free; /* LIST of one folder costs next to nothing: never prefer a flat listing */
};

struct origin {
    const struct origin_ops *ops;
    unsigned lanes;
    /* prices that apply by default: per 1000 GETs, per 1000 LISTs, per GB */
    double price_get, price_list, price_gb;
};

/* Constructors. Give *out. `lanes` is final. */
int origin_s3_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err);
int origin_gs_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err);
int origin_azure_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                     struct origin **out, struct dlc_err *err);
int origin_http_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                    struct origin **out, struct dlc_err *err);
int origin_file_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                    struct origin **out, struct dlc_err *err);
/* Takes inner. */
int origin_shaped_new(const struct shape *s, struct origin *inner, struct origin **out,
                      struct dlc_err *err);

#endif
