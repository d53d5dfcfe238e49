// SPDX-License-Identifier: Apache-2.0
/* Frames of every format, as libsndfile gives them, in planes. */
#include "sounds.h"

#include "base/mem.h"
#include "loader/audio/decode_i.h"

#define FRAMES 30000

static float in[FRAMES * 6], expected[FRAMES * 6], got[FRAMES * 8];
static struct sound_block block;

/* Decode n frames from `start` on, as planes of FRAMES. */
static void decode(const struct buf *b, uint64_t start, size_t n, bool mean, uint32_t planes)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct sound s;
    size_t there = 0;

    if (sound_open(&s, b->data, b->len, FRAMES, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(sound_seek(&s, start, &err), 0);
    if (sound_read(&s, &block, n, mean, planes, got, FRAMES, &there, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(there, n);
    sound_close(&s);
}

static void check_format(int format, int channels, int rate)
{
    struct buf b;
    size_t n;

    sounds_fill(in, FRAMES, channels);
    b = sounds_encode(in, FRAMES, channels, rate, format);
    n = sounds_decode(&b, expected, FRAMES * 6);
    assert_int_equal(n, FRAMES);
    decode(&b, 0, n, false, (uint32_t)channels);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < (size_t)channels; c++)
            assert_memory_equal(&got[c * FRAMES + i], &expected[i * (size_t)channels + c], 4);
    buf_release(&b);
}

static void test_every_format(void **state)
{
    static const int formats[] = {WAV16,
                                  WAV24,
                                  WAV_F32,
                                  FLAC16,
                                  FLAC24,
                                  VORBIS,
                                  OPUS,
                                  SF_FORMAT_WAV | SF_FORMAT_PCM_U8,
                                  SF_FORMAT_WAV | SF_FORMAT_PCM_32,
                                  SF_FORMAT_WAV | SF_FORMAT_DOUBLE,
                                  SF_FORMAT_WAV | SF_FORMAT_ULAW,
                                  SF_FORMAT_WAV | SF_FORMAT_ALAW,
                                  SF_FORMAT_WAVEX | SF_FORMAT_PCM_16,
                                  SF_FORMAT_RF64 | SF_FORMAT_PCM_16};

    (void)state;
    for (size_t i = 0; i < unit_count(formats); i++)
        for (int channels = 1; channels <= 6; channels += channels == 1 ? 1 : 4)
            if (formats[i] != VORBIS || channels <= 2) /* libvorbisenc leaks at six */
                check_format(formats[i], channels, 48000);
}

static void test_integers_are_divided_by_their_range(void **state)
{
    const float x[] = {0, 0.5f, -0.5f, -1, 32767 / 32768.0f, 1 / 32768.0f};
    struct buf b = sounds_encode(x, 6, 1, 8000, WAV16);

    (void)state;
    decode(&b, 0, 6, false, 1);
    assert_memory_equal(got, x, sizeof(x));
    buf_release(&b);
}

static void test_from_the_middle(void **state)
{
    static const int formats[] = {WAV16, FLAC16, WAV_F32};

    (void)state;
    sounds_fill(in, FRAMES, 2);
    for (size_t f = 0; f < unit_count(formats); f++) {
        struct buf b = sounds_encode(in, FRAMES, 2, 16000, formats[f]);

        sounds_decode(&b, expected, FRAMES * 6);
        decode(&b, 12345, 7000, false, 2);
        for (size_t i = 0; i < 7000; i++) {
            assert_memory_equal(&got[i], &expected[2 * (12345 + i)], 4);
            assert_memory_equal(&got[FRAMES + i], &expected[2 * (12345 + i) + 1], 4);
        }
        buf_release(&b);
    }
}

static void check_mean(int channels)
{
    struct buf b;

    sounds_fill(in, FRAMES, channels);
    b = sounds_encode(in, FRAMES, channels, 16000, FLAC16);
    sounds_decode(&b, expected, FRAMES * 6);
    decode(&b, 0, FRAMES, true, 1);
    for (size_t i = 0; i < FRAMES; i++) {
        double sum = 0;

        for (size_t c = 0; c < (size_t)channels; c++)
            sum += (double)expected[i * (size_t)channels + c];
        assert_true(fabs((double)got[i] - sum / channels) < 1e-7);
        if (channels <= 2)
            assert_true(got[i] == (float)(sum / channels));
    }
    buf_release(&b);
}

static void test_mean_of_channels(void **state)
{
    (void)state;
    check_mean(1);
    check_mean(2);
    check_mean(3);
    check_mean(6);
}

static void test_missing_channels_are_copies_of_the_last(void **state)
{
    (void)state;
    for (uint32_t channels = 1; channels <= 2; channels++) {
        struct buf b;

        sounds_fill(in, FRAMES, (int)channels);
        b = sounds_encode(in, FRAMES, (int)channels, 16000, FLAC16);
        memset(got, 0, sizeof(got));
        decode(&b, 0, FRAMES, false, 4);
        for (uint32_t c = channels; c < 4; c++)
            assert_memory_equal(got + c * FRAMES, got + (channels - 1) * FRAMES, FRAMES * 4);
        assert_true(channels == 1 || memcmp(got, got + FRAMES, FRAMES * 4) != 0);
        buf_release(&b);
    }
}

static void test_fewer_channels_than_there_are(void **state)
{
    struct buf b;

    (void)state;
    sounds_fill(in, FRAMES, 6);
    b = sounds_encode(in, FRAMES, 6, 16000, WAV16);
    sounds_decode(&b, expected, FRAMES * 6);
    memset(got, 0, sizeof(got));
    decode(&b, 0, FRAMES, false, 2);
    for (size_t i = 0; i < FRAMES; i++) {
        assert_true(got[i] == expected[6 * i] && got[FRAMES + i] == expected[6 * i + 1]);
        assert_true(got[2 * FRAMES + i] == 0);
    }
    buf_release(&b);
}

static int release(void **state)
{
    (void)state;
    mem_free(&block.data);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format),
        cmocka_unit_test(test_integers_are_divided_by_their_range),
        cmocka_unit_test(test_from_the_middle),
        cmocka_unit_test(test_mean_of_channels),
        cmocka_unit_test(test_missing_channels_are_copies_of_the_last),
        cmocka_unit_test(test_fewer_channels_than_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
