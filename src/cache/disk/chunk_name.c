// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/chunk_name_i.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/check.h"

struct chunk_id chunk_id_of(uint64_t dataset, const char *key, const char *etag)
{
    struct {
        uint64_t dataset;
        XXH128_hash_t key, etag;
    } parts = {
        .dataset = dataset,
        .key = XXH3_128bits(key, strlen(key)),
        .etag = XXH3_128bits(etag, strlen(etag)),
    };
    XXH128_hash_t h = XXH3_128bits(&parts, sizeof(parts));

    static_assert(sizeof(parts) == 40, "no padding: it would be hashed");
    return (struct chunk_id){.hi = h.high64, .lo = h.low64};
}

void chunk_name_format(const struct chunk_name *n, char out[static NAME_MAX_LEN])
{
    snprintf(out, NAME_MAX_LEN, "%016llx%016llx-%llx-%016llx", (unsigned long long)n->id.hi,
             (unsigned long long)n->id.lo, (unsigned long long)n->size,
             (unsigned long long)n->checksum);
}

bool chunk_name_parse(const char *s, struct chunk_name *n)
{
    unsigned long long hi, lo, size, checksum;
    char again[NAME_MAX_LEN];

    if (strlen(s) >= NAME_MAX_LEN ||
        sscanf(s, "%16llx%16llx-%16llx-%16llx", &hi, &lo, &size, &checksum) != 4)
        return false;
    *n = (struct chunk_name){{hi, lo}, size, checksum};
    chunk_name_format(n, again); /* sscanf is lenient; this is not */
    return strcmp(s, again) == 0;
}

void disk_path_of_shard(const char *root, unsigned shard, struct disk_path *out)
{
    int n = snprintf(out->s, sizeof(out->s), "%s/chunks/%02x", root, shard);

    dlc_check(n > 0 && (size_t)n < sizeof(out->s));
}

void disk_path_of_chunk(const char *root, const struct chunk_name *n, struct disk_path *out)
{
    char name[NAME_MAX_LEN];
    size_t len;

    disk_path_of_shard(root, shard_of(n->id), out);
    chunk_name_format(n, name);
    len = strlen(out->s);
    dlc_check(len + 1 + strlen(name) < sizeof(out->s));
    snprintf(out->s + len, sizeof(out->s) - len, "/%s", name);
}
