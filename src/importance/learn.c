// SPDX-License-Identifier: Apache-2.0
/*
 * Learning rule: the losses of a batch become weights. The losses are sorted as 64-bit words (loss,
 * position in the batch) by radix, and stored from the smallest to the largest, so that for a
 * sample that occurs twice the larger loss stays.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "base/check.h"
#include "base/mem.h"
#include "importance/weights_i.h"

#define SMALL  1024 /* losses that need no memory */
#define OFFSET 10   /* of ranks, under the logarithm */
#define PRIOR  4096 /* losses that the mean of the epochs before counts for */

/* Losses fall a hundredfold; were the scale to follow, weights would soon be all the same. */
#define SCALE_LEAST (3 / 4.0)
#define SCALE_MOST  (4 / 3.0)

/* ---- sorting ---- */

/* A float as a number of the same order. -0 and 0 are one. */
static uint64_t sortable(float x)
{
    uint32_t bits;

    x += 0.0f;
    memcpy(&bits, &x, sizeof(bits));
    return bits ^ (-(bits >> 31) | 0x80000000u);
}

static float unsorted(uint64_t word)
{
    uint32_t bits = (uint32_t)(word >> 32);
    float x;

    bits ^= ((bits >> 31) - 1) | 0x80000000u;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* By the high half of each word, in four passes to and fro. */
static void sort(uint64_t *words, uint64_t *other, size_t n)
{
    uint32_t counts[4][256] = {{0}};

    for (size_t i = 0; i < n; i++)
        for (unsigned d = 0; d < 4; d++)
            counts[d][words[i] >> (32 + 8 * d) & 255]++;
    for (unsigned d = 0; d < 4; d++) {
        uint64_t *t = words;
        uint32_t sum = 0;

        for (unsigned k = 0; k < 256; k++) {
            uint32_t count = counts[d][k];

            counts[d][k] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            other[counts[d][words[i] >> (32 + 8 * d) & 255]++] = words[i];
        words = other;
        other = t;
    }
}

/* ---- the scale ---- */

static double scale_now(const struct weights_scale *s)
{
    double now;

    if (!(s->first > 0)) /* the first epoch, or losses that have no ratio */
        return 1;
    now = (s->mean * PRIOR + s->sum) / (PRIOR + (double)s->count);
    return DLC_CLAMP(now / s->first, SCALE_LEAST, SCALE_MOST);
}

static void scale_add(struct weights_scale *s, uint64_t epoch, double sum, uint64_t count)
{
    if (s->count == 0) {
        s->epoch = DLC_MAX(epoch, s->epoch);
    } else if (epoch > s->epoch) {
        if (s->first == 0)
            s->first = s->mean = s->sum / (double)s->count;
        else
            s->mean = (s->mean * PRIOR + s->sum) / (PRIOR + (double)s->count);
        s->epoch = epoch;
        s->sum = 0;
        s->count = 0;
    }
    s->sum += sum;
    s->count += count;
}

/* ---- one batch ---- */

static int check_batch(const struct weights *w, enum weights_rule rule, const uint64_t *samples,
                       const float *losses, size_t n, struct dlc_err *err)
{
    if (n > UINT32_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "losses of %zu samples at once: at most 2^32 - 1 are possible", n);
    for (size_t i = 0; i < n; i++) {
        if (samples[i] >= w->n)
            return dlc_err_set(err, DLC_EINVAL,
                               "loss %zu is of sample %" PRIu64
                               ", which does not exist; the dataset has %" PRIu64,
                               i, samples[i], w->n);
        if (rule == WEIGHTS_PLAIN && losses[i] < 0)
            return dlc_err_set(err, DLC_EINVAL,
                               "loss %zu, of sample %" PRIu64
                               ", is %g: a plain weight cannot be negative; use the rule of ranks",
                               i, samples[i], (double)losses[i]);
        __builtin_prefetch((const void *)&w->bits[samples[i]], 1);
    }
    return 0;
}

/* Words to sort of what is a number. */
static size_t gather(uint64_t *words, const float *losses, size_t n, double *sum, uint64_t *finite)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (isnan(losses[i]))
            continue;
        words[used++] = sortable(losses[i]) << 32 | i;
        if (isfinite(losses[i])) {
            *sum += (double)losses[i];
            (*finite)++;
        }
    }
    return used;
}

static void store_ranks(struct weights *w, double scale, const uint64_t *samples,
                        const uint64_t *words, size_t n)
{
    for (size_t from = 0, to; from < n; from = to) {
        float weight;

        for (to = from + 1; to < n && words[to] >> 32 == words[from] >> 32;)
            to++;
        weight = (float)log(scale * (double)(from + to - 1) / 2 + OFFSET);
        for (size_t i = from; i < to; i++)
            weights_store(w, samples[(uint32_t)words[i]], weight);
    }
}

static void store_plain(struct weights *w, const uint64_t *samples, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        weights_store(w, samples[(uint32_t)words[i]],
                      DLC_CLAMP(unsorted(words[i]), FLT_MIN, FLT_MAX));
}

/* All marks behind all weights: a mark waits for the stores before it, one by one it would wait
 * for the memory each time. */
static void mark(struct weights *w, const uint64_t *samples, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        weights_mark(w, WEIGHTS_KEEPER, samples[(uint32_t)words[i]]);
        weights_mark(w, WEIGHTS_SENDER, samples[(uint32_t)words[i]]);
    }
    weights_count(w, WEIGHTS_KEEPER, n);
    weights_count(w, WEIGHTS_SENDER, n);
}

int weights_learn(struct weights *w, enum weights_rule rule, struct weights_scale *scale,
                  uint64_t epoch, const uint64_t *samples, const float *losses, size_t n,
                  struct weights_learnt *out, struct dlc_err *err)
{
    uint64_t small[2 * SMALL], *big = NULL, *words = small, finite = 0;
    double sum = 0;
    size_t used;
    int rc = check_batch(w, rule, samples, losses, n, err);

    if (rc < 0)
        return rc;
    if (n > SMALL)
        words = big = mem_try_alloc(2 * n * sizeof(*big));
    if (words == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for the losses of %zu samples", n);
    used = gather(words, losses, n, &sum, &finite);
    sort(words, words + n, used);
    if (scale != NULL)
        scale_add(scale, epoch, sum, finite);
    if (rule == WEIGHTS_RANK)
        store_ranks(w, scale != NULL ? scale_now(scale) : 1, samples, words, used);
    else
        store_plain(w, samples, words, used);
    mark(w, samples, words, used);
    mem_free(&big);
    if (out != NULL)
        *out = (struct weights_learnt){used, n - used, finite > 0 ? sum / (double)finite : 0};
    return 0;
}
