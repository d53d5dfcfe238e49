// SPDX-License-Identifier: Apache-2.0
#include "cache/decoded/decoded_header.h"

#include "base/hash.h"
#include "ipc/shm.h"

void decoded_seal(void *decoded, uint64_t sample, uint64_t policy, size_t len)
{
    struct shm_decoded_hdr *h = decoded;

    *h = (struct shm_decoded_hdr){.magic = SHM_DECODED_MAGIC,
                                  .version = SHM_VERSION,
                                  .sample = sample,
                                  .policy = policy,
                                  .len = len,
                                  .sum = hash64(h + 1, len)};
}

static bool is_headed(const struct shm_decoded_hdr *h, size_t size, uint64_t sample)
{
    return size >= sizeof(*h) && h->magic == SHM_DECODED_MAGIC && h->version == SHM_VERSION &&
           h->sample == sample && h->len == size - sizeof(*h);
}

bool decoded_is_sound(const void *decoded, size_t size, uint64_t sample)
{
    const struct shm_decoded_hdr *h = decoded;

    return is_headed(h, size, sample) && h->sum == hash64(h + 1, size - sizeof(*h));
}

bool decoded_is_for(const void *decoded, size_t size, uint64_t sample, uint64_t policy)
{
    const struct shm_decoded_hdr *h = decoded;

    return is_headed(h, size, sample) && h->policy == policy;
}
