// SPDX-License-Identifier: Apache-2.0
/* Blocking file system operations of the file origin; file.c runs them on worker threads. */
#ifndef DLC_BUCKET_ORIGINS_FILE_I_H
#define DLC_BUCKET_ORIGINS_FILE_I_H

#include <stdatomic.h>

#include "bucket/origins/origin.h"

struct file_work {
    struct attempt *a; /* what to do; the answer goes here, but for `received` */
    const char *root;
    const char *below;         /* the directory that the root must lie below; NULL: any */
    bool confined;             /* links do not lead out of the root */
    const _Atomic bool *stop;  /* set: the answer is not wanted any more */
    _Atomic uint64_t progress; /* bytes read, or entries seen */
};

void file_get(struct file_work *w);
void file_stat(struct file_work *w);
void file_list(struct file_work *w); /* file_list.c */

/* Shared by both. */
struct stat;
void file_etag(const struct stat *st, char out[static ETAG_MAX]);
void file_fail(struct attempt *a, const char *what, const char *path); /* of errno */
/* Does the key stay below the root? Sets the failure when not. */
bool file_check_key(struct attempt *a, const char *key);
/* The root does not exist or is not a directory: says what to do. */
void file_fail_root(struct attempt *a, const char *root);
const char *file_base(const char *path);
/* Open the root itself. With `below`: ELOOP where a part of its path is a link. */
int file_open_root(const struct file_work *w, int flags);
/* Open what lies at a key, "" for the root. Confined: EXDEV where a link leads out. */
int file_open_key(const struct file_work *w, const char *key, int flags);
/* Stat of what lies at a key; 0 or -1. */
int file_stat_key(const struct file_work *w, const char *key, struct stat *st);

#endif
