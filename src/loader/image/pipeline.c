// SPDX-License-Identifier: Apache-2.0
/* The image pipeline: chooses scale, axes and decoder for a plan, and produces its pixels. */
#include "loader/image/image_i.h"

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"

#define SCRATCH_TAG DLC_TAG4('i', 'm', 'g', 's')

struct image_scratch *image_scratch_new(void)
{
    struct image_scratch *s = mem_new(struct image_scratch);

    s->tag = SCRATCH_TAG;
    s->ops = image_ops_best();
    s->libjpeg = s->ops == &image_ops_portable; /* it has vector code for more processors */
    return s;
}

void image_scratch_free(struct image_scratch **sp)
{
    struct image_scratch *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    image_axis_release(&s->x);
    image_axis_release(&s->y);
    image_span_release(&s->ring);
    image_span_release(&s->taps);
    image_span_release(&s->canvas_mem);
    image_span_release(&s->row_mem);
    image_span_release(&s->input);
    image_span_release(&s->raw);
    image_span_release(&s->table_mem);
    image_span_release(&s->jpeg);
    image_span_release(&s->strips);
    image_span_release(&s->wide);
    mem_free(&s);
}

/* One direction of the plan in the source's pixels; mirrored: the source runs against it. */
static struct image_line line_of(uint32_t from, uint32_t length, uint32_t whole,
                                 const struct image_source *source, unsigned axis, bool mirrored)
{
    double num = (double)source->num[axis], den = (double)source->den[axis];
    uint32_t begin = mirrored ? whole - from - length : from;

    return (struct image_line){
        .from = (double)begin * num / den,
        .length = (double)length * num / den,
        .size = source->size[axis],
        .most = source->present[axis],
    };
}

static void window_of(struct image_line *line, uint64_t to, int64_t left, uint32_t out,
                      bool mirrored)
{
    line->to = to;
    line->out = out;
    line->left = mirrored ? (int64_t)to - left - (int64_t)out : left;
}

static int check_plan(const struct image_spec *spec, const struct image_head *head,
                      const struct image_plan *p, struct dlc_err *err)
{
    bool inside = p->width > 0 && p->height > 0 && p->x <= head->width && p->y <= head->height &&
                  p->width <= head->width - p->x && p->height <= head->height - p->y;
    int64_t right = p->left + (int64_t)spec->width, bottom = p->top + (int64_t)spec->height;

    if (!inside)
        return dlc_err_set(err, DLC_EINVAL,
                           "box %ux%u at (%u, %u) lies outside the image of %ux%u: make the plan "
                           "for this image's head",
                           p->width, p->height, p->x, p->y, head->width, head->height);
    if (right <= 0 || bottom <= 0 || p->left >= (int64_t)p->to_width ||
        p->top >= (int64_t)p->to_height)
        return dlc_err_set(err, DLC_EINVAL, "the output lies outside the resized image");
    return 0;
}

int image_prepare(struct image_scratch *s, const struct image_source *source,
                  const struct image_spec *spec, const struct image_head *head,
                  const struct image_plan *p, void *out, struct dlc_err *err)
{
    uint8_t o = source->orientation;
    bool swap = image_swaps(o);
    bool mirror[2] = {image_mirrors_x(o), image_mirrors_y(o)}; /* as stored */
    unsigned h = swap ? 1 : 0, v = swap ? 0 : 1;               /* where x and y as seen lie */
    struct image_line line[2];
    int rc = check_plan(spec, head, p, err);

    if (rc < 0)
        return rc;
    line[h] = line_of(p->x, p->width, head->width, source, h, mirror[h]);
    line[v] = line_of(p->y, p->height, head->height, source, v, mirror[v]);
    window_of(&line[h], p->to_width, p->left, spec->width, mirror[h]);
    window_of(&line[v], p->to_height, p->top, spec->height, mirror[v]);
    s->spec = spec;
    s->plan = p;
    s->out = out;
    s->swap = swap;
    s->jitters = image_jitters(p);
    rc = image_axis_build(&s->x, &line[0], err);
    if (rc == 0)
        rc = image_axis_build(&s->y, &line[1], err);
    if (rc < 0)
        return rc;
    mirror[h] ^= p->flip;
    if (mirror[0])
        image_axis_turn(&s->x);
    s->y.reversed = mirror[1];
    return 0;
}

/*
 * The strongest reduction that leaves the box at least as large as what it becomes. libjpeg reduces
 * colours of half the resolution less, but not if they are halved in one direction only: then it is
 * they that must stay large enough.
 */
static unsigned denominator(const struct image_spec *spec, const struct image_head *head,
                            const struct image_plan *p)
{
    unsigned d = 8;

    if (spec->exact || head->format != IMAGE_JPEG)
        return 1;
    while (d > 1 && (p->width < d * p->to_width || p->height < d * p->to_height))
        d /= 2;
    return head->uneven && d > 1 ? d / 2 : d;
}

int image_make(struct image_scratch *s, const void *data, size_t len, const struct image_spec *spec,
               const struct image_head *head, const struct image_plan *plan, void *out,
               struct dlc_err *err)
{
    unsigned d = denominator(spec, head, plan);
    struct image_source source = {.num = {1, 1}, .den = {d, d}, .orientation = head->orientation};
    int rc;

    dlc_check(s->tag == SCRATCH_TAG);
    if (head->decoded)
        return image_decoded_use(s, data, len, spec, head, plan, out, err);
    source.size[0] = source.present[0] = (image_stored_width(head) + d - 1) / d;
    source.size[1] = source.present[1] = (image_stored_height(head) + d - 1) / d;
    rc = image_prepare(s, &source, spec, head, plan, out, err);
    if (rc == 0)
        rc = image_begin(s, err);
    if (rc == 0)
        rc = head->format == IMAGE_JPEG ? image_jpeg_rows(s, data, len, head, d, err)
                                        : image_png_rows(s, data, len, head, err);
    if (rc == 0)
        image_end(s);
    return rc;
}
