// SPDX-License-Identifier: Apache-2.0
/* Sounds that are damaged, lie, or are none: refused with a reason, and never a crash. */
#include "sounds.h"

#include "base/check.h"

#define FRAMES 8000

static struct audio_scratch *scratch;
static float in[FRAMES], out[FRAMES * 2];
static const struct audio_spec all = {.samples = FRAMES * 2, .mono = true};

static int set_up(void **state)
{
    (void)state;
    scratch = audio_scratch_new();
    sounds_fill(in, FRAMES, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    audio_scratch_free(&scratch);
    return 0;
}

static void refuse(const void *data, size_t len, int code, const char *words)
{
    sounds_refuse(scratch, data, len, &all, out, code, words);
}

static void put(struct buf *b, size_t at, uint32_t v, size_t bytes)
{
    assert_true(at + bytes <= b->len);
    for (size_t i = 0; i < bytes; i++)
        b->data[at + i] = (char)(v >> 8 * i);
}

static void test_no_sound_at_all(void **state)
{
    static const char *const texts[] = {"",
                                        "R",
                                        "RIFF",
                                        "hello, I am a text file",
                                        "FORM....AIFF",
                                        "RIFF\1\0\0\0AVI LIST",
                                        "ID3 and so on, an mp3 file"};

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++)
        refuse(texts[i], strlen(texts[i]), DLC_EINVAL, "not audio in WAV, FLAC or OGG");
    refuse("RIFF\4\0\0\0WAVE", 12, DLC_ECORRUPT, "cannot be opened");
    refuse("fLaC and nothing more", 21, DLC_ECORRUPT, "");
    refuse("OggS and nothing more", 21, DLC_ECORRUPT, "");
}

/* Channels at byte 22, rate at 24, bytes of the data at 40. */
static void test_wav_headers_that_lie(void **state)
{
    static const struct {
        size_t at, bytes;
        uint32_t v;
        const char *words;
    } lies[] = {
        {22, 2, 0, "cannot be opened"},
        {24, 4, 0, "cannot be"},
        {24, 4, 1u << 31, "cannot be"},
        {24, 4, UINT32_MAX, "cannot be"},
        {24, 4, 1u << 25, "rate is 33554432 Hz"},
        {34, 2, 0, "cannot be opened"},
        {40, 4, 0, "no frames"},
        {4, 4, FRAMES * 2 + 38, "was cut short"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(lies); i++) {
        struct buf b = sounds_encode(in, FRAMES, 1, 16000, WAV16);

        put(&b, lies[i].at, lies[i].v, lies[i].bytes);
        refuse(b.data, b.len, DLC_ECORRUPT, lies[i].words);
        buf_release(&b);
    }
}

/* As programs write it that send a WAV file through a pipe. */
static void test_wav_of_unknown_length(void **state)
{
    struct buf b = sounds_encode(in, FRAMES, 1, 16000, WAV_F32);
    size_t data = 12;

    (void)state;
    while (memcmp(b.data + data, "data", 4) != 0)
        data++;
    put(&b, 4, UINT32_MAX, 4);
    put(&b, data + 4, UINT32_MAX, 4);
    assert_int_equal(sounds_make(scratch, &b, &all, 0, out), FRAMES);
    assert_memory_equal(out, in, sizeof(in));
    buf_release(&b);
}

static void test_many_channels(void **state)
{
    static float wide[1024 * 3];
    struct audio_spec spec = {.samples = 5, .channels = 1024};
    static float planes[1024 * 5];
    struct buf b;

    (void)state;
    for (size_t i = 0; i < unit_count(wide); i++)
        wide[i] = (float)i / 4096;
    b = sounds_encode(wide, 3, 1024, 8000, WAV_F32);
    assert_int_equal(sounds_make(scratch, &b, &spec, 0, planes), 3);
    for (size_t c = 0; c < 1024; c++)
        for (size_t i = 0; i < 5; i++)
            assert_true(planes[c * 5 + i] == (i < 3 ? wide[i * 1024 + c] : 0));
    buf_release(&b);
}

static void test_cut_short(void **state)
{
    static const int formats[] = {WAV16, FLAC16, VORBIS, OPUS};

    (void)state;
    for (size_t f = 0; f < unit_count(formats); f++) {
        struct buf b = sounds_encode(in, FRAMES, 1, 16000, formats[f]);

        for (size_t len = 0; len + 1 < b.len; len += 1 + b.len / 97) {
            char *exact = malloc(len + 1);
            struct dlc_err err = DLC_ERR_INIT;
            uint32_t length;

            memcpy(exact, b.data, len);
            exact = realloc(exact, len > 0 ? len : 1);
            assert_true(audio_make(scratch, exact, len, &all, 0, out, &length, &err) < 0);
            assert_true(err.text[0] != '\0');
            free(exact);
        }
        buf_release(&b);
    }
}

static void test_what_is_not_needed_may_be_missing(void **state)
{
    struct audio_spec spec = {.samples = 1000, .mono = true};
    struct buf b = sounds_encode(in, FRAMES, 1, 16000, FLAC16);

    (void)state;
    b.len = b.len * 9 / 10; /* A2: not looked at */
    assert_int_equal(sounds_make(scratch, &b, &spec, 0, out), 1000);
    refuse(b.data, b.len, DLC_ECORRUPT, "");
    buf_release(&b);
}

/* Whatever a bit does: an error with a text, or finite numbers. */
static void check_any(const struct buf *b, const struct audio_spec *spec, uint64_t key)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t length = 0;
    int rc = audio_make(scratch, b->data, b->len, spec, key, out, &length, &err);

    assert_true(rc == 0 || (rc == err.code && err.text[0] != '\0' && length == 0));
    assert_true(rc != 0 || length >= 1);
    for (size_t i = 0; rc == 0 && i < audio_bytes(spec) / 4; i++)
        assert_true(isfinite(out[i]));
}

static void test_flipped_bits(void **state)
{
    static const int formats[] = {WAV16, WAV_F32, FLAC16, VORBIS, OPUS};
    const struct audio_spec resampled = {
        .samples = FRAMES, .channels = 2, .rate = 22050, .random_start = true};
    struct rng r = {11};

    (void)state;
    for (size_t f = 0; f < unit_count(formats); f++) {
        struct buf b = sounds_encode(in, FRAMES, 1, 16000, formats[f]);

        for (unsigned i = 0; i < 300; i++) {
            size_t at = rng_below(&r, i % 2 == 0 ? DLC_MIN(b.len, (size_t)200) : b.len);
            char bit = (char)(1 << rng_below(&r, 8));

            b.data[at] ^= bit;
            check_any(&b, i % 3 == 0 ? &resampled : &all, i);
            b.data[at] ^= bit;
        }
        buf_release(&b);
    }
}

static void test_damaged_flac_is_noticed(void **state)
{
    struct buf b = sounds_encode(in, FRAMES, 1, 16000, FLAC16);

    (void)state;
    for (size_t at = b.len / 2; at < b.len / 2 + 20; at++) { /* frames have checksums */
        b.data[at] ^= 0x10;
        refuse(b.data, b.len, DLC_ECORRUPT, "");
        b.data[at] ^= 0x10;
    }
    buf_release(&b);
}

static void test_damaged_ogg_is_noticed(void **state)
{
    static const int formats[] = {VORBIS, OPUS};

    (void)state;
    for (size_t f = 0; f < unit_count(formats); f++) {
        struct buf b = sounds_encode(in, FRAMES, 1, 16000, formats[f]);

        for (size_t at = 0; at < b.len; at += 1 + b.len / 199) {
            b.data[at] ^= 4;
            refuse(b.data, b.len, at < 4 ? DLC_EINVAL : DLC_ECORRUPT, "OGG");
            b.data[at] ^= 4;
        }
        buf_addc(&b, 'x'); /* after the last page: nobody's */
        assert_int_equal(sounds_make(scratch, &b, &all, 0, out), FRAMES);
        buf_release(&b);
    }
}

static void test_numbers_that_are_none(void **state)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 2e30f, -3e38f};

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++)
        for (int channels = 1; channels <= 2; channels++) {
            float x[100] = {0};
            struct buf b;

            x[77] = bad[i];
            b = sounds_encode(x, 100 / (size_t)channels, channels, 16000, WAV_F32);
            refuse(b.data, b.len, DLC_ECORRUPT, "has a sample of");
            buf_release(&b);
        }
}

static void test_no_frames(void **state)
{
    struct buf b = sounds_encode(in, 0, 1, 16000, WAV16);

    (void)state;
    refuse(b.data, b.len, DLC_ECORRUPT, "has no frames");
    buf_release(&b);
    b = sounds_encode(in, 0, 1, 16000, WAV_F32);
    refuse(b.data, b.len, DLC_ECORRUPT, "has no frames");
    buf_release(&b);
}

/* Whoever wrote it did not know yet: the last 36 bits of bytes 18 to 25 are 0. */
static void test_flac_of_unknown_length(void **state)
{
    struct audio_spec spec = {.samples = 1000, .mono = true, .random_start = true};
    struct buf b = sounds_encode(in, FRAMES, 1, 16000, FLAC16);
    size_t audio = 4;

    (void)state;
    sounds_decode(&b, in, FRAMES);
    b.data[21] &= (char)0xf0;
    put(&b, 22, 0, 4);
    assert_int_equal(sounds_make(scratch, &b, &all, 0, out), FRAMES);
    assert_memory_equal(out, in, sizeof(in));
    assert_int_equal(sounds_make(scratch, &b, &spec, 0, out), 1000);
    assert_memory_equal(out, in, 1000 * sizeof(float));
    for (bool last = false; !last;
         audio += 4 + ((uint8_t)b.data[audio + 2] << 8) + (uint8_t)b.data[audio + 3])
        last = (b.data[audio] & 0x80) != 0;
    b.len = audio; /* the headers alone */
    refuse(b.data, b.len, DLC_ECORRUPT, "");
    buf_release(&b);
}

static void test_longer_than_the_limit(void **state)
{
    struct audio_spec spec = all;
    struct buf b = sounds_encode(in, FRAMES, 1, 16000, FLAC16);

    (void)state;
    spec.max_frames = FRAMES;
    assert_int_equal(sounds_make(scratch, &b, &spec, 0, out), FRAMES);
    spec.max_frames = FRAMES - 1;
    sounds_refuse(scratch, b.data, b.len, &spec, out, DLC_EINVAL, "8000 frames long");
    /* the last 36 bits of bytes 18 to 25 say how many */
    b.data[22] = (char)0xff;
    refuse(b.data, b.len, DLC_EINVAL, "more than the limit");
    buf_release(&b);
}

static void test_codecs_that_are_not_read(void **state)
{
    struct buf b = sounds_encode(in, FRAMES, 1, 16000, SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM);

    (void)state;
    refuse(b.data, b.len, DLC_EINVAL, "codec that is not read");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_sound_at_all),
        cmocka_unit_test(test_wav_headers_that_lie),
        cmocka_unit_test(test_wav_of_unknown_length),
        cmocka_unit_test(test_many_channels),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_what_is_not_needed_may_be_missing),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_damaged_flac_is_noticed),
        cmocka_unit_test(test_damaged_ogg_is_noticed),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_no_frames),
        cmocka_unit_test(test_flac_of_unknown_length),
        cmocka_unit_test(test_longer_than_the_limit),
        cmocka_unit_test(test_codecs_that_are_not_read),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
