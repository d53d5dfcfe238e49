// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/segment_i.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

#define CLOSE_STEP  ((uint64_t)8 << 20) /* bytes unmapped in one call: others map meanwhile */
#define CLOSE_STACK ((size_t)64 << 10)

int segment_seal(int fd, enum segment_access access)
{
    int seals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

    return os_fcntl(fd, F_ADD_SEALS,
                    access == SEGMENT_CLIENTS_READ ? seals | F_SEAL_FUTURE_WRITE : seals);
}

int segment_open(struct segment *s, const char *name, uint64_t size, enum segment_access access,
                 struct dlc_err *err)
{
    int rc = 0;

    *s = (struct segment)SEGMENT_INIT;
    s->size = size;
    s->fd = os_memfd(name);
    if (s->fd < 0) {
        rc = dlc_err_sys(err, "shared memory %s: cannot create a memfd", name);
        goto out;
    }
    if (os_ftruncate(s->fd, size) < 0) {
        rc = dlc_err_sys(err, "shared memory %s: cannot make it %llu bytes", name,
                         (unsigned long long)size);
        goto out;
    }
    s->map = os_map(s->fd, 0, size, true);
    if (s->map == NULL) {
        rc = dlc_err_sys(err,
                         "shared memory %s: cannot map %llu bytes (is the limit on address space, "
                         "ulimit -v, too small?)",
                         name, (unsigned long long)size);
        goto out;
    }
    if (segment_seal(s->fd, access) < 0) {
        rc = dlc_err_sys(err, "shared memory %s: cannot seal it (is this Linux older than 5.1?)",
                         name);
        goto out;
    }
    os_madvise(s->map, size, MADV_DONTDUMP); /* a hint: keeps sample bytes out of core files */
out:
    if (rc < 0)
        segment_close(s);
    return rc;
}

void segment_close(struct segment *s)
{
    os_unmap(s->map, s->size);
    os_close(&s->fd);
    *s = (struct segment)SEGMENT_INIT;
}

static void *close_main(void *arg)
{
    struct segment *s = arg;

    for (uint64_t at = 0; at < s->size; at += CLOSE_STEP)
        os_unmap((char *)s->map + at, (size_t)DLC_MIN(CLOSE_STEP, s->size - at));
    s->map = NULL;
    segment_close(s); /* the kernel frees the pages here, if no client maps them */
    mem_free(&s);
    return NULL;
}

void segment_close_later(struct segment *s)
{
    struct segment *copy;

    if (s->size <= CLOSE_STEP) {
        segment_close(s);
        return;
    }
    copy = mem_new(struct segment);
    *copy = *s;
    *s = (struct segment)SEGMENT_INIT;
    if (os_thread_detached(CLOSE_STACK, close_main, copy) != 0)
        close_main(copy);
}

uint64_t segment_owner_start(void)
{
    struct buf b = BUF_INIT;
    uint64_t start = 0;

    if (os_read_file("/proc/self/stat", 4096, &b, NULL) == 0) {
        /* Field 22; the name, field 2, may hold spaces but ends at the last parenthesis. */
        const char *p = strrchr(buf_str(&b), ')');

        for (int field = 2; p != NULL && field < 22; field++)
            p = strchr(p + 1, ' ');
        start = p != NULL ? strtoull(p, NULL, 10) : 0;
    }
    buf_release(&b);
    return start;
}
