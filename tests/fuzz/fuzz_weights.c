// SPDX-License-Identifier: Apache-2.0
/*
 * Weights in memory that clients write as they like: the input says how many samples, and which words
 * hold what. Memory of another size or head is refused; every mark that is taken is one of a sample;
 * a weight that is read is a number; taking ends.
 */
#include "fuzz_numbers.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "importance/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SAMPLES_MAX 100000
#define PAGE        4096

static void check_taken(struct weights *w, enum weights_who who)
{
    uint64_t place = 0, steps = 1000, sample, taken = 0;

    while (weights_take(w, who, &place, &steps, &sample)) {
        float weight;

        dlc_check(sample < w->n && ++taken <= w->n);
        weight = weights_get(w, sample);
        dlc_check(isfinite(weight) && weight >= 0);
    }
    dlc_check(place >= w->n || steps == 0);
}

static void use(struct weights *w, struct fuzz_bytes *b)
{
    uint64_t samples[4];
    float losses[4];
    struct weights_learnt out;
    struct weights_scale scale = {0};
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t bits;

    check_taken(w, WEIGHTS_KEEPER);
    for (int i = 0; i < 4; i++) {
        samples[i] = fuzz_take(b);
        bits = (uint32_t)fuzz_take(b);
        memcpy(&losses[i], &bits, sizeof(bits));
    }
    (void)weights_learn(w, fuzz_byte(b) & 1 ? WEIGHTS_RANK : WEIGHTS_PLAIN, &scale, fuzz_take(b),
                        samples, losses, 4, &out, &err);
    check_taken(w, WEIGHTS_SENDER);
    check_taken(w, WEIGHTS_KEEPER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};
    uint64_t n = 1 + fuzz_take(&b) % SAMPLES_MAX, said = fuzz_take(&b);
    size_t bytes = weights_size(n), words = bytes / sizeof(uint64_t);
    uint64_t *at = aligned_alloc(PAGE, bytes);
    struct dlc_err err = DLC_ERR_INIT;
    struct weights w;

    dlc_check(at != NULL && bytes % PAGE == 0);
    memset(at, 0, bytes);
    weights_format(at, n, 1);
    if (said != n)
        dlc_check(weights_open(&w, at, bytes, said, &err) < 0);
    dlc_check(weights_open(&w, at, bytes, n, &err) == 0);
    while (b.left > 40) { /* what a client writes, also over the head */
        uint64_t word = fuzz_take(&b) % words;

        at[word] = fuzz_take(&b);
    }
    use(&w, &b);
    (void)weights_open(&w, at, bytes, n, &err);
    free(at);
    return 0;
}
