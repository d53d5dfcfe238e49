// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <xxhash.h>

#include "base/buf.h"
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

/* Looked up once: OpenSSL 3 takes longer to find an algorithm than to hash the name of a chunk. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const EVP_MD *sha256_method;

static void find_method(void)
{
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    sha256_method = EVP_MD_fetch(NULL, "SHA256", NULL);
#endif
    if (sha256_method == NULL)
        sha256_method = EVP_sha256();
}

void sha256(const void *data, size_t len, unsigned char out[static SHA256_LEN])
{
    pthread_once(&once, find_method);
    dlc_check(EVP_Digest(data, len, out, NULL, sha256_method, NULL) == 1);
}

struct name_hash name_hash_of(const char *const *parts, size_t n)
{
    unsigned char out[SHA256_LEN];
    struct name_hash h;
    struct buf b = BUF_INIT;

    for (size_t i = 0; i < n; i++) {
        uint64_t len = htole64((uint64_t)strlen(parts[i]));

        buf_add(&b, &len, sizeof(len));
        buf_add(&b, parts[i], strlen(parts[i]));
    }
    sha256(b.data, b.len, out);
    buf_release(&b);
    memcpy(&h.hi, out, sizeof(h.hi));
    memcpy(&h.lo, out + sizeof(h.hi), sizeof(h.lo));
    return (struct name_hash){be64toh(h.hi), be64toh(h.lo)};
}

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
                 unsigned char out[static SHA256_LEN])
{
    unsigned n = SHA256_LEN;

    dlc_check(HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &n) != NULL);
}
