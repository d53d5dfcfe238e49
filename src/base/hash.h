// SPDX-License-Identifier: Apache-2.0
/* Digests. Fast ones guard our own files (XXH3), others are what the clouds speak. */
#ifndef DLC_BASE_HASH_H
#define DLC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN 32

uint64_t hash64(const void *data, size_t len);
uint64_t hash64_str(const char *s);

void sha256(const void *data, size_t len, unsigned char out[static SHA256_LEN]);
void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[static SHA256_LEN]);

#endif
