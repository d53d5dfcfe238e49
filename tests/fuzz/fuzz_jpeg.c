// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes as a JPEG, to our decoder and to libjpeg. The first byte says what is cut out of
 * it. Both decode the whole image to the same pixels or both refuse it, but for the two cases of
 * (JPEG-2); then any part is that of the whole, by fast and portable code alike.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/image/fastjpeg/jpeg_i.h"

#define FUZZ_PIXELS ((uint64_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    const uint8_t *data;
    size_t size;
    struct image_head head;
    struct image_scratch *scratch;
    struct dlc_err err;
};

static struct image_spec spec_of(uint32_t width, uint32_t height)
{
    return (struct image_spec){
        .width = width,
        .height = height,
        .layout = IMAGE_NHWC,
        .exact = true,
        .max_pixels = FUZZ_PIXELS,
    };
}

/* A box as it is stored, at its size. */
static int decode(struct image *im, const uint32_t box[4], uint8_t *out)
{
    struct image_spec spec = spec_of(box[2], box[3]);
    struct image_plan plan = {
        .x = box[0],
        .y = box[1],
        .width = box[2],
        .height = box[3],
        .to_width = box[2],
        .to_height = box[3],
        .jitter = {0, 1, 2, 3},
        .factor = {1, 1, 1, 0},
    };
    int rc;

    im->err = (struct dlc_err)DLC_ERR_INIT;
    rc = image_make(im->scratch, im->data, im->size, &spec, &im->head, &plan, out, &im->err);
    dlc_check(rc == 0 || (rc == im->err.code && im->err.text[0] != '\0'));
    return rc;
}

static bool says(const struct image *im, const char *what)
{
    return strstr(im->err.text, what) != NULL;
}

static bool compare_whole(struct image *im, uint8_t *ours, uint8_t *theirs, size_t n)
{
    const uint32_t whole[4] = {0, 0, im->head.width, im->head.height};
    int rc, theirs_rc;
    bool no_end;

    im->scratch->libjpeg = true;
    theirs_rc = decode(im, whole, theirs);
    no_end = theirs_rc < 0 && says(im, "Premature end of JPEG file");
    im->scratch->libjpeg = false;
    rc = decode(im, whole, ours);
    dlc_check(rc == 0 || rc == theirs_rc || says(im, "a code that its tables do not have"));
    dlc_check(theirs_rc == 0 || rc == theirs_rc || no_end);
    if (memmem(im->data, im->size, "\xff\xff", 3) != NULL)
        return rc == 0; /* ff ff 00: libjpeg begins such an MCU twice, and mixes the two */
#ifdef __x86_64__       /* elsewhere libjpeg may overflow in another way */
    dlc_check(rc < 0 || theirs_rc < 0 || memcmp(ours, theirs, n) == 0);
#else
    (void)n;
#endif
    return rc == 0;
}

static void compare_part(struct image *im, unsigned options, const uint8_t *whole, uint8_t *part)
{
    uint32_t w = im->head.width, h = im->head.height;
    uint32_t x = w * (options & 3) / 4, y = h * (options >> 2 & 3) / 4;
    const uint32_t box[4] = {x, y, 1 + (w - x - 1) * (options >> 4 & 3) / 3,
                             1 + (h - y - 1) * (options >> 6 & 3) / 3};

    dlc_check(decode(im, box, part) == 0);
    for (uint32_t r = 0; r < box[3]; r++)
        dlc_check(memcmp(part + (size_t)r * box[2] * 3, whole + ((size_t)(y + r) * w + x) * 3,
                         (size_t)box[2] * 3) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image im = {.data = data + (size > 0), .size = size - (size > 0)};
    struct image_spec spec = spec_of(1, 1);
    uint8_t *ours, *theirs;
    size_t n;

    if (image_read_head(im.data, im.size, &spec, &im.head, NULL) < 0 ||
        im.head.format != IMAGE_JPEG)
        return 0;
    n = (size_t)im.head.width * im.head.height * 3;
    ours = mem_alloc(n);
    theirs = mem_alloc(n);
    im.scratch = image_scratch_new();
    if (compare_whole(&im, ours, theirs, n)) {
        compare_part(&im, data[0], ours, theirs);
        im.scratch->ops = &image_ops_portable;
        compare_part(&im, data[0], ours, theirs);
    }
    image_scratch_free(&im.scratch);
    mem_free(&ours);
    mem_free(&theirs);
    return 0;
}
