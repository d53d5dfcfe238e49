// SPDX-License-Identifier: Apache-2.0
/*
 * The weights of the resampler: a triangle as wide as two output pixels (or two source pixels, when
 * it enlarges), cut at the edges of the box. Computed as PIL does, in the same order of operations,
 * so that the fixed-point weights are the same to the last bit. Taps at the ends whose weight is
 * zero are left out.
 */
#include "loader/image/image_i.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"

struct filter {
    double from, scale, support, step; /* step: 1 / width of half the triangle */
    int64_t n;                         /* source pixels in the box */
};

void *image_span_need(struct image_span *s, size_t n)
{
    if (n > s->cap) {
        mem_free(&s->p);
        s->cap = 0;
        s->p = mem_try_alloc(n);
        if (s->p != NULL)
            s->cap = n;
    }
    return s->p;
}

void image_span_release(struct image_span *s)
{
    mem_free(&s->p);
    s->cap = 0;
}

static double triangle(double x)
{
    x = x < 0 ? -x : x;
    return x < 1 ? 1 - x : 0;
}

/* The taps of output pixel i: [*low, *high). */
static inline double reach(const struct filter *f, int64_t i, int64_t *low, int64_t *high)
{
    double centre = f->from + ((double)i + 0.5) * f->scale;
    double a = centre - f->support + 0.5, b = centre + f->support + 0.5;

    *low = a > 0 ? (int64_t)a : 0;
    *high = DLC_MIN((int64_t)b, f->n);
    *low = DLC_MIN(*low, f->n - 1); /* rounding, when the box ends within a pixel */
    *high = DLC_MAX(*high, *low + 1);
    return centre;
}

static void put_weight(int16_t *w, uint32_t tap, int32_t k)
{
    w += (tap / 4) * 8 + tap % 4;
    w[0] = (int16_t)(k >> IMAGE_LOW_BITS);
    w[4] = (int16_t)(k & ((1 << IMAGE_LOW_BITS) - 1));
}

/* Weights of the entry for output pixel i. Gives the first tap that counts. */
static uint32_t fill(const struct filter *f, int64_t i, int16_t *weights, uint32_t *count)
{
    int64_t low, high;
    double centre = reach(f, i, &low, &high), sum = 0;
    uint32_t n = 0;
    int64_t first = low;

    for (int64_t x = low; x < high; x++)
        sum += triangle(((double)x - centre + 0.5) * f->step);
    *count = 1;
    for (int64_t x = low; x < high; x++) {
        double w = triangle(((double)x - centre + 0.5) * f->step);
        int32_t k = sum == 0 ? 0 : (int32_t)(0.5 + w / sum * (1 << IMAGE_WEIGHT_BITS));

        if (k == 0 && n == 0) {
            first = DLC_MIN(x + 1, high - 1);
            continue;
        }
        put_weight(weights, n++, k);
        if (k != 0)
            *count = n;
    }
    return (uint32_t)first;
}

/* Which of the wanted pixels lie in the resized box. */
static void cut(struct image_axis *a, const struct image_line *line)
{
    int64_t begin = DLC_MAX(line->left, 0);
    int64_t end = DLC_MIN(line->left + (int64_t)line->out, (int64_t)line->to);

    dlc_check(begin < end);
    a->n = (uint32_t)(end - begin);
    a->pad = (uint32_t)(begin - line->left);
    a->total = line->out;
    a->reversed = false;
}

static struct filter filter_of(const struct image_line *line, uint64_t *base)
{
    struct filter f;
    double low = floor(line->from), high = ceil(line->from + line->length);

    high = DLC_MIN(high, (double)line->size);
    low = DLC_MIN(low, high - 1);
    *base = (uint64_t)low;
    f.n = (int64_t)(high - low);
    f.from = line->from - low;
    f.scale = line->length / (double)line->to;
    f.support = f.scale < 1 ? 1 : f.scale;
    f.step = 1 / f.support;
    return f;
}

static int make_room(struct image_axis *a, const struct filter *f, const struct image_line *line,
                     struct dlc_err *err)
{
    int64_t most = 1, low, high;

    for (uint32_t j = 0; j < a->n; j++) {
        reach(f, line->left + a->pad + j, &low, &high);
        most = DLC_MAX(most, high - low);
    }
    if ((uint64_t)most > line->most + 2) /* two may have no weight */
        return dlc_err_set(err, DLC_EINVAL,
                           "a pixel of %lld others, where there are %llu: made for another crop?",
                           (long long)most, (unsigned long long)line->most);
    a->quads = (uint32_t)((most + 3) / 4);
    a->start = image_span_need(&a->starts, a->n * sizeof(*a->start));
    a->count = image_span_need(&a->counts, a->n * sizeof(*a->count));
    a->weights = image_span_need(&a->table, (size_t)a->n * a->quads * 8 * sizeof(*a->weights));
    if (a->start == NULL || a->count == NULL || a->weights == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for the weights of %u pixels from %lld",
                           a->n, (long long)f->n);
    memset(a->weights, 0, (size_t)a->n * a->quads * 8 * sizeof(*a->weights));
    return 0;
}

/* Leaving out taps may have left whole quads empty in all entries. */
static void shorten(struct image_axis *a, uint32_t most)
{
    uint32_t quads = (most + 3) / 4;

    a->most = most;
    for (uint32_t j = 1; quads < a->quads && j < a->n; j++)
        memmove(a->weights + (size_t)j * quads * 8, a->weights + (size_t)j * a->quads * 8,
                (size_t)quads * 8 * sizeof(*a->weights));
    a->quads = quads;
}

int image_axis_build(struct image_axis *a, const struct image_line *line, struct dlc_err *err)
{
    uint64_t base;
    uint32_t most = 1, last = 0;
    struct filter f = filter_of(line, &base);
    int rc;

    cut(a, line);
    rc = make_room(a, &f, line, err);
    if (rc < 0)
        return rc;
    for (uint32_t j = 0; j < a->n; j++) {
        a->start[j] =
            fill(&f, line->left + a->pad + j, a->weights + (size_t)j * a->quads * 8, &a->count[j]);
        most = DLC_MAX(most, a->count[j]);
        last = DLC_MAX(last, a->start[j] + a->count[j]);
    }
    shorten(a, most);
    a->first = base + a->start[0];
    a->last = base + last;
    for (uint32_t j = a->n; j > 0; j--)
        a->start[j - 1] -= a->start[0];
    return 0;
}

void image_axis_turn(struct image_axis *a)
{
    size_t each = (size_t)a->quads * 8;

    for (uint32_t i = 0, j = a->n - 1; i < j; i++, j--) {
        uint32_t start = a->start[i], count = a->count[i];

        a->start[i] = a->start[j];
        a->start[j] = start;
        a->count[i] = a->count[j];
        a->count[j] = count;
        for (size_t k = 0; k < each; k++) {
            int16_t w = a->weights[i * each + k];

            a->weights[i * each + k] = a->weights[j * each + k];
            a->weights[j * each + k] = w;
        }
    }
    a->pad = a->total - a->pad - a->n;
}

void image_axis_release(struct image_axis *a)
{
    image_span_release(&a->starts);
    image_span_release(&a->counts);
    image_span_release(&a->table);
}
