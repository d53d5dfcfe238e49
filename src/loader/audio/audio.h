// SPDX-License-Identifier: Apache-2.0
/*
 * audio: one encoded sound in, float32 samples or a log-mel spectrogram out.
 *
 *     audio_make(scratch, data, len, &spec, key, out, &length, err);
 *
 * Pure: the bytes of `out` follow from data, spec and key. No thread, no clock, no file. WAV, FLAC
 * and OGG (Vorbis, Opus) through libsndfile, read from memory.
 *
 * (AUDIO-1) `out` is [channels][samples] or [channels][mels][frames], row-major float32, and
 *           written wholly, or the call fails. What is shorter is padded with zeros (a spectrogram
 *           with the logarithm of its floor), what is longer is cut; *length is the number of
 *           samples or frames that are not padding: at least 1.
 * (AUDIO-2) Nothing that says it is longer than spec->max_frames is decoded, and no more frames
 *           than are used. Scratch memory is bounded by spec and AUDIO_RATE_MAX, whatever a header
 *           says.
 * (AUDIO-3) From the same frames, decoding equals soundfile.read(dtype="float32") bit by bit;
 *           resampling is that of scipy.signal.resample_poly within 2e-6 of the loudest sample; the
 *           spectrogram is that of mel_i.h within 1e-4 down to 60 dB below the loudest mel of a
 *           frame.
 * (AUDIO-4) The same bytes on every x86 processor: portable code and AVX2 do the same operations in
 *           the same order.
 * (AUDIO-5) Every number of `out` is finite.
 *
 * What is refused: other formats and codecs (DLC_EINVAL); what is damaged or was cut short, has no
 * frames, or has samples that are not numbers or beyond 1e30 (DLC_ECORRUPT).
 */
#ifndef DLC_LOADER_AUDIO_AUDIO_H
#define DLC_LOADER_AUDIO_AUDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlc_err;

#define AUDIO_RATE_MAX     ((uint32_t)1 << 24)
#define AUDIO_CHANNELS_MAX 1024
#define AUDIO_SAMPLES_MAX  ((uint32_t)1 << 30)
#define AUDIO_MELS_MAX     1024
#define AUDIO_FFT_MIN      16
#define AUDIO_FFT_MAX      65536

struct audio_mel {
    uint32_t mels;             /* 0: no spectrogram */
    uint32_t fft, window, hop; /* in samples; fft a power of two, at least window */
    float low, high;           /* Hz; high 0: half the rate */
    float floor;               /* power below it counts as it; 0: 1e-10 */
};

struct audio_spec {
    uint32_t samples; /* of the output, per channel; of a spectrogram: that it is made from */
    uint32_t rate;    /* 0: as it is; else resampled to it */
    bool mono; /* mean of the channels; else `channels` of them (missing: copies of the last) */
    uint32_t channels; /* not mono: at least 1 */
    bool random_start; /* cut at a random place (key) rather than at the end */
    struct audio_mel mel;
    uint64_t max_frames; /* 0: 2^31 */
};

int audio_check_spec(const struct audio_spec *spec, struct dlc_err *err);

/* Of a spec that was checked. */
size_t audio_bytes(const struct audio_spec *spec);
uint32_t audio_frames(const struct audio_spec *spec); /* of a spectrogram */

/* Tables and buffers of one thread. */
struct audio_scratch;
struct audio_scratch *audio_scratch_new(void);
void audio_scratch_free(struct audio_scratch **s);

/*
 * Borrows: all, for the call. The spec was checked; `out` has audio_bytes(spec) bytes.
 * Returns: 0 or DLC_E*; the text says what is wrong with the sound, and the caller puts its key
 * before it.
 */
int audio_make(struct audio_scratch *s, const void *data, size_t len, const struct audio_spec *spec,
               uint64_t key, void *out, uint32_t *length, struct dlc_err *err);

#endif
