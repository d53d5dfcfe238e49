// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/freed_i.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/syscalls.h"

#ifndef FAN_MARK_EVICTABLE /* of glibc before 2.36 */
#define FAN_MARK_EVICTABLE 0x00000200
#endif

#define LIST_MAX ((size_t)1 << 20) /* bytes: some 7,000 marks */
#define LIST_ADD ((size_t)16 << 10)

void freed_open(struct freed *f)
{
    char path[64];

    f->list = -1;
    f->group = os_fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC);
    if (f->group < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", f->group);
    f->list = os_open(path, O_RDONLY, 0);
    if (f->list < 0)
        os_close(&f->group);
}

void freed_close(struct freed *f)
{
    os_close(&f->list);
    os_close(&f->group);
}

uint64_t freed_watch(const struct freed *f, int memfd)
{
    struct stat st;

    /* Of an event that does not come: nobody moves a memfd. */
    if (f->group < 0 || os_fstat(memfd, &st) < 0 ||
        os_fanotify_mark(f->group, FAN_MARK_ADD | FAN_MARK_EVICTABLE, FAN_MOVE_SELF, memfd) < 0)
        return 0;
    return st.st_ino;
}

/* False: it is too long, or cannot be read. */
static bool read_list(int fd, struct buf *list)
{
    ssize_t n = 1;

    while (n > 0 && list->len < LIST_MAX) {
        buf_reserve(list, LIST_ADD);
        n = os_pread(fd, list->data + list->len, LIST_ADD, list->len);
        list->len += n > 0 ? (size_t)n : 0;
    }
    buf_addc(list, '\0');
    return n == 0;
}

bool freed_read(const struct freed *f, struct map *kept)
{
    struct buf list = BUF_INIT;
    bool well = f->list >= 0 && read_list(f->list, &list);
    uint64_t inode;

    for (const char *line = buf_str(&list); well && line != NULL; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        if (sscanf(line, "fanotify ino:%" SCNx64, &inode) == 1)
            map_set(kept, inode, kept);
    }
    buf_release(&list);
    return well;
}
