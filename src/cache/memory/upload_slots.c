// SPDX-License-Identifier: Apache-2.0
/* The memory that forms are handed over in. Sealed as a session's: (S1) of segment_i.h. */
#include "base/mem.h"
#include "cache/memory/memory_i.h"

struct mem_gifts {
    struct segment seg;
    unsigned refs;
};

int mem_gifts_new(struct mem_gifts **out, struct dlc_err *err)
{
    struct segment seg;
    int rc = segment_open(&seg, "dlcache-gifts", SHM_GIFTS_SIZE, SEGMENT_CLIENTS_WRITE, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    *out = mem_new(struct mem_gifts);
    **out = (struct mem_gifts){.seg = seg, .refs = 1};
    return 0;
}

struct mem_gifts *mem_gifts_ref(struct mem_gifts *g)
{
    g->refs++;
    return g;
}

void mem_gifts_put(struct mem_gifts **gp)
{
    struct mem_gifts *g = *gp;

    *gp = NULL;
    if (g == NULL || --g->refs > 0)
        return;
    segment_close(&g->seg);
    mem_free(&g);
}

int mem_gifts_fd(const struct mem_gifts *g)
{
    return g->seg.client_fd;
}

const void *mem_gift(const struct mem_gifts *g, uint32_t number)
{
    dlc_check(number < SHM_GIFTS);
    return (const char *)g->seg.map + number * SHM_GIFT_SIZE;
}
