// SPDX-License-Identifier: Apache-2.0
/* Range headers of any origin: what is cut out is inside. The first eight bytes are the size. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "net/range_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t first = 0, last = 0, length = 0;
    char *text;

    if (size < sizeof(length))
        return 0;
    memcpy(&length, data, sizeof(length));
    text = mem_strn((const char *)data + sizeof(length), size - sizeof(length));
    if (range_parse(text, length, &first, &last) == RANGE_PART)
        dlc_check(first <= last && last < length);
    mem_free(&text);
    return 0;
}
