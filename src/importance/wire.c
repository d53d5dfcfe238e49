// SPDX-License-Identifier: Apache-2.0
#include "importance/wire.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

#define PAIR_MOST 11 /* bytes: seven for any gap, four */

static bool is_weight(float w)
{
    return isfinite(w) && w > 0;
}

bool pairs_add(struct pairs *p, uint64_t sample, float weight)
{
    unsigned char pair[PAIR_MOST];
    uint64_t gap = sample - p->next;
    uint32_t bits;
    size_t n = 0;

    dlc_check(sample >= p->next && sample < PAIRS_SAMPLES);
    if (!is_weight(weight))
        return true;
    if (p->n == PAIRS_MAX || p->bytes.len > PAIRS_BYTES_MAX - PAIR_MOST)
        return false;
    for (; gap >= 0x80; gap >>= 7)
        pair[n++] = (unsigned char)(gap | 0x80);
    pair[n++] = (unsigned char)gap;
    memcpy(&bits, &weight, 4);
    for (int i = 0; i < 4; i++)
        pair[n++] = (unsigned char)(bits >> (8 * i));
    buf_add(&p->bytes, pair, n);
    p->n++;
    p->next = sample + 1;
    return true;
}

void pairs_read(struct pairs_reader *r, const void *data, size_t len)
{
    *r = (struct pairs_reader){.at = data, .end = (const unsigned char *)data + len};
}

/* False: it is cut, too large, or longer than it need be. */
static bool read_gap(struct pairs_reader *r, uint64_t *out)
{
    unsigned shift = 0;
    unsigned char c;

    *out = 0;
    do {
        if (r->at == r->end || shift > 42)
            return false;
        c = *r->at++;
        *out |= (uint64_t)(c & 0x7f) << shift;
        shift += 7;
    } while ((c & 0x80) != 0);
    return c != 0 || shift == 7;
}

bool pairs_next(struct pairs_reader *r, uint64_t *sample, float *weight)
{
    uint32_t bits = 0;
    uint64_t gap;

    if (r->bad || r->at == r->end)
        return false;
    r->bad = true;
    if (!read_gap(r, &gap) || r->end - r->at < 4 || gap >= PAIRS_SAMPLES - r->next)
        return false;
    for (int i = 0; i < 4; i++)
        bits |= (uint32_t)*r->at++ << (8 * i);
    memcpy(weight, &bits, 4);
    if (!is_weight(*weight))
        return false;
    *sample = r->next + gap;
    r->next = *sample + 1;
    r->bad = false;
    return true;
}

size_t pairs_count(const void *data, size_t len)
{
    struct pairs_reader r;
    uint64_t sample;
    float weight;
    size_t n = 0;

    if (len > PAIRS_BYTES_MAX)
        return 0;
    pairs_read(&r, data, len);
    while (n <= PAIRS_MAX && pairs_next(&r, &sample, &weight))
        n++;
    return r.bad || n > PAIRS_MAX ? 0 : n;
}
