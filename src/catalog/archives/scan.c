// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "catalog/archives/scan_i.h"

#define DEFAULT_PARTITION ((uint64_t)64 << 20)

int source_read(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    if (off > s->size || len > s->size - off)
        return dlc_err_set(err, DLC_ECORRUPT,
                           "%s: %zu bytes at %" PRIu64 " lie beyond its %" PRIu64 " bytes", s->name,
                           len, off, s->size);
    return len == 0 ? 0 : s->read(s, off, buf, len, err);
}

static int read_memory(struct source *s, uint64_t off, void *buf, size_t len, struct dlc_err *err)
{
    (void)err;
    memcpy(buf, (const char *)s->priv + off, len);
    return 0;
}

struct source source_of_memory(const void *data, size_t len, const char *name)
{
    return (struct source){
        .name = name, .size = len, .read = read_memory, .priv = (void *)(uintptr_t)data};
}

const char *scan_shown(const char *name, size_t len, char out[static SCAN_SHOWN])
{
    struct buf b = BUF_INIT;

    str_printable(name, DLC_MIN(len, 100u), &b);
    snprintf(out, SCAN_SHOWN, "%s%s", buf_str(&b), len > 100 ? "..." : "");
    buf_release(&b);
    return out;
}

uint64_t scan_partition_bytes(const struct scan *s)
{
    return s->limits.partition_bytes == 0 ? DEFAULT_PARTITION : s->limits.partition_bytes;
}

int scan_found_rows(struct scan *s, uint64_t first, uint64_t last, const struct piece *pieces,
                    size_t n_pieces, struct dlc_err *err)
{
    char name[64];
    int n = snprintf(name, sizeof(name), "rows %" PRIu64 "-%" PRIu64, first, last);
    struct scan_sample sample = {name, (size_t)n, pieces, n_pieces};

    return s->found(s, &sample, err);
}
