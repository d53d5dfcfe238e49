// SPDX-License-Identifier: Apache-2.0
/*
 * Listing directories. Keys are paths relative to the root, with any byte in them but NUL. By
 * folder, one directory is read; flat, all below it. Links are followed, to files and directories;
 * a link to a directory that is one of its own parents is left out, so loops end. Devices, sockets
 * and pipes are left out. Confined (of tenants, and of other users), links that lead out of the root
 * are left out as well.
 *
 * A prefix need not end in '/': like in a bucket, "tra" names all keys that begin so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "bucket/origins/file_i.h"

#define DEPTH_MAX 128

/* The directories from the root to the one being read. */
struct trail {
    const struct trail *up;
    dev_t dev;
    ino_t ino;
};

struct walk {
    struct file_work *w;
    struct buf key; /* of the directory being read, ending in '/', or empty */
    unsigned depth;
};

static bool on_trail(const struct trail *t, const struct stat *st)
{
    for (; t != NULL; t = t->up) {
        if (t->dev == st->st_dev && t->ino == st->st_ino)
            return true;
    }
    return false;
}

static void read_dir(struct walk *k, const char *filter, const struct trail *up);

static void add_dir(struct walk *k, const char *name, const struct trail *trail)
{
    struct attempt *a = k->w->a;
    size_t len = k->key.len;

    buf_adds(&k->key, name);
    buf_addc(&k->key, '/');
    if (a->by_folder)
        attempt_add_folder(a, k->key.data, k->key.len);
    else
        read_dir(k, "", trail);
    k->key.len = len;
    k->key.data[len] = '\0';
}

static void add_file(struct walk *k, const char *name, const struct stat *st)
{
    char etag[ETAG_MAX];
    size_t len = k->key.len;

    file_etag(st, etag);
    buf_adds(&k->key, name);
    attempt_add_object(k->w->a, k->key.data, k->key.len, (uint64_t)st->st_size, etag);
    k->key.len = len;
    k->key.data[len] = '\0';
}

/* Confined, the link is followed from the root: an entry may become one at any time. */
static int stat_entry(struct walk *k, int dir, const char *name, struct stat *st)
{
    size_t len = k->key.len;
    int rc, e;

    if (!k->w->confined)
        return os_fstatat(dir, name, st);
    buf_adds(&k->key, name);
    rc = file_stat_key(k->w, buf_str(&k->key), st);
    e = errno;
    k->key.len = len;
    k->key.data[len] = '\0';
    errno = e;
    return rc;
}

/* A link that a confined bucket does not follow is left out. Of errno. */
static bool leads_out(const struct walk *k)
{
    if (errno != EXDEV || !k->w->confined)
        return false;
    log_info("file bucket: a link in %s/%s leads out of the dataset's directory; left out",
             k->w->root, buf_str(&k->key));
    return true;
}

static void add_entry(struct walk *k, int dir, const struct dirent *d, const struct trail *trail)
{
    struct stat st;

    if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
        return;
    if (d->d_type == DT_DIR) {
        add_dir(k, d->d_name, trail);
        return;
    }
    if (d->d_type != DT_REG && d->d_type != DT_LNK && d->d_type != DT_UNKNOWN)
        return;
    if (stat_entry(k, dir, d->d_name, &st) < 0) {
        if (errno != ENOENT && errno != ELOOP && !leads_out(k))
            /* else gone meanwhile, or a link to nowhere */
            file_fail(k->w->a, "look at", d->d_name);
        return;
    }
    if (S_ISREG(st.st_mode))
        add_file(k, d->d_name, &st);
    else if (S_ISDIR(st.st_mode) && !on_trail(trail, &st))
        add_dir(k, d->d_name, trail);
    else if (S_ISDIR(st.st_mode))
        log_info("file bucket: %s%s leads back to a directory above it; left out", buf_str(&k->key),
                 d->d_name);
}

static void read_entries(struct walk *k, DIR *dir, const char *filter, const struct trail *trail)
{
    struct file_work *w = k->w;
    const struct dirent *d;

    while (w->a->rc == 0 && !atomic_load_explicit(w->stop, memory_order_relaxed)) { /* a hint */
        d = os_readdir(dir);
        if (d == NULL) {
            if (errno != 0)
                file_fail(w->a, "read directory", buf_str(&k->key));
            return;
        }
        atomic_fetch_add_explicit(&w->progress, 1, memory_order_relaxed); /* for the stall watch */
        if (strncmp(d->d_name, filter, strlen(filter)) == 0)
            add_entry(k, dirfd(dir), d, trail);
    }
}

static void fail_directory(struct walk *k)
{
    int e = errno;
    char *path = mem_fmt("%s/%s", k->w->root, buf_str(&k->key));

    errno = e;
    file_fail(k->w->a, "open the directory", path);
    mem_free(&path);
}

/* Read the directory k->key: entries whose names begin with filter. */
static void read_dir(struct walk *k, const char *filter, const struct trail *up)
{
    struct attempt *a = k->w->a;
    struct trail here = {.up = up};
    struct stat st;
    DIR *dir = NULL;
    int fd;

    if (++k->depth > DEPTH_MAX) {
        a->rc =
            dlc_err_set(&a->err, DLC_EINVAL, "%.200s in %.200s lies more than %d directories deep",
                        buf_str(&k->key), k->w->root, DEPTH_MAX);
        return;
    }
    fd = file_open_key(k->w, buf_str(&k->key), O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR && !leads_out(k))
            /* else gone meanwhile, or no such prefix: no objects */
            fail_directory(k);
        goto out;
    }
    if (os_fstat(fd, &st) < 0 || (dir = os_fdopendir(&fd)) == NULL) {
        fail_directory(k);
        goto out;
    }
    here.dev = st.st_dev;
    here.ino = st.st_ino;
    read_entries(k, dir, filter, &here);
out:
    k->depth--;
    os_closedir(&dir);
    os_close(&fd);
}

/* The directories above prefix, then the one it lies in. */
static void walk_from(struct walk *k, const char *prefix, const struct trail *up)
{
    struct trail here = {.up = up};
    const char *slash = strchr(prefix, '/');
    struct stat st;

    if (slash == NULL) {
        read_dir(k, prefix, up);
        return;
    }
    if (file_stat_key(k->w, buf_str(&k->key), &st) < 0) {
        if (errno != ENOENT && errno != ENOTDIR && !leads_out(k)) /* no such prefix: no objects */
            file_fail(k->w->a, "look at", buf_str(&k->key));
        return;
    }
    here.dev = st.st_dev;
    here.ino = st.st_ino;
    if (++k->depth > DEPTH_MAX) {
        k->w->a->rc =
            dlc_err_set(&k->w->a->err, DLC_EINVAL, "%.400s lies more than %d directories deep",
                        k->w->a->prefix, DEPTH_MAX);
        return;
    }
    buf_add(&k->key, prefix, (size_t)(slash - prefix) + 1);
    walk_from(k, slash + 1, &here);
}

static int stat_root(const struct file_work *w, struct stat *st)
{
    int fd = file_open_root(w, O_PATH), rc = -1, e;

    if (fd >= 0)
        rc = os_fstat(fd, st);
    e = errno;
    os_close(&fd);
    errno = e;
    return rc;
}

void file_list(struct file_work *w)
{
    struct attempt *a = w->a;
    struct walk k = {.w = w, .key = BUF_INIT};
    const char *base = file_base(w->root);
    struct stat st;

    if (!file_check_key(a, a->prefix))
        return;
    if (stat_root(w, &st) < 0) {
        file_fail_root(a, w->root);
        return;
    }
    if (S_ISREG(st.st_mode)) {
        if (strncmp(base, a->prefix, strlen(a->prefix)) == 0)
            add_file(&k, base, &st);
    } else {
        walk_from(&k, a->prefix, NULL);
    }
    buf_release(&k.key);
}
