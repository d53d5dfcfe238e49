// SPDX-License-Identifier: Apache-2.0
/*
 * Our own decoder of the JPEGs that are common: baseline, one interleaved scan, 8 bits, grey or
 * YCbCr with colours at full or half resolution. Anything else is libjpeg's (jpeg_turbo.c), and
 * which it is, is decided by the headers before anything is decoded.
 *
 *     jpeg_markers.c   headers: is it ours, and what does it say?
 *     jpeg_huffman.c    Huffman tables as tables to look up
 *     jpeg_bitstream.c    the scan's bytes without stuffing, restarts, where data end
 *     jpeg_scan.c    rows of blocks: coefficients, or only their lengths where nobody wants them
 *     idct*.c        coefficients to samples
 *     jpeg.c         which rows and columns, and what becomes of the samples
 *
 * (JPEG-1) Pixels are libjpeg-turbo's, byte for byte, those of a whole decode however little is cut
 *          out. That holds for hostile coefficients too, where arithmetic in 16 bits overflows,
 *          since it is done as libjpeg-turbo's vector code does it.
 * (JPEG-2) What libjpeg notices and jpeg_turbo.c makes an error is one here. Ours is stricter with
 * codes that no table has, which libjpeg passes over in the middle of a large file, and milder with
 *      a file that ends before its last marker but has all its pixels.
 * (JPEG-3) Memory: tables, a window of the scan and two rows of MCUs, whatever the image.
 */
#ifndef DLC_LOADER_IMAGE_FASTJPEG_JPEG_I_H
#define DLC_LOADER_IMAGE_FASTJPEG_JPEG_I_H

#include "loader/image/image_i.h"

#define JPEG_LOOK_BITS 9  /* a symbol is looked up by so many, */
#define JPEG_PAIR_BITS 11 /* and two with their values */

/* One symbol of a table: what it takes, how far it goes. */
#define JPEG_BITS(e)      ((e)&63)           /* code and the value behind it: at most 31 */
#define JPEG_CODE_BITS(e) ((e) >> 8 & 63)    /* code alone */
#define JPEG_SIZE(e)      ((e) >> 16 & 0xff) /* value alone */
#define JPEG_STEP(e)      ((e) >> 24)        /* coefficients: zeros before it and itself */
#define JPEG_END          64                 /* the step of an end of block: beyond any block */

/* Two symbols with their values. A second one that is none repeats the first's value in place. */
#define JPEG_PAIR_BOTH(e)     ((e)&63)        /* bits that both take, */
#define JPEG_PAIR_FIRST(e)    ((e) >> 8 & 63) /* and that the first takes */
#define JPEG_PAIR_STEP(e, i)  ((e) >> (16 + 8 * (i)) & 0xff)
#define JPEG_PAIR_VALUE(e, i) ((int16_t)((e) >> (32 + 16 * (i))))

struct jpeg_code {
    uint64_t pairs[1 << JPEG_PAIR_BITS]; /* of coefficients; 0: not to be found here */
    uint32_t look[1 << JPEG_LOOK_BITS];  /* by the next bits; 0: a longer code, or none */
    int32_t most[17], base[17];          /* of each length: its largest code, value minus code */
    uint8_t counts[16], values[256];     /* what it was made from */
    bool made, paired;
};

struct jpeg_codes { /* kept from image to image: most have the same tables */
    struct jpeg_code dc[2], ac[2];
};

struct jpeg_part { /* a component */
    uint8_t id, h, v;
    uint8_t quant, dc, ac; /* which tables */
};

struct jpeg_frame {
    uint32_t width, height;
    unsigned n_parts; /* 1 or 3 */
    struct jpeg_part parts[3];
    uint16_t quant[4][64]; /* by rows */
    bool has_quant[4];
    const uint8_t *dc[2], *ac[2]; /* 16 counts and so many values; NULL: none */
    uint32_t restart;             /* blocks of all components (MCUs) between two marks; 0: none */
    const uint8_t *scan;
    size_t scan_len;
};

extern const uint8_t jpeg_order[64 + JPEG_END]; /* where in rows a coefficient lies; beyond: 63 */

/* Is it ours? Borrows data for as long as the frame is used. */
bool jpeg_frame_read(struct jpeg_frame *f, const uint8_t *data, size_t len);

/* From 16 counts and the values. False: not a table that libjpeg would take. */
bool jpeg_code_make(struct jpeg_code *c, const uint8_t *from, bool ac, bool pairs);

/* The symbol whose code is longer than the table looks; 0: no code begins like this. */
uint32_t jpeg_code_long(const struct jpeg_code *c, uint64_t next, bool ac);

/* An MCU has six blocks at most, each 64 symbols of 31 bits. */
#define JPEG_MCU_BYTES (6 * 64 * 31 / 8)
#define JPEG_PAD       (JPEG_MCU_BYTES + 48)
#define JPEG_WINDOW    8192

/*
 * The scan as bits. The next `left` ones stand at the top of `bits`; more are loaded from p, eight
 * bytes at a time, out of a window that holds the scan without stuffing, and zeros behind its end.
 *
 * (JPEG-WINDOW-1) While p < safe a whole MCU can be read without looking where the window ends.
 */
struct jpeg_bits {
    uint64_t bits;
    uint32_t left;
    bool bad; /* met a code that no table has */
    const uint8_t *p, *safe, *end;
    const uint8_t *src, *src_end;
    bool ended;      /* the window holds all up to the next marker, */
    unsigned marker; /* and that is it; 0: data ended */
    uint8_t window[JPEG_WINDOW + JPEG_PAD];
};

void jpeg_bits_open(struct jpeg_bits *b, const uint8_t *src, size_t len);
bool jpeg_bits_more(struct jpeg_bits *b); /* p >= safe. False: more was read than there is */
bool jpeg_bits_overrun(const struct jpeg_bits *b);
/* Behind the next marker, which must be this one. */
bool jpeg_bits_restart(struct jpeg_bits *b, unsigned marker);

/* Where one component's samples go. */
struct jpeg_plane {
    uint8_t *at; /* the strip that is written now */
    size_t stride;
    unsigned size; /* of a block's side: 8, or less when reduced */
    uint8_t h, v;
    const uint16_t *quant;
    const struct jpeg_code *dc, *ac;
};

/* A row of MCUs after the other. */
struct jpeg_scan {
    const struct image_ops *ops;
    unsigned n_planes;
    struct jpeg_plane planes[3];
    uint32_t columns;  /* MCUs in a row */
    uint32_t from, to; /* those whose samples are wanted */
    uint32_t row;
    uint32_t restart, togo, next_mark;
    uint32_t dc[3]; /* the first coefficient of the block before; only 16 bits count */
    struct jpeg_bits bits;
};

/* wanted: into the planes, [from, to) of it. last: nothing behind that is read. */
int jpeg_scan_row(struct jpeg_scan *s, bool wanted, bool last, struct dlc_err *err);

#endif
