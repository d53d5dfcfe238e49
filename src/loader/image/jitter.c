// SPDX-License-Identifier: Apache-2.0
/*
 * Colour jitter as torchvision's adjust_* on PIL images: the same roundings, so the same bytes.
 *
 * Brightness, contrast and saturation mix the pixel with black, with the mean of the image's grey,
 * and with the pixel's own grey. PIL mixes in float32 and cuts off the fraction. Hue goes to HSV of
 * 8 bits each, where hue is turned modulo 256, and back.
 */
#include "loader/image/image_i.h"

#include "base/check.h"

static inline uint8_t mix(int base, int x, float factor)
{
    float v = (float)base + factor * (float)(x - base);

    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

static inline int grey(const uint8_t *p)
{
    return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
}

void image_mix(uint8_t *p, size_t n, int base, float factor)
{
    uint8_t table[256];

    for (int x = 0; x < 256; x++)
        table[x] = mix(base, x, factor);
    for (size_t i = 0; i < n * 4; i++)
        p[i] = table[p[i]];
}

uint64_t image_grey_sum(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (uint64_t)grey(p + 4 * i);
    return sum;
}

void image_saturate(uint8_t *p, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++, p += 4) {
        int base = grey(p);

        for (int c = 0; c < 3; c++)
            p[c] = mix(base, p[c], factor);
    }
}

/* Hue and saturation in 8 bits each; r, g and b are not all the same. */
static void to_hsv(const uint8_t *p, int max, int min, uint8_t *hue, uint8_t *sat)
{
    float span = (float)(max - min), s = span / (float)max, h;
    float r = (float)(max - p[0]) / span, g = (float)(max - p[1]) / span;
    float b = (float)(max - p[2]) / span;
    double turn;

    if (p[0] == max)
        h = b - g;
    else if (p[1] == max)
        h = (float)(2.0 + r - b);
    else
        h = (float)(4.0 + g - r);
    turn = h / 6.0 + 1.0;
    h = (float)(turn >= 1.0 ? turn - 1.0 : turn);
    *hue = (uint8_t)DLC_CLAMP((int)(h * 255.0), 0, 255);
    *sat = (uint8_t)DLC_CLAMP((int)(s * 255.0), 0, 255);
}

/* Half is rounded up; v is from 0 to 255. */
static inline uint8_t to_byte(double v)
{
    int whole = (int)v;

    return (uint8_t)(whole + (v - whole >= 0.5));
}

static void from_hsv(uint8_t *p, uint8_t hue, uint8_t sat, uint8_t value)
{
    static const uint8_t order[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3},
                                        {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
    double sixth = (float)hue * 6.0 / 255.0, v = value;
    int i = (int)sixth;
    float f = (float)(sixth - (float)i), s = (float)((float)sat / 255.0);
    uint8_t of[4] = {value, to_byte(v * (1.0 - s)), to_byte(v * (1.0 - s * f)),
                     to_byte(v * (1.0 - s * (1.0 - f)))};

    for (int c = 0; c < 3; c++)
        p[c] = of[order[i % 6][c]];
}

void image_turn(uint8_t *p, size_t n, uint8_t turn)
{
    uint8_t h, s;

    for (size_t i = 0; i < n; i++, p += 4) {
        int max = DLC_MAX(p[0], DLC_MAX(p[1], p[2])), min = DLC_MIN(p[0], DLC_MIN(p[1], p[2]));

        if (max == min) /* grey has no hue */
            continue;
        to_hsv(p, max, min, &h, &s);
        if (s == 0)
            p[0] = p[1] = p[2] = (uint8_t)max;
        else
            from_hsv(p, (uint8_t)(h + turn), s, (uint8_t)max);
    }
}

static float neutral(unsigned kind)
{
    return kind == 3 ? 0 : 1;
}

bool image_jitters(const struct image_plan *plan)
{
    for (unsigned k = 0; k < 4; k++)
        if (plan->factor[k] != neutral(k))
            return true;
    return false;
}

void image_jitter(const struct image_ops *ops, uint8_t *rgbx, size_t n,
                  const struct image_plan *plan)
{
    for (unsigned i = 0; i < 4; i++) {
        unsigned kind = plan->jitter[i] & 3;
        float factor = plan->factor[kind];
        double mean;

        if (factor == neutral(kind))
            continue;
        switch (kind) {
        case 0: ops->mix(rgbx, n, 0, factor); break;
        case 1:
            mean = (double)ops->grey_sum(rgbx, n) / (double)n;
            ops->mix(rgbx, n, (int)(mean + 0.5), factor);
            break;
        case 2: ops->saturate(rgbx, n, factor); break;
        case 3: ops->turn(rgbx, n, (uint8_t)(int)((double)factor * 255)); break;
        }
    }
}
