// SPDX-License-Identifier: Apache-2.0
/*
 * The log-mel spectrogram of a wave, as torch.stft(center=False) and torchaudio's mel scale make
 * it:
 *
 *     frame t     samples t * hop + (fft - window) / 2 and on, times a Hann window (periodic)
 *     power[b]    |sum over i of frame[i] * exp(-2 pi sqrt(-1) b i / fft)|^2, b = 0..fft/2
 *     mel[m]      sum over b of power[b] * triangle m at b * rate / fft
 *     out[m][t]   ln(max(mel[m], floor))
 *
 * The corners of the triangles are spaced evenly in mel(f) = 2595 log10(1 + f / 700) from low to
 * high (HTK's scale; height 1, no norm), m's own being m, m + 1 and m + 2 of mels + 2.
 *
 * A wave of n samples has 1 + (n - fft) / hop frames; a shorter one is filled up with zeros to one.
 *
 * LANES frames are made side by side, one in each lane of a vector: the transform is plain
 * radix-4 code on vectors, needs no shuffle, and a row of frames is stored as it lies.
 */
#ifndef DLC_LOADER_AUDIO_MEL_I_H
#define DLC_LOADER_AUDIO_MEL_I_H

#include <stddef.h>
#include <stdint.h>

#include "loader/audio/audio.h"

struct audio_kernels;
struct dlc_err;

struct mel_filter {
    uint32_t first, count; /* bins */
    uint32_t weight;       /* of the first, in weights */
};

struct mel {
    struct audio_mel spec;
    uint32_t rate; /* 0: not made yet */
    uint32_t half; /* points of the complex transform: fft / 2 */
    uint32_t span; /* of the window, in multiples of LANES */
    float floor, silence;
    float *window;   /* [span], halved: see kernels_body_i.h */
    float *turn;     /* [half][2]: cos and -sin of 2 pi k / half */
    float *split;    /* [half / 2 + 1][2]: cos and sin of 2 pi k / fft */
    uint32_t *place; /* [half]: where the transform leaves bin k */
    struct mel_filter *filters;
    float *weights;
    float *work; /* in `memory`, aligned */
    void *memory;
};

/* Make *m what the spec asks for at this rate, unless it is. A wave is given to it in memory that
 * is mel_reach() samples longer than the sound, zeros. */
int mel_set(struct mel *m, const struct audio_mel *spec, uint32_t rate,
            const struct audio_kernels *k, struct dlc_err *err);
void mel_release(struct mel *m);

uint32_t mel_frames(const struct audio_mel *spec, uint32_t samples);

size_t mel_reach(const struct mel *m);

/* [mels][frames] of a wave of n samples; frames that it does not reach are silence. */
uint32_t mel_make(const struct mel *m, const struct audio_kernels *k, const float *wave, uint32_t n,
                  float *out, uint32_t frames);

#endif
