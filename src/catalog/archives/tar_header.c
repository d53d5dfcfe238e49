// SPDX-License-Identifier: Apache-2.0
/*
 * Layout of the header block: offset, field, size.
 *
 *     0 name 100     100 mode 8    108 uid 8      116 gid 8       124 size 12   136 mtime 12
 *     148 checksum 8 156 type 1    157 link 100   257 magic 6     263 version 2
 *     265 owner 32   297 group 32  329 device 16  345 prefix 155
 */
#include "catalog/archives/tar_header_i.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define SIZE_AT        124
#define CHECKSUM_AT    148
#define TYPE_AT        156
#define MAGIC_AT       257
#define PREFIX_AT      345
#define OCTAL_SIZE_MAX 077777777777ull

/* GNU's form of a large number: the first bit is set, the rest is big-endian. */
static bool parse_binary(const unsigned char *p, size_t len, uint64_t *v)
{
    *v = p[0] & 0x7f;
    for (size_t i = 1; i < len; i++) {
        if (*v > TAR_SIZE_MAX >> 8)
            return false;
        *v = *v << 8 | p[i];
    }
    return *v <= TAR_SIZE_MAX;
}

static bool parse_number(const unsigned char *p, size_t len, uint64_t *v)
{
    size_t i = 0;

    *v = 0;
    if (p[0] & 0x80)
        return parse_binary(p, len, v);
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
        *v = *v * 8 + (unsigned)(p[i] - '0');
    return i == len || p[i] == ' ' || p[i] == '\0';
}

/* Some old programs summed signed characters. */
static bool checksum_fits(const unsigned char *block)
{
    uint64_t stored, sum = 0;
    int64_t signed_sum = 0;

    if (!parse_number(block + CHECKSUM_AT, 8, &stored))
        return false;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        unsigned char c = i >= CHECKSUM_AT && i < CHECKSUM_AT + 8 ? ' ' : block[i];

        sum += c;
        signed_sum += (signed char)c;
    }
    return stored == sum || (signed_sum >= 0 && stored == (uint64_t)signed_sum);
}

bool tar_head_parse(const unsigned char block[static TAR_BLOCK], struct tar_head *h)
{
    const char *name = (const char *)block, *prefix = name + PREFIX_AT;
    bool posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0;

    if (!checksum_fits(block) || !parse_number(block + SIZE_AT, 12, &h->size))
        return false;
    h->type = (char)block[TYPE_AT];
    if (posix && prefix[0] != '\0')
        snprintf(h->name, sizeof(h->name), "%.155s/%.100s", prefix, name);
    else
        snprintf(h->name, sizeof(h->name), "%.100s", name);
    return true;
}

bool tar_block_is_zero(const unsigned char block[static TAR_BLOCK])
{
    return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

/* "LENGTH KEY=VALUE\n", where the length counts all of it. */
bool pax_next(const char *data, size_t len, size_t *next, struct pax_record *r, bool *bad)
{
    const char *p = data + *next, *end = data + len, *equals;
    size_t n = 0, digits = 0;

    *bad = false;
    if (p == end || *p == '\0') /* some writers pad with zeros */
        return false;
    *bad = true;
    for (; p < end && *p >= '0' && *p <= '9' && digits < 9; p++, digits++)
        n = n * 10 + (size_t)(*p - '0');
    if (digits == 0 || p == end || *p != ' ' || n > len - *next || n < digits + 3)
        return false;
    end = data + *next + n - 1;
    if (*end != '\n')
        return false;
    r->key = p + 1;
    equals = memchr(r->key, '=', (size_t)(end - r->key));
    if (equals == NULL)
        return false;
    r->key_len = (size_t)(equals - r->key);
    r->value = equals + 1;
    r->value_len = (size_t)(end - r->value);
    *next += n;
    *bad = false;
    return true;
}

static void make_block(struct buf *b, char type, const char *name, size_t name_len, uint64_t size)
{
    unsigned char block[TAR_BLOCK] = {0};
    unsigned sum = 0;

    memcpy(block, name, DLC_MIN(name_len, 100u));
    snprintf((char *)block + 100, 8, "0000644");
    snprintf((char *)block + 108, 8, "0000000");
    snprintf((char *)block + 116, 8, "0000000");
    snprintf((char *)block + SIZE_AT, 12, "%011" PRIo64, size <= OCTAL_SIZE_MAX ? size : 0);
    snprintf((char *)block + 136, 12, "00000000000");
    memset(block + CHECKSUM_AT, ' ', 8);
    block[TYPE_AT] = (unsigned char)type;
    memcpy(block + MAGIC_AT,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + CHECKSUM_AT, 8, "%06o", sum);
    buf_add(b, block, TAR_BLOCK);
}

/* The length counts its own digits. */
static void add_record(struct buf *b, const char *key, const char *value, size_t value_len)
{
    size_t rest = 1 + strlen(key) + 1 + value_len + 1, n = rest + 1;
    char digits[24];

    while ((size_t)snprintf(digits, sizeof(digits), "%zu", n) + rest != n)
        n++;
    buf_adds(b, digits);
    buf_addf(b, " %s=", key);
    buf_add(b, value, value_len);
    buf_addc(b, '\n');
}

void tar_head_make(struct buf *b, const char *name, size_t name_len, uint64_t size)
{
    static const char zeros[TAR_BLOCK];
    struct buf pax = BUF_INIT;
    char digits[24];

    if (name_len > 100)
        add_record(&pax, "path", name, name_len);
    if (size > OCTAL_SIZE_MAX) {
        int n = snprintf(digits, sizeof(digits), "%" PRIu64, size);

        add_record(&pax, "size", digits, (size_t)n);
    }
    if (pax.len > 0) {
        make_block(b, 'x', "pax", 3, pax.len);
        buf_add(b, pax.data, pax.len);
        buf_add(b, zeros, (size_t)TAR_PADDED(pax.len) - pax.len);
    }
    make_block(b, '0', name, name_len, size);
    buf_release(&pax);
}
