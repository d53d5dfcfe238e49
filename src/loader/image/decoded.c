// SPDX-License-Identifier: Apache-2.0
/*
 * Decoded images: what is left to do once an image was decoded.
 *
 *     header (64 bytes)   pixels   slack (64 bytes: the fast loops read on)
 *
 * A decoded image holds a window of a frame; the frame stands for the whole image. Random crops
 * have the whole frame as window: the planes of a 4:2:0 JPEG as they are stored, or RGB as it is
 * seen, reduced by 1, 2, 4 or 8. Of other policies the frame is the resized image, the window what
 * is cut out of it: resampling again changes nothing, since each pixel has one tap.
 *
 * A decoded image comes out of shared memory: every field is hostile.
 */
#include "loader/image/image_i.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define DECODED_MAGIC DLC_TAG4('D', 'L', 'i', 'f')
#define FRAME_MAX     INT32_MAX /* pixels a side: positions have 32 bits (filter.c) */

struct decoded_image { /* little-endian */
    uint32_t magic;
    uint8_t kind, orientation, format, components;
    uint32_t width, height; /* of the image as seen */
    uint64_t frame[2];      /* as stored in the decoded image */
    uint64_t at[2];         /* the window */
    uint32_t size[2];
    uint32_t reserved[2];
};

static_assert(sizeof(struct decoded_image) == 64, "a decoded image is a file format");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "decoded images are little-endian");

static uint64_t half_up(uint64_t n)
{
    return (n + 1) / 2;
}

static uint64_t decoded_bytes(const struct decoded_image *f)
{
    uint64_t n = (uint64_t)f->size[0] * f->size[1];

    n = f->kind == IMAGE_DECODED_RGB ? 3 * n : n + 2 * half_up(f->size[0]) * half_up(f->size[1]);
    return sizeof(*f) + n + IMAGE_SLACK;
}

static bool window_is_whole(const struct decoded_image *f)
{
    return f->at[0] == 0 && f->at[1] == 0 && f->size[0] == f->frame[0] && f->size[1] == f->frame[1];
}

static bool is_sound(const struct decoded_image *f, size_t len)
{
    bool swap = image_swaps(f->orientation);

    if (f->magic != DECODED_MAGIC)
        return false;
    if (f->kind != IMAGE_DECODED_RGB && f->kind != IMAGE_DECODED_YUV420)
        return false;
    if (f->orientation < 1 || f->orientation > 8 || f->format > IMAGE_PNG || f->width == 0 ||
        f->height == 0 || f->width > INT32_MAX || f->height > INT32_MAX)
        return false;
    for (int i = 0; i < 2; i++)
        if (f->size[i] == 0 || f->frame[i] > FRAME_MAX || f->at[i] > f->frame[i] ||
            f->size[i] > f->frame[i] - f->at[i])
            return false;
    if (f->kind == IMAGE_DECODED_YUV420 &&
        (!window_is_whole(f) || f->size[0] != (swap ? f->height : f->width) ||
         f->size[1] != (swap ? f->width : f->height)))
        return false;
    return decoded_bytes(f) <= len;
}

static int decoded_read(const void *data, size_t len, struct decoded_image *f, struct dlc_err *err)
{
    if (len >= sizeof(*f)) {
        memcpy(f, data, sizeof(*f));
        if (is_sound(f, len))
            return 0;
    }
    return dlc_err_set(err, DLC_ECORRUPT, "a decoded image of %zu bytes whose header is wrong",
                       len);
}

int image_decoded_head(const void *data, size_t len, struct image_head *head, struct dlc_err *err)
{
    struct decoded_image f;
    int rc = decoded_read(data, len, &f, err);

    if (rc < 0)
        return rc;
    *head = (struct image_head){
        .format = (enum image_format)f.format,
        .width = f.width,
        .height = f.height,
        .orientation = f.orientation,
        .components = f.components,
        .yuv420 = f.kind == IMAGE_DECODED_YUV420,
        .decoded = true,
    };
    return 0;
}

/* How far an image can be reduced so that no box of the policy becomes smaller than the output. */
static unsigned reduction(const struct image_spec *spec, const struct image_head *head)
{
    double area = (double)head->width * head->height * spec->scale[0];
    double w = sqrt(area * spec->ratio[0]), h = sqrt(area / spec->ratio[1]);
    unsigned d = 8;

    while (d > 1 && (spec->exact || w < d * (double)spec->width || h < d * (double)spec->height))
        d /= 2;
    return d;
}

static bool keeps_planes(const struct image_spec *spec, const struct image_head *head)
{
    return spec->crop == IMAGE_RANDOM_RESIZED && head->yuv420 && image_stored_width(head) > 4 &&
           reduction(spec, head) == 1; /* libjpeg upsamples narrower ones in another way */
}

/* The plan by which an RGB decoded image is made, and what it then is. */
static void plan_rgb(const struct image_spec *spec, const struct image_head *head,
                     struct image_plan *plan, struct decoded_image *f)
{
    static const struct image_plan neutral = {.jitter = {0, 1, 2, 3}, .factor = {1, 1, 1, 0}};
    struct image_plan p;

    image_plan(spec, 0, head->width, head->height, &p);
    if (spec->crop == IMAGE_RANDOM_RESIZED) {
        unsigned d = reduction(spec, head);

        p = neutral;
        p.width = head->width;
        p.height = head->height;
        p.to_width =
            DLC_MAX(head->width / d, 1); /* rounded down: else scaled decoding would not do */
        p.to_height = DLC_MAX(head->height / d, 1);
        f->size[0] = (uint32_t)p.to_width;
        f->size[1] = (uint32_t)p.to_height;
    } else {
        memcpy(p.jitter, neutral.jitter, sizeof(p.jitter));
        memcpy(p.factor, neutral.factor, sizeof(p.factor));
        p.flip = false;
        p.left = DLC_MAX(p.left, 0);
        p.top = DLC_MAX(p.top, 0);
        f->size[0] = (uint32_t)DLC_MIN(spec->width, p.to_width);
        f->size[1] = (uint32_t)DLC_MIN(spec->height, p.to_height);
    }
    f->frame[0] = p.to_width;
    f->frame[1] = p.to_height;
    f->at[0] = (uint64_t)p.left;
    f->at[1] = (uint64_t)p.top;
    f->orientation = 1;
    *plan = p;
}

/* The header of the decoded image that this image gets. */
static struct decoded_image decoded_of(const struct image_spec *spec, const struct image_head *head,
                                       struct image_plan *plan)
{
    struct decoded_image f = {
        .magic = DECODED_MAGIC,
        .orientation = head->orientation,
        .format = (uint8_t)head->format,
        .components = head->components,
        .width = head->width,
        .height = head->height,
    };

    if (keeps_planes(spec, head)) {
        f.kind = IMAGE_DECODED_YUV420;
        f.frame[0] = f.size[0] = image_stored_width(head);
        f.frame[1] = f.size[1] = image_stored_height(head);
    } else {
        f.kind = IMAGE_DECODED_RGB;
        plan_rgb(spec, head, plan, &f);
    }
    return f;
}

size_t image_decoded_bound(const struct image_head *head, const struct image_spec *spec)
{
    struct image_plan plan;
    struct decoded_image f = decoded_of(spec, head, &plan);

    return (size_t)decoded_bytes(&f);
}

int64_t image_decoded_make(struct image_scratch *s, const void *data, size_t len,
                           const struct image_spec *spec, const struct image_head *head,
                           void *decoded, size_t cap, struct dlc_err *err)
{
    struct image_plan plan;
    struct decoded_image f = decoded_of(spec, head, &plan);
    uint64_t need = decoded_bytes(&f);
    uint8_t *pixels = (uint8_t *)decoded + sizeof(f);
    struct image_spec rgb = *spec;
    int rc;

    if (head->decoded)
        return dlc_err_set(err, DLC_EINVAL, "the image is decoded already: give the encoded one");
    if (f.frame[0] > FRAME_MAX || f.frame[1] > FRAME_MAX)
        return dlc_err_set(err, DLC_EINVAL, "resized it has more than %d pixels a side", FRAME_MAX);
    if (cap < need)
        return dlc_err_set(err, DLC_EINVAL, "a decoded image of %llu bytes for a buffer of %zu",
                           (unsigned long long)need, cap);
    if (f.kind == IMAGE_DECODED_YUV420) {
        rc = image_jpeg_planes(s, data, len, head, pixels, err);
    } else {
        rgb.width = f.size[0];
        rgb.height = f.size[1];
        rgb.type = IMAGE_U8;
        rgb.layout = IMAGE_NHWC;
        rc = image_make(s, data, len, &rgb, head, &plan, pixels, err);
    }
    if (rc < 0)
        return rc;
    memcpy(decoded, &f, sizeof(f));
    memset((uint8_t *)decoded + need - IMAGE_SLACK, 0, IMAGE_SLACK);
    return (int64_t)need;
}

static int use_planes(struct image_scratch *s, const struct decoded_image *f, const uint8_t *pixels,
                      struct dlc_err *err)
{
    struct image_planes p = {.n = 3, .halved_x = true, .halved_y = true};
    int rc;

    p.width = (uint32_t)half_up(f->size[0]);
    p.rows = (uint32_t)half_up(f->size[1]);
    for (int i = 0; i < 3; i++) {
        p.at[i] = pixels;
        p.stride[i] = i == 0 ? f->size[0] : p.width;
        p.ring[i] = i == 0 ? f->size[1] : p.rows;
        pixels += p.stride[i] * p.ring[i];
    }
    rc = image_planes_begin(s, &p, err);
    if (rc == 0)
        image_planes_push(s, &p, s->y.last);
    return rc;
}

static int use_rgb(struct image_scratch *s, const struct decoded_image *f, const uint8_t *pixels,
                   struct dlc_err *err)
{
    size_t n = (size_t)(s->x.last - s->x.first), row = 3 * (size_t)f->size[0], stride;
    const uint8_t *from = pixels + (s->y.first - f->at[1]) * row + 3 * (s->x.first - f->at[0]);
    uint8_t *input = image_input(s, n + 16, &stride);

    if (input == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for two rows of a decoded image");
    for (uint64_t r = s->y.first; r < s->y.last; r += 2, from += 2 * row) {
        bool two = r + 1 < s->y.last;

        s->ops->unpack(input, from, n);
        if (two)
            s->ops->unpack(input + stride, from + row, n);
        image_push(s, input, two ? input + stride : NULL);
    }
    return 0;
}

/* Has the decoded image what the axes want? */
static bool covers(const struct decoded_image *f, const struct image_scratch *s)
{
    const struct image_axis *axis[2] = {&s->x, &s->y};

    for (int i = 0; i < 2; i++)
        if (axis[i]->first < f->at[i] || axis[i]->last > f->at[i] + f->size[i])
            return false;
    return true;
}

int image_decoded_use(struct image_scratch *s, const void *data, size_t len,
                      const struct image_spec *spec, const struct image_head *head,
                      const struct image_plan *plan, void *out, struct dlc_err *err)
{
    const uint8_t *pixels = (const uint8_t *)data + sizeof(struct decoded_image);
    struct image_source source;
    struct decoded_image f;
    int rc = decoded_read(data, len, &f, err);

    if (rc < 0)
        return rc;
    if (head->width != f.width || head->height != f.height)
        return dlc_err_set(err, DLC_EINVAL, "the head of another image than this decoded one's");
    source = (struct image_source){
        .num = {f.frame[0], f.frame[1]},
        .den = {f.width, f.height},
        .size = {f.frame[0], f.frame[1]},
        .present = {f.size[0], f.size[1]},
        .orientation = f.orientation,
    };
    if (image_swaps(f.orientation)) {
        source.den[0] = f.height;
        source.den[1] = f.width;
    }
    rc = image_prepare(s, &source, spec, head, plan, out, err);
    if (rc < 0)
        return rc;
    if (!covers(&f, s))
        return dlc_err_set(err, DLC_EINVAL, "decoded for another crop: decode the image again");
    rc = image_begin(s, err);
    if (rc < 0)
        return rc;
    if (f.kind == IMAGE_DECODED_YUV420)
        rc = use_planes(s, &f, pixels, err);
    else
        rc = use_rgb(s, &f, pixels, err);
    if (rc == 0)
        image_end(s);
    return rc;
}
