// SPDX-License-Identifier: Apache-2.0
#include "catalog/format_i.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/str.h"
#include "catalog/catalog.h"

enum etag_form {
    ETAG_NONE = 0,
    ETAG_HEX = 1,   /* 32 lower-case hexadecimal digits: 16 bytes */
    ETAG_PARTS = 2, /* the same and "-N" of a multipart upload: 16 bytes and a varint */
    ETAG_TEXT = 3,  /* varint length, then the text */
};

uint64_t catalog_header_checksum(const struct catalog_header *h)
{
    struct catalog_header copy = *h;

    copy.checksum = 0;
    return XXH3_64bits(&copy, sizeof(copy));
}

uint64_t catalog_header_snapshot(const struct catalog_header *h)
{
    uint64_t said[2 * CATALOG_SECTIONS + 3] = {h->count, h->visible, h->n_objects};

    for (unsigned i = 0; i < CATALOG_SECTIONS; i++) {
        if (h->sections[i].id == CATALOG_SEC_URL)
            continue;
        said[3 + 2 * i] = h->sections[i].id;
        said[4 + 2 * i] = h->sections[i].checksum;
    }
    return XXH3_64bits(said, sizeof(said));
}

uint64_t catalog_page_checksum(const void *data, size_t len, uint32_t section, uint64_t page)
{
    return XXH3_64bits_withSeed(data, len, (uint64_t)section << 48 ^ page);
}

uint32_t catalog_block_checksum(const void *data, size_t len, uint64_t number)
{
    return (uint32_t)XXH3_64bits_withSeed(data, len, number);
}

size_t catalog_put_varint(unsigned char *out, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        out[n++] = (unsigned char)(v | 0x80);
    out[n++] = (unsigned char)v;
    return n;
}

bool catalog_get_varint(struct catalog_cursor *c, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 64 && c->p < c->end; shift += 7) {
        unsigned char byte = *c->p++;

        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

bool catalog_get_bytes(struct catalog_cursor *c, void *out, size_t n)
{
    if ((size_t)(c->end - c->p) < n)
        return false;
    memcpy(out, c->p, n);
    c->p += n;
    return true;
}

/* Are the first 32 characters lower-case hexadecimal digits? */
static bool is_md5(const char *s)
{
    return strspn(s, "0123456789abcdef") >= 32;
}

/* "-N" exactly as we would print it again. */
static bool parse_parts(const char *s, uint64_t *parts)
{
    char again[24];

    if (s[0] != '-' || !str_parse_u64(s + 1, parts))
        return false;
    snprintf(again, sizeof(again), "-%llu", (unsigned long long)*parts);
    return strcmp(s, again) == 0;
}

static size_t put_etag(unsigned char *out, const char *etag)
{
    size_t len = strlen(etag), n = 0;
    uint64_t parts;

    if (len == 0) {
        out[n++] = ETAG_NONE;
    } else if (len == 32 && is_md5(etag)) {
        out[n++] = ETAG_HEX;
        str_unhex(etag, 32, out + n);
        n += 16;
    } else if (len > 32 && is_md5(etag) && parse_parts(etag + 32, &parts)) {
        out[n++] = ETAG_PARTS;
        str_unhex(etag, 32, out + n);
        n += 16;
        n += catalog_put_varint(out + n, parts);
    } else {
        out[n++] = ETAG_TEXT;
        n += catalog_put_varint(out + n, len);
        memcpy(out + n, etag, len);
        n += len;
    }
    return n;
}

size_t catalog_put_tail(unsigned char *out, uint64_t size, const char *etag)
{
    size_t n = catalog_put_varint(out, size);

    return n + put_etag(out + n, etag);
}

static bool get_text(struct catalog_cursor *c, char *etag)
{
    uint64_t len;

    if (!catalog_get_varint(c, &len) || len >= CATALOG_ETAG_MAX)
        return false;
    if (!catalog_get_bytes(c, etag, len))
        return false;
    for (uint64_t i = 0; i < len; i++)
        if ((unsigned char)etag[i] < ' ') /* it goes into a header line */
            return false;
    etag[len] = '\0';
    return true;
}

static bool get_hex(struct catalog_cursor *c, bool parted, char *etag)
{
    unsigned char raw[16];
    uint64_t parts;

    if (!catalog_get_bytes(c, raw, sizeof(raw)))
        return false;
    str_hex(raw, sizeof(raw), etag);
    if (!parted)
        return true;
    if (!catalog_get_varint(c, &parts))
        return false;
    snprintf(etag + 32, CATALOG_ETAG_MAX - 32, "-%llu", (unsigned long long)parts);
    return true;
}

bool catalog_get_tail(struct catalog_cursor *c, uint64_t *size, char *etag)
{
    unsigned char form;

    etag[0] = '\0';
    if (!catalog_get_varint(c, size) || !catalog_get_bytes(c, &form, 1))
        return false;
    switch (form) {
    case ETAG_NONE: return true;
    case ETAG_HEX: return get_hex(c, false, etag);
    case ETAG_PARTS: return get_hex(c, true, etag);
    case ETAG_TEXT: return get_text(c, etag);
    default: return false;
    }
}
