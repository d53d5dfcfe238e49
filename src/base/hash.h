// SPDX-License-Identifier: Apache-2.0
/* Digests: fast ones for our own files (XXH3), and those that cloud APIs require. */
#ifndef DLC_BASE_HASH_H
#define DLC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN 32

uint64_t hash64(const void *data, size_t len);
uint64_t hash64_str(const char *s);

/* hash64() of what comes in pieces. NULL: no memory. */
struct hash64_stream;
struct hash64_stream *hash64_begin(void);
void hash64_add(struct hash64_stream *h, const void *data, size_t len);
uint64_t hash64_end(struct hash64_stream **hp); /* takes it; NULL is allowed */

void sha256(const void *data, size_t len, unsigned char out[static SHA256_LEN]);
void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[static SHA256_LEN]);

#endif
