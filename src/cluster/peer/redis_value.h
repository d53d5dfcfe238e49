// SPDX-License-Identifier: Apache-2.0
/*
 * A value of the Redis tier: a checksum of 8 bytes (of the sample and its key, in this machine's byte
 * order) and the sample. What lies under another key, or was changed, is not taken.
 */
#ifndef DLC_CLUSTER_PEER_REDIS_VALUE_H
#define DLC_CLUSTER_PEER_REDIS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_VALUE_SUM sizeof(uint64_t)

/* Write the value of a sample with this checksum, hash64(), to out: REDIS_VALUE_SUM + length bytes.
 */
void redis_value_make(const char *key, uint64_t checksum, const void *data, size_t length,
                      void *out);

/* Copy the sample of `length` bytes to dst and give its checksum. False: that is not its value; dst
 * may have changed. */
bool redis_value_take(const char *key, const void *value, size_t len, void *dst, uint64_t length,
                      uint64_t *checksum);

#endif
