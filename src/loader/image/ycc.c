// SPDX-License-Identifier: Apache-2.0
/*
 * Planes of samples to rows of RGBX: colours are brought to full resolution and converted as
 * libjpeg does. Where a colour plane is halved along y, a row of pixels needs the row of colours
 * next to its own: above an even one, below an odd one.
 */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

int image_planes_begin(struct image_scratch *s, struct image_planes *p, struct dlc_err *err)
{
    size_t n = (size_t)(s->x.last - s->x.first);
    size_t room = n + 2 + IMAGE_SLACK;

    p->next = s->y.first;
    p->input = image_input(s, n + 16, &p->input_stride);
    p->wide[0] = image_span_need(&s->wide, 2 * room);
    if (p->input == NULL || p->wide[0] == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for two rows of %zu pixels", n);
    p->wide[1] = p->wide[0] + room;
    if (p->n == 1) /* no colour */
        memset(p->wide[0], 128, 2 * room);
    return 0;
}

static const uint8_t *row_of(const struct image_planes *p, unsigned i, uint64_t r)
{
    return p->at[i] + (size_t)(r % p->ring[i]) * p->stride[i];
}

/* Colour i of pixel row r, from x.first on. */
static const uint8_t *colour_of(const struct image_scratch *s, const struct image_planes *p,
                                unsigned i, uint64_t r)
{
    uint32_t low = (uint32_t)(s->x.first / 2), high = (uint32_t)((s->x.last + 1) / 2);
    uint8_t *wide = p->wide[i - 1];
    uint64_t near = r / 2, far;

    if (p->n == 1)
        return wide;
    if (!p->halved_x)
        return row_of(p, i, r) + s->x.first;
    if (p->halved_y) {
        far = r % 2 == 0 ? near - (near > 0) : DLC_MIN(near + 1, p->rows - 1);
        s->ops->chroma(wide, row_of(p, i, near), row_of(p, i, far), low, high, p->width);
    } else {
        s->ops->chroma_row(wide, row_of(p, i, r), low, high, p->width);
    }
    return wide + s->x.first % 2;
}

static void make_row(const struct image_scratch *s, const struct image_planes *p, uint64_t r,
                     uint8_t *out)
{
    s->ops->colour(out, row_of(p, 0, r) + s->x.first, colour_of(s, p, 1, r), colour_of(s, p, 2, r),
                   (size_t)(s->x.last - s->x.first));
}

void image_planes_push(struct image_scratch *s, struct image_planes *p, uint64_t limit)
{
    uint8_t *second = p->input + p->input_stride;
    bool last = limit >= s->y.last;

    limit = DLC_MIN(limit, s->y.last);
    for (; p->next + 2 <= limit; p->next += 2) {
        make_row(s, p, p->next, p->input);
        make_row(s, p, p->next + 1, second);
        image_push(s, p->input, second);
    }
    if (last && p->next < limit) {
        make_row(s, p, p->next++, p->input);
        image_push(s, p->input, NULL);
    }
}
