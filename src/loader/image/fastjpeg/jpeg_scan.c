// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes rows of MCUs from a scan. The only dependency of a symbol on the previous one is its code
 * length: a table lookup and a shift. Everything else (the value, its position) is off that path.
 *
 * A refill provides 56 bits: enough for five lookups of pairs, or for one symbol of any length.
 */
#include "loader/image/fastjpeg/jpeg_i.h"

#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define INLINE static inline __attribute__((always_inline))

/* The part of jpeg_bits that changes with every symbol. */
struct head {
    uint64_t bits;
    const uint8_t *p;
    uint32_t left;
};

INLINE void refill(struct head *h)
{
    uint64_t next;

    memcpy(&next, h->p, sizeof(next));
    h->bits |= be64toh(next) >> h->left;
    h->p += (63 - h->left) >> 3;
    h->left |= 56;
}

INLINE void pass(struct head *h, unsigned bits)
{
    h->bits <<= bits;
    h->left -= bits;
}

/* The value of the symbol e, which is next. Leading 0: it is negative, less one in each bit. */
INLINE int take(struct head *h, uint32_t e)
{
    uint64_t value = h->bits << JPEG_CODE_BITS(e);
    uint64_t minus = (uint64_t)((int64_t)~value >> 63);

    value = (value ^ minus) >> 1 >> (63 - JPEG_SIZE(e));
    pass(h, JPEG_BITS(e));
    return (int)((value ^ minus) - minus);
}

INLINE uint32_t look(const struct head *h, const struct jpeg_code *c)
{
    return c->look[h->bits >> (64 - JPEG_LOOK_BITS)];
}

/* A code that the table does not find. None: the block ends, and the row fails later. */
static __attribute__((noinline)) uint32_t look_longer(uint64_t bits, const struct jpeg_code *c,
                                                      bool ac, bool *bad)
{
    uint32_t e = jpeg_code_long(c, bits, ac);

    *bad |= e == 0;
    return e != 0 ? e : JPEG_END << 24 | 1 << 8 | 1;
}

/* After a refill. */
INLINE uint32_t look_any(const struct head *h, const struct jpeg_code *c, bool ac, bool *bad)
{
    uint32_t e = look(h, c);

    return __builtin_expect(e != 0, 1) ? e : look_longer(h->bits, c, ac, bad);
}

INLINE int take_dc(struct head *h, const struct jpeg_plane *plane, bool *bad)
{
    refill(h);
    return take(h, look_any(h, plane->dc, false, bad));
}

INLINE uint64_t look_pair(const struct head *h, const struct jpeg_code *c)
{
    return c->pairs[h->bits >> (64 - JPEG_PAIR_BITS)];
}

INLINE void put(int16_t *block, uint32_t k, int value)
{
    if (block != NULL)
        block[jpeg_order[k - 1]] = (int16_t)value;
}

/* The k-th coefficient on: up to two. Gives the k behind them. */
INLINE uint32_t take_pair(struct head *h, uint64_t e, uint32_t k, int16_t *block)
{
    k += JPEG_PAIR_STEP(e, 0);
    put(block, k, JPEG_PAIR_VALUE(e, 0));
    if (k > 63) { /* a second one is of the next block */
        pass(h, JPEG_PAIR_FIRST(e));
        return k;
    }
    k += JPEG_PAIR_STEP(e, 1);
    put(block, k, JPEG_PAIR_VALUE(e, 1));
    pass(h, JPEG_PAIR_BOTH(e));
    return k;
}

INLINE uint32_t take_one(struct head *h, const struct jpeg_code *ac, uint32_t k, int16_t *block,
                         bool *bad)
{
    uint32_t e;

    refill(h);
    e = look_any(h, ac, true, bad);
    k += JPEG_STEP(e);
    put(block, k, take(h, e));
    return k;
}

/* Into a block of zeros, or nowhere (NULL). True: there is no coefficient but the first. */
INLINE bool read_block(struct head *h, const struct jpeg_plane *plane, uint32_t *dc, int16_t *block,
                       bool *bad)
{
    const struct jpeg_code *ac = plane->ac;
    uint32_t k = 1;
    uint64_t e;

    *dc += (uint32_t)take_dc(h, plane, bad);
    put(block, 1, (int)*dc);
    e = look_pair(h, ac);
    if (JPEG_PAIR_STEP(e, 0) == JPEG_END) {
        pass(h, JPEG_PAIR_FIRST(e));
        return true;
    }
    for (;;) {
        refill(h);
#pragma GCC unroll 5
        for (int i = 0; i < 56 / JPEG_PAIR_BITS; i++) {
            e = look_pair(h, ac);
            if (__builtin_expect(e == 0, 0))
                break;
            k = take_pair(h, e, k, block);
            if (k > 63)
                return false;
        }
        if (e == 0)
            k = take_one(h, ac, k, block, bad);
        if (k > 63)
            return false;
    }
}

/* Blocks whose samples are still to be made: two at a time are hardly dearer than one. */
struct pending {
    _Alignas(64) int16_t blocks[2][64];
    unsigned n, size; /* how many, and the side of what they become */
    uint8_t *out[2];
    size_t stride[2];
    const uint16_t *quant[2];
};

static void flush(const struct image_ops *ops, struct pending *q)
{
    uint8_t unused[64];

    if (q->n == 0)
        return;
    if (q->n == 1) {
        q->out[1] = unused;
        q->stride[1] = 8;
        q->quant[1] = q->quant[0];
    }
    (q->size == 8 ? ops->idct : ops->idct_4)(q->out, q->stride, q->blocks[0], q->quant);
    q->n = 0;
}

/* The block that was read last. */
INLINE void put_block(struct jpeg_scan *s, struct pending *q, const struct jpeg_plane *plane,
                      uint8_t *out)
{
    q->out[q->n] = out;
    q->stride[q->n] = plane->stride;
    q->quant[q->n] = plane->quant;
    if (++q->n == 2)
        flush(s->ops, q);
}

INLINE void make_block(struct jpeg_scan *s, struct head *h, struct pending *q, unsigned i,
                       uint8_t *out)
{
    const struct jpeg_plane *plane = &s->planes[i];
    int16_t *block = q->blocks[q->n];

    if (plane->size == 1) {
        read_block(h, plane, &s->dc[i], NULL, &s->bits.bad);
        *out = image_idct_1((int16_t)s->dc[i], plane->quant[0]);
    } else if (read_block(h, plane, &s->dc[i], block, &s->bits.bad) && plane->size == 8) {
        image_idct_flat(out, plane->stride, block[0], plane->quant); /* the next overwrites it */
    } else if (plane->size == 2) {
        image_idct_2(out, plane->stride, block, plane->quant);
    } else {
        put_block(s, q, plane, out);
    }
}

INLINE void read_mcu(struct jpeg_scan *s, struct head *h, struct pending *q, uint32_t column)
{
    for (unsigned i = 0; i < s->n_planes; i++) {
        const struct jpeg_plane *plane = &s->planes[i];
        uint8_t *out = plane->at + (size_t)column * plane->h * plane->size;

        if (q->size != plane->size) {
            flush(s->ops, q);
            q->size = plane->size;
        }
        for (unsigned y = 0; y < plane->v; y++, out += plane->size * plane->stride)
            for (unsigned x = 0; x < plane->h; x++)
                make_block(s, h, q, i, out + x * plane->size);
    }
}

INLINE void skip_mcu(struct jpeg_scan *s, struct head *h)
{
    for (unsigned i = 0; i < s->n_planes; i++) {
        const struct jpeg_plane *plane = &s->planes[i];

        for (unsigned n = plane->v * plane->h; n > 0; n--)
            read_block(h, plane, &s->dc[i], NULL, &s->bits.bad);
    }
}

INLINE struct head head_of(const struct jpeg_bits *b)
{
    return (struct head){b->bits, b->p, b->left};
}

INLINE void keep_head(struct jpeg_bits *b, const struct head *h)
{
    b->bits = h->bits;
    b->p = h->p;
    b->left = h->left;
}

/* MCUs without a restart among them. False: the data ended. */
INLINE bool walk(struct jpeg_scan *s, struct pending *q, uint32_t column, uint32_t n)
{
    struct head h = head_of(&s->bits);
    bool there = true;

    for (; n > 0 && there; n--, column++) {
        if (__builtin_expect(h.p >= s->bits.safe, 0)) {
            keep_head(&s->bits, &h);
            there = jpeg_bits_more(&s->bits);
            h = head_of(&s->bits);
        }
        if (!there)
            break;
        if (q != NULL)
            read_mcu(s, &h, q, column);
        else
            skip_mcu(s, &h);
    }
    keep_head(&s->bits, &h);
    return there && !s->bits.bad && !jpeg_bits_overrun(&s->bits);
}

static bool read_some(struct jpeg_scan *s, struct pending *q, uint32_t column, uint32_t n)
{
    return walk(s, q, column, n);
}

static bool skip_some(struct jpeg_scan *s, uint32_t column, uint32_t n)
{
    return walk(s, NULL, column, n);
}

static int fail(const struct jpeg_scan *s, struct dlc_err *err)
{
    if (!jpeg_bits_overrun(&s->bits))
        return dlc_err_set(err, DLC_ECORRUPT,
                           "JPEG: a code that its tables do not have, in row %u of blocks", s->row);
    if (s->bits.marker == 0)
        return dlc_err_set(err, DLC_ECORRUPT, "JPEG: the file ends early, in row %u of blocks",
                           s->row);
    return dlc_err_set(err, DLC_ECORRUPT,
                       "JPEG: data end early at marker 0x%02x, in row %u of blocks", s->bits.marker,
                       s->row);
}

static int restart(struct jpeg_scan *s, struct dlc_err *err)
{
    if (!jpeg_bits_restart(&s->bits, 0xd0 + s->next_mark))
        return dlc_err_set(err, DLC_ECORRUPT,
                           "JPEG: marker 0x%02x where restart %u should be, in row %u of blocks",
                           s->bits.marker, s->next_mark, s->row);
    s->next_mark = (s->next_mark + 1) % 8;
    s->togo = s->restart;
    memset(s->dc, 0, sizeof(s->dc));
    return 0;
}

/* How many from this column on are alike: wanted or not, up to the next restart. */
static uint32_t stretch(const struct jpeg_scan *s, uint32_t column, uint32_t end, bool *wanted)
{
    uint32_t to = end;

    *wanted = *wanted && column >= s->from && column < s->to;
    if (*wanted)
        to = DLC_MIN(s->to, end);
    else if (column < s->from)
        to = DLC_MIN(s->from, end);
    return s->restart == 0 ? to - column : DLC_MIN(to - column, s->togo);
}

int jpeg_scan_row(struct jpeg_scan *s, bool wanted, bool last, struct dlc_err *err)
{
    uint32_t end = last ? s->to : s->columns, n;
    struct pending q;
    int rc = 0;

    memset(q.blocks, 0, sizeof(q.blocks));
    q.n = q.size = 0;
    for (uint32_t column = 0; column < end && rc == 0; column += n) {
        bool read = wanted, sound;

        if (s->restart != 0 && s->togo == 0)
            rc = restart(s, err);
        if (rc < 0)
            break;
        n = stretch(s, column, end, &read);
        sound = read ? read_some(s, &q, column, n) : skip_some(s, column, n);
        s->togo -= n;
        if (!sound)
            rc = fail(s, err);
    }
    flush(s->ops, &q);
    s->row++;
    return rc;
}
