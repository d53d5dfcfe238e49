// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer/redis_value.h"

#include <string.h>

#include "base/hash.h"

static uint64_t sum_of(const char *key, uint64_t checksum)
{
    return checksum ^ hash64_str(key);
}

void redis_value_make(const char *key, uint64_t checksum, const void *data, size_t length,
                      void *out)
{
    uint64_t sum = sum_of(key, checksum);

    memcpy(out, &sum, sizeof(sum));
    if (length > 0)
        memcpy((char *)out + sizeof(sum), data, length);
}

bool redis_value_take(const char *key, const void *value, size_t len, void *dst, uint64_t length,
                      uint64_t *checksum)
{
    uint64_t sum;

    if (len < REDIS_VALUE_SUM || len - REDIS_VALUE_SUM != length)
        return false;
    memcpy(&sum, value, sizeof(sum));
    if (length > 0)
        memcpy(dst, (const char *)value + sizeof(sum), length);
    *checksum = hash64(dst, length); /* of the copy: that is what will be read */
    return sum_of(key, *checksum) == sum;
}
