// SPDX-License-Identifier: Apache-2.0
/*
 *     "OggS" 0 flags | position 8 | stream 4 | number 4 | checksum 4 | n 1 | n lengths | bodies
 *
 * The checksum is a CRC of 32 bits (0x04c11db7, highest bit first, from 0) of the page with zeros
 * in its place. Flag 4: the last page.
 */
#include "loader/audio/ogg_check_i.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HEAD 27
#define LAST 4

static uint32_t crc(uint32_t sum, const unsigned char *p, size_t n)
{
    /* of 16 values: half a byte at a time */
    static const uint32_t table[16] = {0x00000000, 0x04c11db7, 0x09823b6e, 0x0d4326d9,
                                       0x130476dc, 0x17c56b6b, 0x1a864db2, 0x1e475005,
                                       0x2608edb8, 0x22c9f00f, 0x2f8ad6d6, 0x2b4bcb61,
                                       0x350c9b64, 0x31cd86d3, 0x3c8ea00a, 0x384fbdbd};

    for (; n > 0; n--, p++) {
        sum = sum << 4 ^ table[(sum >> 28) ^ (*p >> 4)];
        sum = sum << 4 ^ table[(sum >> 28) ^ (*p & 15)];
    }
    return sum;
}

uint32_t ogg_checksum(const unsigned char *page, size_t n)
{
    uint32_t sum = crc(0, page, OGG_CHECKSUM);

    sum = crc(sum, (const unsigned char[4]){0}, 4);
    return crc(sum, page + OGG_CHECKSUM + 4, n - OGG_CHECKSUM - 4);
}

static bool checksum_fits(const unsigned char *page, size_t n)
{
    const unsigned char *c = page + OGG_CHECKSUM;
    uint32_t says = c[0] | (uint32_t)c[1] << 8 | (uint32_t)c[2] << 16 | (uint32_t)c[3] << 24;

    return ogg_checksum(page, n) == says;
}

size_t ogg_page_bytes(const unsigned char *page, size_t left)
{
    size_t n = HEAD;

    if (left < HEAD || left < HEAD + (size_t)page[HEAD - 1])
        return 0;
    n += page[HEAD - 1];
    for (size_t i = 0; i < page[HEAD - 1]; i++)
        n += page[HEAD + i];
    return n <= left ? n : 0;
}

const char *ogg_check(const unsigned char *data, size_t len)
{
    bool last = false;
    size_t n;

    for (size_t at = 0; at < len && !last; at += n) {
        const unsigned char *page = data + at;

        n = ogg_page_bytes(page, len - at);
        if (n == 0)
            return "its last page is not all there";
        if (memcmp(page, "OggS", 4) != 0)
            return "something between its pages";
        if (at < OGG_CHECKED && !checksum_fits(page, n))
            return "a page whose checksum is wrong";
        last = (page[5] & LAST) != 0;
    }
    return last ? NULL : "its last page is missing";
}
