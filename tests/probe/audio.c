// SPDX-License-Identifier: Apache-2.0
/*
 * usage: probe-audio FILE NAME=VALUE...
 * Writes what audio_make() makes of a file: the length as four bytes, then floats. The names are
 * those of struct audio_spec and struct audio_mel, and key.
 */
#include "probe.h"

#include "base/mem.h"
#include "loader/audio/audio.h"

int main(int argc, char **argv)
{
    struct audio_spec spec = {
        .samples = (uint32_t)probe_number(argv, "samples"),
        .rate = (uint32_t)probe_number(argv, "rate"),
        .mono = probe_number(argv, "mono") != 0,
        .channels = (uint32_t)probe_number(argv, "channels"),
        .random_start = probe_number(argv, "random_start") != 0,
        .mel = {.mels = (uint32_t)probe_number(argv, "mels"),
                .fft = (uint32_t)probe_number(argv, "fft"),
                .window = (uint32_t)probe_number(argv, "window"),
                .hop = (uint32_t)probe_number(argv, "hop"),
                .low = (float)probe_number(argv, "low"),
                .high = (float)probe_number(argv, "high"),
                .floor = (float)probe_number(argv, "floor")},
    };
    struct audio_scratch *scratch = audio_scratch_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct buf b = probe_file(argc > 1 ? argv[1] : "");
    uint32_t length;
    void *out;

    probe_good(audio_check_spec(&spec, &err), &err);
    out = mem_alloc(audio_bytes(&spec));
    probe_good(audio_make(scratch, b.data, b.len, &spec, (uint64_t)probe_number(argv, "key"), out,
                          &length, &err),
               &err);
    fwrite(&length, sizeof(length), 1, stdout);
    fwrite(out, audio_bytes(&spec), 1, stdout);
    mem_free(&out);
    buf_release(&b);
    audio_scratch_free(&scratch);
    return 0;
}
