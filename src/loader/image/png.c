// SPDX-License-Identifier: Apache-2.0
/*
 * PNG by libpng, every kind as RGBX: palettes looked up, grey spread, 16 bits cut to the upper 8,
 * alpha carried along as the byte that nobody reads. Rows below the box are not read. An interlaced
 * image must be in memory as a whole.
 *
 * Errors as in jpeg.c: by a jump, after which all that libpng allocated is destroyed. Warnings are
 * of things that do not touch the pixels.
 */
#include "loader/image/image_i.h"

#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "base/check.h"
#include "base/err.h"

#define KEPT ((size_t)16 << 20) /* a larger image is given back at once */

struct decoder {
    png_structp png;
    png_infop info;
    jmp_buf jump;
    const uint8_t *at, *end;
    struct dlc_err *err;
    int rc;
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Chunks before the pixels: is there an orientation? */
static uint8_t orientation(const uint8_t *p, size_t len)
{
    size_t at = 8;

    while (len - at >= 12) {
        uint32_t n = be32(p + at);

        if (n > len - at - 12 || memcmp(p + at + 4, "IDAT", 4) == 0)
            break;
        if (memcmp(p + at + 4, "eXIf", 4) == 0)
            return image_exif_orientation(p + at + 8, n);
        at += (size_t)n + 12;
    }
    return 1;
}

int image_png_head(const uint8_t *p, size_t len, struct image_head *head, struct dlc_err *err)
{
    static const uint8_t components[8] = {1, 0, 3, 1, 2, 0, 4, 0};

    if (len < 33 || be32(p + 8) != 13 || memcmp(p + 12, "IHDR", 4) != 0)
        return dlc_err_set(err, DLC_ECORRUPT, "PNG without its first chunk");
    *head = (struct image_head){
        .format = IMAGE_PNG,
        .width = be32(p + 16),
        .height = be32(p + 20),
        .orientation = orientation(p, len),
        .components = components[p[25] & 7],
        .progressive = p[28] != 0,
    };
    if (p[25] > 6 || head->components == 0)
        return dlc_err_set(err, DLC_ECORRUPT, "PNG of an unknown colour type %u", p[25]);
    return 0;
}

static void on_error(png_structp png, png_const_charp text)
{
    struct decoder *d = png_get_error_ptr(png);

    d->rc = dlc_err_set(d->err, DLC_ECORRUPT, "PNG: %s", text);
    longjmp(d->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    struct decoder *d = png_get_io_ptr(png);

    if (n > (size_t)(d->end - d->at))
        png_error(png, "the file ends early");
    memcpy(to, d->at, n);
    d->at += n;
}

static _Noreturn void no_memory(struct decoder *d, size_t bytes)
{
    d->rc = dlc_err_set(d->err, DLC_ENOMEM, "no memory for %zu bytes of a PNG", bytes);
    longjmp(d->jump, 1);
}

static void begin(struct decoder *d, const struct image_head *head)
{
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_error, on_warning);
    d->info = d->png == NULL ? NULL : png_create_info_struct(d->png);
    if (d->info == NULL)
        no_memory(d, sizeof(*d));
    png_set_read_fn(d->png, d, on_read);
#ifdef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* profiles, texts */
#endif
    png_read_info(d->png, d->info);
    if (png_get_image_width(d->png, d->info) != image_stored_width(head) ||
        png_get_image_height(d->png, d->info) != image_stored_height(head))
        png_error(d->png, "not the size that its head had");
    png_set_expand(d->png);
    png_set_strip_16(d->png);
    png_set_gray_to_rgb(d->png);
    png_set_add_alpha(d->png, 0xff, PNG_FILLER_AFTER);
    png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    dlc_check(png_get_rowbytes(d->png, d->info) == 4 * (size_t)image_stored_width(head));
}

static void read_rows(struct decoder *d, struct image_scratch *s, size_t width)
{
    size_t stride, skipped = (size_t)s->x.first * 4;
    uint8_t *input = image_input(s, width, &stride);
    uint64_t y = 0;

    if (input == NULL)
        no_memory(d, 2 * stride);
    for (; y < s->y.first; y++)
        png_read_row(d->png, input, NULL);
    while (y < s->y.last) {
        bool two = y + 1 < s->y.last;

        png_read_row(d->png, input, NULL);
        if (two)
            png_read_row(d->png, input + stride, NULL);
        image_push(s, input + skipped, two ? input + stride + skipped : NULL);
        y += two ? 2 : 1;
    }
}

static void read_interlaced(struct decoder *d, struct image_scratch *s,
                            const struct image_head *head)
{
    size_t width = image_stored_width(head), height = image_stored_height(head);
    size_t stride = 4 * width, room = stride * height + 16 * (size_t)s->x.quads + IMAGE_SLACK;
    uint8_t *all = image_span_need(&s->raw, room), *from;

    if (all == NULL)
        no_memory(d, room);
    for (int pass = 0; pass < 7; pass++)
        for (size_t y = 0; y < height; y++)
            png_read_row(d->png, all + y * stride, NULL);
    from = all + (size_t)s->x.first * 4;
    for (uint64_t y = s->y.first; y < s->y.last; y++)
        image_push(s, from + y * stride, NULL);
}

int image_png_rows(struct image_scratch *s, const void *data, size_t len,
                   const struct image_head *head, struct dlc_err *err)
{
    const uint8_t *bytes = data;
    struct decoder d = {.at = bytes, .end = bytes + len, .err = err};

    if (setjmp(d.jump) == 0) {
        begin(&d, head);
        if (png_get_interlace_type(d.png, d.info) == PNG_INTERLACE_NONE)
            read_rows(&d, s, image_stored_width(head));
        else
            read_interlaced(&d, s, head);
    }
    png_destroy_read_struct(&d.png, &d.info, NULL);
    if (s->raw.cap > KEPT)
        image_span_release(&s->raw);
    return d.rc;
}
