// SPDX-License-Identifier: Apache-2.0
/*
 * Opens arbitrary bytes as a catalog and reads from it. Checksums would keep nearly all of them
 * out, so when the first byte is odd the checksums of the rest are made right first.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/os.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A section that lies inside the file, or false. */
static bool section_of(const struct catalog_header *h, unsigned i, size_t size)
{
    return h->sections[i].off <= size && h->sections[i].len <= size - h->sections[i].off;
}

static void mend_blocks(unsigned char *file, size_t size, const struct catalog_header *h)
{
    const struct catalog_section *entries = &h->sections[0], *blocks = &h->sections[1];
    struct catalog_block row;

    if (!section_of(h, 0, size) || !section_of(h, 1, size))
        return;
    for (uint64_t i = 0; (i + 1) * sizeof(row) <= blocks->len; i++) {
        unsigned char *at = file + blocks->off + i * sizeof(row);

        memcpy(&row, at, sizeof(row));
        if (row.off > entries->len || row.len > entries->len - row.off)
            continue;
        row.checksum = catalog_block_checksum(file + entries->off + row.off, row.len, i);
        memcpy(at, &row, sizeof(row));
    }
}

static void mend(unsigned char *file, size_t size)
{
    struct catalog_header h;

    if (size < sizeof(h))
        return;
    memcpy(&h, file, sizeof(h));
    h.magic = CATALOG_MAGIC;
    h.ver_major = CATALOG_MAJOR;
    h.block_entries = CATALOG_BLOCK;
    h.file_size = size;
    for (unsigned i = 0; i < 3; i++)
        h.sections[i].id = CATALOG_SEC_ENTRIES + i;
    if (section_of(&h, 1, size))
        h.count = h.sections[1].len / sizeof(struct catalog_block) * CATALOG_BLOCK;
    h.sections[2].len = 0;
    h.sections[2].checksum = hash64("", 0);
    h.checksum = catalog_header_checksum(&h);
    memcpy(file, &h, sizeof(h));
    mend_blocks(file, size, &h);
}

static void use(const struct catalog *c)
{
    uint64_t n = catalog_count(c), at;
    struct catalog_entry e;

    for (uint64_t i = 0; i < DLC_MIN(n, 100u); i++) {
        if (catalog_get(c, i, &e, NULL) < 0)
            continue;
        dlc_check(strlen(e.key) <= CATALOG_KEY_MAX && strlen(e.etag) < CATALOG_ETAG_MAX);
        if (catalog_find(c, e.key, &at) == 0)
            dlc_check(at < n);
    }
    catalog_get(c, n - 1, &e, NULL);
    catalog_find(c, "", &at);
    catalog_find(c, "train/1.jpg", &at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *file;
    struct catalog *c;
    int fd;

    if (size < 1)
        return 0;
    file = mem_alloc(size);
    memcpy(file, data + 1, size - 1);
    if (data[0] % 2 == 1)
        mend(file, size - 1);
    fd = os_memfd("catalog");
    dlc_check(fd >= 0 && os_write_all(fd, file, size - 1) == 0);
    if (catalog_open_fd(fd, &c, NULL) == 0)
        use(c);
    catalog_close(&c);
    os_close(&fd);
    mem_free(&file);
    return 0;
}
