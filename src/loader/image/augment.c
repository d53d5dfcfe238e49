// SPDX-License-Identifier: Apache-2.0
/*
 * Crop and augmentation: which part of an image a sample becomes, and the random choices. The
 * geometry is torchvision's, including its rounding (half to even) and the behaviour of
 * RandomResizedCrop when ten tries find no box.
 *
 * Random numbers are counter-based: number n of a key is a function of (key, n). Each purpose has
 * its own n.
 */
#include "loader/image/image.h"

#include <math.h>

#include "base/check.h"
#include "base/err.h"
#include "base/rng.h"

#define TRIES 10

enum draw {
    DRAW_BOX = 0, /* four for each try */
    DRAW_FLIP = 4 * TRIES,
    DRAW_FACTOR, /* four */
    DRAW_ORDER = DRAW_FACTOR + 4,
};

static struct rng draw_at(uint64_t key, unsigned n)
{
    return (struct rng){key + n * 0x9e3779b97f4a7c15u};
}

static double draw_between(uint64_t key, unsigned n, double low, double high)
{
    struct rng r = draw_at(key, n);

    return low + (high - low) * rng_unit(&r);
}

static uint32_t draw_below(uint64_t key, unsigned n, uint32_t limit)
{
    struct rng r = draw_at(key, n);

    return (uint32_t)rng_below(&r, limit);
}

uint64_t image_key(uint64_t seed, uint64_t epoch, uint64_t sample)
{
    struct rng r = {seed ^ 0x696d616765u}; /* "image": the order draws from the same seed */

    r.state = rng_next(&r) ^ epoch;
    r.state = rng_next(&r) ^ sample;
    return rng_next(&r);
}

static size_t type_bytes(enum image_type type)
{
    return type == IMAGE_U8 ? 1 : type == IMAGE_F16 ? 2 : 4;
}

size_t image_bytes(const struct image_spec *spec)
{
    return (size_t)spec->width * spec->height * 3 * type_bytes(spec->type);
}

static bool is_range(const double range[2], double low, double high)
{
    return range[0] >= low && range[0] <= range[1] && range[1] <= high; /* false with a NaN */
}

int image_check_spec(const struct image_spec *s, struct dlc_err *err)
{
    if (s->width == 0 || s->height == 0 || s->width > IMAGE_SIDE_MAX || s->height > IMAGE_SIDE_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "image size %ux%u: each side must be from 1 to %d pixels", s->width,
                           s->height, IMAGE_SIDE_MAX);
    if (s->crop == IMAGE_CENTRE && s->resize > IMAGE_SIDE_MAX)
        return dlc_err_set(err, DLC_EINVAL, "resize to %u: at most %d pixels", s->resize,
                           IMAGE_SIDE_MAX);
    if (s->crop == IMAGE_RANDOM_RESIZED && !(s->scale[0] > 0 && is_range(s->scale, 0, 1e6)))
        return dlc_err_set(err, DLC_EINVAL,
                           "scale (%g, %g): must be above 0, the smaller first, as (0.08, 1)",
                           s->scale[0], s->scale[1]);
    if (s->crop == IMAGE_RANDOM_RESIZED && !(s->ratio[0] > 0 && is_range(s->ratio, 0, 1e6)))
        return dlc_err_set(err, DLC_EINVAL,
                           "ratio (%g, %g): must be above 0, the smaller first, as (0.75, 1.33)",
                           s->ratio[0], s->ratio[1]);
    if (!(s->flip >= 0 && s->flip <= 1))
        return dlc_err_set(err, DLC_EINVAL, "flip %g: a probability is from 0 to 1", s->flip);
    if (!is_range(s->brightness, 0, 1e6) || !is_range(s->contrast, 0, 1e6) ||
        !is_range(s->saturation, 0, 1e6))
        return dlc_err_set(
            err, DLC_EINVAL,
            "brightness, contrast and saturation: factors from 0, the smaller first");
    if (!is_range(s->hue, -0.5, 0.5))
        return dlc_err_set(err, DLC_EINVAL, "hue (%g, %g): from -0.5 to 0.5, the smaller first",
                           s->hue[0], s->hue[1]);
    if (s->normalise && s->type == IMAGE_U8)
        return dlc_err_set(err, DLC_EINVAL, "normalise needs float32 or float16, not uint8");
    for (int c = 0; s->normalise && c < 3; c++)
        if (!isfinite(s->mean[c]) || !isfinite(s->std[c]) || s->std[c] == 0)
            return dlc_err_set(err, DLC_EINVAL,
                               "normalise: mean %g, std %g of channel %d: std must not be 0",
                               (double)s->mean[c], (double)s->std[c], c);
    return 0;
}

/* The central box whose ratio is nearest to what the policy allows. */
static void plan_fallback(const struct image_spec *spec, uint32_t width, uint32_t height,
                          struct image_plan *p)
{
    double in_ratio = (double)width / height, w = width, h = height;

    if (in_ratio < spec->ratio[0])
        h = rint(w / spec->ratio[0]);
    else if (in_ratio > spec->ratio[1])
        w = rint(h * spec->ratio[1]);
    p->width = (uint32_t)DLC_CLAMP(w, 1, width);
    p->height = (uint32_t)DLC_CLAMP(h, 1, height);
    p->x = (width - p->width) / 2;
    p->y = (height - p->height) / 2;
}

static void plan_random(const struct image_spec *spec, uint64_t key, uint32_t width,
                        uint32_t height, struct image_plan *p)
{
    double area = (double)width * height;

    p->to_width = spec->width;
    p->to_height = spec->height;
    for (unsigned n = DRAW_BOX; n < DRAW_BOX + 4 * TRIES; n += 4) {
        double target = area * draw_between(key, n, spec->scale[0], spec->scale[1]);
        double aspect = exp(draw_between(key, n + 1, log(spec->ratio[0]), log(spec->ratio[1])));
        double w = rint(sqrt(target * aspect)), h = rint(sqrt(target / aspect));

        if (w < 1 || w > width || h < 1 || h > height)
            continue;
        p->width = (uint32_t)w;
        p->height = (uint32_t)h;
        p->y = draw_below(key, n + 2, height - p->height + 1);
        p->x = draw_below(key, n + 3, width - p->width + 1);
        return;
    }
    plan_fallback(spec, width, height, p);
}

/* Where the output begins in a side that was resized to `to`: in the middle. What is too small is
 * first padded to the size of the output, the odd pixel behind. */
static int64_t centre(uint64_t to, uint32_t out)
{
    if (out > to)
        return -(int64_t)((out - to) / 2);
    return (int64_t)rint((double)(to - out) / 2);
}

static void plan_centre(const struct image_spec *spec, uint32_t width, uint32_t height,
                        struct image_plan *p)
{
    uint32_t shorter = DLC_MIN(width, height), longer = DLC_MAX(width, height);
    uint64_t to_longer;

    p->to_width = width;
    p->to_height = height;
    if (spec->resize != 0) {
        to_longer = (uint64_t)((double)((uint64_t)spec->resize * longer) / shorter);
        p->to_width = width <= height ? spec->resize : to_longer;
        p->to_height = width <= height ? to_longer : spec->resize;
    }
    p->left = centre(p->to_width, spec->width);
    p->top = centre(p->to_height, spec->height);
}

static void plan_jitter(const struct image_spec *spec, uint64_t key, struct image_plan *p)
{
    const double *range[4] = {spec->brightness, spec->contrast, spec->saturation, spec->hue};
    struct rng r = draw_at(key, DRAW_ORDER);

    for (unsigned i = 0; i < 4; i++) {
        unsigned j = (unsigned)rng_below(&r, i + 1);

        p->factor[i] = (float)draw_between(key, DRAW_FACTOR + i, range[i][0], range[i][1]);
        p->jitter[i] = p->jitter[j];
        p->jitter[j] = (uint8_t)i;
    }
}

void image_plan(const struct image_spec *spec, uint64_t key, uint32_t width, uint32_t height,
                struct image_plan *p)
{
    dlc_check(width > 0 && height > 0);
    *p = (struct image_plan){.width = width, .height = height};
    if (spec->crop == IMAGE_RANDOM_RESIZED) {
        plan_random(spec, key, width, height, p);
    } else if (spec->crop == IMAGE_CENTRE) {
        plan_centre(spec, width, height, p);
    } else {
        p->to_width = spec->width;
        p->to_height = spec->height;
    }
    p->flip = draw_between(key, DRAW_FLIP, 0, 1) < spec->flip;
    plan_jitter(spec, key, p);
}
