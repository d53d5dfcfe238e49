// SPDX-License-Identifier: Apache-2.0
/*
 * What the origins that speak S3's protocol or nearly so (s3, gs, az) share: where requests go, how they are
 * written, and what answers mean. s3_origin.c has the origin itself; s3_address.c and s3_errors.c
 * are pure.
 */
#ifndef DLC_BUCKET_ORIGINS_S3_I_H
#define DLC_BUCKET_ORIGINS_S3_I_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/event_loop.h"
#include "net/async_client.h"
#include "bucket/credentials/credentials_i.h"
#include "bucket/origins/origin.h"
#include "bucket/origins/s3_xml_i.h"
#include "bucket/credentials/sigv4_i.h"

struct s3;
struct s3_call;

/* -------- where requests go (s3_address.c) -------- */

/* Never changes once made; a bucket found to lie in another region gets a new one. */
struct s3_place {
    struct s3_place *older; /* those before it, still used by calls under way */
    char *region;
    char *base; /* "https://host:port", without a slash at the end */
    char *host; /* as in the Host header */
    char *path; /* "" or "/prefix/bucket": comes before "/key" */
};

struct s3_place_config {
    const char *endpoint; /* URL, or NULL: the cloud's own */
    const char *cloud;    /* the cloud's own, with a % in place of the region */
    const char *region;
    const char *bucket;
    int path_style; /* 1 yes, 0 no, -1: yes for a given endpoint */
};

int s3_place_new(const struct s3_place_config *c, struct s3_place **out, struct dlc_err *err);
void s3_place_free(struct s3_place **pp); /* with the older ones */

/* Is this a valid region name? A server's answer goes into host names and signatures. */
bool s3_region_ok(const char *region);

void s3_object_path(const struct s3_place *p, const char *key, struct buf *out);
void s3_list_path(const struct s3_place *p, struct buf *out);
/* Names in the order that signing wants. */
void s3_list_query(const struct attempt *a, struct buf *out);

/* -------- what answers mean (s3_errors.c) -------- */

/* What the origin should do besides failing the attempt. */
enum s3_verdict {
    S3_FAILED,
    S3_OTHER_REGION, /* s3_error.region holds it */
    S3_EXPIRED,      /* the credentials were refused as expired */
};

/*
 * Turn a failed answer into the attempt's rc, err, retryable, throttled, retry_after. `now` is the
 * local clock.
 */
enum s3_verdict s3_answer_failed(const char *scheme, const char *bucket,
                                 const struct engine_request *r, int64_t now, struct attempt *a,
                                 struct s3_error *error);

/* An attempt that had no answer, or a bad one: r->rc, r->why. */
void s3_answer_broken(const char *scheme, const char *bucket, const struct engine_request *r,
                      struct attempt *a);

/* The checksum of the whole object that an answer carries; of kind CHECKSUM_NONE: none that can be
 * made of parts. */
void s3_answer_sum(const struct engine_request *r, struct object_checksum *out);
/* Verify what a GET brought: the version, and for a whole object its checksum. */
int s3_answer_verify(const char *scheme, const char *bucket, const struct engine_request *r,
                     struct attempt *a);

/* "cannot read s3://bucket/key", "cannot list gs://bucket/prefix": long keys are shortened. */
void s3_what(const char *scheme, const char *bucket, const struct attempt *a, struct buf *out);

/* -------- the origin (s3_origin.c) -------- */

struct s3_lane {
    struct s3 *s3;
    struct loop *loop;
    struct engine *http;
    struct sigv4_signer signer;
    struct buf path, query, lines; /* of the request being written */
    struct dlc_list idle;          /* calls to use again */
    struct dlc_list waiting;       /* calls that wait for credentials */
    struct dlc_list failed;        /* calls that failed in start(), until `later` runs */
    struct task later;
    bool later_posted;
    struct task ready; /* credentials are there */
    bool asked;        /* `ready` is out */
};

/* One attempt under way. */
struct s3_call {
    uint32_t tag;
    struct s3_lane *lane;
    struct attempt *attempt;
    struct engine_request *request; /* NULL: waiting or failed */
    struct s3_place *place;
    unsigned generation; /* of the credentials it was signed with; 0: none */
    bool known_expired;  /* they had been refused before it was sent */
    struct dlc_list link;
};

/* How s3, gs and the like differ. */
struct s3_kind {
    struct origin_ops ops;
    const char *scheme;
    const char *cloud; /* as in s3_place_config */
    double price_get, price_list, price_gb;
    uint64_t range_sum_max; /* reads up to this have a range, also those of whole objects; 0: no */
    bool sum_mode;          /* ask for checksums with x-amz-checksum-mode */
    const char *extra;      /* a header line for every GET, or NULL */
    /* A listing, where it is not S3's: path and query of the request, and its answer. */
    void (*write_list)(const struct s3_place *p, const struct attempt *a, struct buf *path,
                       struct buf *query);
    int (*parse_list)(const char *data, size_t len, struct attempt *a, struct dlc_err *err);
    /*
     * Write the credentials into c->request; lane->path and lane->query are set. cr is NULL: none,
     * anonymous access. Negative: the attempt fails.
     */
    int (*apply)(struct s3_call *c, const struct credentials *cr, const char *method,
                 const struct sigv4_header *extra, size_t n_extra, struct dlc_err *err);
};

struct s3 {
    struct origin origin;
    uint32_t tag;
    const struct s3_kind *kind;
    char *bucket, *endpoint;
    int path_style;
    unsigned connections; /* per lane */
    struct dlc_dur connect_timeout;
    const struct address_rules *address_rules; /* borrowed, as in bucket_config */
    const char *proxy;
    _Atomic(struct s3_place *) place; /* W: any lane, by exchange; R: any */
    _Atomic unsigned moves;           /* how often the region was corrected */
    _Atomic bool no_range_sums;       /* the server does not know the header (Azurite) */
    _Atomic unsigned expired;         /* the latest generation that was refused */
    struct credential_source *source;
    struct s3_lane lanes[];
};

/* The part of the constructors that all share. Takes *source, also when it fails; borrows the rest.
 * `region` and `endpoint` are resolved. Gives *out. */
int s3_new(const struct s3_kind *kind, const struct url *u, const struct bucket_config *c,
           const char *endpoint, const char *region, unsigned lanes,
           struct credential_source **source, struct origin **out, struct dlc_err *err);
void s3_resume(struct s3_lane *lane); /* L: credentials are there, or failed: try again */

/* -------- credentials (s3_auth.c) -------- */

/* 0; DLC_EBUSY: s3_resume() will be called; other: the attempt fails. */
int s3_authorise(struct s3_call *c, const char *method, const struct sigv4_header *extra,
                 size_t n_extra, struct dlc_err *err);
void s3_auth_ready(struct task *t);       /* of lane->ready */
void s3_expired(struct s3_call *c);       /* the server refused the credentials of this call */
void s3_auth_close(struct s3_lane *lane); /* nothing calls s3_resume() from now on */

/* For kinds that sign. */
void s3_sign(struct s3_call *c, const struct credentials *cr, const char *method,
             const struct sigv4_header *extra, size_t n_extra);

/* The origin_ops that both share. */
int s3_lane_open(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err);
void s3_lane_close(struct origin *o, unsigned lane);
void s3_start(struct origin *o, struct attempt *a);
void s3_cancel(struct origin *o, struct attempt *a);
void s3_free(struct origin *o);

/* struct s3_kind.ops: the same for all kinds but for the name. */
#define S3_OPS(kind_name)                                                                          \
    {                                                                                              \
        .name = (kind_name), .lane_open = s3_lane_open, .lane_close = s3_lane_close,               \
        .start = s3_start, .cancel = s3_cancel, .free = s3_free, .sums = true, .folders = true     \
    }

#endif
