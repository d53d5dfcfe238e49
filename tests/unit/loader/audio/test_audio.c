// SPDX-License-Identifier: Apache-2.0
/* A sample as the loader asks for it: cut, padded, at its rate, as a spectrogram. */
#include "sounds.h"

#include "base/fault.h"
#include "base/mem.h"
#include "loader/audio/audio_i.h"
#include "loader/audio/kernels_i.h"
#include "loader/audio/mel_i.h"

#define FRAMES 20000

static struct audio_scratch *scratch;
static float in[FRAMES * 2], out[FRAMES * 8], other[FRAMES * 8];
static struct buf mono, stereo; /* FRAMES of FLAC at 16 kHz */

static int set_up(void **state)
{
    (void)state;
    scratch = audio_scratch_new();
    sounds_fill(in, FRAMES, 2);
    stereo = sounds_encode(in, FRAMES, 2, 16000, FLAC16);
    sounds_fill(in, FRAMES, 1);
    mono = sounds_encode(in, FRAMES, 1, 16000, FLAC16);
    sounds_decode(&mono, in, FRAMES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&mono);
    buf_release(&stereo);
    audio_scratch_free(&scratch);
    assert_null(scratch);
    return 0;
}

static void test_cut_and_padded(void **state)
{
    struct audio_spec spec = {.mono = true};

    (void)state;
    for (spec.samples = FRAMES - 2; spec.samples <= FRAMES + 2; spec.samples++) {
        uint32_t n = spec.samples < FRAMES ? spec.samples : FRAMES;

        memset(out, 0xff, sizeof(out));
        assert_int_equal(audio_bytes(&spec), spec.samples * 4);
        assert_int_equal(sounds_make(scratch, &mono, &spec, 1, out), n);
        assert_memory_equal(out, in, n * 4);
        for (size_t i = n; i < spec.samples; i++)
            assert_true(out[i] == 0);
        assert_true(isnan(out[spec.samples])); /* no further */
    }
}

static void test_channels(void **state)
{
    struct audio_spec spec = {.samples = FRAMES + 10, .channels = 3},
                      one = {.samples = FRAMES + 10, .mono = true};
    size_t n = spec.samples;

    (void)state;
    assert_int_equal(audio_bytes(&spec), 3 * n * 4);
    assert_int_equal(sounds_make(scratch, &stereo, &spec, 1, out), FRAMES);
    assert_int_equal(sounds_make(scratch, &stereo, &one, 1, other), FRAMES);
    assert_memory_equal(out + n, out + 2 * n, n * 4);
    for (size_t i = 0; i < n; i++)
        assert_true(other[i] == (out[i] + out[n + i]) / 2);
    for (size_t i = FRAMES; i < n; i++)
        assert_true(out[i] == 0 && out[n + i] == 0);
}

/* Where in the sound is this? Its noise makes every place another. */
static size_t place_of(const float *x, size_t n)
{
    for (size_t i = 0; i + n <= FRAMES; i++)
        if (memcmp(in + i, x, n * sizeof(float)) == 0)
            return i;
    fail_msg("it is nowhere in the sound");
    return 0;
}

static void test_random_start(void **state)
{
    struct audio_spec spec = {.samples = 5000, .mono = true, .random_start = true};
    size_t low = FRAMES, high = 0;

    (void)state;
    for (uint64_t key = 0; key < 64; key++) {
        size_t at;

        assert_int_equal(sounds_make(scratch, &mono, &spec, key, out), 5000);
        assert_int_equal(sounds_make(scratch, &mono, &spec, key, other), 5000);
        assert_memory_equal(out, other, 5000 * 4);
        at = place_of(out, 5000);
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    assert_true(low < 1500 && high > 13500 && high <= 15000);
    spec.samples = FRAMES; /* only one place for it */
    assert_int_equal(sounds_make(scratch, &mono, &spec, 7, out), FRAMES);
    assert_memory_equal(out, in, FRAMES * 4);
    spec.samples = FRAMES + 1;
    assert_int_equal(sounds_make(scratch, &mono, &spec, 7, out), FRAMES);
    assert_memory_equal(out, in, FRAMES * 4);
}

static void test_first_and_last_start_are_drawn(void **state)
{
    struct audio_spec spec = {.samples = FRAMES - 1, .mono = true, .random_start = true};
    unsigned seen[2] = {0};

    (void)state;
    for (uint64_t key = 0; key < 32; key++) {
        sounds_make(scratch, &mono, &spec, key, out);
        seen[place_of(out, FRAMES - 1)]++;
    }
    assert_true(seen[0] > 4 && seen[1] > 4);
}

/* What a cut needs is decoded, and it is the beginning of the whole. */
static void test_a_cut_is_the_beginning_of_the_whole(void **state)
{
    static const uint32_t rates[] = {8000, 44100, 16001, 0};
    struct audio_spec spec = {.channels = 2};

    (void)state;
    for (size_t i = 0; i < unit_count(rates); i++) {
        spec.rate = rates[i];
        spec.samples = FRAMES * 3;
        sounds_make(scratch, &stereo, &spec, 0, out);
        for (uint32_t n = 1; n < 9000; n += 1999) {
            struct audio_spec cut = spec;

            cut.samples = n;
            assert_int_equal(sounds_make(scratch, &stereo, &cut, 0, other), n);
            assert_memory_equal(other, out, n * 4);
            assert_memory_equal(other + n, out + spec.samples, n * 4);
        }
    }
}

static void test_lengths_after_resampling(void **state)
{
    struct audio_spec spec = {.samples = FRAMES * 4, .mono = true, .rate = 8000};

    (void)state;
    assert_int_equal(sounds_make(scratch, &mono, &spec, 0, out), FRAMES / 2);
    spec.rate = 44100;
    assert_int_equal(sounds_make(scratch, &mono, &spec, 0, out), FRAMES * 441 / 160);
    spec.rate = 16000;
    assert_int_equal(sounds_make(scratch, &mono, &spec, 0, out), FRAMES);
    assert_memory_equal(out, in, FRAMES * 4);
}

static void test_random_start_fits_after_resampling(void **state)
{
    struct audio_spec spec = {
        .samples = FRAMES / 2 - 10, .mono = true, .rate = 8000, .random_start = true};

    (void)state;
    for (uint64_t key = 0; key < 32; key++)
        assert_int_equal(sounds_make(scratch, &mono, &spec, key, out), spec.samples);
}

static const struct audio_mel speech = {.mels = 80, .fft = 512, .window = 400, .hop = 160};

static void test_mel_is_that_of_the_wave(void **state)
{
    struct audio_spec spec = {.samples = FRAMES + 3000, .channels = 2, .mel = speech};
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t frames = audio_frames(&spec);
    size_t each = 80 * (size_t)frames;
    struct mel m = {0};
    float *wave;

    (void)state;
    assert_int_equal(audio_bytes(&spec), 2 * each * 4);
    assert_int_equal(sounds_make(scratch, &mono, &spec, 0, out), mel_frames(&speech, FRAMES));
    assert_int_equal(mel_set(&m, &speech, 16000, audio_kernels_best(), &err), 0);
    wave = mem_zero((FRAMES + mel_reach(&m)) * sizeof(float));
    memcpy(wave, in, FRAMES * sizeof(float));
    mel_make(&m, audio_kernels_best(), wave, FRAMES, other, frames);
    assert_memory_equal(out, other, each * 4);
    assert_memory_equal(out + each, other, each * 4); /* the missing channel is a copy */
    mem_free(&wave);
    mel_release(&m);
}

static void test_both_kernels_through_and_through(void **state)
{
#ifdef __x86_64__
    struct audio_spec spec = {.samples = 9000, .channels = 2, .rate = 22050, .mel = speech};
    struct audio_scratch *plain = audio_scratch_new();

    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    audio_scratch_use(plain, &audio_kernels_plain);
    sounds_make(plain, &stereo, &spec, 0, out);
    sounds_make(scratch, &stereo, &spec, 0, other);
    assert_memory_equal(out, other, audio_bytes(&spec));
    audio_scratch_free(&plain);
#else
    (void)state;
    skip();
#endif
}

static void test_a_short_sound_has_one_frame(void **state)
{
    struct audio_spec spec = {.samples = 5000, .mono = true, .mel = speech};
    struct buf b = sounds_encode(in, 100, 1, 16000, WAV16);

    (void)state;
    assert_int_equal(sounds_make(scratch, &b, &spec, 0, out), 1);
    for (size_t m = 0; m < 80; m++)
        for (uint32_t t = 1; t < audio_frames(&spec); t++)
            assert_true(out[m * audio_frames(&spec) + t] < -23);
    buf_release(&b);
}

#define REFUSED(words, change)                                                                     \
    do {                                                                                           \
        struct audio_spec s = good;                                                                \
                                                                                                   \
        change;                                                                                    \
        check_refused(&s, words);                                                                  \
    } while (0)

static void check_refused(const struct audio_spec *spec, const char *words)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(audio_check_spec(spec, &err), DLC_EINVAL);
    if (strstr(err.text, words) == NULL)
        fail_msg("expected '%s' in: %s", words, err.text);
}

static void test_specs_that_are_refused(void **state)
{
    const struct audio_spec good = {.samples = 100, .mono = true, .rate = 16000, .mel = speech};

    (void)state;
    assert_int_equal(audio_check_spec(&good, NULL), 0);
    REFUSED("samples is 0", s.samples = 0);
    REFUSED("samples is", s.samples = UINT32_MAX);
    REFUSED("rate is", s.rate = UINT32_MAX);
    REFUSED("channels is 0", s.mono = false);
    REFUSED("channels is 1025", s.mono = false; s.channels = 1025);
    REFUSED("mels is", s.mel.mels = 100000);
    REFUSED("fft is 500", s.mel.fft = 500);
    REFUSED("fft is 8;", s.mel.fft = 8);
    REFUSED("fft is", s.mel.fft = 1u << 31);
    REFUSED("window is 513", s.mel.window = 513);
    REFUSED("window is 0", s.mel.window = 0);
    REFUSED("hop is 0", s.mel.hop = 0);
    REFUSED("low must be below", s.mel.low = 300; s.mel.high = 200);
    REFUSED("low must be below", s.mel.low = NAN);
    REFUSED("low must be below", s.mel.high = INFINITY);
    REFUSED("at most half", s.mel.high = 9000);
    REFUSED("at most half", s.mel.low = 8000);
    REFUSED("floor is", s.mel.floor = -1);
    REFUSED("floor is", s.mel.floor = NAN);
}

static void test_no_memory(void **state)
{
    struct audio_spec spec = {.samples = 9000, .mono = true, .rate = 22050, .mel = speech};
    bool fired = true;
    int nth;

    (void)state;
    for (nth = 1; fired; nth++) {
        struct audio_scratch *s = audio_scratch_new();
        struct dlc_err err = DLC_ERR_INIT;
        uint32_t length;
        int rc;

        fault_arm(FAULT_ALLOC, nth);
        rc = audio_make(s, stereo.data, stereo.len, &spec, 0, out, &length, &err);
        fired = fault_disarm();
        assert_int_equal(rc, fired ? DLC_ENOMEM : 0);
        assert_true(!fired || strstr(err.text, "no memory") != NULL);
        assert_int_equal(audio_make(s, stereo.data, stereo.len, &spec, 0, out, &length, &err), 0);
        audio_scratch_free(&s);
    }
    assert_true(nth > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_and_padded),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_random_start),
        cmocka_unit_test(test_first_and_last_start_are_drawn),
        cmocka_unit_test(test_a_cut_is_the_beginning_of_the_whole),
        cmocka_unit_test(test_lengths_after_resampling),
        cmocka_unit_test(test_random_start_fits_after_resampling),
        cmocka_unit_test(test_mel_is_that_of_the_wave),
        cmocka_unit_test(test_both_kernels_through_and_through),
        cmocka_unit_test(test_a_short_sound_has_one_frame),
        cmocka_unit_test(test_specs_that_are_refused),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
