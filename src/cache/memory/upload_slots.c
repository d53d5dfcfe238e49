// SPDX-License-Identifier: Apache-2.0
/*
 * Upload slots: memory in which a client hands over decoded samples. Sealed like a session:
 * (SEGMENT-1) of segment_i.h.
 */
#include "base/mem.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

struct mem_uploads {
    struct segment seg;
    unsigned refs;
};

int mem_uploads_new(struct mem_uploads **out, struct dlc_err *err)
{
    struct segment seg;
    int rc = segment_open(&seg, "dlcache-uploads", SHM_UPLOADS_SIZE, SEGMENT_CLIENTS_WRITE, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    *out = mem_new(struct mem_uploads);
    **out = (struct mem_uploads){.seg = seg, .refs = 1};
    return 0;
}

struct mem_uploads *mem_uploads_ref(struct mem_uploads *g)
{
    g->refs++;
    return g;
}

void mem_uploads_put(struct mem_uploads **gp)
{
    struct mem_uploads *g = *gp;

    *gp = NULL;
    if (g == NULL || --g->refs > 0)
        return;
    segment_close(&g->seg);
    mem_free(&g);
}

int mem_uploads_fd(const struct mem_uploads *g)
{
    return g->seg.fd;
}

bool mem_upload_read(const struct mem_uploads *g, uint32_t number, void *to, uint64_t len)
{
    dlc_check(number < SHM_UPLOAD_SLOTS && len <= SHM_UPLOAD_SIZE);
    return os_pread_all(g->seg.fd, to, len, number * SHM_UPLOAD_SIZE) == 0;
}
