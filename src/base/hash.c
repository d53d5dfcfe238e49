// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include "base/check.h"

uint64_t hash64(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

uint64_t hash64_str(const char *s)
{
    return XXH3_64bits(s, strlen(s));
}

/* It is what the library calls its state. */
struct hash64_stream *hash64_begin(void)
{
    XXH3_state_t *state = XXH3_createState();

    if (state != NULL)
        XXH3_64bits_reset(state);
    return (struct hash64_stream *)state;
}

void hash64_add(struct hash64_stream *h, const void *data, size_t len)
{
    XXH3_64bits_update((XXH3_state_t *)h, data, len);
}

uint64_t hash64_end(struct hash64_stream **hp)
{
    XXH3_state_t *state = (XXH3_state_t *)*hp;
    uint64_t sum = state != NULL ? XXH3_64bits_digest(state) : 0;

    *hp = NULL;
    XXH3_freeState(state);
    return sum;
}

void sha256(const void *data, size_t len, unsigned char out[static SHA256_LEN])
{
    dlc_check(SHA256(data, len, out) != NULL);
}

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[static SHA256_LEN])
{
    unsigned n = SHA256_LEN;

    dlc_check(HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &n) != NULL);
}
