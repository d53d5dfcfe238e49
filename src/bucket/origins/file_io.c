// SPDX-License-Identifier: Apache-2.0
/*
 * Reading one file. The ETag is a hash of modification time, size and inode, so any rewrite changes
 * it. It is taken from the open descriptor before and after reading: bytes of a file that is being
 * rewritten are never given out as one version.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "bucket/origins/file_i.h"

#define SLICE (1u << 20) /* between looks at `stop` */

void file_etag(const struct stat *st, char out[static ETAG_MAX])
{
    int64_t id[4] = {st->st_mtim.tv_sec, st->st_mtim.tv_nsec, st->st_size, (int64_t)st->st_ino};

    snprintf(out, ETAG_MAX, "%016llx", (unsigned long long)hash64(id, sizeof(id)));
}

const char *file_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static bool may_pass(int e)
{
    switch (e) {
    case EIO:
    case ESTALE:
    case EINTR:
    case EAGAIN:
    case ETIMEDOUT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return true;
    default: return false;
    }
}

void file_fail(struct attempt *a, const char *what, const char *path)
{
    a->retryable = may_pass(errno);
    if (errno == ENOSYS)
        a->rc = dlc_err_set(&a->err, DLC_EIO,
                            "cannot %s %.300s: files of tenants and of other users are opened by "
                            "openat2(), which this kernel lacks (before Linux 5.6) or a sandbox "
                            "forbids (RestrictSUIDSGID= of systemd)",
                            what, path);
    else if (errno == EACCES)
        a->rc = dlc_err_set(&a->err, DLC_EDENIED,
                            "cannot %s %.300s: Permission denied; a node reads files only below "
                            "its --allow-path",
                            what, path);
    else
        a->rc = dlc_err_sys(&a->err, "cannot %s %.300s", what, path);
}

void file_fail_root(struct attempt *a, const char *root)
{
    if (errno == ENOENT || errno == ENOTDIR)
        a->rc = dlc_err_set(&a->err, DLC_ENOTFOUND,
                            "%.300s does not exist; check the path, or mount what should be there",
                            root);
    else if (errno == ELOOP)
        a->rc = dlc_err_set(&a->err, DLC_EDENIED,
                            "the path %.300s goes through a symbolic link, which is not followed "
                            "for other users than the daemon's; name the directory itself",
                            root);
    else
        file_fail(a, "look at", root);
}

bool file_check_key(struct attempt *a, const char *key)
{
    const char *p = key;
    bool ok = key[0] != '/';

    while (ok && *p != '\0') {
        size_t len = strcspn(p, "/");

        ok = !(len == 2 && p[0] == '.' && p[1] == '.');
        p += len + (p[len] == '/');
    }
    if (!ok)
        a->rc =
            dlc_err_set(&a->err, DLC_EINVAL,
                        "the key %.200s leads out of the dataset's directory; keys are relative "
                        "and without '..'",
                        key);
    return ok;
}

int file_open_root(const struct file_work *w, int flags)
{
    const char *rest;
    int dir, fd = -1, e;

    if (w->below == NULL)
        return os_open(w->root, flags, 0);
    dlc_check(str_starts(w->root, w->below));
    rest = w->root + strlen(w->below);
    rest += strspn(rest, "/");
    dir = os_open(w->below, O_PATH | O_DIRECTORY, 0);
    if (dir >= 0)
        fd = os_open_without_links(dir, rest[0] == '\0' ? "." : rest, flags);
    e = errno;
    os_close(&dir);
    errno = e;
    return fd;
}

static int open_confined(const struct file_work *w, const char *key, int flags)
{
    int root = file_open_root(w, O_PATH | O_DIRECTORY), fd = -1, e;

    if (root >= 0)
        fd = os_open_beneath(root, key[0] == '\0' ? "." : key, flags);
    e = errno;
    os_close(&root);
    errno = e;
    return fd;
}

int file_open_key(const struct file_work *w, const char *key, int flags)
{
    char *path;
    int fd, e;

    if (w->confined)
        return open_confined(w, key, flags);
    path = mem_fmt("%s/%s", w->root, key);
    fd = os_open(path, flags, 0);
    e = errno;
    mem_free(&path);
    errno = e;
    return fd;
}

int file_stat_key(const struct file_work *w, const char *key, struct stat *st)
{
    int fd = -1, rc, e;

    if (w->confined) {
        fd = open_confined(w, key, O_PATH);
        rc = fd < 0 ? -1 : os_fstat(fd, st);
    } else {
        char *path = mem_fmt("%s/%s", w->root, key);

        rc = os_stat(path, st);
        e = errno;
        mem_free(&path);
        errno = e;
    }
    e = errno;
    os_close(&fd);
    errno = e;
    return rc;
}

/* Open the object. When the root itself is a file, it is the only object, named like it. */
static int open_object(struct file_work *w, struct stat *st)
{
    struct attempt *a = w->a;
    const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY; /* do not wait for a pipe's writer */
    char *path = NULL;
    int fd, e;

    if (!file_check_key(a, a->key))
        return -1;
    fd = file_open_key(w, a->key, flags);
    if (fd < 0 && errno == ENOTDIR && strcmp(a->key, file_base(w->root)) == 0)
        fd = file_open_root(w, flags);
    if (fd < 0 && errno == EXDEV && w->confined) {
        a->rc =
            dlc_err_set(&a->err, DLC_EDENIED,
                        "%.200s leads out of %.200s by a symbolic link: for tenants and other "
                        "users than the daemon's, links must stay below the dataset's directory",
                        a->key, w->root);
        return -1;
    }
    e = errno;
    path = mem_fmt("%s/%s", w->root, a->key);
    errno = e;
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            a->rc = dlc_err_set(&a->err, DLC_ENOTFOUND, "there is no object %.200s in %.200s",
                                a->key, w->root);
        else
            file_fail(a, "open", path);
    } else if (os_fstat(fd, st) < 0) {
        file_fail(a, "look at", path);
        os_close(&fd);
    } else if (!S_ISREG(st->st_mode)) {
        a->rc = dlc_err_set(&a->err, DLC_ENOTFOUND, "%.400s is not a regular file", path);
        os_close(&fd);
    }
    mem_free(&path);
    return fd;
}

/* Is it the version that was asked for, and long enough? */
static bool check_version(struct file_work *w, const struct stat *st)
{
    struct attempt *a = w->a;

    file_etag(st, a->etag_seen);
    if (a->etag != NULL && a->etag[0] != '\0' && strcmp(a->etag, a->etag_seen) != 0) {
        a->rc =
            dlc_err_set(&a->err, DLC_ECHANGED,
                        "%.200s in %.100s has changed: its ETag is %s, not %s; make the catalog "
                        "again",
                        a->key, w->root, a->etag_seen, a->etag);
        return false;
    }
    if (a->offset > (uint64_t)st->st_size || a->length > (uint64_t)st->st_size - a->offset) {
        a->rc =
            dlc_err_set(&a->err, DLC_ECORRUPT,
                        "%.200s in %.100s has %llu bytes; bytes %llu to %llu were asked for",
                        a->key, w->root, (unsigned long long)st->st_size,
                        (unsigned long long)a->offset, (unsigned long long)(a->offset + a->length));
        return false;
    }
    return true;
}

static bool read_slices(struct file_work *w, int fd)
{
    struct attempt *a = w->a;
    uint64_t done = 0;

    while (done < a->length && !atomic_load_explicit(w->stop, memory_order_relaxed)) { /* a hint */
        size_t n = (size_t)DLC_MIN(a->length - done, (uint64_t)SLICE);

        if (os_pread_all(fd, (char *)a->dst + done, n, a->offset + done) < 0) {
            file_fail(a, "read", a->key);
            return false;
        }
        done += n;
        atomic_store_explicit(&w->progress, done, memory_order_relaxed); /* for the stall watch */
    }
    return done == a->length;
}

void file_get(struct file_work *w)
{
    struct attempt *a = w->a;
    struct stat before, after;
    char etag[ETAG_MAX];
    int fd = open_object(w, &before);

    if (fd < 0)
        return;
    if (!check_version(w, &before) || !read_slices(w, fd))
        goto out;
    if (os_fstat(fd, &after) < 0) {
        file_fail(a, "look at", a->key);
        goto out;
    }
    file_etag(&after, etag);
    if (strcmp(etag, a->etag_seen) != 0) {
        a->rc = dlc_err_set(&a->err, DLC_ECHANGED,
                            "%.200s in %.100s changed while it was read: its ETag is %s, was %s",
                            a->key, w->root, etag, a->etag_seen);
        a->retryable = a->etag == NULL || a->etag[0] == '\0';
    }
out:
    os_close(&fd);
}

void file_stat(struct file_work *w)
{
    struct stat st;
    int fd = open_object(w, &st);

    if (fd < 0)
        return;
    w->a->size = (uint64_t)st.st_size;
    file_etag(&st, w->a->etag_seen);
    os_close(&fd);
}
