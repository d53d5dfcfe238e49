// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers that parsers get wrong: at the edges of 31, 32, 48, 53, 63 and 64 bits. A mutator that
 * changes bytes does not find them, and two that must agree with each other even less. In texts
 * "@0" to "@f" stands for one of them, so that one changed byte is another edge; binary inputs take
 * them by fuzz_take().
 */
#ifndef DLC_TESTS_FUZZ_NUMBERS_H
#define DLC_TESTS_FUZZ_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

static const uint64_t fuzz_edges[16] = {
    0,
    1,
    (1ull << 31) - 1,
    1ull << 31,
    (1ull << 32) - 1,
    1ull << 32,
    (1ull << 32) + 1,
    (1ull << 48) - 1,
    1ull << 48,
    (1ull << 48) + 1,
    1ull << 53,
    (1ull << 53) + 1,
    (1ull << 63) - 1,
    1ull << 63,
    UINT64_MAX - 1,
    UINT64_MAX,
};

static inline int fuzz_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The text with its numbers in place. */
static inline void fuzz_expand(const uint8_t *data, size_t size, struct buf *out)
{
    for (size_t i = 0; i < size; i++) {
        int edge = data[i] == '@' && i + 1 < size ? fuzz_hex((char)data[i + 1]) : -1;

        if (edge < 0)
            buf_addc(out, (char)data[i]);
        else {
            buf_addf(out, "%llu", (unsigned long long)fuzz_edges[edge]);
            i++;
        }
    }
}

struct fuzz_bytes {
    const uint8_t *p;
    size_t left;
};

/* Zeros after the end. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *b)
{
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->p++;
}

/* A number: an edge, a small one, one near an edge, or any. */
static inline uint64_t fuzz_take(struct fuzz_bytes *b)
{
    uint8_t how = fuzz_byte(b);
    uint64_t n = 0;

    switch (how >> 4 & 3) {
    case 0: return fuzz_edges[how & 15];
    case 1: return fuzz_byte(b);
    case 2: return fuzz_edges[how & 15] + (uint64_t)(int64_t)(int8_t)fuzz_byte(b);
    default:
        for (int i = 0; i < 8; i++)
            n = n << 8 | fuzz_byte(b);
        return n;
    }
}

#endif
