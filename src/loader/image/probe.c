// SPDX-License-Identifier: Apache-2.0
/* Probe: the format of an encoded image and its size. */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/err.h"

static int check_size(const struct image_spec *spec, const struct image_head *head,
                      struct dlc_err *err)
{
    uint64_t limit = spec->max_pixels != 0 ? spec->max_pixels : IMAGE_PIXELS_MAX;

    if (head->width == 0 || head->height == 0)
        return dlc_err_set(err, DLC_ECORRUPT, "an image of %ux%u pixels", head->width,
                           head->height);
    if (head->width > INT32_MAX || head->height > INT32_MAX ||
        (uint64_t)head->width * head->height > limit)
        return dlc_err_set(err, DLC_EINVAL,
                           "an image of %ux%u pixels: the limit is %llu; raise max_pixels if it is "
                           "to be trusted",
                           head->width, head->height, (unsigned long long)limit);
    return 0;
}

static int unknown(const uint8_t *p, size_t len, struct dlc_err *err)
{
    char first[3 * 4 + 1] = "";

    for (size_t i = 0; i < len && i < 4; i++) {
        static const char digits[] = "0123456789abcdef";

        first[3 * i] = ' ';
        first[3 * i + 1] = digits[p[i] >> 4];
        first[3 * i + 2] = digits[p[i] & 15];
        first[3 * i + 3] = '\0';
    }
    return dlc_err_set(err, DLC_EINVAL, "neither JPEG nor PNG: %zu bytes that begin with%s", len,
                       len == 0 ? " nothing" : first);
}

int image_read_head(const void *data, size_t len, const struct image_spec *spec,
                    struct image_head *head, struct dlc_err *err)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const uint8_t *p = data;
    int rc;

    if (len >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff)
        rc = image_jpeg_head(p, len, head, err);
    else if (len >= sizeof(png) && memcmp(p, png, sizeof(png)) == 0)
        rc = image_png_head(p, len, head, err);
    else
        return unknown(p, len, err);
    if (rc == 0)
        rc = check_size(spec, head, err);
    if (rc == 0 && image_swaps(head->orientation)) {
        uint32_t width = head->width;

        head->width = head->height;
        head->height = width;
    }
    return rc;
}
