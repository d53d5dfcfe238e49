// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes as an image. The first byte picks what is made of it and the second is the key,
 * the rest is the image. Whatever comes: it is made or refused with a text, by fast and portable
 * code alike, and a form of it is taken back.
 */
#ifndef DLC_TESTS_FUZZ_IMAGE_H
#define DLC_TESTS_FUZZ_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/image/image_i.h"

#define FUZZ_PIXELS ((uint64_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline struct image_spec fuzz_spec(unsigned options)
{
    return (struct image_spec){
        .width = 1 + (options & 3) * 9,
        .height = 17,
        .crop = (enum image_crop)((options >> 2) % 3),
        .resize = (options & 64) != 0 ? 20 : 0,
        .scale = {0.08, 1},
        .ratio = {0.75, 1.33},
        .flip = 0.5,
        .brightness = {1, 1},
        .contrast = {1, 1},
        .saturation = {1, 1},
        .hue = {0, (options & 128) != 0 ? 0.3 : 0},
        .exact = (options & 16) != 0,
        .max_pixels = FUZZ_PIXELS,
    };
}

static inline void fuzz_result(int64_t rc, const struct dlc_err *err)
{
    dlc_check(rc >= 0 || rc == DLC_EINVAL || rc == DLC_ECORRUPT || rc == DLC_ENOMEM);
    dlc_check(rc >= 0 || (rc == err->code && err->text[0] != '\0'));
}

/* Both kinds of code: the same verdict, the same bytes. */
static inline bool fuzz_make(struct image_scratch *s, const uint8_t *data, size_t size,
                             const struct image_spec *spec, const struct image_head *head,
                             uint64_t key)
{
    const struct image_ops *ops[2] = {image_ops_best(), &image_ops_portable};
    static uint8_t out[2][28 * 17 * 3];
    struct image_plan plan;
    int rc[2];

    dlc_check(image_bytes(spec) <= sizeof(out[0]));
    image_plan(spec, key, head->width, head->height, &plan);
    for (int i = 0; i < 2; i++) {
        struct dlc_err err = DLC_ERR_INIT;

        s->ops = ops[i];
        rc[i] = image_make(s, data, size, spec, head, &plan, out[i], &err);
        fuzz_result(rc[i], &err);
    }
    dlc_check(rc[0] == rc[1] && (rc[0] < 0 || memcmp(out[0], out[1], image_bytes(spec)) == 0));
    return rc[0] == 0;
}

static inline void fuzz_form(struct image_scratch *s, const uint8_t *data, size_t size,
                             const struct image_spec *spec, const struct image_head *head,
                             uint64_t key)
{
    size_t bound = image_decoded_bound(head, spec);
    uint8_t *form = mem_alloc(bound);
    struct dlc_err err = DLC_ERR_INIT;
    struct image_head again;
    int64_t n = image_decoded_make(s, data, size, spec, head, form, bound, &err);

    fuzz_result(n, &err);
    if (n >= 0) {
        dlc_check((size_t)n == bound);
        dlc_check(image_decoded_head(form, bound, &again, &err) == 0);
        dlc_check(again.width == head->width && again.height == head->height);
        dlc_check(fuzz_make(s, form, bound, spec, &again, key));
    }
    mem_free(&form);
}

static inline int fuzz_image(const uint8_t *data, size_t size, bool decoded)
{
    struct image_spec spec = fuzz_spec(size > 0 ? data[0] : 0);
    uint64_t key = size > 1 ? data[1] : 0;
    struct image_scratch *s = image_scratch_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct image_head head;
    size_t skip = DLC_MIN(size, (size_t)2);
    int rc = decoded ? image_decoded_head(data + skip, size - skip, &head, &err)
                     : image_read_head(data + skip, size - skip, &spec, &head, &err);

    fuzz_result(rc, &err);
    if (rc == 0) {
        dlc_check(decoded || (uint64_t)head.width * head.height <= FUZZ_PIXELS);
        fuzz_make(s, data + skip, size - skip, &spec, &head, key);
        if (!decoded)
            fuzz_form(s, data + skip, size - skip, &spec, &head, key);
    }
    image_scratch_free(&s);
    return 0;
}

#endif
