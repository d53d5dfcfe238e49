// SPDX-License-Identifier: Apache-2.0
/* Encoded images for tests: any size and kind, the same every time. */
#ifndef DLC_TESTS_LOADER_PICTURES_H
#define DLC_TESTS_LOADER_PICTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "loader/image/image.h"

struct picture_jpeg {
    int components; /* 1, 3 (default), 4 */
    int quality;    /* default 85 */
    int h, v;       /* sampling of the first component; default 2, 2 */
    bool progressive;
    bool optimise;    /* Huffman tables of its own */
    bool wide_quant;  /* steps of more than 8 bits where the quality asks for them */
    unsigned restart; /* MCUs between restarts */
    unsigned noise;   /* grain on every pixel, up to so much */
    int scans;        /* progressive: so many of the same coefficients, one behind the other */
};

/* Byte `channel` of pixel (x, y): smooth, with edges. */
uint8_t picture_at(unsigned x, unsigned y, unsigned channel);

void picture_jpeg(struct buf *out, unsigned width, unsigned height, const struct picture_jpeg *how);

/* colour: PNG_COLOR_TYPE_*. */
void picture_png(struct buf *out, unsigned width, unsigned height, int colour, int bits,
                 bool interlaced);

/* RandomResizedCrop(size) and flip to uint8. */
struct image_spec picture_spec(unsigned width, unsigned height);

#endif
