// SPDX-License-Identifier: Apache-2.0
/*
 * Huffman tables. A symbol of coefficients says how many zeros come first and how many bits the
 * value has that follows; `look` gives both, and the sum of all bits, which is all that the next
 * symbol waits for.
 *
 * Where values are not wanted `skip` passes as many symbols at once as have their codes in its
 * bits; the value of the last may lie behind them.
 */
#include "loader/image/jpeg_i.h"

#include <string.h>

#include "base/check.h"

static uint32_t entry_of(unsigned symbol, unsigned bits, bool ac)
{
    unsigned size = symbol & 15, step = ac ? (symbol >> 4) + 1 : 0;

    if (ac && size == 0 && step != 16)
        step = JPEG_END;
    return step << 24 | size << 16 | bits << 8 | (bits + size);
}

/* The symbols from the next bits on, as long as their codes are all there. */
static uint16_t skip_of(const struct jpeg_code *c, uint32_t next)
{
    unsigned used = 0, steps = 0;

    while (used < JPEG_SKIP_BITS) {
        uint32_t rest = next << used & ((1u << JPEG_SKIP_BITS) - 1);
        uint32_t e = c->look[rest >> (JPEG_SKIP_BITS - JPEG_LOOK_BITS)];

        if (e == 0 || used + JPEG_CODE_BITS(e) > JPEG_SKIP_BITS)
            break;
        used += JPEG_BITS(e);
        if (JPEG_STEP(e) == JPEG_END)
            return (uint16_t)(JPEG_SKIP_END | (steps + 1) << 6 | used);
        steps += JPEG_STEP(e);
    }
    return (uint16_t)(steps << 6 | used);
}

static void fill(struct jpeg_code *c, uint32_t code, unsigned bits, uint32_t entry)
{
    unsigned rest = JPEG_LOOK_BITS - bits;

    for (uint32_t i = 0; i < 1u << rest; i++)
        c->look[(code << rest) + i] = entry;
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
    for (uint32_t i = 0; ac && i < 1u << JPEG_SKIP_BITS; i++)
        c->skip[i] = skip_of(c, i);
    return true;
}

bool jpeg_code_make(struct jpeg_code *c, const uint8_t *from, bool ac)
{
    size_t n = 0;

    for (unsigned i = 0; i < 16; i++)
        n += from[i];
    dlc_check(n <= sizeof(c->values));
    if (c->made && memcmp(c->counts, from, 16) == 0 && memcmp(c->values, from + 16, n) == 0)
        return true;
    memcpy(c->counts, from, 16);
    memcpy(c->values, from + 16, n);
    c->made = make(c, ac);
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
