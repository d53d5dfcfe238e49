// SPDX-License-Identifier: Apache-2.0
/*
 * src/loader/image for tests in Python: requests on standard input, answers on standard output,
 * until it ends. imagetool.py is the other side.
 *
 *     request   struct request, then its `len` bytes of an image, encoded or decoded
 *     answer    int64 (length, or a negative code), then the result or the text of the error
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "loader/image/image_i.h"

#define ROOM 400 /* of text */

enum op { OP_MAKE, OP_DECODE, OP_HEAD, OP_PLAN };

struct request { /* without gaps: see imagetool.py */
    uint64_t key, max_pixels, len;
    double scale[2], ratio[2], flip, brightness[2], contrast[2], saturation[2], hue[2];
    uint32_t op, portable, width, height, crop, resize, type, layout, normalise, exact;
    float mean[3], std[3];
    uint32_t planned; /* take these of the plan */
    uint32_t x, y, box_width, box_height, flipped, jitter[4];
    float factor[4];
    uint32_t decoded; /* the bytes are a decoded image */
    uint32_t reserved;
};

static_assert(sizeof(struct request) == 24 + 13 * 8 + 10 * 4 + 24 + 10 * 4 + 16 + 8,
              "imagetool.py packs this");

static struct image_spec spec_of(const struct request *q)
{
    struct image_spec s = {
        .width = q->width,
        .height = q->height,
        .crop = (enum image_crop)q->crop,
        .resize = q->resize,
        .flip = q->flip,
        .type = (enum image_type)q->type,
        .layout = (enum image_layout)q->layout,
        .normalise = q->normalise != 0,
        .exact = q->exact != 0,
        .max_pixels = q->max_pixels,
    };

    memcpy(s.scale, q->scale, sizeof(s.scale));
    memcpy(s.ratio, q->ratio, sizeof(s.ratio));
    memcpy(s.brightness, q->brightness, sizeof(s.brightness));
    memcpy(s.contrast, q->contrast, sizeof(s.contrast));
    memcpy(s.saturation, q->saturation, sizeof(s.saturation));
    memcpy(s.hue, q->hue, sizeof(s.hue));
    memcpy(s.mean, q->mean, sizeof(s.mean));
    memcpy(s.std, q->std, sizeof(s.std));
    return s;
}

static void plan_of(const struct request *q, const struct image_spec *spec,
                    const struct image_head *head, struct image_plan *p)
{
    image_plan(spec, q->key, head->width, head->height, p);
    if (q->planned == 0)
        return;
    p->x = q->x;
    p->y = q->y;
    p->width = q->box_width;
    p->height = q->box_height;
    p->flip = q->flipped != 0;
    for (int i = 0; i < 4; i++)
        p->jitter[i] = (uint8_t)q->jitter[i];
    memcpy(p->factor, q->factor, sizeof(p->factor));
}

static int64_t answer(struct image_scratch *s, const struct request *q, const void *data,
                      uint8_t **out, struct dlc_err *err)
{
    struct image_spec spec = spec_of(q);
    struct image_head head;
    struct image_plan plan;
    size_t room;
    int64_t rc = image_check_spec(&spec, err);

    if (rc == 0)
        rc = q->decoded != 0 ? image_decoded_head(data, q->len, &head, err)
                             : image_read_head(data, q->len, &spec, &head, err);
    if (rc < 0)
        return rc;
    plan_of(q, &spec, &head, &plan);
    room = q->op == OP_MAKE ? image_bytes(&spec) : image_decoded_bound(&head, &spec);
    *out = mem_alloc(room + ROOM);
    switch ((enum op)q->op) {
    case OP_MAKE:
        rc = image_make(s, data, q->len, &spec, &head, &plan, *out, err);
        return rc < 0 ? rc : (int64_t)room;
    case OP_DECODE: return image_decoded_make(s, data, q->len, &spec, &head, *out, room, err);
    case OP_HEAD:
        return snprintf((char *)*out, ROOM, "%u %u %u %u %u %u %u", head.format, head.width,
                        head.height, head.orientation, head.components, head.progressive,
                        head.yuv420);
    case OP_PLAN:
        return snprintf((char *)*out, ROOM, "%u %u %u %u %llu %llu %lld %lld %u", plan.x, plan.y,
                        plan.width, plan.height, (unsigned long long)plan.to_width,
                        (unsigned long long)plan.to_height, (long long)plan.left,
                        (long long)plan.top, plan.flip);
    }
    return dlc_err_set(err, DLC_EINVAL, "no such operation");
}

static void reply(int64_t rc, const uint8_t *out, const struct dlc_err *err)
{
    fwrite(&rc, sizeof(rc), 1, stdout);
    if (rc >= 0) {
        fwrite(out, 1, (size_t)rc, stdout);
    } else {
        uint32_t n = (uint32_t)strlen(err->text);

        fwrite(&n, sizeof(n), 1, stdout);
        fwrite(err->text, 1, n, stdout);
    }
    fflush(stdout);
}

int main(void)
{
    struct image_scratch *s = image_scratch_new();
    const struct image_ops *best = s->ops;
    struct request q;

    while (fread(&q, sizeof(q), 1, stdin) == 1) {
        struct dlc_err err = DLC_ERR_INIT;
        uint8_t *data = mem_alloc(q.len), *out = NULL;
        int64_t rc;

        if (fread(data, 1, q.len, stdin) != q.len)
            return 1;
        s->ops = q.portable ? &image_ops_portable : best;
        rc = answer(s, &q, data, &out, &err);
        reply(rc, out, &err);
        mem_free(&data);
        mem_free(&out);
    }
    image_scratch_free(&s);
    return 0;
}
