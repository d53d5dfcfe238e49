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
/*
 * A name made of texts: the first 16 bytes of SHA-256 over all of them, each after its length, so
 * that {"ab", "c"} and {"a", "bc"} differ. For names that separate tenants: nobody can make a text
 * with the name of another one. The first part says what is named.
 */
struct name_hash {
    uint64_t hi, lo;
};
struct name_hash name_hash_of(const char *const *parts, size_t n);

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[static SHA256_LEN]);

#endif
