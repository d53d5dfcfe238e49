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
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "catalog/format_i.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct catalog_section *find(const struct catalog_header *h, uint32_t id, size_t size)
{
    for (unsigned i = 0; i < CATALOG_SECTIONS; i++) {
        const struct catalog_section *s = &h->sections[i];

        if (s->id == id && s->off <= size && s->len <= size - s->off)
            return s;
    }
    return NULL;
}

static void mend_blocks(unsigned char *file, size_t size, const struct catalog_header *h,
                        uint32_t id)
{
    const struct catalog_section *data = find(h, id, size), *blocks = find(h, id + 1, size);
    struct catalog_block row;

    if (data == NULL || blocks == NULL)
        return;
    for (uint64_t i = 0; (i + 1) * sizeof(row) <= blocks->len; i++) {
        unsigned char *at = file + blocks->off + i * sizeof(row);

        memcpy(&row, at, sizeof(row));
        if (row.off > data->len || row.len > data->len - row.off)
            continue;
        row.checksum = catalog_block_checksum(file + data->off + row.off, row.len, i);
        memcpy(at, &row, sizeof(row));
    }
}

static void mend_pages(unsigned char *file, size_t size, const struct catalog_header *h,
                       uint32_t id)
{
    const struct catalog_section *s = find(h, id, size);
    uint64_t full, n;

    if (s == NULL || s->width == 0 || s->width > 16)
        return;
    full = catalog_per_page(s->width) * s->width + sizeof(uint64_t);
    for (uint64_t off = 0; off < s->len; off += full) {
        uint64_t sum;

        n = DLC_MIN(s->len - off, full);
        if (n < sizeof(sum))
            return;
        sum = catalog_page_checksum(file + s->off + off, n - sizeof(sum), id, off / full);
        memcpy(file + s->off + off + n - sizeof(sum), &sum, sizeof(sum));
    }
}

static void mend(unsigned char *file, size_t size)
{
    static const uint32_t blocks[] = {CATALOG_SEC_ENTRIES, CATALOG_SEC_SAMPLES, CATALOG_SEC_TEXTS};
    static const uint32_t pages[] = {CATALOG_SEC_NAMES, CATALOG_SEC_DERIVED, CATALOG_SEC_LABELS,
                                     CATALOG_SEC_TARGETS};
    struct catalog_header h;

    if (size < sizeof(h))
        return;
    memcpy(&h, file, sizeof(h));
    h.magic = CATALOG_MAGIC;
    h.ver_major = CATALOG_MAJOR;
    h.block_entries = CATALOG_BLOCK;
    h.file_size = size;
    for (unsigned i = 0; i < CATALOG_SECTIONS; i++) {
        struct catalog_section *s = &h.sections[i];

        if (find(&h, s->id, size) == s)
            s->checksum = hash64(file + s->off, s->len);
    }
    for (unsigned i = 0; i < DLC_COUNT(blocks); i++)
        mend_blocks(file, size, &h, blocks[i]);
    for (unsigned i = 0; i < DLC_COUNT(pages); i++)
        mend_pages(file, size, &h, pages[i]);
    h.checksum = catalog_header_checksum(&h);
    memcpy(file, &h, sizeof(h));
}

static void use_sample(const struct catalog *c, uint64_t i)
{
    struct catalog_sample s;
    struct catalog_text t;
    uint64_t sum = 0, at;
    uint32_t label;

    if (catalog_sample(c, i, &s, NULL) == 0) {
        for (size_t k = 0; k < s.n_pieces; k++)
            sum += s.pieces[k].length;
        dlc_check(sum == s.size && strlen(s.name) <= CATALOG_KEY_MAX);
    }
    catalog_sample_release(&s);
    if (catalog_label(c, i, &label, NULL) == 0)
        dlc_check(label == SAMPLE_NO_LABEL || label < catalog_classes(c));
    if (catalog_target(c, i, &at, NULL) == 0)
        dlc_check(at < catalog_count(c));
    for (unsigned k = 0; k < catalog_columns(c); k++)
        catalog_cell(c, i, k, &t, NULL);
    catalog_class_name(c, i, &t, NULL);
    catalog_derived(c, i, &at, NULL);
}

static void use(const struct catalog *c)
{
    uint64_t n = catalog_count(c), at;
    struct catalog_entry e;

    for (uint64_t i = 0; i < DLC_MIN(n, 100u); i++) {
        use_sample(c, i);
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
