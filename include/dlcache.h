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
    DLC_ECHANGED = -6,   /* the object, or the snapshot, is no longer the one that was catalogued */
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
    uint64_t snapshot; /* this one, as dlc_snapshot() said elsewhere, or DLC_ECHANGED; default: the
                        * newest. Not together with refresh */
    uint64_t reserved[6];
};

/* What this process has read through one dataset since it was opened. */
struct dlc_stats {
    uint64_t hits;           /* samples that were resident when asked for */
    uint64_t misses;         /* samples that had to be waited for */
    uint64_t bypasses;       /* samples read straight from the bucket by this process */
    uint64_t bytes;          /* bytes of all of them */
    uint64_t stall_ns;       /* time spent waiting */
    uint64_t reconnects;     /* times the daemon was lost and found again */
    uint64_t without_daemon; /* of the bypasses: no daemon answered, or it was ending or hung */
    uint64_t reserved[9];
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

/*
 * Which list of the bucket this is: the number changes when an object comes, goes or changes and
 * the bucket is listed again. A sample number means nothing without it: whoever sends or saves
 * sample numbers sends or saves it along, and opens with dlc_options.snapshot. An open dataset
 * keeps its snapshot, whatever is listed, in forked children and over restarts of the daemon.
 * Threads: any.
 */
DLC_API uint64_t dlc_snapshot(const struct dlc_dataset *ds);

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

/*
 * The state of a relaxed order is more than that: what was read before its turn, and which samples
 * have changed places (docs/orders.md). *epoch and *position as dlc_tell() gives them, but with
 * what was read early counted as read; in buf, as far as cap allows, the positions of this epoch
 * from there on at which another sample is read than the order says. Returns: how many there are; 0
 * in a strict order; or DLC_EINVAL when no order is set.
 */
struct dlc_swap {
    uint64_t position, sample;
};
DLC_API int64_t dlc_tell_swaps(struct dlc_dataset *ds, uint64_t *epoch, uint64_t *position,
                               struct dlc_swap *buf, size_t cap);

/* As dlc_follow(), from such a state on: what was read stays read, and all else comes once.
 * Borrows: swaps, for the call. DLC_EINVAL: they are not of this epoch and position of this order.
 */
DLC_API int dlc_follow_swapped(struct dlc_dataset *ds, const struct dlc_order *order,
                               uint64_t epoch, uint64_t position, const struct dlc_swap *swaps,
                               size_t n);

/*
 * For programs that deal the samples to others, who read them by dlc_get(): what is read at n
 * positions from this one on, which is not before what dlc_advance() said. In a relaxed order this
 * is decided now, and stays so. They are fetched ahead as with dlc_next(), which is not to be used
 * then; dlc_advance() says how far they were read.
 * Returns: how many, fewer where the epoch ends; or DLC_EINVAL.
 */
DLC_API int64_t dlc_take(struct dlc_dataset *ds, uint64_t epoch, uint64_t position,
                         uint64_t *samples, size_t n);

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
 * the next one. In a relaxed order, going back tells the order anew: waited_ns then counts from
 * there on.
 */
DLC_API int dlc_advance(struct dlc_dataset *ds, const struct dlc_progress *p);

/*
 * Importance: an epoch that is drawn by what the model has yet to learn (docs/importance.md).
 *
 *     struct dlc_importance spec = {.mode = DLC_COVERAGE, .seed = 1};
 *
 *     dlc_importance(ds, &spec);
 *     for each epoch: n = dlc_draw(ds, epoch, list, cap, NULL), and dlc_follow() the list or, while
 *     another epoch is being read, dlc_follow_more() it
 *     for each batch: dlc_learn(ds, epoch, samples, losses, n, NULL)
 *
 * Weights are kept by the daemon, for all ranks of a job on its node. Without a daemon, or when one
 * was lost, the process goes on with its own, and brings them along to the next. So does a ninth
 * job on a dataset, until one of the eight has ended and dlc_importance() is called again.
 */
enum dlc_importance_mode {
    DLC_COVERAGE = 0, /* without replacement, and each sample at least once in `every` epochs */
    DLC_SHADE = 1,    /* with replacement; resident ones first and repeated */
};

/* How losses become weights. */
enum dlc_importance_rule {
    DLC_RULE_RANK = 0,  /* by the rank of a loss in its batch, and the mean loss of the epoch */
    DLC_RULE_PLAIN = 1, /* the loss, or whatever is given, is the weight; not negative */
};

/* Zero-initialise; a zero member means the default. */
struct dlc_importance {
    uint32_t mode, rule;
    uint32_t rank, world; /* world 0 counts as 1 */
    uint64_t seed;
    uint64_t first, count; /* a range of samples (a split); count 0: to the last */
    uint64_t length;       /* positions of an epoch over all ranks; 0: count (shade), half of it
                            * (coverage) or as many as `every` needs */
    uint32_t every;        /* coverage: each sample at least once in so many epochs; 0: 4 */
    uint32_t reserved0;
    double replication; /* shade: 0.5 to 100 in steps of 0.5; 0: 1 */
    double prefer;      /* coverage: 1 to 1000: resident samples weigh so many times; 0: 1 */
    const char *job;    /* whose weights: 1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter
                         * or a digit; NULL: that of DLCACHE_JOB, else the process's own. Borrowed
                         * for the call */
    /* In place of a range, these samples (a subset of any kind): dlc_draw() then gives places in
     * this list, counted from 0. Borrowed for the call; NULL: first and count say which. */
    const uint64_t *samples;
    uint64_t n_samples;
    uint64_t reserved[4];
};

/* One batch of losses. */
struct dlc_learnt {
    uint64_t used, ignored; /* losses; ignored: those that are no numbers */
    double mean;            /* of those used that are finite */
    uint64_t reserved[5];
};

/* One list that was drawn. */
struct dlc_drawn {
    uint64_t distinct; /* samples in it */
    uint64_t forced;   /* coverage: positions that `every` asked for */
    uint64_t resident; /* positions whose sample was resident */
    uint64_t part;     /* samples that could be drawn */
    double effective;  /* how many samples the draw is worth: (sum of w)^2 / sum of w^2 */
    uint64_t reserved[6];
};

/* What DLC_RULE_RANK remembers of the losses so far: to save and to bring back, with the weights.
 */
struct dlc_scale {
    double first, mean, sum;
    uint64_t count, epoch;
    uint64_t reserved[3];
};

/*
 * Begin, or go on with another spec: weights that are there stay, unless the job is another one.
 * After fork() the child has none until it begins itself.
 * Threads: one at a time, as dlc_follow(); the same for dlc_draw().
 */
DLC_API int dlc_importance(struct dlc_dataset *ds, const struct dlc_importance *spec);

/*
 * One batch: losses[i] is that of samples[i]. Asks nobody. Borrows: samples, losses.
 * Returns: 0 (*out, may be NULL, is set); DLC_EINVAL: no such sample, or a negative loss with
 * DLC_RULE_PLAIN: then nothing was learnt. Threads: any.
 */
DLC_API int dlc_learn(struct dlc_dataset *ds, uint64_t epoch, const uint64_t *samples,
                      const float *losses, size_t n, struct dlc_learnt *out);

/*
 * This rank's list of an epoch, from weights and residents as they are now; out may be NULL.
 * Returns: its length (larger than cap: nothing was drawn), or DLC_E*.
 */
DLC_API int64_t dlc_draw(struct dlc_dataset *ds, uint64_t epoch, uint64_t *list, uint64_t cap,
                         struct dlc_drawn *out);

/* Weights of samples [first, first + n) as they are, 0: never learnt; to save, and to bring back:
 * not negative, and finite. Threads: any. */
DLC_API int dlc_weights(struct dlc_dataset *ds, uint64_t first, uint64_t n, float *out);
DLC_API int dlc_set_weights(struct dlc_dataset *ds, uint64_t first, uint64_t n, const float *in);
DLC_API int dlc_scale(struct dlc_dataset *ds, struct dlc_scale *out);
DLC_API int dlc_set_scale(struct dlc_dataset *ds, const struct dlc_scale *in);

/*
 * The loader: from encoded samples to batches, by threads of this process. Order, decoding,
 * augmentation and batches are the library's work; docs/loader.md says what comes out.
 *
 *     struct dlc_loader_spec spec = {.kind = DLC_IMAGES, .batch = 64,
 *                                    .order = {.kind = DLC_SHUFFLED, .seed = 1},
 *                                    .image = {.width = 224, .height = 224,
 *                                              .crop = DLC_CROP_RANDOM_RESIZED, .flip = 0.5}};
 *     struct dlc_loader *l;
 *     struct dlc_batch b;
 *
 *     if (dlc_loader_open(ds, &spec, &l) < 0)
 *         errx(1, "%s", dlc_last_error());
 *     while ((rc = dlc_loader_next(l, &b)) == 1) {
 *         train(b.data, b.labels, b.samples);
 *         dlc_batch_put(&b);
 *     }
 */
enum dlc_loader_kind { DLC_IMAGES = 1, DLC_AUDIO = 2, DLC_TENSORS = 3 };

enum dlc_dtype {
    DLC_U8 = 1,
    DLC_F32 = 2,
    DLC_F16 = 3,
    DLC_I32 = 4,
    DLC_I64 = 5,
    DLC_I8 = 6,
    DLC_I16 = 7,
    DLC_U16 = 8,
    DLC_U32 = 9,
    DLC_U64 = 10,
    DLC_F64 = 11,
    DLC_BOOL = 12,
};

/* A sample that cannot be decoded, or is gone. What is nobody's fault but the network's, the
 * machine's or the credentials' is an error whatever is said here. */
enum dlc_on_bad {
    DLC_BAD_RAISE = 0,   /* dlc_loader_next() fails once; the next call gives what is left */
    DLC_BAD_SKIP = 1,    /* its batch is the smaller by it */
    DLC_BAD_REPLACE = 2, /* the next good one of its batch stands in for it */
};

enum dlc_crop { DLC_CROP_WHOLE = 0, DLC_CROP_RANDOM_RESIZED = 1, DLC_CROP_CENTRE = 2 };
enum dlc_layout { DLC_NCHW = 0, DLC_NHWC = 1 };
enum dlc_switch { DLC_AUTO = 0, DLC_ON = 1, DLC_OFF = 2 };

/* JPEG or PNG in, [3][height][width] or [height][width][3] out. Ranges whose ends are both zero:
 * the default. */
struct dlc_image {
    uint32_t width, height; /* of the output */
    uint32_t crop;          /* enum dlc_crop; WHOLE: resized to width x height */
    uint32_t resize;        /* CENTRE: the shorter side before the cut; 0: as it is */
    double scale[2];        /* RANDOM_RESIZED: share of the area; default 0.08 to 1 */
    double ratio[2];        /* and aspect; default 3/4 to 4/3 */
    double flip;            /* probability of a horizontal flip */
    double brightness[2], contrast[2], saturation[2]; /* factors; default: left alone */
    double hue[2];                                    /* within -0.5 to 0.5 */
    uint32_t dtype;                                   /* DLC_U8 (default), DLC_F32, DLC_F16 */
    uint32_t layout;                                  /* enum dlc_layout */
    uint32_t normalise; /* 1: (x / 255 - mean) / std; floats only, which else are x / 255 */
    float mean[3], std[3];
    uint32_t exact;      /* 1: no scaled decoding: the closest to torchvision */
    uint64_t max_pixels; /* larger images are bad samples; default 178956970 */
    uint64_t reserved[8];
};

/* WAV, FLAC or OGG in, float32 [channels][samples] or log-mel [mels][frames] out. */
struct dlc_audio {
    uint32_t samples;      /* of the output, per channel: what is longer is cut, shorter padded */
    uint32_t rate;         /* 0: as it is; else resampled to it */
    uint32_t mono;         /* 1: the mean of the channels */
    uint32_t channels;     /* else so many; default 1 */
    uint32_t random_start; /* 1: cut at a random place, not at the end */
    uint32_t mels;         /* 0: no spectrogram */
    uint32_t fft, window, hop; /* in samples; default 512, 400, 160 */
    float low, high;           /* Hz; high 0: half the rate */
    float floor;               /* power below counts as it; default 1e-10 */
    uint64_t max_frames;       /* longer sounds are bad samples; default 2^31 */
    uint64_t reserved[8];
};

/* .npy files, or raw records: each sample is one tensor of the same shape, or a table of them. A
 * shuffle of rows is one over all tables, which should fit into memory or disk tier. Numbers are
 * converted; one that does not fit (300 in uint8) makes a bad sample. */
struct dlc_tensor {
    uint32_t dtype;  /* of the output: DLC_U8, DLC_I32, DLC_I64, DLC_F16 or DLC_F32 */
    uint32_t raw;    /* 0: .npy; 1: nothing but numbers, little endian, ... */
    uint32_t stored; /* ... of this type; default: as the output */
    uint32_t rows;   /* 1: samples are tables; rows, numbered on over all, are the loader's */
    uint32_t reserved0;
    uint32_t ndim;     /* up to 8 */
    uint64_t shape[8]; /* of a sample */
    uint64_t reserved[8];
};

/* How samples become batches. Zero-initialise; a zero member means the default. */
struct dlc_loader_spec {
    uint32_t kind;          /* enum dlc_loader_kind */
    uint32_t batch;         /* samples */
    uint32_t drop_last;     /* 1: no batch that is smaller at the end of an epoch */
    uint32_t on_bad;        /* enum dlc_on_bad */
    uint32_t threads;       /* so many; 0: as many as the consumer's steps need, up to ... */
    uint32_t threads_most;  /* ... so many; 0: all processors this process may use */
    uint32_t ring;          /* batches there are buffers for; default 4, at least 2. Who holds more
                             * than all but two of them gets further ones for as long */
    uint32_t decoded_cache; /* enum dlc_switch: keep images decoded */
    struct dlc_order order; /* not relaxed; its seed is also that of the augmentations. The list of
                             * DLC_EXPLICIT may come later, by dlc_loader_follow() */
    uint64_t epoch, position; /* where to begin, as dlc_loader_tell() said */
    struct dlc_image image;   /* that of the kind; the others are not looked at */
    struct dlc_audio audio;
    struct dlc_tensor tensor;
    /* Memory of the batches: page-locked, say. Called in dlc_loader_open(), and in
     * dlc_loader_close() or the dlc_batch_put() after it. NULL: the library's own. */
    void *(*alloc)(size_t bytes, void *arg);
    void (*free)(void *p, size_t bytes, void *arg);
    void *alloc_arg;
    uint32_t once; /* DLC_EXPLICIT: 1: no list has a sample twice, and augmentations are those that
                    * the sample has in other orders */
    uint32_t reserved0;
    uint64_t reserved[7];
};

/* One batch: valid until dlc_batch_put(). The bytes are the caller's to change. */
struct dlc_batch {
    void *data;       /* [samples][...] */
    size_t bytes;     /* of one sample */
    uint32_t samples; /* fewer than asked for: the last of an epoch, or bad ones left out */
    uint32_t reserved0;
    const uint64_t *index;    /* which samples these are */
    const int64_t *labels;    /* their classes, -1 for none */
    const uint32_t *lengths;  /* audio: what is not padding, in samples or frames; else NULL */
    uint64_t epoch, position; /* where the loader stands once this batch is used */
    uint64_t priv[2];
};

struct dlc_loader_stats {
    uint64_t batches, samples;      /* handed out */
    uint64_t bad;                   /* left out or replaced */
    uint64_t from_decoded_cache;    /* samples that were made from the decoded cache */
    uint64_t decoded_cache_samples; /* that the daemon keeps for this spec, whoever decoded them */
    uint64_t decoded_cache_bytes;   /* and their bytes */
    uint64_t waited_ns;             /* the consumer, for batches */
    uint64_t step_ns;               /* the consumer, between batches */
    uint64_t busy_ns;               /* threads made samples, all together */
    uint64_t starved_ns;            /* threads waited for bytes, all together */
    uint64_t threads;               /* that work now, if there is work */
    uint64_t ready;                 /* batches that can be had at once */
    uint64_t decoded;               /* samples that were made from their bytes */
    uint64_t reserved[7];
};

struct dlc_loader; /* opaque */

/*
 * Make batches of ds from now on. Its order is the loader's until the loader is closed:
 * dlc_follow() and dlc_next() are not for the caller then. dlc_get() and all others are. Borrows:
 * ds, until dlc_loader_close(), and spec.   Gives: *out; return it with dlc_loader_close().
 * Threads: a loader is one thread's at a time, dlc_batch_put() and dlc_loader_stats() excepted.
 * After fork() the child may only close it.
 */
DLC_API int dlc_loader_open(struct dlc_dataset *ds, const struct dlc_loader_spec *spec,
                            struct dlc_loader **out);

/*
 * The next batch. Returns 1 and gives *out; 0 at the end of an epoch: the next call gives the first
 * batch of the next one, which is being made already; or DLC_E*: a bad sample (DLC_BAD_RAISE), or
 * bytes that could not be had; its batch comes next, without it.
 */
DLC_API int dlc_loader_next(struct dlc_loader *l, struct dlc_batch *out);

/* The same, but DLC_EMISS at once when no batch is ready. */
DLC_API int dlc_loader_try_next(struct dlc_loader *l, struct dlc_batch *out);

/* Gives the batch's memory back to its loader, also to one that was closed; *b is zeroed. Putting a
 * zeroed batch is allowed. Threads: any. */
DLC_API void dlc_batch_put(struct dlc_batch *b);

/* Go on at another place; batches that are held stay good. DLC_EXPLICIT: in the epochs whose lists
 * are here, this one and the next. */
DLC_API int dlc_loader_seek(struct dlc_loader *l, uint64_t epoch, uint64_t position);

/*
 * DLC_EXPLICIT: go on with this list, of this epoch and at this position of it; lists that were
 * given before are forgotten. A sample may be listed more than once; it is augmented in another way
 * each time. Borrows: list, for the call.
 */
DLC_API int dlc_loader_follow(struct dlc_loader *l, const uint64_t *list, uint64_t n,
                              uint64_t epoch, uint64_t position);

/*
 * DLC_EXPLICIT: the list of the next epoch, so that its batches are made before this one has ended;
 * one ahead, as dlc_follow_more(). Where it has not been given when this epoch ends,
 * dlc_loader_next() says 0 as ever, and DLC_EINVAL from then on until it is. Borrows: list, for the
 * call.
 * Returns: 0; DLC_EBUSY when it was given already; DLC_EINVAL after the last of order.epochs.
 */
DLC_API int dlc_loader_follow_more(struct dlc_loader *l, const uint64_t *list, uint64_t n);

/* Where dlc_loader_next() stands: all that must be saved to resume, beside the spec itself. */
DLC_API void dlc_loader_tell(struct dlc_loader *l, uint64_t *epoch, uint64_t *position);

/* Batches of the epoch it stands in, if that is read from its beginning. */
DLC_API uint64_t dlc_loader_length(const struct dlc_loader *l);

/* Bytes that spec.alloc will be asked for, for each of so many buffers (*count, may be NULL); or
 * DLC_E*. */
DLC_API int64_t dlc_loader_bytes(const struct dlc_loader_spec *spec, uint32_t *count);

DLC_API void dlc_loader_stats(struct dlc_loader *l, struct dlc_loader_stats *out);

/* The k-th bad sample that is remembered (the first 1000): its number, and why, copied as dlc_key()
 * does it; DLC_ENOTFOUND: there are not so many. Threads: any. */
DLC_API int dlc_loader_bad(struct dlc_loader *l, uint64_t k, uint64_t *sample, char *why,
                           size_t cap);

/* Takes *l and sets it to NULL, in mid-epoch or not. Batches that are held stay good until they are
 * put. */
DLC_API void dlc_loader_close(struct dlc_loader **l);

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

/* Of the library that runs, such as "1.2.3"; DLC_VERSION_* are those of this header. */
DLC_API const char *dlc_version(void);

#ifdef __cplusplus
}
#endif
#endif
