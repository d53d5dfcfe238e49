// SPDX-License-Identifier: Apache-2.0
/*
 * Where a dataset lies: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix,
 * http(s)://host/path, file:///path; or its name in a manager: dlcache://name.
 *
 * For s3, gs, az and file the text after the last '?' may give the bucket a shape, for demonstrations,
 * tests and benchmarks: latency=30ms, jitter=10ms, bandwidth=200MB (per second), errors=0.01 (share
 * of requests that fail), seed=7. For http(s) the query belongs to the URL, so the names are
 * written dlcache-latency=... and are taken out of it. Anything after '?' that does not look like
 * name=value is part of the key; a name=value with an unknown name is an error that lists the known
 * ones. The same place says how the dataset is laid out (docs/datasets.md): layout=folders,
 * manifest=KEY, split=train, partition=64MB, group=yes; and which objects are in it:
 * bucket/url_parts.h. Keys are otherwise taken literally: no percent-decoding for s3, gs, az and
 * file.
 */
#ifndef DLC_BUCKET_URL_H
#define DLC_BUCKET_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "bucket/url_parts.h"

/* The numbers go into names on disk and between nodes: a new one comes last.
 * URL_NAMED: dlcache://NAME, a dataset that a manager knows; `bucket` is its name. */
enum url_scheme { URL_S3, URL_GS, URL_HTTP, URL_HTTPS, URL_FILE, URL_NAMED, URL_AZ };

struct shape {
    struct dlc_dur latency, jitter;
    uint64_t bandwidth; /* bytes per second for the whole bucket; 0: unlimited */
    double errors;      /* 0..1 */
    uint64_t seed;
    bool active;
};

/* How objects become samples; part of what names the dataset. */
struct url_layout {
    char *layout;           /* "folders" and so on; NULL: seen from the keys */
    struct url_parts parts; /* samples, targets and manifests; none: all that is there */
    char *split;            /* only this one; NULL: all */
    uint64_t partition;     /* bytes; 0: the default */
    int group;              /* 1 yes, 0 no, -1 not said */
};

struct url {
    enum url_scheme scheme;
    /* s3, gs: bucket name; az: container or host/container; http: host[:port]; file: "" */
    char *bucket;
    char
        *prefix; /* s3, gs, az: key prefix, may be ""; http: path with query; file: absolute path */
    char *text;  /* canonical form with the layout, without the shape: names the dataset */
    char *shown; /* as people may see it: without user name, password and query of http(s) */
    struct shape shape;
    struct url_layout layout;
};

#define URL_INIT                                                                                   \
    {                                                                                              \
        .text = NULL                                                                               \
    }

/* Objects of a bucket in a cloud, with keys: s3, gs, az. */
bool url_is_cloud(enum url_scheme scheme);

int url_parse(struct url *u, const char *text,
              struct dlc_err *err); /* DLC_EINVAL: says what is allowed */
void url_release(struct url *u);

#endif
