// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as weights that came from another node: what is taken is written again as it was,
 * whatever is in it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "importance/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pairs again = {0};
    struct pairs_reader r;
    uint64_t sample;
    float weight;

    pairs_read(&r, data, size);
    while (again.n < PAIRS_MAX && pairs_next(&r, &sample, &weight))
        if (!pairs_add(&again, sample, weight))
            break;
    dlc_check(size == 0 || again.bytes.len <= size);
    dlc_check(again.n == 0 || memcmp(again.bytes.data, data, again.bytes.len) == 0);
    if (pairs_count(data, size) > 0)
        dlc_check(again.n == pairs_count(data, size) && again.bytes.len == size);
    else if (!r.bad && r.at == r.end)
        dlc_check(size == 0 || size > PAIRS_BYTES_MAX);
    buf_release(&again.bytes);
    return 0;
}
