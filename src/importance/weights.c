// SPDX-License-Identifier: Apache-2.0
#include "importance/weights.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>

#include "base/check.h"
#include "importance/weights_i.h"

#define PAGE 4096

static_assert(sizeof(struct weights_hdr) == 40, "weights_hdr is shared");
static_assert(offsetof(struct weights_hdr, n) == 8, "weights_hdr is shared");
static_assert(offsetof(struct weights_hdr, snapshot) == 16, "weights_hdr is shared");
static_assert(offsetof(struct weights_hdr, stored) == 24, "weights_hdr is shared");
static_assert(sizeof(float) == 4 && sizeof(_Atomic uint32_t) == 4, "a weight is 4 bytes");

/* Words of 64 bits for n of them. */
static uint64_t words(uint64_t n)
{
    return (n + 63) / 64;
}

/* Bytes of the weights, so that what comes behind is aligned. */
static uint64_t weight_bytes(uint64_t n)
{
    return DLC_ALIGN_UP(n * 4, 64);
}

uint64_t weights_size(uint64_t n)
{
    uint64_t marks = words(n), over = words(marks);

    return DLC_ALIGN_UP(PAGE + weight_bytes(n) + 2 * 8 * (marks + over), PAGE);
}

void weights_format(void *at, uint64_t n, uint64_t snapshot)
{
    struct weights_hdr *hdr = at;

    dlc_check(n > 0 && n <= WEIGHTS_MAX);
    hdr->n = n;
    hdr->snapshot = snapshot;
    hdr->version = WEIGHTS_VERSION;
    hdr->magic = WEIGHTS_MAGIC;
}

int weights_open(struct weights *w, void *at, size_t size, uint64_t n, struct dlc_err *err)
{
    struct weights_hdr *hdr = at;
    _Atomic uint64_t *next;

    *w = (struct weights){0};
    if (n == 0 || n > WEIGHTS_MAX || size < weights_size(n))
        return dlc_err_set(err, DLC_EINVAL,
                           "weights of %" PRIu64 " samples in %zu bytes: 1 to 2^40 samples are "
                           "possible, and these need %" PRIu64 " bytes",
                           n, size, n <= WEIGHTS_MAX ? weights_size(n) : 0);
    if (hdr->magic != WEIGHTS_MAGIC || hdr->version != WEIGHTS_VERSION || hdr->n != n)
        return dlc_err_set(err, DLC_EINVAL,
                           "not the weights of %" PRIu64 " samples: magic %#" PRIx32
                           ", version %" PRIu32 ", %" PRIu64
                           " samples; daemon and client must be of the same version",
                           n, hdr->magic, hdr->version, hdr->n);
    w->hdr = hdr;
    w->n = n;
    w->bits = (_Atomic uint32_t *)(void *)((char *)at + PAGE);
    next = (_Atomic uint64_t *)(void *)((char *)at + PAGE + weight_bytes(n));
    for (unsigned who = 0; who < 2; who++) {
        w->marks[who] = next;
        w->words[who] = next + words(n);
        next = w->words[who] + words(words(n));
    }
    return 0;
}

float weights_get(const struct weights *w, uint64_t sample)
{
    uint32_t bits;
    float weight;

    dlc_check(sample < w->n);
    /* relaxed: whoever must see a certain store has taken its mark before */
    bits = atomic_load_explicit(&w->bits[sample], memory_order_relaxed);
    memcpy(&weight, &bits, sizeof(weight));
    return weight > 0 && weight <= FLT_MAX ? weight : 0;
}

void weights_receive(struct weights *w, uint64_t sample, float weight)
{
    dlc_check(sample < w->n);
    weights_store(w, sample, weight);
    weights_mark(w, WEIGHTS_KEEPER, sample);
    weights_count(w, WEIGHTS_KEEPER, 1);
}

void weights_set(struct weights *w, uint64_t sample, float weight)
{
    weights_receive(w, sample, weight);
    weights_mark(w, WEIGHTS_SENDER, sample);
    weights_count(w, WEIGHTS_SENDER, 1);
}

uint64_t weights_stored(const struct weights *w, enum weights_who who)
{
    /* acquire, with weights_count() */
    return atomic_load_explicit(&w->hdr->stored[who], memory_order_acquire);
}

bool weights_is_marked(const struct weights *w, enum weights_who who, uint64_t sample)
{
    dlc_check(sample < w->n);
    /* relaxed: it may be set or taken the next moment */
    return (atomic_load_explicit(&w->marks[who][sample >> 6], memory_order_relaxed) >>
                (sample & 63) &
            1) != 0;
}

/* Say that a word has no marks, if that is so: see weights_mark() for the order. */
static void close_word(struct weights *w, enum weights_who who, uint64_t word)
{
    _Atomic uint64_t *over = &w->words[who][word >> 6];
    uint64_t bit = (uint64_t)1 << (word & 63);

    if ((atomic_load(over) & bit) == 0)
        return;
    atomic_fetch_and(over, ~bit);
    if (atomic_load(&w->marks[who][word]) != 0)
        atomic_fetch_or(over, bit);
}

/* Take one bit of a word of marks, at or above `low`. Gives its number; -1: none. */
static int take_bit(struct weights *w, enum weights_who who, uint64_t word, unsigned low)
{
    _Atomic uint64_t *marks = &w->marks[who][word];

    while (low < 64) {
        uint64_t all = atomic_load(marks), found = all & ~(uint64_t)0 << low, bit = found & -found;

        if (all == 0)
            close_word(w, who, word); /* the upper bit may be anybody's */
        if (found == 0)
            return -1;
        found = atomic_fetch_and(marks, ~bit);
        if (found == bit)
            close_word(w, who, word);
        if ((found & bit) != 0)
            return __builtin_ctzll(bit);
        low = (unsigned)__builtin_ctzll(bit) + 1; /* somebody else took it: go on behind */
    }
    return -1;
}

/* The first word of marks from `word` on that may have some, or where the steps were used up; the
 * number of words: none. */
static uint64_t next_word(const struct weights *w, enum weights_who who, uint64_t word,
                          uint64_t *steps)
{
    uint64_t n = words(w->n);

    for (; word < n && *steps != 0; (*steps)--) {
        uint64_t found = atomic_load(&w->words[who][word >> 6]) & ~(uint64_t)0 << (word & 63);

        if (found != 0)
            return DLC_MIN((word & ~(uint64_t)63) + (unsigned)__builtin_ctzll(found), n);
        word = (word | 63) + 1;
    }
    return DLC_MIN(word, n);
}

bool weights_take(struct weights *w, enum weights_who who, uint64_t *place, uint64_t *steps,
                  uint64_t *sample)
{
    while (*place < w->n && *steps != 0) {
        uint64_t word = *place >> 6;
        int bit = take_bit(w, who, word, *place & 63);

        (*steps)--;
        if (bit < 0) {
            *place = next_word(w, who, word + 1, steps) << 6;
            continue;
        }
        *sample = (word << 6) + (unsigned)bit;
        *place = *sample + 1;
        if (*sample < w->n) /* the memory is anybody's: there may be bits behind the last */
            return true;
    }
    return false;
}
