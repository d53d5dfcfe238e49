// SPDX-License-Identifier: Apache-2.0
/* Checksums are mended first: else nothing that was changed would get past them. */
#include "fuzz_image.h"

#include <zlib.h>

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void mend(uint8_t *p, size_t size)
{
    size_t at = 2 + 8;

    while (size >= at + 12 && be32(p + at) <= size - at - 12) {
        size_t n = be32(p + at);
        uint32_t sum = (uint32_t)crc32(0, p + at + 4, (uInt)n + 4);

        for (unsigned i = 0; i < 4; i++)
            p[at + 8 + n + i] = (uint8_t)(sum >> 8 * (3 - i));
        at += n + 12;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = mem_alloc(size);

    if (size > 0)
        memcpy(copy, data, size);
    mend(copy, size);
    fuzz_image(copy, size, false);
    mem_free(&copy);
    return 0;
}
