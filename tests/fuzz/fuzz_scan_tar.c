// SPDX-License-Identifier: Apache-2.0
/* Checksums would keep nearly all mutations out, so those of blocks that look like headers are made
 * right first, unless the first byte says otherwise. */
#include "fuzz_scan.h"

#include <stdio.h>

#include "base/mem.h"

static void mend(uint8_t *block)
{
    unsigned sum = 8 * ' ';
    char text[8];

    for (size_t i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? 0 : block[i];
    snprintf(text, sizeof(text), "%06o", sum & 0777777);
    memcpy(block + 148, text, sizeof(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = mem_alloc(size);

    if (size > 0)
        memcpy(copy, data, size);
    for (size_t at = 1; size > 0 && (data[0] & 2) == 0 && at + 512 <= size; at += 512)
        if (memcmp(copy + at + 257, "ustar", 5) == 0)
            mend(copy + at);
    fuzz_scan("box.tar", copy, size);
    mem_free(&copy);
    return 0;
}
