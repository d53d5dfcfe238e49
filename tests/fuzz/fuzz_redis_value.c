// SPDX-License-Identifier: Apache-2.0
/*
 * Values of the Redis tier, which others may write: the first byte is the length that the sample has,
 * then comes the value. It is taken only if it has that length and the sum of these bytes under this
 * name; one of our own is always taken.
 */
#include "fuzz_numbers.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cluster/peer/redis_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length = size > 0 ? data[0] : 0, len = size > 0 ? size - 1 : 0;
    const void *value = size > 0 ? data + 1 : data;
    char *dst = mem_alloc(length), *own = mem_alloc(REDIS_VALUE_SUM + len);
    uint64_t checksum = 0;

    if (redis_value_take("key", value, len, dst, length, &checksum)) {
        dlc_check(len == length + REDIS_VALUE_SUM && checksum == hash64(dst, length));
        dlc_check(!redis_value_take("other", value, len, dst, length, &checksum));
    }
    /* Ours, and the same with a bit changed. */
    redis_value_make("key", hash64(value, len), value, len, own);
    mem_free(&dst);
    dst = mem_alloc(len);
    dlc_check(redis_value_take("key", own, REDIS_VALUE_SUM + len, dst, len, &checksum));
    dlc_check(len == 0 || memcmp(dst, value, len) == 0);
    own[length % (REDIS_VALUE_SUM + len)] ^= 1;
    dlc_check(!redis_value_take("key", own, REDIS_VALUE_SUM + len, dst, len, &checksum));
    mem_free(&dst);
    mem_free(&own);
    return 0;
}
