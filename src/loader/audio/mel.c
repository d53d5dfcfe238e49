// SPDX-License-Identifier: Apache-2.0
#include "loader/audio/mel_i.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/audio/kernels_i.h"

#define ALIGN ((size_t)64)
#define FLOOR 1e-10f

uint32_t mel_frames(const struct audio_mel *spec, uint32_t samples)
{
    if (samples == 0)
        return 0;
    return samples < spec->fft ? 1 : 1 + (samples - spec->fft) / spec->hop;
}

size_t mel_reach(const struct mel *m)
{
    return (LANES - 1) * (size_t)m->spec.hop + (m->spec.fft - m->spec.window) / 2 + m->span;
}

static size_t mel_work(const struct mel *m)
{
    return (2 * (size_t)m->half + m->half + 1) * LANES;
}

static double mel_of(double hz)
{
    return 2595 * log10(1 + hz / 700);
}

static double hz_of(double mel)
{
    return 700 * (pow(10, mel / 2595) - 1);
}

/* Corner i of mels + 2, in Hz. */
static double corner(const struct audio_mel *spec, double high, uint32_t i)
{
    double low = mel_of(spec->low);

    return hz_of(low + (mel_of(high) - low) * i / (spec->mels + 1));
}

static void fill_filters(struct mel *m, double high)
{
    double width = (double)m->rate / m->spec.fft;
    uint32_t used = 0;

    for (uint32_t i = 0; i < m->spec.mels; i++) {
        double left = corner(&m->spec, high, i), top = corner(&m->spec, high, i + 1);
        double right = corner(&m->spec, high, i + 2);
        struct mel_filter *f = &m->filters[i];

        f->first = (uint32_t)(left / width) + 1;
        f->weight = used;
        for (uint32_t b = f->first; b <= m->half && b * width < right; b++) {
            double up = (b * width - left) / (top - left);
            double down = (right - b * width) / (right - top);

            m->weights[used++] = (float)DLC_MAX(DLC_MIN(up, down), 0.0);
        }
        f->count = used - f->weight;
    }
}

/* Where a transform of n points leaves point k. */
static uint32_t place_of(uint32_t k, uint32_t n)
{
    uint32_t at = 0;

    for (; n >= 4; n /= 4, k /= 4)
        at += k % 4 * (n / 4);
    return at + k;
}

static void fill(struct mel *m, double high)
{
    double fft = m->spec.fft;

    for (uint32_t i = 0; i < m->spec.window; i++)
        m->window[i] = (float)(0.25 - 0.25 * cos(2 * M_PI * i / m->spec.window));
    for (uint32_t k = 0; k < m->half; k++) {
        m->turn[2 * k] = (float)cos(2 * M_PI * k / m->half);
        m->turn[2 * k + 1] = (float)-sin(2 * M_PI * k / m->half);
        m->place[k] = place_of(k, m->half);
    }
    for (uint32_t k = 0; k <= m->half / 2; k++) {
        m->split[2 * k] = (float)cos(2 * M_PI * k / fft);
        m->split[2 * k + 1] = (float)sin(2 * M_PI * k / fft);
    }
    fill_filters(m, high);
}

/* The next n elements of the memory, or only their room where there is none yet. */
static void *carve(struct mel *m, size_t *at, size_t bytes)
{
    size_t begin = *at;

    *at += DLC_ALIGN_UP(bytes, ALIGN);
    return m->memory == NULL ? NULL
                             : (char *)DLC_ALIGN_UP((uintptr_t)m->memory, (uintptr_t)ALIGN) + begin;
}

static size_t lay_out(struct mel *m)
{
    size_t at = 0, half = m->half;

    m->window = carve(m, &at, m->span * sizeof(float));
    m->turn = carve(m, &at, 2 * half * sizeof(float));
    m->split = carve(m, &at, 2 * (half / 2 + 1) * sizeof(float));
    m->place = carve(m, &at, half * sizeof(uint32_t));
    m->filters = carve(m, &at, m->spec.mels * sizeof(struct mel_filter));
    m->weights = carve(m, &at, 2 * (half + 1) * sizeof(float));
    m->work = carve(m, &at, mel_work(m) * sizeof(float));
    return at + ALIGN;
}

/* What the kernel makes of zeros, so that padding is the same to the last bit. */
static int set_silence(struct mel *m, const struct audio_kernels *k, struct dlc_err *err)
{
    float *zeros = mem_try_zero((mel_reach(m) + m->spec.mels) * sizeof(float));

    if (zeros == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for a spectrogram");
    k->mel(m, zeros, m->work, zeros + mel_reach(m), 1, 1);
    m->silence = zeros[mel_reach(m)];
    mem_free(&zeros);
    return 0;
}

int mel_set(struct mel *m, const struct audio_mel *spec, uint32_t rate,
            const struct audio_kernels *k, struct dlc_err *err)
{
    double high = spec->high == 0 ? rate / 2.0 : (double)spec->high;
    int rc;

    if (m->rate == rate && memcmp(&m->spec, spec, sizeof(*spec)) == 0)
        return 0;
    if (high > rate / 2.0 || spec->low >= high)
        return dlc_err_set(
            err, DLC_EINVAL,
            "has a rate of %u Hz, too low for mel filters from %g to %g Hz; resample "
            "it (rate) or lower the filters",
            rate, (double)spec->low, high);
    mel_release(m);
    m->spec = *spec;
    m->half = spec->fft / 2;
    m->span = DLC_ALIGN_UP(spec->window, (uint32_t)LANES);
    m->floor = spec->floor == 0 ? FLOOR : spec->floor;
    m->memory = mem_try_zero(lay_out(m));
    if (m->memory == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for a spectrogram");
    lay_out(m);
    m->rate = rate;
    fill(m, high);
    rc = set_silence(m, k, err);
    if (rc != 0)
        mel_release(m);
    return rc;
}

void mel_release(struct mel *m)
{
    mem_free(&m->memory);
    *m = (struct mel){0};
}

uint32_t mel_make(const struct mel *m, const struct audio_kernels *k, const float *wave, uint32_t n,
                  float *out, uint32_t frames)
{
    uint32_t there = DLC_MIN(mel_frames(&m->spec, n), frames);

    for (uint32_t t = 0; t < there; t += LANES)
        k->mel(m, wave + (size_t)t * m->spec.hop, m->work, out + t, frames,
               DLC_MIN((uint32_t)LANES, there - t));
    for (size_t i = 0; there < frames && i < m->spec.mels; i++)
        for (uint32_t t = there; t < frames; t++)
            out[i * frames + t] = m->silence;
    return there;
}
