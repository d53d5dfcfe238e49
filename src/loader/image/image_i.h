// SPDX-License-Identifier: Apache-2.0
/*
 * How an image is made, in the frame in which it is stored (EXIF orientation not applied):
 *
 *     decoder (jpeg*.c, png.c, decoded.c)   rows of the box, RGBX: four bytes a pixel, the last is
 * any
 *       -> image_push()                  columns: each row resampled into a ring of rows
 *                                        rows: as soon as its taps are there, a row is finished
 *       -> canvas                        only if it is transposed or jittered: the whole output
 *       -> image_emit()                  layout, type, normalise: into `out`
 *
 * Mirroring, flipping and padding cost nothing: they are the order of the axes' entries.
 */
#ifndef DLC_LOADER_IMAGE_IMAGE_I_H
#define DLC_LOADER_IMAGE_IMAGE_I_H

#include "loader/image/image.h"

/* Weights are PIL's: 22 bits. They are kept in halves of 11 bits so that products of 16 bits do. */
#define IMAGE_WEIGHT_BITS 22
#define IMAGE_LOW_BITS    11

/* What rows of RGBX, of planes and decoded images must have behind them: the fast loops read on. */
#define IMAGE_SLACK 64

struct image_span { /* memory that is kept and grows */
    void *p;
    size_t cap;
};

/* NULL: no memory. What was in it is lost when it grows. */
void *image_span_need(struct image_span *s, size_t n);
void image_span_release(struct image_span *s);

/* One direction: pixel j is the sum of weight * source pixel over its taps. */
struct image_axis {
    uint32_t n;           /* pixels that are made, */
    uint32_t pad, total;  /* behind `pad` zeros, in a line of `total` */
    bool reversed;        /* y: its pixels are wanted in the opposite order */
    uint64_t first, last; /* what is read of the source */
    uint32_t most;        /* taps that one has at most, */
    uint32_t quads;       /* and that by four: room in the table, the same for all */
    uint32_t *start;      /* the first tap of each, counted from `first`; ascending unless turned */
    uint32_t *count;      /* taps of each */
    int16_t *weights;     /* for each and each quad four high and four low halves */
    struct image_span starts, counts, table;
};

/* What one direction of a plan is, in pixels of the source. */
struct image_line {
    double from, length; /* the box */
    uint64_t size;       /* of the source: no tap lies beyond it, nor outside the box */
    uint64_t most;       /* taps of a pixel; more: DLC_EINVAL */
    uint64_t to;         /* the box becomes so long, */
    int64_t left;        /* and from here */
    uint32_t out;        /* so many pixels are wanted */
};

int image_axis_build(struct image_axis *a, const struct image_line *line, struct dlc_err *err);
void image_axis_turn(struct image_axis *a); /* entries in the opposite order */
void image_axis_release(struct image_axis *a);

/* The loops over pixels: portable, or AVX2 where the processor has it. Same bytes from both. */
struct image_ops {
    const char *name;
    /* Two rows at once through the axis; a and b may be the same. Reads whole quads. */
    void (*columns)(uint8_t *a_out, uint8_t *b_out, const uint8_t *a, const uint8_t *b,
                    const struct image_axis *x);
    /* bytes of out from those of so many rows; one more must be there if the number is odd. */
    void (*rows)(uint8_t *out, const uint8_t *const *rows, const int16_t *weights, uint32_t taps,
                 size_t bytes);
    void (*planes)(uint8_t *r, uint8_t *g, uint8_t *b, const uint8_t *rgbx, size_t n);
    void (*pack)(uint8_t *rgb, const uint8_t *rgbx, size_t n);
    void (*unpack)(uint8_t *rgbx, const uint8_t *rgb, size_t n); /* reads and writes slack */
    /* Samples [low, high) of one row of a colour plane that is n wide, doubled both ways as
     * libjpeg's fancy upsampling does: out[0] belongs to sample low. far: the row on the other
     * side. */
    void (*chroma)(uint8_t *out, const uint8_t *near, const uint8_t *far, uint32_t low,
                   uint32_t high, uint32_t n);
    /* The same of a plane that has all rows: doubled across only. */
    void (*chroma_row)(uint8_t *out, const uint8_t *row, uint32_t low, uint32_t high, uint32_t n);
    void (*colour)(uint8_t *rgbx, const uint8_t *y, const uint8_t *u, const uint8_t *v,
                   size_t n); /* as libjpeg; reads and writes slack */
    /* Two blocks of 8x8 coefficients, by rows, to samples: libjpeg's slow integer method. Leaves
     * zeros behind. */
    void (*idct)(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                 const uint16_t *const quant[2]);
    void (*idct_4)(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                   const uint16_t *const quant[2]); /* to 4x4 samples */
    /* Jitter (jitter.c): the fourth byte may become any. */
    void (*mix)(uint8_t *rgbx, size_t n, int base, float factor);
    uint64_t (*grey_sum)(const uint8_t *rgbx, size_t n);
    void (*saturate)(uint8_t *rgbx, size_t n, float factor);
    void (*turn)(uint8_t *rgbx, size_t n, uint8_t turn); /* hue, in 256ths of a circle */
};

void image_mix(uint8_t *rgbx, size_t n, int base, float factor);
uint64_t image_grey_sum(const uint8_t *rgbx, size_t n);
void image_saturate(uint8_t *rgbx, size_t n, float factor);
void image_turn(uint8_t *rgbx, size_t n, uint8_t turn);
void image_idct(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                const uint16_t *const quant[2]);
void image_idct_4(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                  const uint16_t *const quant[2]);
#ifdef __x86_64__
void image_idct_avx2(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                     const uint16_t *const quant[2]);
void image_idct_4_avx2(uint8_t *const out[2], const size_t stride[2], int16_t *blocks,
                       const uint16_t *const quant[2]);
void image_mix_avx2(uint8_t *rgbx, size_t n, int base, float factor);
uint64_t image_grey_sum_avx2(const uint8_t *rgbx, size_t n);
void image_saturate_avx2(uint8_t *rgbx, size_t n, float factor);
void image_turn_avx2(uint8_t *rgbx, size_t n, uint8_t turn);
#endif

/* One block: of no coefficient but the first; to 2x2 samples, leaving zeros; to one sample. */
void image_idct_flat(uint8_t *out, size_t stride, int16_t dc, const uint16_t *quant);
void image_idct_2(uint8_t *out, size_t stride, int16_t *block, const uint16_t *quant);
uint8_t image_idct_1(int16_t dc, uint16_t quant);

extern const struct image_ops image_ops_portable;
#ifdef __x86_64__
extern const struct image_ops image_ops_avx2;
#endif
const struct image_ops *image_ops_best(void);

struct image_scratch {
    uint32_t tag;
    const struct image_ops *ops;
    const struct image_spec *spec;
    const struct image_plan *plan;
    uint8_t *out;

    struct image_axis x, y; /* as stored */
    bool swap;              /* columns as stored are rows as seen */
    uint32_t n_in, n_out;   /* rows pushed, and finished */
    uint32_t ring_rows;
    size_t ring_stride;
    uint8_t *canvas; /* the whole output, RGBX, or NULL: each row goes out at once */
    uint8_t *row;    /* one row, when there is no canvas or it is transposed */
    bool jitters;

    void *table; /* 3 x 256 values of the output's type */
    struct {     /* what the table was made for */
        enum image_type type;
        bool normalise;
        float mean[3], std[3];
    } table_of;

    bool libjpeg; /* let it decode all JPEGs: faster than our portable code */

    struct image_span ring, taps, canvas_mem, row_mem, input, raw, table_mem;
    struct image_span jpeg, strips, wide;
};

/* A row, or two (b != NULL), of the source from x.first on, in order from y.first. */
void image_push(struct image_scratch *s, const uint8_t *a, const uint8_t *b);
int image_begin(struct image_scratch *s, struct dlc_err *err); /* after the axes were built */
void image_end(struct image_scratch *s);

int image_emit_begin(struct image_scratch *s, struct dlc_err *err);
void image_emit(struct image_scratch *s, const uint8_t *rgbx, uint32_t y);
uint16_t image_half(float f); /* to float16, half to even */

void image_jitter(const struct image_ops *ops, uint8_t *rgbx, size_t n,
                  const struct image_plan *plan);
bool image_jitters(const struct image_plan *plan);

/* Two rows of `pixels` RGBX with slack for the widest filter; NULL: no memory. */
uint8_t *image_input(struct image_scratch *s, size_t pixels, size_t *stride);

/* Decoders: push the rows that the axes need. denom: 1, 2, 4, 8. */
int image_jpeg_rows(struct image_scratch *s, const void *data, size_t len,
                    const struct image_head *head, unsigned denom, struct dlc_err *err);
int image_jpeg_lib_rows(struct image_scratch *s, const void *data, size_t len,
                        const struct image_head *head, unsigned denom, struct dlc_err *err);
int image_png_rows(struct image_scratch *s, const void *data, size_t len,
                   const struct image_head *head, struct dlc_err *err);

/* The planes of a 4:2:0 JPEG, one behind the other. */
int image_jpeg_planes(struct image_scratch *s, const void *data, size_t len,
                      const struct image_head *head, uint8_t *planes, struct dlc_err *err);
int image_jpeg_lib_planes(struct image_scratch *s, const void *data, size_t len,
                          const struct image_head *head, uint8_t *planes, struct dlc_err *err);

/* Grey or YCbCr as planes, for a window of rows at least. */
struct image_planes {
    unsigned n; /* 1 or 3 */
    const uint8_t *at[3];
    size_t stride[3];
    uint32_t ring[3];        /* rows that are held: row r lies at r % ring */
    bool halved_x, halved_y; /* colours have half the resolution */
    uint32_t width, rows;    /* of a colour plane */
    uint64_t next;           /* the row of pixels that is pushed next */
    uint8_t *input, *wide[2];
    size_t input_stride;
};

int image_planes_begin(struct image_scratch *s, struct image_planes *p, struct dlc_err *err);
/* Rows before `limit`, as far as they are wanted; one may be left for the next call. */
void image_planes_push(struct image_scratch *s, struct image_planes *p, uint64_t limit);

/* Heads. Sizes as stored; the caller applies the orientation and the limit. */
int image_jpeg_head(const uint8_t *data, size_t len, struct image_head *head, struct dlc_err *err);
int image_png_head(const uint8_t *data, size_t len, struct image_head *head, struct dlc_err *err);
uint8_t image_exif_orientation(const uint8_t *tiff, size_t len); /* 1 when there is none */

/* Orientation as three steps: swap the axes, mirror what is stored along x, along y. */
static inline bool image_swaps(uint8_t orientation)
{
    return orientation >= 5;
}

static inline bool image_mirrors_x(uint8_t o)
{
    return o == 2 || o == 3 || o == 7 || o == 8;
}

static inline bool image_mirrors_y(uint8_t o)
{
    return o == 3 || o == 4 || o == 6 || o == 7;
}

static inline uint32_t image_stored_width(const struct image_head *h)
{
    return image_swaps(h->orientation) ? h->height : h->width;
}

static inline uint32_t image_stored_height(const struct image_head *h)
{
    return image_swaps(h->orientation) ? h->width : h->height;
}

/* What the pixels that are resampled come from. */
struct image_source {
    uint64_t num[2],
        den[2];          /* of the source for each pixel of the image, along x and y as stored */
    uint64_t size[2];    /* of the source, */
    uint64_t present[2]; /* and how much of it there is */
    uint8_t orientation;
};

/* Axes for this plan; then image_begin(), rows, image_end(). */
int image_prepare(struct image_scratch *s, const struct image_source *source,
                  const struct image_spec *spec, const struct image_head *head,
                  const struct image_plan *plan, void *out, struct dlc_err *err);

/* Decoded images (decoded.c) */
int image_decoded_use(struct image_scratch *s, const void *data, size_t len,
                      const struct image_spec *spec, const struct image_head *head,
                      const struct image_plan *plan, void *out, struct dlc_err *err);

#endif
