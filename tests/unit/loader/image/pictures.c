// SPDX-License-Identifier: Apache-2.0
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <png.h>

#include "base/mem.h"

uint8_t picture_at(unsigned x, unsigned y, unsigned channel)
{
    unsigned edge = (x / 13 + y / 11 + channel) % 3 * 60;

    return (uint8_t)(edge + (x * (channel + 1) + y * 3) % 120);
}

/* The same each time, and no pattern in it. */
static uint8_t grainy(unsigned x, unsigned y, unsigned channel, unsigned noise)
{
    uint32_t h = (x * 0x9e3779b1u) ^ (y * 0x85ebca6bu) ^ (channel * 0xc2b2ae35u);
    int v = picture_at(x, y, channel);

    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h ^= h >> 13;
    v += noise == 0 ? 0 : (int)(h % (2 * noise)) - (int)noise;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void set_scans(struct jpeg_compress_struct *c, int n, jpeg_scan_info *scans)
{
    scans[0] = (jpeg_scan_info){.comps_in_scan = c->num_components, .Al = 0};
    for (int i = 0; i < c->num_components; i++)
        scans[0].component_index[i] = i;
    for (int i = 1; i < n; i++) {
        int k = 1 + (i - 1) % 63; /* one coefficient of a component each */

        scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .Ss = k, .Se = k};
        scans[i].component_index[0] = (i - 1) / 63 % c->num_components;
    }
    c->scan_info = scans;
    c->num_scans = n;
}

void picture_jpeg(struct buf *out, unsigned width, unsigned height, const struct picture_jpeg *how)
{
    static const struct picture_jpeg plain = {0};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[200];
    unsigned char *data = NULL;
    unsigned long len = 0;
    JSAMPROW row;

    how = how == NULL ? &plain : how;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, &len);
    c.image_width = width;
    c.image_height = height;
    c.input_components = how->components == 0 ? 3 : how->components;
    c.in_color_space = c.input_components == 1   ? JCS_GRAYSCALE
                       : c.input_components == 3 ? JCS_RGB
                                                 : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, how->quality == 0 ? 85 : how->quality, !how->wide_quant);
    c.optimize_coding = how->optimise;
    c.restart_interval = how->restart;
    if (how->h != 0) {
        c.comp_info[0].h_samp_factor = how->h;
        c.comp_info[0].v_samp_factor = how->v;
    }
    if (how->progressive)
        jpeg_simple_progression(&c);
    if (how->scans != 0)
        set_scans(&c, how->scans, scans);
    jpeg_start_compress(&c, TRUE);
    row = mem_alloc((size_t)width * (size_t)c.input_components);
    for (unsigned y = 0; y < height; y++) {
        for (unsigned i = 0; i < width * (unsigned)c.input_components; i++)
            row[i] = grainy(i / (unsigned)c.input_components, y, i % (unsigned)c.input_components,
                            how->noise);
        jpeg_write_scanlines(&c, &row, 1);
    }
    mem_free(&row);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    buf_clear(out);
    buf_add(out, data, len);
    free(data);
}

static void on_write(png_structp png, png_bytep data, size_t n)
{
    buf_add(png_get_io_ptr(png), data, n);
}

void picture_png(struct buf *out, unsigned width, unsigned height, int colour, int bits,
                 bool interlaced)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[256];
    size_t bytes;
    uint8_t *rows, **at;

    buf_clear(out);
    png_set_write_fn(png, out, on_write, NULL);
    png_set_IHDR(png, info, width, height, bits, colour,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    for (unsigned i = 0; i < 256; i++)
        palette[i] = (png_color){(uint8_t)i, (uint8_t)(255 - i), (uint8_t)(i * 7)};
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 1 << bits);
    png_write_info(png, info);
    bytes = png_get_rowbytes(png, info);
    rows = mem_alloc(bytes * height);
    at = mem_alloc(height * sizeof(*at));
    for (unsigned y = 0; y < height; y++) {
        at[y] = rows + y * bytes;
        for (size_t i = 0; i < bytes; i++)
            at[y][i] = picture_at((unsigned)i / 3, y, (unsigned)i % 3);
    }
    png_write_image(png, at);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    mem_free(&rows);
    mem_free(&at);
}

struct image_spec picture_spec(unsigned width, unsigned height)
{
    return (struct image_spec){
        .width = width,
        .height = height,
        .crop = IMAGE_RANDOM_RESIZED,
        .scale = {0.08, 1},
        .ratio = {3.0 / 4, 4.0 / 3},
        .flip = 0.5,
        .brightness = {1, 1},
        .contrast = {1, 1},
        .saturation = {1, 1},
    };
}
