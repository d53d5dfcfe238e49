// SPDX-License-Identifier: Apache-2.0
/*
 * The catalog file as bytes: docs/format/catalog.md. Little-endian; a machine of the other byte
 * order does not recognise the magic and refuses the file.
 *
 *     header (512 bytes) | entries: blocks of 32 | block table | URL
 *
 * An entry is: varint shared prefix, varint suffix length, suffix, then its tail: varint size,
 * ETag. The first entry of a block shares nothing, so a block is decoded by itself.
 */
#ifndef DLC_CATALOG_FORMAT_I_H
#define DLC_CATALOG_FORMAT_I_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATALOG_MAGIC     0x43434c44u /* "DLCC" */
#define CATALOG_MAJOR     1
#define CATALOG_MINOR     0
#define CATALOG_BLOCK     32 /* entries per block */
#define CATALOG_SECTIONS  14
#define CATALOG_URL_MAX   4096
#define CATALOG_TAIL_MAX  160 /* bytes of size and ETag at most */
#define CATALOG_VARINT    10  /* bytes of a varint at most */
#define CATALOG_BLOCK_MAX (CATALOG_BLOCK * (2 * CATALOG_VARINT + 1024 + CATALOG_TAIL_MAX))

enum catalog_section_id {
    CATALOG_SEC_ENTRIES = 1,
    CATALOG_SEC_BLOCKS = 2,
    CATALOG_SEC_URL = 3,
};

struct catalog_section {
    uint32_t id; /* 0: unused; unknown ones are ignored */
    uint32_t reserved;
    uint64_t off, len; /* in the file */
    uint64_t checksum; /* XXH3-64 of its bytes */
};

struct catalog_header {
    uint32_t magic;
    uint16_t ver_major; /* unknown: refuse */
    uint16_t ver_minor; /* larger: ignore what is new */
    uint64_t file_size;
    uint64_t count;
    uint64_t bytes; /* sum of sizes */
    int64_t created;
    uint64_t snapshot;
    uint32_t block_entries;
    uint32_t reserved;
    uint64_t checksum; /* XXH3-64 of the header with this field zero */
    struct catalog_section sections[CATALOG_SECTIONS];
};
static_assert(sizeof(struct catalog_section) == 32, "format");
static_assert(sizeof(struct catalog_header) == 512, "format");
static_assert(offsetof(struct catalog_header, snapshot) == 40, "format");
static_assert(offsetof(struct catalog_header, sections) == 64, "format");

struct catalog_block { /* one row of the block table */
    uint64_t off;      /* from the start of the entries section */
    uint32_t len;
    uint32_t checksum; /* low half of XXH3-64 of the block, seeded with its number */
};
static_assert(sizeof(struct catalog_block) == 16, "format");

uint64_t catalog_header_checksum(const struct catalog_header *h);
uint32_t catalog_block_checksum(const void *data, size_t len, uint64_t number);

/* Write v; returns the bytes written, at most CATALOG_VARINT. */
size_t catalog_put_varint(unsigned char *out, uint64_t v);

/* Size and ETag as stored. Returns the bytes written, at most CATALOG_TAIL_MAX. The ETag is shorter
 * than CATALOG_ETAG_MAX. */
size_t catalog_put_tail(unsigned char *out, uint64_t size, const char *etag);

/* Reading from bytes that nobody vouches for: false when they end early or make no sense. */
struct catalog_cursor {
    const unsigned char *p, *end;
};
bool catalog_get_varint(struct catalog_cursor *c, uint64_t *v);
bool catalog_get_bytes(struct catalog_cursor *c, void *out, size_t n);
bool catalog_get_tail(struct catalog_cursor *c, uint64_t *size, char *etag);

#endif
