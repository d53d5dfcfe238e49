// SPDX-License-Identifier: Apache-2.0
/*
 * JPEG by libjpeg-turbo, of the kinds that jpeg.c leaves to it; only what is needed: rows above the
 * box are skipped (entropy decoding alone), columns beside it are not transformed, and decoding
 * ends with the last row of the box.
 *
 * Upsampling of colours looks one sample aside: with a margin the pixels of the box are those of a
 * whole decode. libjpeg cuts on the left at a border of its blocks; the rest is cut here.
 *
 * libjpeg reports errors by a call that must not return: error_exit jumps back to the function that
 * set the mark. Whatever it allocated belongs to the decompressor, and that is destroyed on every
 * path. Warnings that mean wrong pixels (data that ends early, bad codes) are errors here.
 *
 * CMYK is taken to be inverted, as Adobe writes it and as PIL reads it, and becomes RGB as in PIL.
 */
#include "loader/image/image_i.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/check.h"
#include "base/err.h"

#define MARGIN 2   /* pixels left and right: one sample of colour */
#define SCANS  100 /* a progressive image has a dozen; each may cost a pass over all blocks */

struct decoder {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct dlc_err *err;
    int rc;
};

static int code_of(int message)
{
    switch (message) {
    case JERR_OUT_OF_MEMORY: return DLC_ENOMEM;
    case JERR_SOF_UNSUPPORTED:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL: return DLC_EINVAL;
    default: return DLC_ECORRUPT;
    }
}

static void on_error(j_common_ptr c)
{
    struct decoder *d = c->client_data;
    char text[JMSG_LENGTH_MAX];

    c->err->format_message(c, text);
    d->rc = code_of(c->err->msg_code);
    dlc_err_set(d->err, d->rc, "%s: %s",
                d->rc == DLC_EINVAL ? "a kind of JPEG that is not supported" : "JPEG", text);
    longjmp(d->jump, 1);
}

/* Level -1 is a warning. These leave the pixels as they should be. */
static void on_message(j_common_ptr c, int level)
{
    switch (c->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA: /* between segments */
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA: return;
    default:
        if (level < 0)
            on_error(c);
    }
}

static void on_progress(j_common_ptr c)
{
    struct decoder *d = c->client_data;

    if (d->c.input_scan_number <= SCANS)
        return;
    d->rc = dlc_err_set(d->err, DLC_EINVAL, "a JPEG of more than %d scans is not decoded", SCANS);
    longjmp(d->jump, 1);
}

static void begin(struct decoder *d, const void *data, size_t len)
{
    d->c.err = jpeg_std_error(&d->errors);
    d->c.client_data = d;
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    jpeg_create_decompress(&d->c);
    d->progress.progress_monitor = on_progress;
    d->c.progress = &d->progress;
    jpeg_mem_src(&d->c, data, len);
    jpeg_read_header(&d->c, TRUE);
}

/* The size was checked when the head was read: is it still that image? */
static void check_size(struct decoder *d, const struct image_head *head)
{
    if (d->c.image_width == image_stored_width(head) &&
        d->c.image_height == image_stored_height(head))
        return;
    d->rc = dlc_err_set(d->err, DLC_ECORRUPT, "JPEG of %ux%u pixels, where its head had %ux%u",
                        d->c.image_width, d->c.image_height, image_stored_width(head),
                        image_stored_height(head));
    longjmp(d->jump, 1);
}

/* Inverted CMYK to RGB. */
static void from_cmyk(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++, p += 4) {
        unsigned k = p[3];

        for (int c = 0; c < 3; c++) {
            unsigned ink = (255u - p[c]) * k + 128;

            p[c] = (uint8_t)(k - ((ink + (ink >> 8)) >> 8));
        }
    }
}

/* Cut the columns. Gives the first that comes. */
static JDIMENSION crop(struct decoder *d, const struct image_axis *x)
{
    JDIMENSION all = d->c.output_width;
    JDIMENSION from = x->first > MARGIN ? (JDIMENSION)x->first - MARGIN : 0;
    JDIMENSION width = (JDIMENSION)DLC_MIN(x->last + MARGIN, (uint64_t)all) - from;

    if (width < all)
        jpeg_crop_scanline(&d->c, &from, &width);
    return from;
}

static void read_rows(struct decoder *d, struct image_scratch *s)
{
    JDIMENSION from = crop(d, &s->x);
    uint32_t left = (uint32_t)(s->y.last - s->y.first), n;
    size_t stride, skipped = (size_t)(s->x.first - from) * 4;
    uint8_t *input = image_input(s, d->c.output_width, &stride);
    JSAMPROW row[2];

    if (input == NULL) {
        d->rc =
            dlc_err_set(d->err, DLC_ENOMEM, "no memory for a row of %u pixels", d->c.output_width);
        longjmp(d->jump, 1);
    }
    if (s->y.first > 0)
        jpeg_skip_scanlines(&d->c, (JDIMENSION)s->y.first);
    for (; left > 0; left -= n) {
        n = 0;
        do {
            row[0] = input + n * stride;
            row[1] = input + stride;
            n += jpeg_read_scanlines(&d->c, row, DLC_MIN(left, 2u) - n);
        } while (n < DLC_MIN(left, 2u));
        for (uint32_t i = 0; d->c.out_color_space == JCS_CMYK && i < n; i++)
            from_cmyk(input + i * stride + skipped, (size_t)(s->x.last - s->x.first));
        image_push(s, input + skipped, n == 2 ? input + stride + skipped : NULL);
    }
}

int image_jpeg_lib_rows(struct image_scratch *s, const void *data, size_t len,
                        const struct image_head *head, unsigned denom, struct dlc_err *err)
{
    struct decoder d = {.err = err};

    if (setjmp(d.jump) == 0) {
        begin(&d, data, len);
        check_size(&d, head);
        d.c.out_color_space = d.c.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
        d.c.scale_num = 1;
        d.c.scale_denom = denom;
        jpeg_start_decompress(&d.c);
        read_rows(&d, s);
    }
    jpeg_destroy_decompress(&d.c);
    return d.rc;
}

/* Rows of one component: its plane, and one row of blocks as libjpeg wants to write it, which is
 * wider. */
struct plane {
    uint8_t *at;
    uint32_t width, height;
    uint8_t *raw;
    size_t stride;
    JSAMPROW rows[16];
};

static void set_planes(struct decoder *d, struct image_scratch *s, uint8_t *planes,
                       struct plane plane[3])
{
    size_t room = 0;
    uint8_t *raw;

    for (int i = 0; i < 3; i++) {
        const jpeg_component_info *c = &d->c.comp_info[i];
        uint32_t per = (uint32_t)c->v_samp_factor * DCTSIZE;

        plane[i].width = c->downsampled_width;
        plane[i].height = c->downsampled_height;
        plane[i].stride = (size_t)DLC_ALIGN_UP(c->width_in_blocks, 2u) * DCTSIZE + IMAGE_SLACK;
        plane[i].at = planes;
        planes += (size_t)plane[i].width * plane[i].height;
        room += plane[i].stride * per;
    }
    raw = image_span_need(&s->raw, room);
    if (raw == NULL) {
        d->rc = dlc_err_set(d->err, DLC_ENOMEM, "no memory for %zu bytes of rows", room);
        longjmp(d->jump, 1);
    }
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < d->c.comp_info[i].v_samp_factor * DCTSIZE; r++) {
            plane[i].rows[r] = raw;
            raw += plane[i].stride;
        }
}

static void read_planes(struct decoder *d, struct plane plane[3])
{
    JSAMPARRAY rows[3] = {plane[0].rows, plane[1].rows, plane[2].rows};
    uint32_t done[3] = {0};

    while (d->c.output_scanline < d->c.output_height) {
        jpeg_read_raw_data(&d->c, rows, 2 * DCTSIZE);
        for (int i = 0; i < 3; i++) {
            uint32_t n = (uint32_t)d->c.comp_info[i].v_samp_factor * DCTSIZE;

            n = DLC_MIN(n, plane[i].height - done[i]);
            for (uint32_t r = 0; r < n; r++)
                memcpy(plane[i].at + (size_t)(done[i] + r) * plane[i].width, plane[i].rows[r],
                       plane[i].width);
            done[i] += n;
        }
    }
}

/* The head's reader found 4:2:0; libjpeg must agree before it writes to our rows. */
static void check_420(struct decoder *d)
{
    const jpeg_component_info *c = d->c.comp_info;

    if (d->c.num_components == 3 && d->c.jpeg_color_space == JCS_YCbCr &&
        d->c.max_h_samp_factor == 2 && d->c.max_v_samp_factor == 2 && c[0].h_samp_factor == 2 &&
        c[0].v_samp_factor == 2 && c[1].h_samp_factor == 1 && c[1].v_samp_factor == 1 &&
        c[2].h_samp_factor == 1 && c[2].v_samp_factor == 1)
        return;
    d->rc = dlc_err_set(d->err, DLC_EINVAL, "this JPEG has no planes of 4:2:0");
    longjmp(d->jump, 1);
}

int image_jpeg_lib_planes(struct image_scratch *s, const void *data, size_t len,
                          const struct image_head *head, uint8_t *planes, struct dlc_err *err)
{
    struct decoder d = {.err = err};
    struct plane plane[3];

    if (setjmp(d.jump) == 0) {
        begin(&d, data, len);
        check_size(&d, head);
        check_420(&d);
        d.c.out_color_space = JCS_YCbCr;
        d.c.raw_data_out = TRUE;
        jpeg_start_decompress(&d.c);
        set_planes(&d, s, planes, plane);
        read_planes(&d, plane);
    }
    jpeg_destroy_decompress(&d.c);
    return d.rc;
}
