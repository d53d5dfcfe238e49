// SPDX-License-Identifier: Apache-2.0
/*
 * The loader: threads of this process read samples in an order, decode and augment them and put
 * them into batches (docs/loader.md).
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
#ifndef DLCACHE_LOADER_H
#define DLCACHE_LOADER_H

#include "dlcache/order.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* What to do about a sample that cannot be decoded or no longer exists. Network, resource and
 * credential failures are always reported as errors, regardless of this setting. */
enum dlc_on_bad {
    DLC_BAD_RAISE = 0, /* dlc_loader_next() fails once; the next call gives the rest of the batch */
    DLC_BAD_SKIP = 1,  /* the batch has one sample less */
    DLC_BAD_REPLACE = 2, /* the next good sample of the batch takes its place */
};

enum dlc_crop { DLC_CROP_WHOLE = 0, DLC_CROP_RANDOM_RESIZED = 1, DLC_CROP_CENTRE = 2 };
enum dlc_layout { DLC_NCHW = 0, DLC_NHWC = 1 };
enum dlc_switch { DLC_AUTO = 0, DLC_ON = 1, DLC_OFF = 2 };

/* JPEG or PNG in, [3][height][width] or [height][width][3] out. Ranges whose ends are both zero:
 * the default. */
struct dlc_image {
    uint32_t width, height; /* of the output */
    uint32_t crop;          /* enum dlc_crop; WHOLE: resized to width x height */
    uint32_t resize;        /* CENTRE: resize the shorter side to this before the crop; 0: do not */
    double scale[2];        /* RANDOM_RESIZED: share of the area; default 0.08 to 1 */
    double ratio[2];        /* and aspect; default 3/4 to 4/3 */
    double flip;            /* probability of a horizontal flip */
    double brightness[2], contrast[2], saturation[2]; /* factors; default: unchanged */
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
    uint32_t samples;  /* of the output, per channel: longer sounds are cut, shorter ones padded */
    uint32_t rate;     /* resample to this rate; 0: do not */
    uint32_t mono;     /* 1: the mean of the channels */
    uint32_t channels; /* if not mono; default 1 */
    uint32_t random_start;     /* 1: begin at a random position; 0: cut at the end */
    uint32_t mels;             /* 0: no spectrogram */
    uint32_t fft, window, hop; /* in samples; default 512, 400, 160 */
    float low, high;           /* Hz; high 0: half the rate */
    float floor;               /* least power; default 1e-10 */
    uint64_t max_frames;       /* longer sounds are bad samples; default 2^31 */
    uint64_t reserved[8];
};

/* .npy files or raw records: each sample is one tensor of the same shape, or a table of them. Rows
 * are shuffled over all tables, which should fit into the memory or disk tier. Numbers are
 * converted; one that does not fit (300 in uint8) makes a bad sample. */
struct dlc_tensor {
    uint32_t dtype;  /* of the output: DLC_U8, DLC_I32, DLC_I64, DLC_F16 or DLC_F32 */
    uint32_t raw;    /* 0: .npy; 1: only numbers, little endian, ... */
    uint32_t stored; /* ... of this type; default: as the output */
    uint32_t rows;   /* 1: samples are tables; the loader reads rows, numbered over all tables */
    uint32_t reserved0;
    uint32_t ndim;     /* up to 8 */
    uint64_t shape[8]; /* of a sample */
    uint64_t reserved[8];
};

/* How samples become batches. Zero-initialise; a zero member means the default. */
struct dlc_loader_spec {
    uint32_t kind;          /* enum dlc_loader_kind */
    uint32_t batch;         /* samples */
    uint32_t drop_last;     /* 1: drop a smaller batch at the end of an epoch */
    uint32_t on_bad;        /* enum dlc_on_bad */
    uint32_t threads;       /* number; 0: as many as the consumer needs, up to ... */
    uint32_t threads_most;  /* ... this; 0: all processors that this process may use */
    uint32_t ring;          /* buffers for batches; default 4, at least 2. More are allocated while
                             * the consumer holds more than ring - 2 batches */
    uint32_t decoded_cache; /* enum dlc_switch: share decoded images with all processes */
    struct dlc_order order; /* not relaxed; its seed also seeds the augmentations. DLC_EXPLICIT: the
                             * list may come later, by dlc_loader_follow() */
    uint64_t epoch, position; /* where to begin, from dlc_loader_tell() */
    struct dlc_image image;   /* the one of `kind`; the others are ignored */
    struct dlc_audio audio;
    struct dlc_tensor tensor;
    /* Allocator of the batches, for page-locked memory. alloc is called in dlc_loader_open(), free
     * in dlc_loader_close() or in a dlc_batch_put() after it. NULL: the library's own. */
    void *(*alloc)(size_t bytes, void *arg);
    void (*free)(void *p, size_t bytes, void *arg);
    void *alloc_arg;
    uint32_t once; /* DLC_EXPLICIT: 1: no list has a sample twice; a sample is then augmented as in
                    * other orders */
    uint32_t reserved0;
    uint64_t reserved[7];
};

/* One batch. Valid until dlc_batch_put(); the caller may change the bytes. */
struct dlc_batch {
    void *data;       /* [samples][...] */
    size_t bytes;     /* of one sample */
    uint32_t samples; /* fewer than spec.batch: the last of an epoch, or bad ones skipped */
    uint32_t reserved0;
    const uint64_t *index;    /* numbers of the samples */
    const int64_t *labels;    /* their class numbers; -1: none */
    const uint32_t *lengths;  /* audio: without padding, in samples or frames; else NULL */
    uint64_t epoch, position; /* of the loader after this batch */
    uint64_t priv[2];
};

struct dlc_loader_stats {
    uint64_t batches, samples;      /* handed out */
    uint64_t bad;                   /* samples skipped or replaced */
    uint64_t from_decoded_cache;    /* samples that were made from the decoded cache */
    uint64_t decoded_cache_samples; /* in the decoded cache of this spec, of all processes */
    uint64_t decoded_cache_bytes;   /* and their bytes */
    uint64_t waited_ns;             /* time that the consumer waited for batches */
    uint64_t step_ns;               /* time of the consumer between batches */
    uint64_t busy_ns;               /* time that threads made samples, summed */
    uint64_t starved_ns;            /* time that threads waited for bytes, summed */
    uint64_t threads;               /* in use now */
    uint64_t ready;                 /* batches that wait for the consumer */
    uint64_t decoded;               /* samples that were decoded here */
    uint64_t reserved[7];
};

struct dlc_loader; /* opaque */

/*
 * Start a loader on ds. Until it is closed it owns the order of ds: the caller must not use
 * dlc_follow() and dlc_next(), but may use dlc_get() and the rest.
 * Borrows: ds, until dlc_loader_close(); spec.   Gives: *out; return it with dlc_loader_close().
 * Threads: one at a time for a loader, except dlc_batch_put() and dlc_loader_stats(). After fork()
 * the child may only close it.
 */
DLC_API int dlc_loader_open(struct dlc_dataset *ds, const struct dlc_loader_spec *spec,
                            struct dlc_loader **out);

/*
 * The next batch.
 * Returns: 1 and gives *out; 0 at the end of an epoch (the next call gives the first batch of the
 * next one, which is being made already); or DLC_E*: a sample is bad (DLC_BAD_RAISE) or could not
 * be read; the next call gives its batch without it.
 */
DLC_API int dlc_loader_next(struct dlc_loader *l, struct dlc_batch *out);

/* As dlc_loader_next(), but DLC_EMISS at once when no batch is ready. */
DLC_API int dlc_loader_try_next(struct dlc_loader *l, struct dlc_batch *out);

/* Hand a batch back to its loader, which may be closed already, and zero *b. A zeroed batch is
 * allowed. Threads: any. */
DLC_API void dlc_batch_put(struct dlc_batch *b);

/* Go on at another position; batches that are held stay valid. DLC_EXPLICIT: only in this epoch and
 * the next, whose lists are known. */
DLC_API int dlc_loader_seek(struct dlc_loader *l, uint64_t epoch, uint64_t position);

/*
 * DLC_EXPLICIT: go on with this list, of this epoch, at this position; earlier lists are dropped. A
 * sample may be listed more than once and is then augmented differently each time.
 * Borrows: list, for the call.
 */
DLC_API int dlc_loader_follow(struct dlc_loader *l, const uint64_t *list, uint64_t n,
                              uint64_t epoch, uint64_t position);

/*
 * DLC_EXPLICIT: give the list of the next epoch, so that its batches are made before this one ends;
 * one list ahead, as dlc_follow_more(). If this epoch ends first, dlc_loader_next() returns 0 as
 * always, and then DLC_EINVAL until the list is given.
 * Borrows: list, for the call.
 * Returns: 0; DLC_EBUSY when the list was given already; DLC_EINVAL after the last of order.epochs.
 */
DLC_API int dlc_loader_follow_more(struct dlc_loader *l, const uint64_t *list, uint64_t n);

/* The position of dlc_loader_next(): with the spec, all that a program must save to resume. */
DLC_API void dlc_loader_tell(struct dlc_loader *l, uint64_t *epoch, uint64_t *position);

/* Number of batches of the current epoch, counted from its beginning. */
DLC_API uint64_t dlc_loader_length(const struct dlc_loader *l);

/* Bytes of one buffer that spec.alloc will be asked for, or DLC_E*. *count (count may be NULL) is
 * set to the number of buffers. */
DLC_API int64_t dlc_loader_bytes(const struct dlc_loader_spec *spec, uint32_t *count);

DLC_API void dlc_loader_stats(struct dlc_loader *l, struct dlc_loader_stats *out);

/* The k-th bad sample (the first 1000 are remembered): its number, and the reason, copied as
 * dlc_key() does.   Returns: the length of the reason, or DLC_ENOTFOUND.   Threads: any. */
DLC_API int dlc_loader_bad(struct dlc_loader *l, uint64_t k, uint64_t *sample, char *why,
                           size_t cap);

/* Close the loader, also in the middle of an epoch, and set *l to NULL. Batches that are held stay
 * valid until they are put.   Takes: *l. */
DLC_API void dlc_loader_close(struct dlc_loader **l);

#ifdef __cplusplus
}
#endif
#endif
