// SPDX-License-Identifier: Apache-2.0
/* The filter against its formula in double precision, sines that must survive or vanish, and the
 * two kernels against each other. */
#include "sounds.h"

#include "base/fault.h"
#include "base/mem.h"
#include "loader/audio/audio_i.h"
#include "loader/audio/kernels_i.h"
#include "loader/audio/resample_i.h"

#define TOLERANCE 2e-6 /* of the loudest sample: A3 */

static const uint32_t pairs[][2] = {{8000, 16000},  {16000, 8000},  {44100, 16000}, {48000, 16000},
                                    {22050, 16000}, {16000, 44100}, {11025, 8000},  {16000, 16001},
                                    {192000, 8000}, {7, 3},         {1, 200}};

static struct resamplers resamplers;

static double bessel(double x)
{
    double sum = 1, term = 1;

    for (int k = 1; k < 60; k++)
        sum += term *= x * x / (4.0 * k * k);
    return sum;
}

/* h of resample_i.h, not yet scaled. */
static double tap(long i, long half, long max)
{
    double at = (double)(i - half), edge = at / (double)half;
    double sinc = i == half ? 1 : sin(M_PI * at / (double)max) / (M_PI * at / (double)max);

    return i < 0 || i > 2 * half ? 0 : sinc * bessel(5 * sqrt(1 - edge * edge));
}

static long divisor(long a, long b)
{
    return b == 0 ? a : divisor(b, a % b);
}

/* y[j], straight from the formula. */
static double formula(const float *x, long n, long from, long to, long j)
{
    long d = divisor(from, to), up = to / d, down = from / d;
    long max = up > down ? up : down, half = 10 * max;
    static long known_up, known_down;
    static double scale;
    double sum = 0;

    if (known_up != up || known_down != down) {
        double total = 0;

        for (long i = 0; i <= 2 * half; i++)
            total += tap(i, half, max);
        scale = (double)up / total;
        known_up = up;
        known_down = down;
    }
    for (long k = (j * down - half) / up - 1; k <= (j * down + half) / up + 1; k++)
        if (k >= 0 && k < n)
            sum += (double)x[k] * tap(j * down - k * up + half, half, max);
    return sum * scale;
}

/* n samples of x resampled whole by these kernels, into memory of the caller's. */
static float *resample(const struct audio_kernels *k, uint32_t from, uint32_t to, const float *x,
                       size_t n, size_t *out_n)
{
    struct dlc_err err = DLC_ERR_INIT;
    const struct resampler *r;
    float *padded, *out;

    if (resamplers_get(&resamplers, from, to, &r, &err) != 0)
        fail_msg("%s", err.text);
    *out_n = resample_length(r, n);
    padded = mem_zero((n + 2 * r->taps) * sizeof(float));
    out = mem_zero(*out_n * sizeof(float));
    memcpy(padded + r->taps, x, n * sizeof(float));
    k->resample(r, padded + r->taps, out, *out_n);
    mem_free(&padded);
    return out;
}

static void test_equals_the_formula(void **state)
{
    static float x[2000];

    (void)state;
    sounds_fill(x, unit_count(x), 1);
    for (size_t p = 0; p < unit_count(pairs); p++) {
        size_t n;
        float *y = resample(&audio_kernels_plain, pairs[p][0], pairs[p][1], x, unit_count(x), &n);

        assert_int_equal(n,
                         (unit_count(x) * (uint64_t)pairs[p][1] + pairs[p][0] - 1) / pairs[p][0]);
        for (size_t j = 0; j < n; j += j < 50 || j + 50 > n ? 1 : 1 + n / 100) {
            double want = formula(x, unit_count(x), pairs[p][0], pairs[p][1], (long)j);

            if (!(fabs((double)y[j] - want) < TOLERANCE * 0.5))
                fail_msg("%u to %u: [%zu] is %.9g, not %.9g", pairs[p][0], pairs[p][1], j,
                         (double)y[j], want);
        }
        mem_free(&y);
    }
}

static void test_kernels_give_the_same_bytes(void **state)
{
#ifdef __x86_64__
    static float x[3001];

    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    sounds_fill(x, unit_count(x), 1);
    for (size_t p = 0; p < unit_count(pairs); p++) {
        size_t n, m;
        float *a = resample(&audio_kernels_plain, pairs[p][0], pairs[p][1], x, unit_count(x), &n);
        float *b = resample(&audio_kernels_avx2, pairs[p][0], pairs[p][1], x, unit_count(x), &m);

        assert_int_equal(n, m);
        assert_memory_equal(a, b, n * sizeof(float));
        mem_free(&a);
        mem_free(&b);
    }
#else
    (void)state;
    skip();
#endif
}

/* The greatest difference from a sine in the middle of the sound, where no edge is felt. */
static double sine_error(uint32_t from, uint32_t to, double hz, double amplitude)
{
    static float x[20000];
    double worst = 0;
    size_t n;
    float *y;

    for (size_t i = 0; i < unit_count(x); i++)
        x[i] = (float)sin(2 * M_PI * hz * (double)i / from);
    y = resample(audio_kernels_best(), from, to, x, unit_count(x), &n);
    for (size_t j = n / 4; j < n * 3 / 4; j++)
        worst = fmax(worst, fabs((double)y[j] - amplitude * sin(2 * M_PI * hz * (double)j / to)));
    mem_free(&y);
    return worst;
}

static void test_sines_survive_or_vanish(void **state)
{
    (void)state;
    assert_true(sine_error(8000, 16000, 1000, 1) < 5e-3);
    assert_true(sine_error(44100, 16000, 1000, 1) < 5e-3);
    assert_true(sine_error(48000, 16000, 440, 1) < 5e-3);
    assert_true(sine_error(48000, 16000, 12000, 0) < 5e-3); /* would be heard as 4 kHz */
    assert_true(sine_error(44100, 8000, 6000, 0) < 5e-3);
}

static void test_reach_and_span(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    const struct resampler *r;

    (void)state;
    assert_int_equal(resamplers_get(&resamplers, 44100, 16000, &r, &err), 0);
    assert_int_equal(r->up, 160);
    assert_int_equal(r->down, 441);
    assert_int_equal(resample_length(r, 441), 160);
    assert_int_equal(resample_length(r, 442), 161);
    assert_int_equal(resample_span(r, 160), 441);
    assert_int_equal(resample_span(r, 161), 444);
    assert_int_equal(resample_reach(r, 0), 0);
    assert_int_equal(resample_reach(r, 1), 4410 / 160 + 1);
    assert_int_equal(resample_reach(r, 161), (160 * 441 + 4410) / 160 + 1);
}

static void test_tables_are_kept_and_replaced(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    const struct resampler *first, *r;
    const float *table;

    (void)state;
    resamplers_release(&resamplers);
    assert_int_equal(resamplers_get(&resamplers, 8000, 16000, &first, &err), 0);
    table = first->table;
    for (uint32_t rate = 1; rate < RESAMPLERS; rate++) {
        assert_int_equal(resamplers_get(&resamplers, 8000, 16000 + 8000 * rate, &r, &err), 0);
        assert_ptr_not_equal(r, first);
    }
    assert_int_equal(resamplers_get(&resamplers, 8000, 16000, &r, &err), 0);
    assert_ptr_equal(r->table, table);
    assert_int_equal(resamplers_get(&resamplers, 11025, 16000, &r, &err), 0);
    assert_ptr_not_equal(r, first); /* it was used last but one */
    assert_int_equal(resamplers_get(&resamplers, 8000, 16000, &r, &err), 0);
    assert_ptr_equal(r->table, table);
}

static void test_rates_that_are_refused(void **state)
{
    static const uint32_t refused[][2] = {
        {16777213, 8000}, {16000, 16777213}, {999983, 1000003}, {8000, 16000000}};
    const struct resampler *r;

    (void)state;
    for (size_t i = 0; i < unit_count(refused); i++) {
        struct dlc_err err = DLC_ERR_INIT;

        assert_int_equal(resamplers_get(&resamplers, refused[i][0], refused[i][1], &r, &err),
                         DLC_EINVAL);
        assert_non_null(strstr(err.text, "cannot be resampled"));
    }
}

static void test_no_memory(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    const struct resampler *r;

    (void)state;
    resamplers_release(&resamplers);
    fault_arm(FAULT_ALLOC, 1);
    assert_int_equal(resamplers_get(&resamplers, 8000, 16000, &r, &err), DLC_ENOMEM);
    assert_true(fault_disarm());
    assert_int_equal(resamplers_get(&resamplers, 8000, 16000, &r, &err), 0);
}

static int release(void **state)
{
    (void)state;
    resamplers_release(&resamplers);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_formula),
        cmocka_unit_test(test_kernels_give_the_same_bytes),
        cmocka_unit_test(test_sines_survive_or_vanish),
        cmocka_unit_test(test_reach_and_span),
        cmocka_unit_test(test_tables_are_kept_and_replaced),
        cmocka_unit_test(test_rates_that_are_refused),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
