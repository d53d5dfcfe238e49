// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes as an object of one format. The first byte picks options, the rest is the object.
 * Whatever comes: reads lie in the source, pieces in the object or the unpacked copy, failures have
 * a text, and the limits hold.
 */
#ifndef DLC_TESTS_FUZZ_SCAN_H
#define DLC_TESTS_FUZZ_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "catalog/archives/scan.h"

#define FUZZ_MAX_DERIVED ((uint64_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_scan {
    struct scan scan;
    struct scan_sink sink;
    struct source source;
    const uint8_t *data;
    uint64_t written;
    uint64_t derived_end; /* the furthest that a sample reaches */
    unsigned long long sum;
};

static inline int fuzz_read(struct source *s, uint64_t off, void *buf, size_t len,
                            struct dlc_err *err)
{
    struct fuzz_scan *f = s->priv;

    (void)err;
    dlc_check(len > 0 && off <= s->size && len <= s->size - off);
    memcpy(buf, f->data + off, len);
    return 0;
}

static inline int fuzz_write(struct scan_sink *k, const void *data, size_t len, struct dlc_err *err)
{
    struct fuzz_scan *f = dlc_container(k, struct fuzz_scan, sink);

    (void)err;
    (void)data;
    f->written += len;
    dlc_check(f->written <= FUZZ_MAX_DERIVED);
    return 0;
}

static inline int fuzz_found(struct scan *s, const struct scan_sample *sample, struct dlc_err *err)
{
    struct fuzz_scan *f = s->priv;

    (void)err;
    dlc_check(sample->name_len > 0 && sample->name_len <= SCAN_NAME_MAX);
    dlc_check(memchr(sample->name, '\0', sample->name_len) == NULL);
    dlc_check(sample->n_pieces > 0 && sample->n_pieces <= SAMPLE_PIECES_MAX);
    for (size_t i = 0; i < sample->n_pieces; i++) {
        const struct piece *p = &sample->pieces[i];

        if (p->kind == PIECE_OBJECT)
            dlc_check(p->offset <= s->source->size && p->length <= s->source->size - p->offset);
        if (p->kind == PIECE_DERIVED)
            f->derived_end = DLC_MAX(f->derived_end, p->offset + p->length);
        for (uint64_t at = 0; p->kind == PIECE_INLINE && at < p->length; at++)
            f->sum += ((const unsigned char *)p->bytes)[at];
    }
    return 0;
}

static inline int fuzz_scan(const char *key, const uint8_t *data, size_t size)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct fuzz_scan f = {.sink = {fuzz_write}};
    const struct scanner *scanner = scanner_of(key);
    unsigned options = size == 0 ? 0 : data[0];
    int rc;

    f.data = data + (size > 0);
    f.source = (struct source){key, size - (size > 0), fuzz_read, &f};
    f.scan = (struct scan){.source = &f.source, .sink = &f.sink, .found = fuzz_found, .priv = &f};
    f.scan.limits.group = (options & 1) != 0;
    f.scan.limits.header = (enum scan_header)((options >> 1) % 3);
    f.scan.limits.partition_bytes = 1 + (options & 0xf0);
    f.scan.limits.max_derived = FUZZ_MAX_DERIVED;
    rc = scanner->run(&f.scan, &err);
    dlc_check(rc == 0 || (rc == err.code && strncmp(err.text, key, strlen(key)) == 0));
    dlc_check(rc == 0 || rc == DLC_ECORRUPT || rc == DLC_EINVAL);
    dlc_check(rc != 0 || (f.derived_end <= f.written && f.scan.derived_size == f.written));
    return 0;
}

#endif
