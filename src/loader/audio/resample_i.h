// SPDX-License-Identifier: Apache-2.0
/*
 * Resampling by a ratio up / down, the two rates without their common divisor:
 *
 *     y[j] = sum over k of x[k] * h[j * down - k * up + half]          x is 0 outside the sound
 *     h[i] = up * sinc((i - half) / max) * kaiser(5)[i], i = 0..2 half, scaled to a sum of up
 *     max = max(up, down), half = 10 * max
 *
 * That is scipy.signal.resample_poly(x, up, down) with its own filter. An output sample meets
 * about 20 * max / up taps of one of `up` phases; the table has those of each phase side by side.
 */
#ifndef DLC_LOADER_AUDIO_RESAMPLE_I_H
#define DLC_LOADER_AUDIO_RESAMPLE_I_H

#include <stddef.h>
#include <stdint.h>

struct audio_kernels;
struct dlc_err;

#define RESAMPLERS 4 /* pairs of rates whose tables are kept */

struct resampler {
    uint32_t from, to; /* 0: free */
    uint32_t up, down;
    uint64_t half;
    size_t taps;   /* of a phase, in multiples of LANES; the first ones may be 0 */
    float *table;  /* [up][taps] */
    uint64_t last; /* when it was used */
};

struct resamplers {
    struct resampler slots[RESAMPLERS];
    uint64_t clock;
};

/* Gives: *r, which is good until the next call. */
int resamplers_get(struct resamplers *s, uint32_t from, uint32_t to, const struct resampler **r,
                   struct dlc_err *err);
void resamplers_release(struct resamplers *s);

/* Samples that n become. */
uint64_t resample_length(const struct resampler *r, uint64_t n);

/* Samples that the first n outputs are made from. */
uint64_t resample_reach(const struct resampler *r, uint64_t n);

/* Samples as long as n outputs. */
uint64_t resample_span(const struct resampler *r, uint64_t n);

#endif
