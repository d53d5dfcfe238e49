// SPDX-License-Identifier: Apache-2.0
/*
 * A sound that lies encoded in memory, and its frames. libsndfile decodes; it is given nothing that
 * does not begin as WAV, FLAC or OGG does.
 */
#ifndef DLC_LOADER_AUDIO_DECODE_I_H
#define DLC_LOADER_AUDIO_DECODE_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlc_err;
struct sf_private_tag; /* SNDFILE */

struct sound {
    struct sf_private_tag *file;
    const unsigned char *data;
    size_t len, pos;
    uint64_t frames;   /* as its header says; UINT64_MAX: it does not */
    uint32_t channels; /* 1 to AUDIO_CHANNELS_MAX */
    uint32_t rate;     /* 1 to AUDIO_RATE_MAX */
    bool whole;        /* decoded from integers: every sample is finite */
};

/* Interleaved frames on their way to planes. */
struct sound_block {
    float *data;
    size_t cap;
};

/* *s must stay where it is until it is closed. Borrows data until then. */
int sound_open(struct sound *s, const void *data, size_t len, uint64_t max_frames,
               struct dlc_err *err);
void sound_close(struct sound *s);

int sound_seek(struct sound *s, uint64_t frame, struct dlc_err *err);

/*
 * The next n frames as `planes` planes of floats, `stride` apart; or as one, their mean. Planes
 * that the sound has no channel for are copies of its last. *got is n, or less where the sound did
 * not say how long it is.
 */
int sound_read(struct sound *s, struct sound_block *b, size_t n, bool mean, uint32_t planes,
               float *out, size_t stride, size_t *got, struct dlc_err *err);

#endif
