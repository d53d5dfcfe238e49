// SPDX-License-Identifier: Apache-2.0
/* Stamp of a file: tells whether it was replaced or written since the last look. */
#ifndef DLC_BASE_FILE_STAMP_H
#define DLC_BASE_FILE_STAMP_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/syscalls.h"

struct file_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed; /* ctime: nobody can set it back */
};

/* Take the stamp of the file at path. True: it differs from the one before. A file that cannot be
 * looked at has not changed. */
static inline bool file_stamp_take(struct file_stamp *s, const char *path)
{
    struct file_stamp now = {0};
    struct stat st;
    bool differs;

    if (os_stat(path, &st) < 0)
        return false;
    now.dev = st.st_dev;
    now.ino = st.st_ino;
    now.size = st.st_size;
    now.changed = st.st_ctim;
    differs = now.dev != s->dev || now.ino != s->ino || now.size != s->size ||
              now.changed.tv_sec != s->changed.tv_sec || now.changed.tv_nsec != s->changed.tv_nsec;
    *s = now;
    return differs;
}

#endif
