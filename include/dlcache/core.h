// SPDX-License-Identifier: Apache-2.0
/*
 * Datasets and samples: errors, opening a dataset, what the catalog says of its samples, and
 * reading them.
 *
 * A dataset is a frozen list of samples, numbered from 0; dlc_snapshot() identifies the list. A
 * view is the bytes of one sample in memory that all processes of the machine share: dlc_get() pins
 * it, dlc_put() lets go of it.
 */
#ifndef DLCACHE_CORE_H
#define DLCACHE_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DLC_API __attribute__((visibility("default")))
#else
#define DLC_API
#endif

#define DLC_VERSION_MAJOR 0
#define DLC_VERSION_MINOR 1
#define DLC_VERSION_PATCH 0

enum dlc_error {
    DLC_OK = 0,
    DLC_EINVAL = -1,     /* an argument, option, URL or file is malformed */
    DLC_ENOMEM = -2,     /* no memory for the data */
    DLC_EIO = -3,        /* a local file or device failed */
    DLC_ENOTFOUND = -4,  /* the bucket, object or sample does not exist */
    DLC_EDENIED = -5,    /* credentials are missing, wrong or expired, or do not allow it */
    DLC_ECHANGED = -6,   /* the object or snapshot is not the one that was catalogued any more */
    DLC_ECORRUPT = -7,   /* a length or checksum does not match */
    DLC_EBUCKET = -8,    /* the bucket failed and retries did not help */
    DLC_ETIMEDOUT = -9,  /* the deadline passed */
    DLC_EMISS = -10,     /* not resident, and the call does not wait */
    DLC_ENODAEMON = -11, /* no daemon answers and none could be started */
    DLC_EPROTO = -12,    /* the other side speaks another version, or is malformed */
    DLC_EBUSY = -13,     /* in use, or asked for too early; try again */
    DLC_ENOSPACE = -14,  /* a disk or memory limit is reached */
    DLC_ECANCELED = -15, /* cancelled by a close or shutdown */
    DLC_EBYPASS = -16,   /* internal: not through the cache, read it from the bucket */
    DLC_ELARGE = -17,    /* internal: lies in a file of the disk tier */
};

struct dlc_dataset; /* opaque */

/* The bytes of one sample. They stay valid and unchanged until dlc_put(), whatever happens to the
 * daemon or the bucket. */
struct dlc_view {
    const void *data;
    size_t len;
    uint64_t priv[2];
};

/* Options of dlc_open(). Zero-initialise; a zero member means the default. */
struct dlc_options {
    const char *socket; /* of the daemon; default: as `dlcache serve` */
    const char
        *endpoint;       /* URL of the S3 or GCS endpoint; default: environment, then the cloud's */
    uint32_t no_spawn;   /* 1: do not start a daemon when none answers */
    uint32_t anonymous;  /* 1: do not sign requests */
    uint32_t timeout_ms; /* limit for one sample; default 300000 */
    uint32_t refresh;    /* 1: list the bucket again even if a catalog is stored */
    const char *token; /* of the tenant, in a cluster; default: DLCACHE_TOKEN, DLCACHE_TOKEN_FILE */
    uint64_t snapshot; /* the one to open, from dlc_snapshot(); DLC_ECHANGED if it is gone.
                        * Default: the newest. Not together with refresh */
    uint64_t reserved[6];
};

/* What this process has read of a dataset since it opened it. */
struct dlc_stats {
    uint64_t hits;           /* samples that were resident */
    uint64_t misses;         /* samples that this process waited for */
    uint64_t bypasses;       /* samples that this process read from the bucket itself */
    uint64_t bytes;          /* of all these samples */
    uint64_t stall_ns;       /* time spent waiting */
    uint64_t reconnects;     /* how often the daemon was lost and found again */
    uint64_t without_daemon; /* of the bypasses: no daemon answered, or it was ending or hung */
    uint64_t reserved[9];
};

/*
 * Open the dataset at `url`: s3://, gs://, az://, http(s)://, file://, or dlcache://NAME for a
 * dataset that a manager knows (docs/cluster.md). Starts a daemon if none answers. The first open of a URL
 * lists the bucket; later ones, in any process, map the stored catalog.
 * Borrows: url, opt (may be NULL).   Gives: *out; return it with dlc_close().
 * Threads: any.
 */
DLC_API int dlc_open(const char *url, const struct dlc_options *opt, struct dlc_dataset **out);

/* Close the dataset and set *ds to NULL. Views that are still held become invalid.
 * Takes: *ds.   Threads: no other thread may use *ds. */
DLC_API void dlc_close(struct dlc_dataset **ds);

/*
 * The identity of this catalog. It changes when the bucket is listed again and an object was added,
 * removed or changed. A sample number means nothing without it: a program that sends or saves
 * sample numbers must send or save the snapshot too, and open with dlc_options.snapshot. An open
 * dataset keeps its snapshot, also in forked children and when the daemon restarts.
 * Threads: any.
 */
DLC_API uint64_t dlc_snapshot(const struct dlc_dataset *ds);

/* The URL where the samples lie; of dlcache://NAME the one that was registered. As dlc_key(). */
DLC_API int dlc_location(const struct dlc_dataset *ds, char *buf, size_t cap);

/* Number of samples, without targets. Threads: any. */
DLC_API uint64_t dlc_count(const struct dlc_dataset *ds);

/*
 * Copy the key of sample i and a NUL into buf, if they fit into cap bytes.
 * Returns: the length of the key without NUL (cap or more: nothing was copied), or DLC_E*.
 */
DLC_API int dlc_key(struct dlc_dataset *ds, uint64_t i, char *buf, size_t cap);

/* Size in bytes of sample i as catalogued, or DLC_E*. */
DLC_API int64_t dlc_size(struct dlc_dataset *ds, uint64_t i);

/* Number of the sample with this key. Returns 0 and sets *i, or DLC_ENOTFOUND. */
DLC_API int dlc_find(struct dlc_dataset *ds, const char *key, uint64_t *i);

/*
 * Labels, splits, targets and columns: what the layout of the dataset tells about its samples
 * (docs/datasets.md). Functions that copy a text return its length as dlc_key() does. Threads: any.
 */

/* Class number of sample i, from 0; DLC_ENOTFOUND when it has no class; or another DLC_E*. */
DLC_API int64_t dlc_label(struct dlc_dataset *ds, uint64_t i);
DLC_API uint64_t dlc_class_count(const struct dlc_dataset *ds);
DLC_API int dlc_class_name(struct dlc_dataset *ds, uint64_t k, char *buf, size_t cap);

/* Samples [*first, *first + *count) are the split `name` ("train", "validation", "test").
 * Returns 0 or DLC_ENOTFOUND. */
DLC_API int dlc_split(struct dlc_dataset *ds, const char *name, uint64_t *first, uint64_t *count);
DLC_API unsigned dlc_split_count(const struct dlc_dataset *ds);
DLC_API int dlc_split_name(struct dlc_dataset *ds, unsigned k, char *buf, size_t cap);

/* The sample that is the target of sample i: dlc_get() reads it like any other, though
 * dlc_count() does not count it. Returns 0 or DLC_ENOTFOUND. */
DLC_API int dlc_target(struct dlc_dataset *ds, uint64_t i, uint64_t *target);

/* The text of sample i in a column of the manifest, or DLC_ENOTFOUND: no such column. */
DLC_API int dlc_column(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf, size_t cap);
DLC_API unsigned dlc_column_count(const struct dlc_dataset *ds);
DLC_API int dlc_column_name(struct dlc_dataset *ds, unsigned k, char *buf, size_t cap);

/*
 * Pin sample i and describe its bytes in *out. Waits until the sample is resident.
 * Gives: *out; return it with dlc_put(). *out is zeroed on failure.
 * Threads: any. Another thread may put the view, another process may not.
 */
DLC_API int dlc_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out);

/* As dlc_get(), but DLC_EMISS at once when sample i is not resident; no system call is made. */
DLC_API int dlc_try_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out);

/*
 * As dlc_get() for n samples; the missing ones are fetched in parallel. On failure no view is held,
 * and *bad (bad may be NULL) is the position in idx of the sample that failed.
 */
DLC_API int dlc_get_many(struct dlc_dataset *ds, const uint64_t *idx, size_t n,
                         struct dlc_view *out, size_t *bad);

/* Hand a view back and zero *v. A zeroed view is allowed. Threads: any. */
DLC_API void dlc_put(struct dlc_dataset *ds, struct dlc_view *v);

/*
 * Copy sample i into buf, if it fits into cap bytes.
 * Returns: the length of the sample (larger than cap: nothing was copied), or DLC_E*. Threads: any.
 */
DLC_API int64_t dlc_read(struct dlc_dataset *ds, uint64_t i, void *buf, size_t cap);

/* Ask the daemon to make n samples resident, without waiting for it. Threads: any. */
DLC_API int dlc_prefetch(struct dlc_dataset *ds, const uint64_t *idx, size_t n);

/* What this process has read of ds. Threads: any. */
DLC_API void dlc_dataset_stats(struct dlc_dataset *ds, struct dlc_stats *out);

/*
 * The daemon's report as JSON, like `dlcache stat --json`; its "dataset" is the one that ds reads
 * (docs/format/protocol.md, stat). Copied with its NUL if it fits into cap bytes.
 * Returns: the length of the text as dlc_key() does, DLC_ENODAEMON, or another DLC_E*.
 * Threads: any.
 */
DLC_API int64_t dlc_daemon_stats(struct dlc_dataset *ds, char *buf, size_t cap);

/* The text of this thread's latest failure. Never NULL; valid until its next failing call. */
DLC_API const char *dlc_last_error(void);

/* A short name of an error code, such as "not found". Never NULL. */
DLC_API const char *dlc_strerror(int code);

/* Version of the library that runs, such as "1.2.3". DLC_VERSION_* is that of this header. */
DLC_API const char *dlc_version(void);

#ifdef __cplusplus
}
#endif
#endif
