// SPDX-License-Identifier: Apache-2.0
/* A sequential stream of bytes: from a source, where skipping costs nothing, or from a decoder. */
#ifndef DLC_CATALOG_ARCHIVES_BYTE_STREAM_I_H
#define DLC_CATALOG_ARCHIVES_BYTE_STREAM_I_H

#include "catalog/archives/readahead_i.h"

struct stream {
    uint64_t pos; /* of the next byte */
    /* Read the next len bytes into buf, or skip them if buf is NULL; *got is less only at the end.
     */
    int (*read)(struct stream *t, void *buf, uint64_t len, uint64_t *got, struct dlc_err *err);
};

struct source_stream {
    struct stream base;
    struct reader reader;
};

void source_stream_init(struct source_stream *t, struct source *source);
void source_stream_release(struct source_stream *t);

#endif
