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
#include "base/syscalls.h"

static int seal(int fd)
{
    return os_fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
}

/* A second, read-only open file of the same memory. (S2) */
static int open_read_only(int fd)
{
    char path[40];

    if (os_fchmod(fd, 0400) < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return os_open(path, O_RDONLY, 0);
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
    if (seal(s->fd) < 0) {
        rc = dlc_err_sys(err, "shared memory %s: cannot seal its size", name);
        goto out;
    }
    s->client_fd = access == SEGMENT_CLIENTS_WRITE ? s->fd : open_read_only(s->fd);
    if (s->client_fd < 0)
        rc = dlc_err_sys(err, "shared memory %s: cannot open it read-only (is /proc mounted?)",
                         name);
    else
        os_madvise(s->map, size, MADV_DONTDUMP); /* a hint: keeps sample bytes out of core files */
out:
    if (rc < 0)
        segment_close(s);
    return rc;
}

void segment_close(struct segment *s)
{
    os_unmap(s->map, s->size);
    if (s->client_fd != s->fd)
        os_close(&s->client_fd);
    os_close(&s->fd);
    *s = (struct segment)SEGMENT_INIT;
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
