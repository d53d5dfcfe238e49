// SPDX-License-Identifier: Apache-2.0
/*
 * Rows stream through: columns first, into a ring that holds as many rows as the filter is high,
 * then rows, as soon as the last tap is there. Both round to 8 bits, as PIL does.
 *
 *     begin   room; rows of padding above or below go out
 *     push    in order, from y.first to y.last
 *     end     all rows are finished; jitter and the rest of the canvas
 *
 * Nothing here fails after begin, so decoders may call push between setjmp and longjmp.
 */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

/* Rows that begin beside an alignment of 16: to aligned ones libjpeg writes past the cache, and
 * they are read at once. */
uint8_t *image_input(struct image_scratch *s, size_t pixels, size_t *stride)
{
    uint8_t *p;

    *stride = DLC_ALIGN_UP(4 * (pixels + 4 * (size_t)s->x.quads) + IMAGE_SLACK, (size_t)64);
    p = image_span_need(&s->input, 2 * *stride + 64);
    return p == NULL ? NULL : (uint8_t *)DLC_ALIGN_UP((uintptr_t)p, 64) + 4;
}

/* Row j of the stored frame is this row of the output, or this column when axes are swapped. */
static uint32_t place_of(const struct image_scratch *s, uint32_t j)
{
    return s->y.reversed ? s->y.total - 1 - j : j;
}

static int make_room(struct image_scratch *s, struct dlc_err *err)
{
    size_t whole = (size_t)s->spec->width * s->spec->height * 4;
    bool canvas = s->swap || s->jitters;

    s->ring_rows = s->y.most + 2; /* two come at a time */
    s->ring_stride = DLC_ALIGN_UP((size_t)s->x.n * 4 + IMAGE_SLACK, (size_t)64);
    s->row = image_span_need(&s->row_mem, (size_t)s->x.total * 4 + IMAGE_SLACK);
    s->canvas = canvas ? image_span_need(&s->canvas_mem, whole + IMAGE_SLACK) : NULL;
    if (image_span_need(&s->ring, s->ring_rows * s->ring_stride) == NULL ||
        image_span_need(&s->taps, (s->y.most + 1) * sizeof(uint8_t *)) == NULL || s->row == NULL ||
        (canvas && s->canvas == NULL))
        return dlc_err_set(err, DLC_ENOMEM, "no memory for %u rows of %u pixels", s->ring_rows,
                           s->x.n);
    memset(s->row, 0, (size_t)s->x.total * 4);
    if (canvas && (s->x.n < s->x.total || s->y.n < s->y.total))
        memset(s->canvas, 0, whole);
    return 0;
}

int image_begin(struct image_scratch *s, struct dlc_err *err)
{
    int rc = make_room(s, err);

    if (rc == 0)
        rc = image_emit_begin(s, err);
    if (rc < 0)
        return rc;
    s->n_in = s->n_out = 0;
    for (uint32_t j = 0; s->canvas == NULL && j < s->y.total; j++)
        if (j < s->y.pad || j >= s->y.pad + s->y.n)
            image_emit(s, s->row, place_of(s, j)); /* still zero */
    return 0;
}

static uint8_t *ring_row(const struct image_scratch *s, uint32_t i)
{
    return (uint8_t *)s->ring.p + (i % s->ring_rows) * s->ring_stride;
}

/* A finished row that is a column of the canvas. */
static void put_column(struct image_scratch *s, uint32_t column)
{
    size_t width = s->spec->width;

    for (size_t i = 0; i < s->x.total; i++)
        memcpy(s->canvas + (i * width + column) * 4, s->row + 4 * i, 4);
}

static void finish_row(struct image_scratch *s, uint32_t j)
{
    const struct image_axis *y = &s->y;
    uint32_t at = place_of(s, y->pad + j);
    bool direct = s->canvas != NULL && !s->swap;
    uint8_t *row = direct ? s->canvas + (size_t)at * s->spec->width * 4 : s->row;
    const uint8_t **taps = s->taps.p;

    for (uint32_t i = 0; i < y->count[j]; i++)
        taps[i] = ring_row(s, y->start[j] + i);
    taps[y->count[j]] = taps[0]; /* has no weight */
    s->ops->rows(row + (size_t)s->x.pad * 4, taps, y->weights + (size_t)j * y->quads * 8,
                 y->count[j], (size_t)s->x.n * 4);
    if (s->swap)
        put_column(s, at);
    else if (s->canvas == NULL)
        image_emit(s, row, at);
}

void image_push(struct image_scratch *s, const uint8_t *a, const uint8_t *b)
{
    const struct image_axis *y = &s->y;
    uint8_t *first = ring_row(s, s->n_in), *second = ring_row(s, s->n_in + 1);

    dlc_check(s->n_in + (b != NULL) < y->last - y->first);
    if (b != NULL)
        s->ops->columns(first, second, a, b, &s->x);
    else
        s->ops->columns(first, first, a, a, &s->x);
    s->n_in += b != NULL ? 2 : 1;
    for (; s->n_out < y->n && y->start[s->n_out] + y->count[s->n_out] <= s->n_in; s->n_out++)
        finish_row(s, s->n_out);
}

void image_end(struct image_scratch *s)
{
    dlc_check(s->n_out == s->y.n);
    if (s->canvas == NULL)
        return;
    if (s->jitters)
        image_jitter(s->ops, s->canvas, (size_t)s->spec->width * s->spec->height, s->plan);
    for (uint32_t y = 0; y < s->spec->height; y++)
        image_emit(s, s->canvas + (size_t)y * s->spec->width * 4, y);
}
