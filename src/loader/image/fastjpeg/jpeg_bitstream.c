// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes of a scan as a bitstream: byte stuffing is removed once, a window at a time, so that
 * the decoder loads eight bytes without checks. After the end come zeros; how far they were read is
 * checked afterwards.
 */
#include "loader/image/fastjpeg/jpeg_i.h"

#include <string.h>

#include "base/check.h"

/* 0xff and what follows it. True: it was stuffed, and stands for itself. */
static bool pass_ff(struct jpeg_bits *b)
{
    while (b->src < b->src_end && *b->src == 0xff)
        b->src++; /* any number: libjpeg takes them for one */
    b->ended = b->src == b->src_end || *b->src != 0;
    b->marker = b->src == b->src_end ? 0 : *b->src++;
    return !b->ended;
}

/* Bytes of the scan to `to`, up to `stop`. Gives their end. */
static uint8_t *unstuff(struct jpeg_bits *b, uint8_t *to, const uint8_t *stop)
{
    while (to < stop && !b->ended) {
        size_t most = DLC_MIN((size_t)(stop - to), (size_t)(b->src_end - b->src));
        const uint8_t *ff = memchr(b->src, 0xff, most);
        size_t run = ff == NULL ? most : (size_t)(ff - b->src);

        memcpy(to, b->src, run);
        to += run;
        b->src += run;
        if (ff != NULL && pass_ff(b))
            *to++ = 0xff;
        else if (ff == NULL)
            b->ended = b->src == b->src_end;
    }
    return to;
}

static void fill(struct jpeg_bits *b)
{
    size_t kept = (size_t)(b->end - b->p);
    uint8_t *end;

    dlc_check(b->p <= b->end);
    memmove(b->window, b->p, kept);
    end = unstuff(b, b->window + kept, b->window + JPEG_WINDOW);
    if (b->ended)
        memset(end, 0, JPEG_PAD);
    b->p = b->window;
    b->end = end;
    b->safe = b->ended ? end : end - JPEG_PAD;
}

/* What comes next begins with a byte of its own. */
static void begin(struct jpeg_bits *b)
{
    b->bits = b->left = 0;
    b->ended = false;
    b->marker = 0;
    b->p = b->end = b->window;
    fill(b);
}

void jpeg_bits_open(struct jpeg_bits *b, const uint8_t *src, size_t len)
{
    b->src = src;
    b->src_end = src + len;
    b->bad = false;
    begin(b);
}

bool jpeg_bits_overrun(const struct jpeg_bits *b)
{
    return (b->p - b->end) * 8 > (ptrdiff_t)b->left;
}

bool jpeg_bits_more(struct jpeg_bits *b)
{
    if (b->ended)
        return !jpeg_bits_overrun(b);
    fill(b);
    return true;
}

bool jpeg_bits_restart(struct jpeg_bits *b, unsigned marker)
{
    while (!b->ended) /* bytes too many are passed over, as libjpeg does */
        unstuff(b, b->window, b->window + JPEG_WINDOW);
    if (b->marker != marker)
        return false;
    begin(b);
    return true;
}
