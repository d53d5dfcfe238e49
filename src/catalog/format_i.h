// SPDX-License-Identifier: Apache-2.0
/*
 * The catalog file as bytes: docs/format/catalog.md. Little-endian; a machine of the other byte
 * order does not recognise the magic and refuses the file.
 *
 *     header (512 bytes) | sections
 *
 * Three kinds of sections. *Blocks*: records of any length, 32 to a block, and a second section
 * with a row per block, so that a block is found and verified by itself. *Pages*: elements of equal
 * width in pages of 4096 bytes that end with their checksum. *Small*: verified whole at opening.
 */
#ifndef DLC_CATALOG_FORMAT_I_H
#define DLC_CATALOG_FORMAT_I_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATALOG_MAGIC     0x43434c44u /* "DLCC" */
#define CATALOG_MAJOR     2
#define CATALOG_MINOR     0
#define CATALOG_BLOCK     32 /* records per block */
#define CATALOG_SECTIONS  13
#define CATALOG_URL_MAX   4096
#define CATALOG_TAIL_MAX  160 /* bytes of size and ETag at most */
#define CATALOG_VARINT    10  /* bytes of a varint at most */
#define CATALOG_BLOCK_MAX (CATALOG_BLOCK * (2 * CATALOG_VARINT + 1024 + CATALOG_TAIL_MAX))
#define CATALOG_PAGE      4096
#define CATALOG_SMALL_MAX ((uint64_t)1 << 20) /* bytes of a small section */

enum catalog_section_id {
    CATALOG_SEC_ENTRIES = 1, /* blocks: objects */
    CATALOG_SEC_BLOCKS = 2,
    CATALOG_SEC_URL = 3,     /* small */
    CATALOG_SEC_SAMPLES = 4, /* blocks: samples; absent: sample i is object i */
    CATALOG_SEC_SAMPLE_BLOCKS = 5,
    CATALOG_SEC_NAMES = 6,   /* pages of u64: hash of name, number of sample; sorted */
    CATALOG_SEC_INLINE = 7,  /* bytes that pieces refer to, each reference with its checksum */
    CATALOG_SEC_DERIVED = 8, /* pages of pairs of u64: object, size of its unpacked copy; sorted */
    CATALOG_SEC_LABELS = 9,  /* pages of u8, u16 or u32: class of each sample */
    CATALOG_SEC_TEXTS = 10,  /* blocks: names of classes, then cells of columns, row by row */
    CATALOG_SEC_TEXT_BLOCKS = 11,
    CATALOG_SEC_SPLITS = 12, /* small: splits, names of columns */
    CATALOG_SEC_TARGETS = 13 /* pages of u32: sample that is the target of each sample */
};

struct catalog_section {
    uint32_t id;       /* 0: unused; unknown ones are ignored */
    uint32_t width;    /* pages: bytes of an element; else 0 */
    uint64_t off, len; /* in the file */
    uint64_t checksum; /* XXH3-64 of its bytes */
};

struct catalog_header {
    uint32_t magic;
    uint16_t ver_major; /* unknown: refuse */
    uint16_t ver_minor; /* larger: ignore what is new */
    uint64_t file_size;
    uint64_t count; /* samples */
    uint64_t bytes; /* sum of the sizes of the visible ones */
    int64_t created;
    uint64_t snapshot;
    uint32_t block_entries;
    uint32_t zero;
    uint64_t checksum; /* XXH3-64 of the header with this field zero */
    uint64_t n_objects;
    uint64_t n_classes;
    uint64_t visible; /* samples [0, visible) are what the dataset counts; the rest are targets */
    uint64_t reserved;
    struct catalog_section sections[CATALOG_SECTIONS];
};
static_assert(sizeof(struct catalog_section) == 32, "format");
static_assert(sizeof(struct catalog_header) == 512, "format");
static_assert(offsetof(struct catalog_header, snapshot) == 40, "format");
static_assert(offsetof(struct catalog_header, sections) == 96, "format");

struct catalog_block { /* one row of a block table */
    uint64_t off;      /* from the start of the section of blocks */
    uint32_t len;
    uint32_t checksum; /* low half of XXH3-64 of the block, seeded with its number */
};
static_assert(sizeof(struct catalog_block) == 16, "format");

uint64_t catalog_header_checksum(const struct catalog_header *h);
/* Identifies the contents of the catalog, wherever and whenever it was made. */
uint64_t catalog_header_snapshot(const struct catalog_header *h);
uint32_t catalog_block_checksum(const void *data, size_t len, uint64_t number);
uint64_t catalog_page_checksum(const void *data, size_t len, uint32_t section, uint64_t page);

/* Elements of `width` bytes in one page, and bytes of a section of n of them. */
static inline uint64_t catalog_per_page(uint32_t width)
{
    return (CATALOG_PAGE - sizeof(uint64_t)) / width;
}

static inline uint64_t catalog_paged_size(uint64_t n, uint32_t width)
{
    uint64_t per = catalog_per_page(width), rest = n % per;

    return n / per * (per * width + sizeof(uint64_t)) +
           (rest > 0 ? rest * width + sizeof(uint64_t) : 0);
}

/* Write v; returns the bytes written, at most CATALOG_VARINT. */
size_t catalog_put_varint(unsigned char *out, uint64_t v);

/* A difference, modulo 2^64, so that small ones of either sign are short. */
static inline uint64_t catalog_zigzag(uint64_t from, uint64_t to)
{
    uint64_t d = to - from;

    return d << 1 ^ (d >> 63 ? UINT64_MAX : 0);
}

static inline uint64_t catalog_unzigzag(uint64_t from, uint64_t v)
{
    return from + (v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
}

/* Size and ETag as stored. Returns the bytes written, at most CATALOG_TAIL_MAX. The ETag is shorter
 * than CATALOG_ETAG_MAX. */
size_t catalog_put_tail(unsigned char *out, uint64_t size, const char *etag);

/* Reading from untrusted bytes: false if they end early or are invalid. */
struct catalog_cursor {
    const unsigned char *p, *end;
};
bool catalog_get_varint(struct catalog_cursor *c, uint64_t *v);
bool catalog_get_bytes(struct catalog_cursor *c, void *out, size_t n);
bool catalog_get_tail(struct catalog_cursor *c, uint64_t *size, char *etag);

#endif
