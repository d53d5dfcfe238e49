// SPDX-License-Identifier: Apache-2.0
/*
 * Huffman tables. A symbol of coefficients says how many zeros come first and how many bits the
 * value has that follows. `look` finds a symbol by its code; `pairs` finds one or two with their
 * values, if all of that fits into its bits, as it nearly always does. Building it takes longer
 * than decoding a short scan: then it stays empty.
 */
#include "loader/image/fastjpeg/jpeg_i.h"

#include <string.h>

#include "base/check.h"

static uint32_t entry_of(unsigned symbol, unsigned bits, bool ac)
{
    unsigned size = symbol & 15, step = ac ? (symbol >> 4) + 1 : 0;

    if (ac && size == 0 && step != 16)
        step = JPEG_END;
    return step << 24 | size << 16 | bits << 8 | (bits + size);
}

static void fill(struct jpeg_code *c, uint32_t code, unsigned bits, uint32_t entry)
{
    unsigned rest = JPEG_LOOK_BITS - bits;

    for (uint32_t i = 0; i < 1u << rest; i++)
        c->look[(code << rest) + i] = entry;
}

/* A symbol with each of its values, alone. */
static void fill_values(struct jpeg_code *c, uint32_t code, uint32_t entry)
{
    unsigned size = JPEG_SIZE(entry), bits = JPEG_BITS(entry), rest = JPEG_PAIR_BITS - bits;
    uint64_t *at = c->pairs + ((size_t)code << (size + rest));

    for (int v = 0; v < 1 << size; v++) {
        uint64_t value = (uint16_t)(v >= 1 << size >> 1 ? v : v - (1 << size) + 1);
        uint64_t pair = value << 48 | value << 32 | JPEG_STEP(entry) << 16 | bits << 8 | bits;

        for (uint32_t i = 0; i < 1u << rest; i++)
            *at++ = pair;
    }
}

/* Behind each symbol the next, if it fits; its own next does not matter here. Without branches:
 * nobody could foretell them. */
static void join(struct jpeg_code *c)
{
    for (uint32_t i = 0; i < 1u << JPEG_PAIR_BITS; i++) {
        uint64_t e = c->pairs[i], first = JPEG_PAIR_FIRST(e);
        uint64_t next = c->pairs[(i << first) % (1u << JPEG_PAIR_BITS)];
        uint64_t both = first + JPEG_PAIR_FIRST(next);
        uint64_t pair = (e & 0xffff00ffff00) | both | JPEG_PAIR_STEP(next, 0) << 24 |
                        (uint64_t)(uint16_t)JPEG_PAIR_VALUE(next, 0) << 48;
        uint64_t fits = (uint64_t)(e != 0) & (next != 0) & (both <= JPEG_PAIR_BITS) &
                        (JPEG_PAIR_STEP(e, 0) != JPEG_END);

        c->pairs[i] = e ^ ((e ^ pair) & (0 - fits));
    }
}

static void make_pairs(struct jpeg_code *c)
{
    uint32_t code = 0;
    unsigned k = 0;

    memset(c->pairs, 0, sizeof(c->pairs));
    for (unsigned bits = 1; bits <= JPEG_PAIR_BITS; bits++, code <<= 1)
        for (unsigned i = c->counts[bits - 1]; i > 0; i--, code++) {
            uint32_t entry = entry_of(c->values[k++], bits, true);

            if (JPEG_BITS(entry) <= JPEG_PAIR_BITS)
                fill_values(c, code, entry);
        }
    join(c);
    c->paired = true;
}

static bool make(struct jpeg_code *c, bool ac)
{
    uint32_t code = 0;
    unsigned k = 0;

    memset(c->look, 0, sizeof(c->look));
    for (unsigned bits = 1; bits <= 16; bits++, code <<= 1) {
        unsigned n = c->counts[bits - 1];

        c->most[bits] = n == 0 ? -1 : (int32_t)(code + n - 1);
        c->base[bits] = (int32_t)k - (int32_t)code;
        for (unsigned i = 0; i < n; i++, k++, code++) {
            if (!ac && c->values[k] > 15)
                return false;
            if (code + 1 >= 1u << bits) /* all ones: no code may be that */
                return false;
            if (bits <= JPEG_LOOK_BITS)
                fill(c, code, bits, entry_of(c->values[k], bits, ac));
        }
    }
    return true;
}

static bool is_same(const struct jpeg_code *c, const uint8_t *from, size_t n)
{
    return c->made && memcmp(c->counts, from, 16) == 0 && memcmp(c->values, from + 16, n) == 0;
}

bool jpeg_code_make(struct jpeg_code *c, const uint8_t *from, bool ac, bool pairs)
{
    size_t n = 0;

    for (unsigned i = 0; i < 16; i++)
        n += from[i];
    dlc_check(n <= sizeof(c->values));
    if (!is_same(c, from, n)) {
        if (c->paired)
            memset(c->pairs, 0, sizeof(c->pairs));
        c->paired = false;
        memcpy(c->counts, from, 16);
        memcpy(c->values, from + 16, n);
        c->made = make(c, ac);
    }
    if (c->made && pairs && !c->paired)
        make_pairs(c);
    return c->made;
}

uint32_t jpeg_code_long(const struct jpeg_code *c, uint64_t next, bool ac)
{
    for (unsigned bits = JPEG_LOOK_BITS + 1; bits <= 16; bits++) {
        int32_t code = (int32_t)(next >> (64 - bits));

        if (code <= c->most[bits])
            return entry_of(c->values[c->base[bits] + code], bits, ac);
    }
    return 0;
}
