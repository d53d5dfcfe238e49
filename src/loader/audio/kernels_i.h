// SPDX-License-Identifier: Apache-2.0
/*
 * The loops that take the time, once for any processor and once for AVX2: kernels_body_i.h,
 * compiled twice. Both do the same operations in the same order, so that they give the same bytes
 * (AUDIO-4).
 */
#ifndef DLC_LOADER_AUDIO_KERNELS_I_H
#define DLC_LOADER_AUDIO_KERNELS_I_H

#include <stddef.h>
#include <stdint.h>

struct mel;
struct resampler;

#define LANES 8 /* floats of a vector; frames of a spectrogram that are made side by side */

struct audio_kernels {
    /* The first n samples of x resampled. Before x[0] and after the last that
     * resample_reach() tells there are r->taps zeros. */
    void (*resample)(const struct resampler *r, const float *x, float *out, size_t n);

    /* LANES frames of the wave, the first at x; `count` of them are written, `stride` apart for
     * each mel. `work` has mel_work(m) floats, aligned to 32 bytes. Reads mel_reach(m) samples of
     * x. */
    void (*mel)(const struct mel *m, const float *x, float *work, float *out, size_t stride,
                size_t count);
};

extern const struct audio_kernels audio_kernels_plain;
extern const struct audio_kernels audio_kernels_avx2; /* x86-64 only */

const struct audio_kernels *audio_kernels_best(void); /* of this processor */

#endif
