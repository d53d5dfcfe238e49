// SPDX-License-Identifier: Apache-2.0
/*
 * Encoded utterances in memory to padded batches of 64, one thread: utterances per second of
 * processor time, so that a busy machine does not show, of
 *
 *   ours_1t          audio_make() into the batch
 *   decode_only_1t   libsndfile alone, all frames into one buffer: what no loader can beat with it
 *   ours_mel_1t      audio_make() with a log-mel spectrogram: 80 mels, 25 ms each 10 ms
 *
 * usage: bench-audio SAMPLES RATE ROUNDS <paths, one to a line
 *        SAMPLES: of an utterance in the batch; RATE: that they all have
 * Prints one line of JSON: for each a list with one figure per round, and the samples of all.
 */
#include <sndfile.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "loader/audio/audio.h"

#define BATCH    64
#define FILE_MAX ((size_t)64 << 20)

struct bench {
    struct buf *sounds;
    size_t n, cap;
    struct audio_spec spec, mel;
    struct audio_scratch *scratch;
    float *batch;
    uint64_t samples; /* that were no padding, by the last contender */
};

static void die(const char *why)
{
    fprintf(stderr, "bench-audio: %s\n", why);
    exit(1);
}

static void make(struct bench *b, const struct audio_spec *spec)
{
    size_t each = audio_bytes(spec) / sizeof(float);
    struct dlc_err err = DLC_ERR_INIT;

    for (size_t i = 0; i < b->n; i++) {
        uint32_t length;

        if (audio_make(b->scratch, b->sounds[i].data, b->sounds[i].len, spec, i,
                       b->batch + i % BATCH * each, &length, &err) != 0)
            die(err.text);
        b->samples += length;
    }
}

static void ours(struct bench *b)
{
    make(b, &b->spec);
}

static void ours_mel(struct bench *b)
{
    make(b, &b->mel);
}

struct memory {
    const struct buf *b;
    size_t pos;
};

static sf_count_t on_length(void *user)
{
    return (sf_count_t)((struct memory *)user)->b->len;
}

static sf_count_t on_tell(void *user)
{
    return (sf_count_t)((struct memory *)user)->pos;
}

static sf_count_t on_seek(sf_count_t offset, int whence, void *user)
{
    struct memory *m = user;
    size_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m->pos : m->b->len;

    m->pos = base + (size_t)offset;
    return (sf_count_t)m->pos;
}

static sf_count_t on_read(void *out, sf_count_t n, void *user)
{
    struct memory *m = user;
    size_t left = m->b->len - m->pos, some = (size_t)n < left ? (size_t)n : left;

    memcpy(out, m->b->data + m->pos, some);
    m->pos += some;
    return (sf_count_t)some;
}

static void decode_only(struct bench *b)
{
    static SF_VIRTUAL_IO io = {on_length, on_seek, on_read, NULL, on_tell};

    for (size_t i = 0; i < b->n; i++) {
        struct memory m = {&b->sounds[i], 0};
        SF_INFO info = {0};
        SNDFILE *file = sf_open_virtual(&io, SFM_READ, &info, &m);

        if (file == NULL || info.frames > b->spec.samples || info.channels != 1)
            die("a file that is no utterance of this length");
        b->samples += (uint64_t)sf_readf_float(file, b->batch, info.frames);
        sf_close(file);
    }
}

static const struct {
    const char *name;
    void (*run)(struct bench *b);
} contenders[] = {{"ours_1t", ours}, {"decode_only_1t", decode_only}, {"ours_mel_1t", ours_mel}};

#define N_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static double cpu_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void read_sounds(struct bench *b)
{
    struct dlc_err err = DLC_ERR_INIT;
    char path[4096];

    while (fgets(path, sizeof(path), stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        mem_reserve(b->sounds, b->n, b->cap);
        b->sounds[b->n] = (struct buf)BUF_INIT;
        if (os_read_file(path, FILE_MAX, &b->sounds[b->n++], &err) < 0)
            die(err.text);
    }
    if (b->n == 0)
        die("no paths on standard input");
}

static void set_up(struct bench *b, uint32_t samples, uint32_t rate)
{
    struct dlc_err err = DLC_ERR_INIT;

    b->spec = b->mel = (struct audio_spec){.samples = samples, .mono = true};
    b->mel.mel = (struct audio_mel){.mels = 80, .fft = 512, .window = rate / 40, .hop = rate / 100};
    if (audio_check_spec(&b->spec, &err) != 0 || audio_check_spec(&b->mel, &err) != 0)
        die(err.text);
    b->scratch = audio_scratch_new();
    b->batch = mem_zero(BATCH * audio_bytes(&b->spec) + BATCH * audio_bytes(&b->mel));
    read_sounds(b);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    int rounds = argc == 4 ? atoi(argv[3]) : 0;
    uint64_t samples = 0;

    if (rounds <= 0)
        die("usage: bench-audio SAMPLES RATE ROUNDS <paths");
    set_up(&b, (uint32_t)atol(argv[1]), (uint32_t)atol(argv[2]));
    for (unsigned c = 0; c < N_CONTENDERS; c++)
        contenders[c].run(&b); /* memory and caches */
    double *rate = mem_zero(N_CONTENDERS * (size_t)rounds * sizeof(*rate));
    for (int k = 0; k < rounds; k++)
        for (unsigned c = 0; c < N_CONTENDERS; c++) {
            double start = cpu_s();

            b.samples = 0;
            contenders[c].run(&b);
            rate[c * (unsigned)rounds + (unsigned)k] = (double)b.n / (cpu_s() - start);
            samples = c == 0 ? b.samples : samples;
        }
    for (unsigned c = 0; c < N_CONTENDERS; c++) {
        printf("%s\"%s\": [", c == 0 ? "{" : ", ", contenders[c].name);
        for (int k = 0; k < rounds; k++)
            printf("%s%.1f", k == 0 ? "" : ", ", rate[c * (unsigned)rounds + (unsigned)k]);
        printf("]");
    }
    printf(", \"samples\": %llu}\n", (unsigned long long)samples);
    for (size_t i = 0; i < b.n; i++)
        buf_release(&b.sounds[i]);
    mem_free(&b.sounds);
    mem_free(&b.batch);
    mem_free(&rate);
    audio_scratch_free(&b.scratch);
    return 0;
}
