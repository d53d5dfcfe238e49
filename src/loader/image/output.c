// SPDX-License-Identifier: Apache-2.0
/*
 * The last pass of the image pipeline: converts a row of RGBX to the format of the output, and
 * writes it there.
 *
 * Floats come from a table of 3 x 256 values, computed in the order of torchvision's ToTensor and
 * Normalize: division by 255, minus mean, division by std, each rounded to float32. So they are
 * equal to torchvision's to the last bit; float16 is float32 rounded once.
 */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/err.h"

uint16_t image_half(float f)
{
    uint32_t bits, sign, mantissa, shift;
    int exponent;

    memcpy(&bits, &f, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    exponent = (int)(bits >> 23 & 0xff) - 127 + 15;
    mantissa = bits & 0x7fffff;
    if (exponent == 255 - 127 + 15) /* infinite, or not a number */
        return (uint16_t)(sign | 0x7c00 | (mantissa != 0 ? 0x200 : 0));
    if (exponent >= 31)
        return (uint16_t)(sign | 0x7c00);
    if (exponent < -10)
        return (uint16_t)sign;
    shift = exponent > 0 ? 13 : (uint32_t)(14 - exponent); /* below 1: subnormal */
    mantissa |= exponent > 0 ? 0 : 0x800000;
    bits = mantissa >> shift;
    if ((mantissa >> (shift - 1) & 1) != 0 &&
        ((mantissa & ((1u << (shift - 1)) - 1)) != 0 || (bits & 1) != 0))
        bits++; /* may carry into the exponent: that is right */
    return (uint16_t)(sign | ((exponent > 0 ? (uint32_t)exponent << 10 : 0) + bits));
}

static float value(const struct image_spec *spec, int channel, int x)
{
    float v = (float)x / 255.0f;

    if (spec->normalise) {
        v -= spec->mean[channel];
        v /= spec->std[channel];
    }
    return v;
}

static bool table_is_for(const struct image_scratch *s, const struct image_spec *spec)
{
    return s->table != NULL && s->table_of.type == spec->type &&
           s->table_of.normalise == spec->normalise &&
           (!spec->normalise || (memcmp(s->table_of.mean, spec->mean, sizeof(spec->mean)) == 0 &&
                                 memcmp(s->table_of.std, spec->std, sizeof(spec->std)) == 0));
}

int image_emit_begin(struct image_scratch *s, struct dlc_err *err)
{
    const struct image_spec *spec = s->spec;

    if (spec->type == IMAGE_U8 || table_is_for(s, spec))
        return 0;
    s->table = image_span_need(&s->table_mem, 3 * 256 * sizeof(float));
    if (s->table == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for a table of pixel values");
    for (int i = 0; i < 3 * 256; i++) {
        float v = value(spec, i / 256, i % 256);

        if (spec->type == IMAGE_F32)
            ((float *)s->table)[i] = v;
        else
            ((uint16_t *)s->table)[i] = image_half(v);
    }
    s->table_of.type = spec->type;
    s->table_of.normalise = spec->normalise;
    memcpy(s->table_of.mean, spec->mean, sizeof(spec->mean));
    memcpy(s->table_of.std, spec->std, sizeof(spec->std));
    return 0;
}

static void emit_u8(struct image_scratch *s, const uint8_t *rgbx, uint32_t y)
{
    size_t w = s->spec->width, plane = w * s->spec->height;
    uint8_t *out = s->out + y * w;

    if (s->spec->layout == IMAGE_NHWC)
        s->ops->pack(s->out + y * w * 3, rgbx, w);
    else
        s->ops->planes(out, out + plane, out + 2 * plane, rgbx, w);
}

/* Where channel c of the row's first pixel goes, and how far it is to the next pixel. */
static size_t place(const struct image_spec *spec, uint32_t y, unsigned c, size_t *step)
{
    size_t w = spec->width, plane = w * spec->height;

    *step = spec->layout == IMAGE_NHWC ? 3 : 1;
    return spec->layout == IMAGE_NHWC ? y * w * 3 + c : c * plane + y * w;
}

static void emit_f32(struct image_scratch *s, const uint8_t *rgbx, uint32_t y)
{
    for (unsigned c = 0; c < 3; c++) {
        const float *table = (const float *)s->table + c * 256;
        size_t step, at = place(s->spec, y, c, &step);
        float *out = (float *)(void *)s->out + at;

        for (size_t x = 0; x < s->spec->width; x++)
            out[x * step] = table[rgbx[4 * x + c]];
    }
}

static void emit_f16(struct image_scratch *s, const uint8_t *rgbx, uint32_t y)
{
    for (unsigned c = 0; c < 3; c++) {
        const uint16_t *table = (const uint16_t *)s->table + c * 256;
        size_t step, at = place(s->spec, y, c, &step);
        uint16_t *out = (uint16_t *)(void *)s->out + at;

        for (size_t x = 0; x < s->spec->width; x++)
            out[x * step] = table[rgbx[4 * x + c]];
    }
}

void image_emit(struct image_scratch *s, const uint8_t *rgbx, uint32_t y)
{
    switch (s->spec->type) {
    case IMAGE_U8: emit_u8(s, rgbx, y); break;
    case IMAGE_F32: emit_f32(s, rgbx, y); break;
    case IMAGE_F16: emit_f16(s, rgbx, y); break;
    }
}
