// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes as a sound. The first byte picks what is made of it, the rest is the sound. Pages
 * of OGG after its headers get the checksum they should have, so that they come to the decoder.
 * Whatever comes: an error with a text, or finite numbers of which at least one is not padding.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/audio/audio.h"
#include "loader/audio/ogg_check_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct audio_spec specs[] = {
    {.samples = 4000, .mono = true},
    {.samples = 4000, .channels = 2, .random_start = true},
    {.samples = 4000, .mono = true, .rate = 8000, .random_start = true},
    {.samples = 4000,
     .channels = 3,
     .rate = 16000,
     .mel = {.mels = 40, .fft = 256, .window = 200, .hop = 80},
     .max_frames = 100000},
};

static void seal(uint8_t *data, size_t size)
{
    size_t n;
    unsigned pages = 0;

    for (size_t at = 0; at < size; at += n, pages++) {
        n = ogg_page_bytes(data + at, size - at);
        if (n == 0)
            return;
        for (unsigned i = 0; pages >= 2 && i < 4; i++)
            data[at + OGG_CHECKSUM + i] = (uint8_t)(ogg_checksum(data + at, n) >> 8 * i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float out[12000];
    static struct audio_scratch *scratch;
    const struct audio_spec *spec = &specs[size > 0 ? data[0] % DLC_COUNT(specs) : 0];
    struct dlc_err err = DLC_ERR_INIT;
    uint8_t *sound;
    uint32_t length = 0, most = spec->mel.mels != 0 ? audio_frames(spec) : spec->samples;
    int rc;

    if (scratch == NULL)
        scratch = audio_scratch_new();
    dlc_check(audio_check_spec(spec, &err) == 0 && audio_bytes(spec) <= sizeof(out));
    if (size == 0)
        return 0;
    sound = mem_alloc(size - 1);
    memcpy(sound, data + 1, size - 1);
    if (size > 4 && memcmp(sound, "OggS", 4) == 0)
        seal(sound, size - 1);
    rc = audio_make(scratch, sound, size - 1, spec, data[0], out, &length, &err);
    dlc_check(rc == 0 || (rc == err.code && err.text[0] != '\0' && length == 0));
    dlc_check(rc != 0 || (length >= 1 && length <= most));
    for (size_t i = 0; rc == 0 && i < audio_bytes(spec) / sizeof(float); i++)
        dlc_check(isfinite(out[i]));
    mem_free(&sound);
    return 0;
}
