// SPDX-License-Identifier: Apache-2.0
/*
 * Catalogs on disk, by snapshot.
 *
 *     DIR/catalogs/ID.cat             the newest catalog of a dataset
 *     DIR/catalogs/ID.SNAPSHOT.cat    an older one, for the jobs that began with it
 *
 * (STORE-1) ID.cat is there from the first listing on: a new catalog replaces it by rename(), after
 * the old one has got its second name by link().
 * (STORE-2) A search for a snapshot looks at ID.cat first and at ID.SNAPSHOT.cat after it.
 * Then it is found at any moment of a replacement, also after a power cut: each step is synced
 * before the next.
 * (STORE-3) Beside those in use, at most CATALOG_KEEP old catalogs of a dataset stay, and no
 * more bytes of them than the caller of catalog_prune() allows.
 *
 * All functions are X and block.
 */
#include "catalog/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

#define SUFFIX     ".cat"
#define SUFFIX_LEN 4
#define HEX_LEN    16

/* The length of `path` without ".cat". */
static size_t stem_of(const char *path)
{
    size_t len = strlen(path);

    return str_ends(path, SUFFIX) ? len - SUFFIX_LEN : len;
}

char *catalog_snapshot_path(const char *path, uint64_t snapshot)
{
    return mem_fmt("%.*s.%016llx" SUFFIX, (int)stem_of(path), path, (unsigned long long)snapshot);
}

/* ---- replacing ---- */

/* Give the file at `path` a second name, which lasts. Where the file system has no links it is
 * moved.
 */
static int keep(const char *path, uint64_t snapshot, struct dlc_err *err)
{
    char *name = catalog_snapshot_path(path, snapshot), *tmp = mem_fmt("%s.tmp", name);
    int rc = 0;

    os_unlink(tmp); /* of a daemon that was killed here */
    if (os_link(path, tmp) == 0) {
        if (os_rename(tmp, name) < 0)
            rc = dlc_err_sys(err, "cannot rename %s", tmp);
        os_unlink(tmp); /* rename() leaves it when both are names of one file */
    } else if (errno == ENOSPC || errno == EIO || os_rename(path, name) < 0) {
        rc = dlc_err_sys(err, "cannot keep the catalog %s as %s", path, name);
    }
    if (rc == 0 && os_sync_dir_of(path) < 0)
        rc = dlc_err_sys(err, "cannot sync the directory of %s", name);
    mem_free(&tmp);
    mem_free(&name);
    return rc;
}

int catalog_place(const char *file, const char *path, struct dlc_err *err)
{
    int fd = os_open(file, O_RDONLY, 0), rc = 0;

    if (fd < 0 || os_fsync(fd) < 0 || os_rename(file, path) < 0 || os_sync_dir_of(path) < 0)
        rc = dlc_err_sys(err, "cannot make %s the catalog %s", file, path);
    os_close(&fd);
    return rc;
}

int catalog_install(const char *file, const char *path, struct dlc_err *err)
{
    struct catalog *new = NULL, *old = NULL;
    int rc = catalog_open(file, &new, err);

    if (rc == 0)
        rc = catalog_open(path, &old, err);
    if (rc == 0 && catalog_snapshot(old) != catalog_snapshot(new))
        rc = keep(path, catalog_snapshot(old), err);
    else if (new != NULL && (rc == DLC_ENOTFOUND || rc == DLC_ECORRUPT))
        rc = 0; /* there is nothing that anybody could want to have back */
    if (rc == 0)
        rc = catalog_place(file, path, err);
    if (rc < 0)
        os_unlink(file);
    catalog_close(&new);
    catalog_close(&old);
    return rc;
}

int catalog_load_snapshot(const char *path, uint64_t snapshot, struct catalog **out,
                          struct dlc_err *err)
{
    struct catalog *c = NULL;
    char *name = catalog_snapshot_path(path, snapshot);
    int rc = DLC_ENOTFOUND;

    *out = NULL;
    if (catalog_stored_snapshot(path) == snapshot)
        rc = catalog_load(path, &c, err);
    if (rc < 0 || catalog_snapshot(c) != snapshot) { /* (STORE-2) */
        catalog_close(&c);
        rc = catalog_load(name, &c, err);
    }
    mem_free(&name);
    if (rc == 0 && catalog_snapshot(c) != snapshot) {
        catalog_close(&c);
        return dlc_err_set(err, DLC_ECORRUPT, "a catalog is not what its name says: %016llx",
                           (unsigned long long)snapshot);
    }
    *out = c;
    return rc;
}

/* ---- removing ---- */

void catalog_clean(const char *dir)
{
    char *path = mem_fmt("%s/catalogs", dir);
    DIR *d = os_opendir(path);
    const struct dirent *e;

    while (d != NULL && (e = os_readdir(d)) != NULL)
        if (str_ends(e->d_name, ".tmp"))
            os_unlinkat(dirfd(d), e->d_name);
    os_closedir(&d);
    mem_free(&path);
}

struct old {
    uint64_t snapshot, size;
    struct timespec made;
};

/* Is `name` that of an old catalog of the dataset whose files begin with `stem`? */
static bool is_old(const char *name, const char *stem, uint64_t *snapshot)
{
    size_t len = strlen(stem);
    unsigned char raw[HEX_LEN / 2];

    if (strlen(name) != len + 1 + HEX_LEN + SUFFIX_LEN || strncmp(name, stem, len) != 0 ||
        name[len] != '.' || !str_ends(name, SUFFIX) || !str_unhex(name + len + 1, HEX_LEN, raw))
        return false;
    *snapshot = 0;
    for (size_t i = 0; i < sizeof(raw); i++)
        *snapshot = *snapshot << 8 | raw[i];
    return true;
}

/* The newest first. */
static int by_age(const void *a, const void *b)
{
    const struct old *x = a, *y = b;

    if (x->made.tv_sec != y->made.tv_sec)
        return x->made.tv_sec < y->made.tv_sec ? 1 : -1;
    if (x->made.tv_nsec != y->made.tv_nsec)
        return x->made.tv_nsec < y->made.tv_nsec ? 1 : -1;
    return x->snapshot < y->snapshot ? -1 : x->snapshot > y->snapshot;
}

/* Gives *out. Returns how many. */
static size_t list_old(const char *path, struct old **out)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash != NULL ? mem_strn(path, (size_t)(slash - path)) : mem_str(".");
    const char *base = slash != NULL ? slash + 1 : path;
    char *stem = mem_strn(base, stem_of(base));
    DIR *d = os_opendir(dir);
    const struct dirent *e;
    size_t n = 0, cap = 0;

    *out = NULL;
    while (d != NULL && (e = os_readdir(d)) != NULL) {
        struct old o = {0};
        struct stat st;

        if (!is_old(e->d_name, stem, &o.snapshot) || os_fstatat(dirfd(d), e->d_name, &st) < 0)
            continue;
        o.size = (uint64_t)st.st_size;
        o.made = st.st_mtim;
        mem_reserve(*out, n, cap);
        (*out)[n++] = o;
    }
    os_closedir(&d);
    mem_free(&stem);
    mem_free(&dir);
    return n;
}

static bool is_among(uint64_t snapshot, const uint64_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == snapshot)
            return true;
    return false;
}

unsigned catalog_prune(const char *path, const uint64_t *used, size_t n_used, uint64_t max_bytes)
{
    struct old *all = NULL;
    size_t n = list_old(path, &all);
    unsigned kept = 0, gone = 0;
    uint64_t bytes = 0, newest = 0;
    struct catalog *c = NULL;

    if (catalog_open(path, &c, NULL) == 0)
        newest = catalog_snapshot(c);
    catalog_close(&c);
    if (n > 0)
        qsort(all, n, sizeof(*all), by_age);
    for (size_t i = 0; i < n; i++) {
        bool fits = kept < CATALOG_KEEP && all[i].size <= max_bytes - DLC_MIN(bytes, max_bytes);
        bool wanted = all[i].snapshot != newest && fits;
        char *name;

        if (is_among(all[i].snapshot, used, n_used))
            continue;
        if (wanted) {
            kept++;
            bytes += all[i].size;
            continue;
        }
        name = catalog_snapshot_path(path, all[i].snapshot);
        gone += os_unlink(name) == 0;
        mem_free(&name);
    }
    mem_free(&all);
    return gone;
}
