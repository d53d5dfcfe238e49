// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that the daemon and some clients write together. Sealed like a session: (SEGMENT-1) of
 * segment_i.h.
 */
#include "base/mem.h"
#include "cache/memory/memory_i.h"

struct mem_common {
    struct segment seg;
};

int mem_common_new(const char *name, uint64_t size, struct mem_common **out, struct dlc_err *err)
{
    struct segment seg;
    int rc = segment_open(&seg, name, size, SEGMENT_CLIENTS_WRITE, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    *out = mem_new(struct mem_common);
    (*out)->seg = seg;
    return 0;
}

void mem_common_free(struct mem_common **cp)
{
    struct mem_common *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    segment_close_later(&c->seg); /* of a hundred million samples: 430 MB */
    mem_free(&c);
}

int mem_common_fd(const struct mem_common *c)
{
    return c->seg.fd;
}

void *mem_common_map(const struct mem_common *c)
{
    return c->seg.map;
}
