// SPDX-License-Identifier: Apache-2.0
#include "cache/disk/chunk_name_i.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"

struct chunk_id chunk_id_of(struct name_hash place, const char *key, const char *etag)
{
    char in[33];
    const char *const parts[] = {"dlcache chunk", in, key, etag};
    struct name_hash h;
    const uint64_t raw[2] = {htobe64(place.hi), htobe64(place.lo)};

    str_hex(raw, sizeof(raw), in);
    h = name_hash_of(parts, DLC_COUNT(parts));
    return (struct chunk_id){.hi = h.hi, .lo = h.lo};
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
