// SPDX-License-Identifier: Apache-2.0
/* The central directory of a zip: every member, in the order of their places in the file. */
#ifndef DLC_CATALOG_ARCHIVES_ZIP_I_H
#define DLC_CATALOG_ARCHIVES_ZIP_I_H

#include "base/buf.h"
#include "catalog/archives/readahead_i.h"

struct zip_entry {
    uint64_t at; /* of the local header */
    uint64_t packed, size;
    uint64_t name_at; /* in names */
    uint32_t crc;
    uint16_t name_len, method;
    bool encrypted, is_file;
};

struct zip_dir {
    struct zip_entry *entries;
    size_t n, cap;
    char *names;
    size_t names_len, names_cap;
    uint64_t begin; /* of the directory: members end before it */
};

#define ZIP_LOCAL 30 /* bytes of a local header before the name */

static inline uint16_t get16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t get32(const unsigned char *p)
{
    return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16;
}

static inline uint64_t get64(const unsigned char *p)
{
    return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* 0 or DLC_E*; release in either case. */
int zip_dir_read(struct zip_dir *d, struct scan *s, struct reader *r, struct dlc_err *err);
void zip_dir_release(struct zip_dir *d);

#endif
