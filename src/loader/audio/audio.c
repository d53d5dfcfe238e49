// SPDX-License-Identifier: Apache-2.0
/*
 * From bytes to a sample:
 *
 *     decode --[resample]--> cut or pad --[mel]--> out
 *
 * Each arrow writes where the next step reads. Without mel and resampling the decoder writes into
 * `out` itself.
 */
#include "loader/audio/audio.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "loader/audio/audio_i.h"
#include "loader/audio/kernels_i.h"
#include "loader/audio/mel_i.h"
#include "loader/audio/resample_i.h"
#include "loader/audio/decode_i.h"

#define MAX_FRAMES ((uint64_t)1 << 31)
#define TAG        DLC_TAG4('a', 'u', 's', 'c')

struct floats {
    float *data;
    size_t cap;
};

struct audio_scratch {
    uint32_t tag;
    const struct audio_kernels *kernels;
    struct resamplers resamplers;
    struct mel mel;
    struct sound_block block;
    struct floats decoded, wave;
};

/* What one call works on. */
struct job {
    struct audio_scratch *s;
    const struct audio_spec *spec;
    struct sound sound;
    const struct resampler *resampler; /* NULL: the rate is right */
    uint32_t channels;                 /* of the output */
    uint32_t length;                   /* samples of it that are not padding */
};

static int check_mel(const struct audio_mel *m, uint32_t rate, struct dlc_err *err)
{
    if (m->mels > AUDIO_MELS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "mels is %u; at most %u", m->mels, AUDIO_MELS_MAX);
    if (m->fft < AUDIO_FFT_MIN || m->fft > AUDIO_FFT_MAX || (m->fft & (m->fft - 1)) != 0)
        return dlc_err_set(err, DLC_EINVAL, "fft is %u; it must be a power of two from %u to %u",
                           m->fft, AUDIO_FFT_MIN, AUDIO_FFT_MAX);
    if (m->window < 1 || m->window > m->fft)
        return dlc_err_set(err, DLC_EINVAL, "window is %u; it must be 1 to fft (%u) samples",
                           m->window, m->fft);
    if (m->hop < 1 || m->hop > AUDIO_FFT_MAX)
        return dlc_err_set(err, DLC_EINVAL, "hop is %u; it must be 1 to %u samples", m->hop,
                           AUDIO_FFT_MAX);
    if (!(m->low >= 0 && m->high >= 0 && isfinite(m->high)) || (m->high != 0 && m->low >= m->high))
        return dlc_err_set(err, DLC_EINVAL, "filters from %g to %g Hz: low must be below high",
                           (double)m->low, (double)m->high);
    if (rate != 0 && (m->high > rate / 2.0f || m->low >= rate / 2.0f))
        return dlc_err_set(err, DLC_EINVAL,
                           "filters from %g to %g Hz at a rate of %u Hz: at most half of it",
                           (double)m->low, (double)m->high, rate);
    if (m->floor != 0 && !(m->floor >= FLT_MIN && isfinite(m->floor)))
        return dlc_err_set(err, DLC_EINVAL, "floor is %g; it must be positive", (double)m->floor);
    return 0;
}

int audio_check_spec(const struct audio_spec *spec, struct dlc_err *err)
{
    if (spec->samples < 1 || spec->samples > AUDIO_SAMPLES_MAX)
        return dlc_err_set(err, DLC_EINVAL, "samples is %u; it must be 1 to %u", spec->samples,
                           AUDIO_SAMPLES_MAX);
    if (spec->rate > AUDIO_RATE_MAX)
        return dlc_err_set(err, DLC_EINVAL, "rate is %u Hz; at most %u", spec->rate,
                           AUDIO_RATE_MAX);
    if (!spec->mono && (spec->channels < 1 || spec->channels > AUDIO_CHANNELS_MAX))
        return dlc_err_set(err, DLC_EINVAL, "channels is %u; it must be 1 to %u, or mono",
                           spec->channels, AUDIO_CHANNELS_MAX);
    return spec->mel.mels == 0 ? 0 : check_mel(&spec->mel, spec->rate, err);
}

static uint32_t audio_channels(const struct audio_spec *spec)
{
    return spec->mono ? 1 : spec->channels;
}

uint32_t audio_frames(const struct audio_spec *spec)
{
    return mel_frames(&spec->mel, spec->samples);
}

size_t audio_bytes(const struct audio_spec *spec)
{
    size_t each = spec->mel.mels == 0 ? spec->samples : (size_t)spec->mel.mels * audio_frames(spec);

    return audio_channels(spec) * each * sizeof(float);
}

struct audio_scratch *audio_scratch_new(void)
{
    struct audio_scratch *s = mem_new(struct audio_scratch);

    s->tag = TAG;
    s->kernels = audio_kernels_best();
    return s;
}

void audio_scratch_free(struct audio_scratch **sp)
{
    struct audio_scratch *s = *sp;

    if (s != NULL) {
        dlc_check(s->tag == TAG);
        resamplers_release(&s->resamplers);
        mel_release(&s->mel);
        mem_free(&s->block.data);
        mem_free(&s->decoded.data);
        mem_free(&s->wave.data);
    }
    mem_free(sp);
}

void audio_scratch_use(struct audio_scratch *s, const struct audio_kernels *k)
{
    s->kernels = k;
}

static float *reserve(struct floats *f, size_t n, struct dlc_err *err)
{
    if (f->cap < n) {
        mem_free(&f->data);
        f->cap = 0;
        f->data = mem_try_alloc(n * sizeof(float));
        if (f->data == NULL)
            dlc_err_set(err, DLC_ENOMEM, "no memory for a sound of %zu samples", n);
        else
            f->cap = n;
    }
    return f->data;
}

/* To a random frame from which on there are `span`, or stay at the beginning. */
static int seek(struct job *j, uint64_t span, uint64_t key, uint64_t *left, struct dlc_err *err)
{
    struct rng r = {key};
    uint64_t frames = j->sound.frames, start = 0;

    if (j->spec->random_start && frames != UINT64_MAX && frames > span)
        start = rng_below(&r, frames - span + 1);
    *left = frames == UINT64_MAX ? frames : frames - start;
    return sound_seek(&j->sound, start, err);
}

/* Decode straight into the planes at `out`. */
static int make_plain(struct job *j, uint64_t key, float *out, size_t stride, struct dlc_err *err)
{
    uint64_t left;
    size_t got = 0;
    int rc = seek(j, j->spec->samples, key, &left, err);

    if (rc == 0)
        rc = sound_read(&j->sound, &j->s->block, DLC_MIN(j->spec->samples, left), j->spec->mono,
                        j->channels, out, stride, &got, err);
    j->length = (uint32_t)got;
    return rc;
}

/* Decode as far as the filter reaches, and filter from there. */
static int make_resampled(struct job *j, uint64_t key, float *out, size_t stride,
                          struct dlc_err *err)
{
    const struct resampler *r = j->resampler;
    uint64_t left, n = resample_reach(r, j->spec->samples);
    size_t got = 0, step;
    float *x;
    int rc = seek(j, resample_span(r, j->spec->samples), key, &left, err);

    if (rc != 0)
        return rc;
    n = DLC_MIN(n, left);
    step = (size_t)n + 2 * r->taps;
    x = reserve(&j->s->decoded, j->channels * step, err);
    if (x == NULL)
        return DLC_ENOMEM;
    rc = sound_read(&j->sound, &j->s->block, (size_t)n, j->spec->mono, j->channels, x + r->taps,
                    step, &got, err);
    if (rc != 0)
        return rc;
    j->length = (uint32_t)DLC_MIN(resample_length(r, got), j->spec->samples);
    for (uint32_t c = 0; c < j->channels; c++, x += step, out += stride) {
        memset(x, 0, r->taps * sizeof(float));
        memset(x + r->taps + got, 0, (step - r->taps - got) * sizeof(float));
        j->s->kernels->resample(r, x + r->taps, out, j->length);
    }
    return 0;
}

static int make_wave(struct job *j, uint64_t key, float *out, size_t stride, struct dlc_err *err)
{
    int rc = j->resampler == NULL ? make_plain(j, key, out, stride, err)
                                  : make_resampled(j, key, out, stride, err);

    for (uint32_t c = 0; rc == 0 && c < j->channels; c++)
        memset(out + c * stride + j->length, 0, (stride - j->length) * sizeof(float));
    return rc;
}

static int make_mel(struct job *j, uint64_t key, float *out, uint32_t *length, struct dlc_err *err)
{
    struct audio_scratch *s = j->s;
    uint32_t rate = j->spec->rate != 0 ? j->spec->rate : j->sound.rate, frames;
    size_t stride;
    float *wave;
    int rc = mel_set(&s->mel, &j->spec->mel, rate, s->kernels, err);

    if (rc != 0)
        return rc;
    frames = audio_frames(j->spec);
    stride = j->spec->samples + mel_reach(&s->mel);
    wave = reserve(&s->wave, j->channels * stride, err);
    if (wave == NULL)
        return DLC_ENOMEM;
    rc = make_wave(j, key, wave, stride, err);
    for (uint32_t c = 0; rc == 0 && c < j->channels; c++)
        *length = mel_make(&s->mel, s->kernels, wave + c * stride, j->length,
                           out + (size_t)c * j->spec->mel.mels * frames, frames);
    return rc;
}

static int make(struct job *j, uint64_t key, float *out, uint32_t *length, struct dlc_err *err)
{
    struct audio_scratch *s = j->s;
    uint32_t from = j->sound.rate, to = j->spec->rate;
    int rc = 0;

    if (to != 0 && to != from)
        rc = resamplers_get(&s->resamplers, from, to, &j->resampler, err);
    if (rc != 0)
        return rc;
    if (j->spec->mel.mels != 0)
        return make_mel(j, key, out, length, err);
    rc = make_wave(j, key, out, j->spec->samples, err);
    *length = rc == 0 ? j->length : 0;
    return rc;
}

int audio_make(struct audio_scratch *s, const void *data, size_t len, const struct audio_spec *spec,
               uint64_t key, void *out, uint32_t *length, struct dlc_err *err)
{
    struct job j = {.s = s, .spec = spec, .channels = audio_channels(spec)};
    uint64_t limit = spec->max_frames != 0 ? spec->max_frames : MAX_FRAMES;
    int rc;

    dlc_check(s->tag == TAG);
    *length = 0;
    rc = sound_open(&j.sound, data, len, limit, err);
    if (rc == 0)
        rc = make(&j, key, out, length, err);
    sound_close(&j.sound);
    return rc;
}
