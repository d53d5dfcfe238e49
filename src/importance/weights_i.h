// SPDX-License-Identifier: Apache-2.0
/* The steps of a store, for those who store many: all weights, then all marks, then the count. */
#ifndef DLC_IMPORTANCE_WEIGHTS_I_H
#define DLC_IMPORTANCE_WEIGHTS_I_H

#include <string.h>

#include "importance/weights.h"

/* relaxed: weights_mark() comes behind and orders it (WEIGHT-STORE-1). */
static inline void weights_store(struct weights *w, uint64_t sample, float weight)
{
    uint32_t bits;

    memcpy(&bits, &weight, sizeof(bits));
    atomic_store_explicit(&w->bits[sample], bits, memory_order_relaxed);
}

/*
 * seq_cst, with weights_take(): a setter sets the bit and then looks at the word's, a taker clears
 * the word's and then looks at the bits; one of them sees the other.
 */
static inline void weights_mark(struct weights *w, enum weights_who who, uint64_t sample)
{
    _Atomic uint64_t *word = &w->words[who][sample >> 12];
    uint64_t bit = (uint64_t)1 << (sample >> 6 & 63);

    atomic_fetch_or(&w->marks[who][sample >> 6], (uint64_t)1 << (sample & 63));
    if ((atomic_load(word) & bit) == 0)
        atomic_fetch_or(word, bit);
}

/* release, with weights_stored(): who sees the count sees the marks. */
static inline void weights_count(struct weights *w, enum weights_who who, uint64_t n)
{
    atomic_fetch_add_explicit(&w->hdr->stored[who], n, memory_order_release);
}

#endif
