// SPDX-License-Identifier: Apache-2.0
/*
 * image: one encoded image in, the pixels of one sample out.
 *
 *     struct image_head head;
 *     struct image_plan plan;
 *
 *     if (image_read_head(data, len, &spec, &head, err) == 0) {
 *         image_plan(&spec, image_key(seed, epoch, sample), head.width, head.height, &plan);
 *         image_make(scratch, data, len, &spec, &head, &plan, out, err);
 *     }
 *
 * Pure: the bytes of `out` follow from data, spec and plan. No thread, no clock, no file.
 * Coordinates are those of the image as it is seen: EXIF orientation applied.
 *
 * With exact the pixels are those of PIL and torchvision's PIL backend, byte for byte, if both use
 * the same libjpeg: Image.open, ImageOps.exif_transpose, convert("RGB"), crop, resize (bilinear),
 * pad, flip, jitter. Exceptions: an image that EXIF turns by 90 degrees, where a pixel may differ
 * by 1 (the passes of the resampler change places); 16-bit grey PNG, which PIL clips at 255 and we
 * scale to 8 bits.
 *
 * Without exact a JPEG is decoded at 1/2, 1/4 or 1/8 when its box is so much larger than what it
 * becomes. Pixels then differ a little, most at edges: tests/python/loader/test_image_near.py
 * states and holds the tolerance.
 *
 * (IMAGE-1) `out` is image_bytes(spec) long and written wholly, or the call fails.
 * (IMAGE-2) Nothing larger than spec->max_pixels (width x height) is decoded: DLC_EINVAL with the
 *           size.
 * (IMAGE-3) Scratch memory is bounded by a few rows, except progressive JPEG (its coefficients) and
 *           interlaced PNG (its pixels).
 * (IMAGE-4) Damage in what is read fails with DLC_ECORRUPT. Below the box nothing is read.
 */
#ifndef DLC_LOADER_IMAGE_IMAGE_H
#define DLC_LOADER_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlc_err;

enum image_crop { IMAGE_WHOLE, IMAGE_RANDOM_RESIZED, IMAGE_CENTRE };
enum image_type { IMAGE_U8, IMAGE_F32, IMAGE_F16 };
enum image_layout { IMAGE_NCHW, IMAGE_NHWC };
enum image_format { IMAGE_JPEG, IMAGE_PNG };

#define IMAGE_SIDE_MAX   16384     /* of the output, and of resize */
#define IMAGE_PIXELS_MAX 178956970 /* without another limit: above it PIL refuses, too */

/* What every sample becomes. */
struct image_spec {
    uint32_t width, height; /* of the output */
    enum image_crop crop;
    uint32_t resize;           /* IMAGE_CENTRE: shorter side before the cut; 0: not resized */
    double scale[2], ratio[2]; /* IMAGE_RANDOM_RESIZED: share of the area, and width / height */
    double flip;               /* probability of a horizontal flip */
    /* Ranges of factors; equal ends at 1 (hue: at 0): none. Hue lies in -0.5..0.5. */
    double brightness[2], contrast[2], saturation[2], hue[2];
    enum image_type type;
    enum image_layout layout;
    bool normalise; /* (x / 255 - mean) / std; F32 and F16 only. Without it they are x / 255 */
    float mean[3], std[3];
    bool exact;          /* no scaled decoding: what PIL and torchvision give */
    uint64_t max_pixels; /* 0: IMAGE_PIXELS_MAX */
};

struct image_head {
    enum image_format format;
    uint32_t width, height; /* as seen */
    uint8_t orientation;    /* EXIF: 1 to 8 */
    uint8_t components;     /* 1 grey or palette, 2 grey and alpha, 3, 4 CMYK or RGBA */
    bool progressive;       /* or interlaced */
    bool ycc;               /* JPEG of three components whose colours are YCbCr; */
    bool yuv420;            /* they have half the resolution both ways, */
    bool uneven;            /* or in one direction only */
    bool decoded;           /* of image_decoded_head(): the bytes are a decoded image */
};

/*
 * What chance and the policy decided for one sample. The box is resized to to_width x to_height;
 * the output is the part of that which begins at (left, top), and zero where it reaches beyond.
 */
struct image_plan {
    uint32_t x, y, width, height;
    uint64_t to_width, to_height;
    int64_t left, top;
    bool flip;
    uint8_t jitter[4]; /* order of brightness 0, contrast 1, saturation 2, hue 3 */
    float factor[4];   /* by that number */
};

size_t image_bytes(const struct image_spec *spec);

/* DLC_EINVAL and what is wrong. All other functions want a spec that passed. */
int image_check_spec(const struct image_spec *spec, struct dlc_err *err);

/* The random numbers of one sample in one epoch: plan draws from them, each for its own purpose, so
 * that one augmentation more or less leaves the others as they were. */
uint64_t image_key(uint64_t seed, uint64_t epoch, uint64_t sample);

/* Of a JPEG or a PNG. Reads no pixel. DLC_ECORRUPT, or DLC_EINVAL: not an image that we know, or too
 * many pixels. */
int image_read_head(const void *data, size_t len, const struct image_spec *spec,
                    struct image_head *head, struct dlc_err *err);

void image_plan(const struct image_spec *spec, uint64_t key, uint32_t width, uint32_t height,
                struct image_plan *plan);

struct image_scratch; /* opaque; one for each thread */
struct image_scratch *image_scratch_new(void);
void image_scratch_free(struct image_scratch **s);

/* head and plan are those of these bytes. DLC_ECORRUPT, DLC_EINVAL or DLC_ENOMEM; out is then
 * undefined. */
int image_make(struct image_scratch *s, const void *data, size_t len, const struct image_spec *spec,
               const struct image_head *head, const struct image_plan *plan, void *out,
               struct dlc_err *err);

/*
 * The decoded image of a sample: decoded once, then taken by image_decoded_head() and image_make()
 * in the place of the encoded bytes, many times faster. Made for one crop policy and output size:
 * with others image_make() may refuse it (DLC_EINVAL) or give a blurred image.
 *
 * (IMAGE-5) The caller says that bytes are a decoded image, never the bytes themselves: else an
 *           object of a bucket could pass for one, past the limit of pixels.
 *
 * Random crops: the whole image, of a 4:2:0 JPEG its planes (1.5 bytes for each pixel), else RGB
 * (3), reduced by 2, 4 or 8 if the smallest box of the policy stays larger than the output. Without
 * reduction, and always with exact, the pixels are those of the encoded image. Other policies: the
 * finished RGB pixels before flip and jitter.
 */
enum image_decoded_kind { IMAGE_DECODED_RGB = 1, IMAGE_DECODED_YUV420 = 2 };

size_t image_decoded_bound(const struct image_head *head, const struct image_spec *spec);

/* Returns the length of the decoded image, at most image_decoded_bound(), or DLC_E*. */
int64_t image_decoded_make(struct image_scratch *s, const void *data, size_t len,
                           const struct image_spec *spec, const struct image_head *head,
                           void *decoded, size_t cap, struct dlc_err *err);

/* Of a decoded image, every field checked: DLC_ECORRUPT. */
int image_decoded_head(const void *data, size_t len, struct image_head *head, struct dlc_err *err);

#endif
