// SPDX-License-Identifier: Apache-2.0
/*
 * What do weights cost? Processor time, so that a busy machine does not show, at N samples for
 *
 *   update    one call with the losses of a batch of 1,024 random samples, by the rule of ranks
 *   shade     drawing an epoch of N with replacement; shade3: residents, a tenth, three times
 *   coverage  drawing an epoch of N / 2 without, each sample at least once in 4 epochs
 *
 * usage: bench-weights N ROUNDS
 * Prints one line of JSON: lists of microseconds, 2,000 updates per round, and of seconds.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/rng.h"
#include "importance/sample.h"
#include "importance/weights.h"

#define BATCH   1024
#define BATCHES 2000 /* in a round */

struct bench {
    uint64_t n;
    struct weights weights;
    struct weights_scale scale;
    struct rng rng;
    uint64_t *list, *resident; /* resident: a bit per sample */
    uint64_t sink;
};

static double cpu_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *why)
{
    fprintf(stderr, "bench-weights: %s\n", why);
    exit(1);
}

static float weight(const void *arg, uint64_t sample)
{
    const struct bench *b = arg;

    return weights_get(&b->weights, sample);
}

static bool resident(const void *arg, uint64_t sample)
{
    const struct bench *b = arg;

    return b->resident[sample >> 6] >> (sample & 63) & 1;
}

static void set_up(struct bench *b)
{
    uint64_t size = weights_size(b->n);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct dlc_err err = DLC_ERR_INIT;

    b->list = calloc(b->n, sizeof(*b->list));
    b->resident = calloc(b->n / 64 + 1, sizeof(*b->resident));
    if (at == MAP_FAILED || b->list == NULL || b->resident == NULL)
        die("no memory");
    weights_format(at, b->n, 1);
    if (weights_open(&b->weights, at, size, b->n, &err) < 0)
        die(err.text);
    for (uint64_t s = 0; s < b->n; s++) {
        weights_set(&b->weights, s, (float)log(10 + 1000 * rng_unit(&b->rng)));
        if (rng_below(&b->rng, 10) == 0)
            b->resident[s >> 6] |= (uint64_t)1 << (s & 63);
    }
}

static void print_updates(struct bench *b, int rounds)
{
    uint64_t samples[BATCH];
    float losses[BATCH];
    struct dlc_err err = DLC_ERR_INIT;

    printf("\"update_us\": [");
    for (int k = 0; k < rounds * BATCHES; k++) {
        double start;

        for (unsigned i = 0; i < BATCH; i++) {
            samples[i] = rng_below(&b->rng, b->n);
            losses[i] = (float)-log(1 - rng_unit(&b->rng));
        }
        start = cpu_s();
        if (weights_learn(&b->weights, WEIGHTS_RANK, &b->scale, 0, samples, losses, BATCH, NULL,
                          &err) < 0)
            die(err.text);
        printf("%s%.2f", k == 0 ? "" : ", ", (cpu_s() - start) * 1e6);
    }
    printf("]");
}

static void print_draws(struct bench *b, int rounds, const char *name, enum draw_mode mode,
                        uint64_t length, double replication)
{
    struct draw_spec spec = {.mode = mode,
                             .n = b->n,
                             .length = length,
                             .seed = 1,
                             .every = 4,
                             .replication = replication,
                             .prefer = 1,
                             .weight = weight,
                             .resident = resident,
                             .arg = b};
    struct draw_figures figures = {0};
    struct dlc_err err = DLC_ERR_INIT;

    printf(", \"%s_s\": [", name);
    for (int k = 0; k < rounds; k++) {
        double start = cpu_s();

        spec.epoch = (uint64_t)k;
        if (draw_epoch(&spec, b->list, &figures, &err) < 0)
            die(err.text);
        printf("%s%.4f", k == 0 ? "" : ", ", cpu_s() - start);
        b->sink += b->list[length / 2];
    }
    printf("], \"%s_distinct\": %llu", name, (unsigned long long)figures.distinct);
}

int main(int argc, char **argv)
{
    struct bench b = {.n = argc == 3 ? strtoull(argv[1], NULL, 10) : 0, .rng = {1}};
    int rounds = argc == 3 ? atoi(argv[2]) : 0;

    if (rounds <= 0 || b.n < 4 || b.n > UINT32_MAX)
        die("usage: bench-weights N ROUNDS");
    set_up(&b);
    printf("{");
    print_updates(&b, rounds);
    print_draws(&b, rounds, "shade", DRAW_SHADE, b.n, 1);
    print_draws(&b, rounds, "shade3", DRAW_SHADE, b.n, 3);
    print_draws(&b, rounds, "coverage", DRAW_COVERAGE, b.n / 2, 1);
    printf(", \"sink\": %llu}\n", (unsigned long long)(b.sink & 1));
    free(b.list);
    free(b.resident);
    munmap(b.weights.hdr, weights_size(b.n));
    return 0;
}
