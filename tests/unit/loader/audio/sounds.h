// SPDX-License-Identifier: Apache-2.0
/* Sounds in memory, encoded by libsndfile. */
#ifndef DLC_TESTS_SOUNDS_H
#define DLC_TESTS_SOUNDS_H

#include "unit.h"

#include <math.h>

#include <sndfile.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "loader/audio/audio.h"

#define WAV16   (SF_FORMAT_WAV | SF_FORMAT_PCM_16)
#define WAV24   (SF_FORMAT_WAV | SF_FORMAT_PCM_24)
#define WAV_F32 (SF_FORMAT_WAV | SF_FORMAT_FLOAT)
#define FLAC16  (SF_FORMAT_FLAC | SF_FORMAT_PCM_16)
#define FLAC24  (SF_FORMAT_FLAC | SF_FORMAT_PCM_24)
#define VORBIS  (SF_FORMAT_OGG | SF_FORMAT_VORBIS)
#define OPUS    (SF_FORMAT_OGG | SF_FORMAT_OPUS)

struct sounds_file {
    struct buf bytes;
    size_t pos;
};

static inline sf_count_t sounds_length(void *user)
{
    return (sf_count_t)((struct sounds_file *)user)->bytes.len;
}

static inline sf_count_t sounds_tell(void *user)
{
    return (sf_count_t)((struct sounds_file *)user)->pos;
}

static inline sf_count_t sounds_seek(sf_count_t offset, int whence, void *user)
{
    struct sounds_file *f = user;
    size_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->pos : f->bytes.len;

    f->pos = (size_t)((sf_count_t)base + offset);
    return (sf_count_t)f->pos;
}

static inline sf_count_t sounds_read(void *out, sf_count_t n, void *user)
{
    struct sounds_file *f = user;
    size_t left = f->pos < f->bytes.len ? f->bytes.len - f->pos : 0;
    size_t some = (size_t)n < left ? (size_t)n : left;

    memcpy(out, f->bytes.data + f->pos, some);
    f->pos += some;
    return (sf_count_t)some;
}

static inline sf_count_t sounds_write(const void *data, sf_count_t n, void *user)
{
    struct sounds_file *f = user;

    while (f->bytes.len < f->pos + (size_t)n)
        buf_addc(&f->bytes, 0);
    memcpy(f->bytes.data + f->pos, data, (size_t)n);
    f->pos += (size_t)n;
    return n;
}

static SF_VIRTUAL_IO sounds_io = {sounds_length, sounds_seek, sounds_read, sounds_write,
                                  sounds_tell};

/* Interleaved frames, encoded. The bytes belong to the caller. */
static inline struct buf sounds_encode(const float *x, size_t frames, int channels, int rate,
                                       int format)
{
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    struct sounds_file f = {BUF_INIT, 0};
    SNDFILE *file = sf_open_virtual(&sounds_io, SFM_WRITE, &info, &f);

    if (file == NULL)
        fail_msg("libsndfile does not write this: %s", sf_strerror(NULL));
    sf_command(file, SFC_SET_CLIPPING, NULL, SF_TRUE);
    assert_int_equal(sf_writef_float(file, x, (sf_count_t)frames), frames);
    sf_close(file);
    return f.bytes;
}

/* What libsndfile itself reads, interleaved, into memory of `floats`. Returns the frames. */
static inline size_t sounds_decode(const struct buf *b, float *out, size_t floats)
{
    struct sounds_file f = {*b, 0};
    SF_INFO info = {0};
    SNDFILE *file = sf_open_virtual(&sounds_io, SFM_READ, &info, &f);
    sf_count_t n;

    assert_non_null(file);
    n = sf_readf_float(file, out, (sf_count_t)(floats / (size_t)info.channels));
    sf_close(file);
    return (size_t)n;
}

/* Something that codecs find neither easy nor silent: sines that glide, and noise. */
static inline void sounds_fill(float *x, size_t frames, int channels)
{
    struct rng r = {frames};

    for (size_t i = 0; i < frames; i++)
        for (int c = 0; c < channels; c++) {
            double t = (double)i, noise = rng_unit(&r) - 0.5;

            x[i * (size_t)channels + (size_t)c] =
                (float)(0.4 * sin(t * (0.01 + 0.001 * c) + t * t * 1e-7) + 0.05 * noise);
        }
}

/* audio_make() that must succeed; gives the length. */
static inline uint32_t sounds_make(struct audio_scratch *s, const struct buf *b,
                                   const struct audio_spec *spec, uint64_t key, float *out)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t length = 0;

    assert_int_equal(audio_check_spec(spec, &err), 0);
    if (audio_make(s, b->data, b->len, spec, key, out, &length, &err) != 0)
        fail_msg("%s", err.text);
    return length;
}

/* audio_make() that must fail with this code and a text that holds `words`. */
static inline void sounds_refuse(struct audio_scratch *s, const void *data, size_t len,
                                 const struct audio_spec *spec, float *out, int code,
                                 const char *words)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t length = 1;

    assert_int_equal(audio_make(s, data, len, spec, 0, out, &length, &err), code);
    assert_int_equal(length, 0);
    if (strstr(err.text, words) == NULL)
        fail_msg("expected '%s' in: %s", words, err.text);
}

#endif
