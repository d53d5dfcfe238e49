// SPDX-License-Identifier: Apache-2.0
/*
 * JPEG: only what is needed. Rows above the box and columns beside it are not decoded further than
 * to find where they end, and nothing is read behind the last row of the box.
 *
 * Samples lie in two strips for each component, each a row of MCUs high, that are written in turn:
 * pixels at the border of two need colours of both.
 *
 * What is not ours (jpeg_i.h) is libjpeg's.
 */
#include "loader/image/fastjpeg/jpeg_i.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define PAIRS_PAY 4096 /* bytes of a scan */

struct jpeg { /* kept in the scratch */
    struct jpeg_codes codes;
    struct jpeg_frame frame;
    struct jpeg_scan scan;
    uint8_t *strips[3];  /* two of each */
    uint32_t height;     /* rows of pixels in a row of MCUs */
    uint32_t begin, end; /* rows of MCUs that are wanted */
    uint32_t width;      /* of the image, reduced */
    uint32_t rows;
};

static uint32_t div_up(uint64_t n, uint32_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static struct jpeg *jpeg_of(struct image_scratch *s)
{
    bool fresh = s->jpeg.p == NULL;
    struct jpeg *j = image_span_need(&s->jpeg, sizeof(*j));

    if (fresh && j != NULL)
        memset(&j->codes, 0, sizeof(j->codes));
    return j;
}

/* Is it for us? Then all tables are ready. */
static bool take_frame(struct jpeg *j, const void *data, size_t len, const struct image_head *head)
{
    struct jpeg_frame *f = &j->frame;
    struct jpeg_scan *s = &j->scan;
    bool pairs;

    if (!jpeg_frame_read(f, data, len) || f->width != image_stored_width(head) ||
        f->height != image_stored_height(head) || (f->n_parts == 3 && !head->ycc))
        return false;
    pairs = f->scan_len >= PAIRS_PAY;
    s->n_planes = f->n_parts;
    for (unsigned i = 0; i < f->n_parts; i++) {
        const struct jpeg_part *part = &f->parts[i];
        struct jpeg_code *dc = &j->codes.dc[part->dc], *ac = &j->codes.ac[part->ac];

        if (!jpeg_code_make(dc, f->dc[part->dc], false, false) ||
            !jpeg_code_make(ac, f->ac[part->ac], true, pairs))
            return false;
        s->planes[i] = (struct jpeg_plane){
            .h = part->h, .v = part->v, .quant = f->quant[part->quant], .dc = dc, .ac = ac};
    }
    return true;
}

/* Sizes when reduced; colours of half the resolution are reduced less. */
static bool set_sizes(struct jpeg *j, unsigned denom)
{
    struct jpeg_scan *s = &j->scan;
    unsigned h = s->planes[0].h, v = s->planes[0].v;

    if (denom > 1 && h != v)
        return false; /* libjpeg reduces these in a way of its own */
    for (unsigned i = 0; i < s->n_planes; i++)
        s->planes[i].size = (i > 0 && denom > 1 ? h : 1) * 8 / denom;
    s->columns = div_up(j->frame.width, 8 * h);
    j->height = v * s->planes[0].size;
    j->width = div_up(j->frame.width, denom);
    j->rows = div_up(j->frame.height, denom);
    return true;
}

static int make_strips(struct jpeg *j, struct image_scratch *s, struct dlc_err *err)
{
    size_t room = 0;
    uint8_t *at;

    for (unsigned i = 0; i < j->scan.n_planes; i++) {
        struct jpeg_plane *p = &j->scan.planes[i];

        p->stride = (size_t)j->scan.columns * p->h * p->size + IMAGE_SLACK;
        room += 2 * p->stride * p->v * p->size;
    }
    at = image_span_need(&s->strips, room);
    if (at == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for %zu bytes of rows", room);
    for (unsigned i = 0; i < j->scan.n_planes; i++) {
        const struct jpeg_plane *p = &j->scan.planes[i];

        j->strips[i] = at;
        at += 2 * p->stride * p->v * p->size;
    }
    return 0;
}

static void open_scan(struct jpeg *j, const struct image_scratch *s)
{
    struct jpeg_scan *scan = &j->scan;

    scan->ops = s->ops;
    scan->row = scan->next_mark = 0;
    scan->restart = scan->togo = j->frame.restart;
    memset(scan->dc, 0, sizeof(scan->dc));
    jpeg_bits_open(&scan->bits, j->frame.scan, j->frame.scan_len);
}

static int read_strip(struct jpeg *j, uint32_t row, struct dlc_err *err)
{
    for (unsigned i = 0; i < j->scan.n_planes; i++) {
        struct jpeg_plane *p = &j->scan.planes[i];

        p->at = j->strips[i] + row % 2 * p->stride * p->v * p->size;
    }
    return jpeg_scan_row(&j->scan, row >= j->begin, row + 1 == j->end, err);
}

static struct image_planes planes_of(const struct jpeg *j)
{
    const struct jpeg_plane *p = j->scan.planes;
    struct image_planes planes = {.n = j->scan.n_planes};

    for (unsigned i = 0; i < planes.n; i++) {
        planes.at[i] = j->strips[i];
        planes.stride[i] = p[i].stride;
        planes.ring[i] = 2 * p[i].v * p[i].size;
    }
    if (planes.n == 3) {
        planes.halved_x = p[0].h * p[0].size > p[1].size;
        planes.halved_y = p[0].v * p[0].size > p[1].size;
        planes.width = div_up(j->width, planes.halved_x ? 2 : 1);
        planes.rows = div_up(j->rows, planes.halved_y ? 2 : 1);
    }
    return planes;
}

/* The MCUs of the box; halved colours look one sample aside. */
static void set_box(struct jpeg *j, const struct image_scratch *s, const struct image_planes *p)
{
    uint64_t aside = p->halved_x ? 2 : 0, above = p->halved_y ? 1 : 0;
    uint32_t mcu = j->scan.planes[0].h * j->scan.planes[0].size;

    j->scan.from = (uint32_t)(s->x.first > aside ? s->x.first - aside : 0) / mcu;
    j->scan.to = div_up(DLC_MIN(s->x.last + aside, j->width), mcu);
    j->begin = (uint32_t)(s->y.first > above ? s->y.first - above : 0) / j->height;
    j->end = div_up(DLC_MIN(s->y.last + above, j->rows), j->height);
}

static int read_rows(struct jpeg *j, struct image_scratch *s, struct dlc_err *err)
{
    struct image_planes planes;
    int rc = make_strips(j, s, err);

    if (rc < 0)
        return rc;
    planes = planes_of(j);
    set_box(j, s, &planes);
    rc = image_planes_begin(s, &planes, err);
    open_scan(j, s);
    for (uint32_t row = 0; rc == 0 && row < j->end; row++) {
        rc = read_strip(j, row, err);
        if (rc == 0 && row >= j->begin) /* the last row's colours may lie in the next strip */
            image_planes_push(
                s, &planes,
                row + 1 == j->end ? s->y.last : (uint64_t)(row + 1) * j->height - planes.halved_y);
    }
    return rc;
}

int image_jpeg_rows(struct image_scratch *s, const void *data, size_t len,
                    const struct image_head *head, unsigned denom, struct dlc_err *err)
{
    struct jpeg *j = jpeg_of(s);

    if (j == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for the tables of a JPEG");
    if (s->libjpeg || !take_frame(j, data, len, head) || !set_sizes(j, denom))
        return image_jpeg_lib_rows(s, data, len, head, denom, err);
    return read_rows(j, s, err);
}

/* The strip's rows to their places. */
static void copy_planes(const struct jpeg *j, uint32_t row, uint8_t *to)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct jpeg_plane *p = &j->scan.planes[i];
        uint32_t width = i == 0 ? j->width : div_up(j->width, 2);
        uint32_t rows = i == 0 ? j->rows : div_up(j->rows, 2), n = p->v * p->size;

        for (uint32_t y = row * n; y < DLC_MIN((row + 1) * n, rows); y++)
            memcpy(to + (size_t)y * width, p->at + (y - row * n) * p->stride, width);
        to += (size_t)width * rows;
    }
}

static int read_planes(struct jpeg *j, struct image_scratch *s, uint8_t *planes,
                       struct dlc_err *err)
{
    int rc = make_strips(j, s, err);

    if (rc < 0)
        return rc;
    open_scan(j, s);
    j->scan.from = j->begin = 0;
    j->scan.to = j->scan.columns;
    j->end = div_up(j->rows, j->height);
    for (uint32_t row = 0; rc == 0 && row < j->end; row++) {
        rc = read_strip(j, row, err);
        if (rc == 0)
            copy_planes(j, row, planes);
    }
    return rc;
}

int image_jpeg_planes(struct image_scratch *s, const void *data, size_t len,
                      const struct image_head *head, uint8_t *planes, struct dlc_err *err)
{
    struct jpeg *j = jpeg_of(s);

    if (j == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for the tables of a JPEG");
    if (s->libjpeg || !take_frame(j, data, len, head) || j->scan.n_planes != 3 ||
        j->scan.planes[0].v != 2 || !set_sizes(j, 1))
        return image_jpeg_lib_planes(s, data, len, head, planes, err);
    return read_planes(j, s, planes, err);
}
