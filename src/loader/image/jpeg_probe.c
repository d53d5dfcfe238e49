// SPDX-License-Identifier: Apache-2.0
/*
 * What a JPEG says of itself before its first scan: size, components, sampling, and the orientation
 * that EXIF asks for. Segments are stepped over; nothing is decoded. Every field is hostile.
 */
#include "loader/image/image_i.h"

#include <string.h>

#include "base/err.h"

enum marker {
    M_SOF0 = 0xc0,
    M_SOF2 = 0xc2,
    M_DHT = 0xc4,
    M_JPG = 0xc8,
    M_DAC = 0xcc,
    M_SOF15 = 0xcf,
    M_RST0 = 0xd0,
    M_SOI = 0xd8,
    M_EOI = 0xd9,
    M_SOS = 0xda,
    M_APP0 = 0xe0,
    M_APP1 = 0xe1,
    M_APP14 = 0xee,
    M_TEM = 0x01,
};

#define ORIENTATION 0x0112

static unsigned be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static uint32_t number(const uint8_t *p, unsigned n, bool little)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint32_t)p[i] << 8 * (little ? i : n - 1 - i);
    return v;
}

uint8_t image_exif_orientation(const uint8_t *tiff, size_t len)
{
    bool little = len >= 8 && memcmp(tiff, "II*\0", 4) == 0;
    uint32_t at, n;

    if (!little && (len < 8 || memcmp(tiff, "MM\0*", 4) != 0))
        return 1;
    at = number(tiff + 4, 4, little);
    if (at > len - 2)
        return 1;
    n = number(tiff + at, 2, little);
    for (at += 2; n > 0 && len - at >= 12; n--, at += 12) {
        unsigned type = number(tiff + at + 2, 2, little);
        uint32_t v = number(tiff + at + 8, type == 3 ? 2 : 4, little);

        if (number(tiff + at, 2, little) != ORIENTATION)
            continue;
        return (type == 3 || type == 4) && v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    return 1;
}

struct seen {
    bool frame, exif, jfif, adobe;
    uint8_t transform; /* Adobe's: 0 means RGB or CMYK */
    bool rgb_ids;      /* components are named R, G, B */
    bool sampled_420;
};

static bool is_frame(unsigned marker)
{
    return marker >= M_SOF0 && marker <= M_SOF15 && marker != M_DHT && marker != M_JPG &&
           marker != M_DAC;
}

static int read_frame(const uint8_t *p, size_t n, unsigned marker, struct image_head *head,
                      struct seen *seen, struct dlc_err *err)
{
    static const uint8_t sampling[3] = {0x22, 0x11, 0x11};

    if (n < 6 || n < 6 + 3 * (size_t)p[5])
        return dlc_err_set(err, DLC_ECORRUPT, "JPEG: the frame header is too short");
    if (p[0] != 8)
        return dlc_err_set(err, DLC_EINVAL, "JPEG of %u bits: only those of 8 are decoded", p[0]);
    head->height = be16(p + 1);
    head->width = be16(p + 3);
    head->components = p[5];
    if (head->components != 1 && head->components != 3 && head->components != 4)
        return dlc_err_set(err, DLC_EINVAL, "JPEG of %u components: there may be 1, 3 or 4", p[5]);
    head->uneven = p[5] == 3 && p[7] >> 4 != (p[7] & 15);
    head->progressive = marker == M_SOF2 || marker == M_SOF2 + 8;
    seen->frame = true;
    seen->sampled_420 = head->components == 3;
    for (unsigned i = 0; i < 3 && seen->sampled_420; i++)
        seen->sampled_420 = p[6 + 3 * i + 1] == sampling[i];
    seen->rgb_ids = head->components == 3 && p[6] == 'R' && p[9] == 'G' && p[12] == 'B';
    return 0;
}

static int read_segment(const uint8_t *p, size_t n, unsigned marker, struct image_head *head,
                        struct seen *seen, struct dlc_err *err)
{
    if (is_frame(marker) && !seen->frame)
        return read_frame(p, n, marker, head, seen, err);
    if (marker == M_APP1 && !seen->exif && n > 6 && memcmp(p, "Exif\0\0", 6) == 0) {
        seen->exif = true;
        head->orientation = image_exif_orientation(p + 6, n - 6);
    } else if (marker == M_APP0 && n >= 14 && memcmp(p, "JFIF", 5) == 0) {
        seen->jfif = true;
    } else if (marker == M_APP14 && n >= 12 && memcmp(p, "Adobe", 5) == 0) {
        seen->adobe = true;
        seen->transform = p[11];
    }
    return 0;
}

/* The next marker from *at on, which is left behind it; 0: there is none. */
static unsigned next_marker(const uint8_t *data, size_t len, size_t *at)
{
    size_t i = *at;

    for (; i + 1 < len; i++)
        if (data[i] == 0xff && data[i + 1] != 0xff && data[i + 1] != 0) {
            *at = i + 2;
            return data[i + 1];
        }
    return 0;
}

/* Is it YCbCr? libjpeg's rules. */
static bool is_yuv(const struct seen *seen)
{
    if (seen->jfif)
        return true;
    return seen->adobe ? seen->transform != 0 : !seen->rgb_ids;
}

int image_jpeg_head(const uint8_t *data, size_t len, struct image_head *head, struct dlc_err *err)
{
    struct seen seen = {0};
    size_t at = 2;
    unsigned marker;
    int rc = 0;

    *head = (struct image_head){.format = IMAGE_JPEG, .orientation = 1};
    while (rc == 0 && (marker = next_marker(data, len, &at)) != M_SOS && marker != M_EOI) {
        size_t n;

        if (marker == M_TEM || (marker >= M_RST0 && marker <= M_SOI))
            continue;
        n = marker == 0 || len - at < 2 ? 0 : be16(data + at);
        if (n < 2 || n > len - at)
            return dlc_err_set(err, DLC_ECORRUPT, "JPEG ends before its first scan");
        rc = read_segment(data + at + 2, n - 2, marker, head, &seen, err);
        at += n;
    }
    if (rc == 0 && !seen.frame)
        rc = dlc_err_set(err, DLC_ECORRUPT, "JPEG without a frame header");
    head->ycc = head->components == 3 && is_yuv(&seen);
    head->yuv420 = rc == 0 && seen.sampled_420 && head->ycc;
    return rc;
}
