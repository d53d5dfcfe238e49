// SPDX-License-Identifier: Apache-2.0
/* The spectrogram against mel_i.h's formulas in double precision, and the two kernels against each
 * other. */
#include "sounds.h"

#include <float.h>

#include "base/fault.h"
#include "base/mem.h"
#include "loader/audio/kernels_i.h"
#include "loader/audio/mel_i.h"

#define TOLERANCE 1e-4 /* A3; the noise in the sounds keeps all mels above -60 dB */
#define N         6000

static const struct audio_mel specs[] = {
    {80, 512, 400, 160, 0, 0, 0},      {40, 256, 200, 80, 20, 3800, 1e-6f},
    {23, 1024, 1024, 256, 0, 8000, 0}, {128, 2048, 1001, 333, 0, 0, 0},
    {3, 16, 16, 1, 0, 0, 0},           {5, 32, 7, 3, 0, 0, 0},
    {1, 64, 1, 1000, 100, 200, 0},     {10, 128, 127, 5000, 0, 0, 0},
};

static struct mel mel;
static float wave[N + 100000];

static void set(const struct audio_mel *spec, const struct audio_kernels *k)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (mel_set(&mel, spec, 16000, k, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(N + mel_reach(&mel) <= unit_count(wave));
}

static float *make(const struct audio_mel *spec, const struct audio_kernels *k, uint32_t n,
                   uint32_t frames)
{
    float *out = mem_zero((size_t)spec->mels * frames * sizeof(float));

    memset(wave, 0, sizeof(wave));
    sounds_fill(wave, n, 1);
    set(spec, k);
    mel_make(&mel, k, wave, n, out, frames);
    return out;
}

static double power_at(const struct audio_mel *s, size_t t, size_t bin)
{
    double re = 0, im = 0;

    for (size_t i = 0; i < s->window; i++) {
        double w = 0.5 - 0.5 * cos(2 * M_PI * (double)i / s->window);
        double x = w * (double)wave[t * s->hop + (s->fft - s->window) / 2 + i];

        re += x * cos(2 * M_PI * (double)(i * bin % s->fft) / s->fft);
        im -= x * sin(2 * M_PI * (double)(i * bin % s->fft) / s->fft);
    }
    return re * re + im * im;
}

static double corner(const struct audio_mel *s, double i)
{
    double high = s->high == 0 ? 8000 : (double)s->high;
    double from = 2595 * log10(1 + (double)s->low / 700), to = 2595 * log10(1 + high / 700);

    return 700 * (pow(10, (from + (to - from) * i / (s->mels + 1)) / 2595) - 1);
}

static double formula(const struct audio_mel *s, const double *powers, size_t m)
{
    double left = corner(s, (double)m), top = corner(s, (double)m + 1);
    double right = corner(s, (double)m + 2), sum = 0;

    for (size_t b = 0; b <= s->fft / 2; b++) {
        double hz = (double)b * 16000 / s->fft;
        double weight = fmin((hz - left) / (top - left), (right - hz) / (right - top));

        sum += fmax(weight, 0) * powers[b];
    }
    return log(fmax(sum, s->floor == 0 ? 1e-10 : (double)s->floor));
}

static void check_frame(const struct audio_mel *s, const float *out, uint32_t frames, size_t t)
{
    static double powers[AUDIO_FFT_MAX / 2 + 1];

    for (size_t b = 0; b <= s->fft / 2; b++)
        powers[b] = power_at(s, t, b);
    for (size_t m = 0; m < s->mels; m++) {
        double want = formula(s, powers, m), is = (double)out[m * frames + t];

        if (!(fabs(is - want) < TOLERANCE))
            fail_msg("fft %u, mel %zu of frame %zu: %.7g, not %.7g", s->fft, m, t, is, want);
    }
}

static void test_equals_the_formulas(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(specs); i++) {
        uint32_t frames = mel_frames(&specs[i], N);
        float *out = make(&specs[i], &audio_kernels_plain, N, frames);

        for (size_t t = 0; t < frames; t += t < 9 || t + 9 > frames ? 1 : 1 + frames / 8)
            check_frame(&specs[i], out, frames, t);
        mem_free(&out);
    }
}

static void test_kernels_give_the_same_bytes(void **state)
{
#ifdef __x86_64__
    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    for (size_t i = 0; i < unit_count(specs); i++)
        for (uint32_t n = N - 500; n < N; n += 167) {
            uint32_t frames = mel_frames(&specs[i], N);
            float *a = make(&specs[i], &audio_kernels_plain, n, frames);
            float *b = make(&specs[i], &audio_kernels_avx2, n, frames);

            assert_memory_equal(a, b, (size_t)specs[i].mels * frames * sizeof(float));
            mem_free(&a);
            mem_free(&b);
        }
#else
    (void)state;
    skip();
#endif
}

static void test_frames(void **state)
{
    const struct audio_mel *s = &specs[0];

    (void)state;
    assert_int_equal(mel_frames(s, 0), 0);
    assert_int_equal(mel_frames(s, 1), 1);
    assert_int_equal(mel_frames(s, 512), 1);
    assert_int_equal(mel_frames(s, 671), 1);
    assert_int_equal(mel_frames(s, 672), 2);
    assert_int_equal(mel_frames(s, 16000), 97);
}

/* What is beyond the sound is silence, and a frame of zeros is the same silence. */
static void test_silence(void **state)
{
    const struct audio_kernels *k = audio_kernels_best();
    float *out = make(&specs[0], k, 1000, 20);
    uint32_t there = mel_frames(&specs[0], 1000);

    (void)state;
    assert_int_equal(there, 4);
    for (size_t m = 0; m < specs[0].mels; m++)
        for (size_t t = 0; t < 20; t++)
            assert_true(t < there ? out[m * 20 + t] > -20 : out[m * 20 + t] == mel.silence);
    assert_true(fabs((double)mel.silence - log(1e-10)) < 1e-5);
    memset(wave, 0, sizeof(wave));
    assert_int_equal(mel_make(&mel, k, wave, N, out, 20), 20);
    for (size_t i = 0; i < 20 * (size_t)specs[0].mels; i++)
        assert_true(out[i] == mel.silence);
    mem_free(&out);
}

static void test_the_loudest_stays_finite(void **state)
{
    const struct audio_kernels *k = audio_kernels_best();
    float *out = make(&specs[0], k, 1000, 4);

    (void)state;
    for (size_t i = 0; i < N; i++)
        wave[i] = i % 2 == 0 ? 1e30f : -1e30f;
    mel_make(&mel, k, wave, N, out, 4);
    for (size_t i = 0; i < 4 * (size_t)specs[0].mels; i++)
        assert_true(out[i] > -24 && out[i] <= (float)log((double)FLT_MAX) + 1e-4f);
    mem_free(&out);
}

static void test_rate_too_low(void **state)
{
    struct audio_mel s = specs[1];
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(mel_set(&mel, &s, 7000, audio_kernels_best(), &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "7000 Hz, too low"));
    assert_int_equal(mel_set(&mel, &s, 8000, audio_kernels_best(), &err), 0);
}

static void test_no_memory(void **state)
{
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct dlc_err err = DLC_ERR_INIT;
        int rc;

        mel_release(&mel);
        fault_arm(FAULT_ALLOC, nth);
        rc = mel_set(&mel, &specs[0], 16000, audio_kernels_best(), &err);
        fired = fault_disarm();
        assert_int_equal(rc, fired ? DLC_ENOMEM : 0);
        assert_true(fired || nth > 2);
    }
}

static int release(void **state)
{
    (void)state;
    mel_release(&mel);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_formulas),
        cmocka_unit_test(test_kernels_give_the_same_bytes),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_the_loudest_stays_finite),
        cmocka_unit_test(test_rate_too_low),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
