// SPDX-License-Identifier: Apache-2.0
#include "catalog/archives/byte_stream_i.h"

#include <string.h>

#include "base/check.h"

static int read_source(struct stream *base, void *buf, uint64_t len, uint64_t *got,
                       struct dlc_err *err)
{
    struct source_stream *t = dlc_container(base, struct source_stream, base);
    uint64_t left = t->reader.source->size - base->pos;
    const unsigned char *view;
    size_t n;
    int rc;

    *got = 0;
    len = DLC_MIN(len, left);
    for (uint64_t done = 0; buf != NULL && done < len; done += n) {
        rc = reader_view(&t->reader, base->pos + done, 1, &view, &n, err);
        if (rc != 0)
            return rc;
        n = (size_t)DLC_MIN((uint64_t)n, len - done);
        memcpy((char *)buf + done, view, n);
    }
    base->pos += len;
    *got = len;
    return 0;
}

void source_stream_init(struct source_stream *t, struct source *source)
{
    *t = (struct source_stream){.base = {.read = read_source}};
    reader_init(&t->reader, source);
}

void source_stream_release(struct source_stream *t)
{
    reader_release(&t->reader);
}
