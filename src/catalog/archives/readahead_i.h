// SPDX-License-Identifier: Apache-2.0
/*
 * Views of a source through one window that reads ahead.
 *
 * A read of a bucket costs as much time as the transfer of a few megabytes. So the window grows
 * from 64 KiB to 4 MiB while the views asked for lie close to each other, whether all bytes between
 * them are wanted or not, and falls back when one lies more than 4 MiB beyond the window: then only
 * the place itself is worth reading.
 */
#ifndef DLC_CATALOG_ARCHIVES_READAHEAD_I_H
#define DLC_CATALOG_ARCHIVES_READAHEAD_I_H

#include "catalog/archives/scan.h"

#define READER_MAX ((size_t)4 << 20)

struct reader {
    struct source *source;
    unsigned char *window;
    uint64_t start; /* of the window in the source */
    size_t len;     /* bytes in the window */
    size_t ahead;   /* how much the last read asked for */
    size_t cap;
};

void reader_init(struct reader *r, struct source *source);
void reader_release(struct reader *r);

/*
 * Bytes at off: *len is at least want (at most READER_MAX) unless the source ends before, and as
 * much more as the window holds. The view is good until the next call.
 */
int reader_view(struct reader *r, uint64_t off, size_t want, const unsigned char **view,
                size_t *len, struct dlc_err *err);

#endif
