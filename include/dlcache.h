// SPDX-License-Identifier: Apache-2.0
/*
 * dlcache: samples of a dataset in a cloud bucket, at the speed of memory.
 *
 *     struct dlc_dataset *ds;
 *     struct dlc_view v;
 *
 *     if (dlc_open("s3://my-bucket/train/", NULL, &ds) < 0)
 *         errx(1, "%s", dlc_last_error());
 *     for (uint64_t i = 0; i < dlc_count(ds); i++) {
 *         if (dlc_get(ds, i, &v) < 0)
 *             errx(1, "%s", dlc_last_error());
 *         consume(v.data, v.len);
 *         dlc_put(ds, &v);
 *     }
 *     dlc_close(&ds);
 *
 * The words used in the comments: a function *borrows* what it uses for the call only, *gives* what
 * the caller must hand back, and *takes* what it will free itself.
 *
 * Functions return 0 or a positive count on success and a negative DLC_E* code on failure; the text
 * of the calling thread's latest failure is dlc_last_error().
 */
#ifndef DLCACHE_H
#define DLCACHE_H

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
    DLC_ENOTFOUND = -4,  /* bucket, object or sample does not exist */
    DLC_EDENIED = -5,    /* credentials missing, wrong, expired, or not allowed */
    DLC_ECHANGED = -6,   /* the object is no longer the one that was catalogued */
    DLC_ECORRUPT = -7,   /* length or checksum does not match */
    DLC_EBUCKET = -8,    /* the bucket failed and retries did not help */
    DLC_ETIMEDOUT = -9,  /* the deadline passed */
    DLC_EMISS = -10,     /* not resident, and the caller did not want to wait */
    DLC_ENODAEMON = -11, /* no daemon answers and none could be started */
    DLC_EPROTO = -12,    /* the peer speaks another version or nonsense */
    DLC_EBUSY = -13,     /* somebody else holds it */
    DLC_ENOSPACE = -14,  /* disk or memory limit reached */
    DLC_ECANCELED = -15, /* given up because of close or shutdown */
    DLC_EBYPASS = -16,   /* internal: not through the cache, read it from the bucket */
    DLC_ELARGE = -17,    /* internal: lies in a file of the disk tier */
};

struct dlc_dataset; /* opaque */

/* Bytes of one sample. Valid until dlc_put(), whatever happens to the daemon or the bucket. */
struct dlc_view {
    const void *data;
    size_t len;
    uint64_t priv[2];
};

/* How to open. Zero-initialise; a zero member means the default. */
struct dlc_options {
    const char *socket;   /* daemon's socket; default as `dlcache serve` */
    const char *endpoint; /* S3 or GCS endpoint URL; default: environment, then the cloud's */
    uint32_t no_spawn;    /* 1: do not start a daemon when none answers */
    uint32_t anonymous;   /* 1: do not sign requests */
    uint32_t timeout_ms;  /* how long one sample may take; default 300000 */
    uint32_t refresh;     /* 1: list the bucket again even if a catalog is stored */
    const char *token; /* who we are, for a cluster; default: DLCACHE_TOKEN, DLCACHE_TOKEN_FILE */
    uint64_t reserved[7];
};

/* What this process has read through one dataset since it was opened. */
struct dlc_stats {
    uint64_t hits;       /* samples that were resident when asked for */
    uint64_t misses;     /* samples that had to be waited for */
    uint64_t bypasses;   /* samples read straight from the bucket by this process */
    uint64_t bytes;      /* bytes of all of them */
    uint64_t stall_ns;   /* time spent waiting */
    uint64_t reconnects; /* times the daemon was lost and found again */
    uint64_t reserved[10];
};

/*
 * Open the dataset at `url` (s3://, gs://, http(s)://, file://, or dlcache://NAME: one that a
 * manager knows, docs/cluster.md), starting a daemon if none runs.
 * The first open of a URL lists the bucket; later ones, in any process, map the stored catalog.
 * Borrows: url, opt (may be NULL).   Gives: *out; return it with dlc_close().
 * Threads: any.
 */
DLC_API int dlc_open(const char *url, const struct dlc_options *opt, struct dlc_dataset **out);

/* Takes *ds and sets it to NULL; views still held become invalid. Threads: none may use *ds any
 * more. */
DLC_API void dlc_close(struct dlc_dataset **ds);

/* Number of samples; targets do not count. Threads: any. */
DLC_API uint64_t dlc_count(const struct dlc_dataset *ds);

/*
 * Copy the key of sample i, with its NUL, into buf if cap allows.
 * Returns: the key's length without NUL (larger than cap - 1: buf was too small), or DLC_E*.
 */
DLC_API int dlc_key(struct dlc_dataset *ds, uint64_t i, char *buf, size_t cap);

/* Size in bytes of sample i as catalogued, or DLC_E*. */
DLC_API int64_t dlc_size(struct dlc_dataset *ds, uint64_t i);

/* Number of the sample with this key. Returns 0 and sets *i, or DLC_ENOTFOUND. */
DLC_API int dlc_find(struct dlc_dataset *ds, const char *key, uint64_t *i);

/*
 * What else the dataset says of its samples (docs/datasets.md: class folders, manifests, pairs,
 * splits). Functions that copy a text return its length as dlc_key() does. Threads: any.
 */

/* Class of sample i, counted from 0, or DLC_ENOTFOUND when it has none, or another DLC_E*. */
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
 * Pin sample i and describe its bytes in *out, waiting for it if it is not resident.
 * Gives: *out; return it with dlc_put(). *out is zeroed on failure.
 * Threads: any. A view may be put by another thread than its getter, but not by another process.
 */
DLC_API int dlc_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out);

/* As dlc_get(), but DLC_EMISS at once when sample i is not resident; no system call is made. */
DLC_API int dlc_try_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out);

/*
 * As dlc_get() for n samples; misses are fetched in parallel. All or nothing: on failure no view is
 * held and *bad (may be NULL) is the position in idx of the sample that failed.
 */
DLC_API int dlc_get_many(struct dlc_dataset *ds, const uint64_t *idx, size_t n,
                         struct dlc_view *out, size_t *bad);

/* Returns a view; *v is zeroed. Putting a zeroed view is allowed. Threads: any. */
DLC_API void dlc_put(struct dlc_dataset *ds, struct dlc_view *v);

/*
 * Copy sample i into buf if cap allows.
 * Returns: the sample's length (larger than cap: nothing was copied), or DLC_E*.
 */
DLC_API int64_t dlc_read(struct dlc_dataset *ds, uint64_t i, void *buf, size_t cap);

/* Ask for n samples to be made resident; returns without waiting. Threads: any. */
DLC_API int dlc_prefetch(struct dlc_dataset *ds, const uint64_t *idx, size_t n);

/*
 * A known order: the daemon follows it and fetches ahead, so that nothing is waited for.
 * Zero-initialise. Ranks take interleaved positions of one global order, so the sequence of global
 * batches is the same on any number of ranks; what does not divide is padded or dropped as
 * PyTorch's DistributedSampler does it.
 */
enum dlc_order_kind {
    DLC_SEQUENTIAL = 0, /* 0, 1, 2, ... */
    DLC_SHUFFLED = 1,   /* a new permutation per epoch, from the seed */
    DLC_EXPLICIT = 2,   /* list[0], list[1], ...: one epoch of this rank; see dlc_follow_more() */
};

struct dlc_order {
    uint32_t kind;      /* enum dlc_order_kind */
    uint32_t rank;      /* this process of ... */
    uint32_t world;     /* ... so many; 0 counts as 1 */
    uint32_t drop_last; /* 1: leave out what does not divide by world; 0: pad */
    uint32_t relaxed;   /* 1: a ready sample may come before a late one; each still exactly once */
    uint32_t reserved0;
    uint64_t seed;
    uint64_t epochs;       /* how many will be read in all; 0: no end */
    uint64_t first, count; /* a range of samples (a split); count 0: to the last */
    const uint64_t *list;  /* DLC_EXPLICIT: borrowed for the call */
    uint64_t list_len;
    uint64_t reserved[4];
};

/*
 * Read in this order from now on, starting at `position` (samples of this rank) of `epoch`.
 * Threads: one at a time; the same for the functions below.
 */
DLC_API int dlc_follow(struct dlc_dataset *ds, const struct dlc_order *order, uint64_t epoch,
                       uint64_t position);

/*
 * DLC_EXPLICIT: the list of the epoch after the last one given, so that the daemon fetches on over
 * the end of this one. Lists may differ in length. Two are kept: the one that is being read and the
 * one after it. Borrows: list, for the call.
 * Returns: 0; DLC_EBUSY when the next epoch's list was given already: wait until this epoch has
 * ended; DLC_EINVAL after the last of order.epochs, or when no explicit order is followed.
 */
DLC_API int dlc_follow_more(struct dlc_dataset *ds, const uint64_t *list, uint64_t n);

/* Samples of this rank in the epoch that is being read, or DLC_E* when no order is set. At the end
 * of the last list given, those of that list. */
DLC_API int64_t dlc_epoch_length(struct dlc_dataset *ds);

/*
 * The next sample of the order. Returns 1 and gives *out (and *sample, may be NULL); 0 at the end
 * of an epoch: the next call gives the first of the next one; or DLC_E*: the sample that failed is
 * passed.
 */
DLC_API int dlc_next(struct dlc_dataset *ds, struct dlc_view *out, uint64_t *sample);

/* Where dlc_next() stands: all that must be saved to resume, beside the order itself. */
DLC_API void dlc_tell(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position);

/* How far a program is that reads the samples by other means. Zero-initialise. */
struct dlc_progress {
    uint64_t epoch, position; /* everything before was consumed */
    uint64_t ahead;           /* so many samples from there on are in the hands of workers */
    uint64_t waited_ns;       /* they waited so long for samples since the order was told: the mean
                               * over workers, only growing */
    uint64_t reserved[4];
};

/*
 * For programs whose samples are read by others (dlc_get in worker processes): say how far they
 * are. The daemon fetches beyond what is in the workers' hands, and keeps it. Call it for every
 * batch: it also notices, a few times per second, that the daemon was lost, and tells the order to
 * the next one.
 */
DLC_API int dlc_advance(struct dlc_dataset *ds, const struct dlc_progress *p);

/* What this process has read through ds. Threads: any. */
DLC_API void dlc_dataset_stats(struct dlc_dataset *ds, struct dlc_stats *out);

/*
 * What the daemon knows: a JSON text as `dlcache stat --json` gives it, in which "dataset" is the
 * one that ds reads (docs/format/protocol.md, stat). Copied with its NUL if cap allows.
 * Returns: the text's length as dlc_key() does, DLC_ENODAEMON, or another DLC_E*. Threads: any.
 */
DLC_API int64_t dlc_daemon_stats(struct dlc_dataset *ds, char *buf, size_t cap);

/* The text of this thread's latest failure; never NULL, valid until its next failing call. */
DLC_API const char *dlc_last_error(void);

/* A short name of an error code, such as "not found". Never NULL. */
DLC_API const char *dlc_strerror(int code);

/* "0.1.0" */
DLC_API const char *dlc_version(void);

#ifdef __cplusplus
}
#endif
#endif
