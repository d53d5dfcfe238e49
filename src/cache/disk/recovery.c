// SPDX-License-Identifier: Apache-2.0
/*
 * Recovery: finds the chunks on disk after a restart.
 *
 * A shard's file names tell everything but the age of its chunks, so a shard is known after reading
 * one directory: by the first caller that needs it, or by the background thread. That thread then
 * reads the files' times and sorts the chunks that were not used since, a few at a time. Until then
 * they are the first to be evicted, in any order.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "cache/disk/disk_i.h"

#define BATCH 256u /* chunks moved per holding of the lock */

struct names {
    struct chunk_name *v;
    size_t n, cap;
};

static bool names_add(struct names *names, const struct chunk_name *name)
{
    if (names->n == names->cap) {
        size_t cap = names->cap == 0 ? 64 : names->cap * 2;
        struct chunk_name *p = mem_try_grow(names->v, cap * sizeof(*p));

        if (p == NULL)
            return false;
        names->v = p;
        names->cap = cap;
    }
    names->v[names->n++] = *name;
    return true;
}

/* The chunks' names in a shard's directory. Foreign files are passed over. */
static int list_shard(struct disk *d, unsigned shard, struct names *names, struct dlc_err *err)
{
    struct disk_path path;
    struct dirent *e;
    DIR *dir;
    int fd, rc = 0;

    disk_path_of_shard(d->root, shard, &path);
    fd = os_open(path.s, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == ENOENT)
        return 0;
    dir = fd < 0 ? NULL : os_fdopendir(&fd);
    if (dir == NULL) {
        rc = dlc_err_sys(err, "cannot read %s", path.s);
        os_close(&fd);
        return rc;
    }
    while (rc == 0 && (e = os_readdir(dir)) != NULL) {
        struct chunk_name name;

        if ((e->d_type != DT_REG && e->d_type != DT_UNKNOWN) ||
            !chunk_name_parse(e->d_name, &name) || shard_of(name.id) != shard)
            continue;
        if (!names_add(names, &name))
            rc = dlc_err_set(err, DLC_ENOMEM, "no memory to read %s", path.s);
    }
    if (rc == 0 && errno != 0)
        rc = dlc_err_sys(err, "cannot read %s", path.s);
    os_closedir(&dir);
    return rc;
}

/* One name per id. *other: there is another one already, left by a crash in the middle of
 * replacing: this one's file is to go. */
static int add_found_locked(struct disk *d, const struct chunk_name *n, bool *other)
{
    uint32_t slot = chunks_find(&d->table, n->id);

    *other = slot != CHUNK_NONE && (n->size != d->table.chunks[slot].size ||
                                    n->checksum != d->table.chunks[slot].checksum);
    if (slot != CHUNK_NONE)
        return 0;
    slot = chunks_add(&d->table, n->id, n->size, n->checksum);
    if (slot == CHUNK_NONE)
        return DLC_ENOMEM;
    d->table.chunks[slot].flags |= CHUNK_RESTORED;
    groups_link_oldest(&d->groups, &d->table, slot);
    d->bytes += n->size;
    return 0;
}

/* A few at a time: others want the lock. The names whose files are to go come to lie first: how
 * many those are. */
static int add_all(struct disk *d, struct names *names, size_t *n_others, struct dlc_err *err)
{
    int rc = 0;

    *n_others = 0;
    for (size_t i = 0; rc == 0 && i < names->n;) {
        disk_lock(d);
        for (size_t end = DLC_MIN(i + BATCH, names->n); rc == 0 && i < end; i++) {
            bool other = false;

            rc = add_found_locked(d, &names->v[i], &other);
            if (other)
                names->v[(*n_others)++] = names->v[i];
        }
        disk_unlock(d);
    }
    return rc < 0 ? dlc_err_set(err, rc, "no memory for the chunks of disk tier %s", d->root) : 0;
}

/* Scan a shard that the caller has marked SHARD_SCANNING. When it fails, what was added stays: the
 * next one who needs the shard adds the rest. */
static int scan_shard(struct disk *d, unsigned shard, struct dlc_err *err)
{
    struct names names = {NULL, 0, 0};
    int rc = list_shard(d, shard, &names, err);
    struct disk_path path;
    size_t n_others = 0;

    if (rc == 0)
        rc = add_all(d, &names, &n_others, err);
    for (size_t i = 0; i < n_others; i++) {
        disk_path_of_chunk(d->root, &names.v[i], &path);
        os_unlink(path.s);
    }
    disk_lock(d);
    d->shards[shard] = rc == 0 ? SHARD_KNOWN : SHARD_UNKNOWN;
    dlc_cond_broadcast(&d->changed);
    disk_unlock(d);
    if (rc < 0)
        count(disk_errors);
    mem_free(&names.v);
    return rc;
}

static int shard_ready(struct disk *d, unsigned shard, struct dlc_err *err)
{
    bool known;

    disk_lock(d);
    while (d->shards[shard] == SHARD_SCANNING)
        dlc_cond_wait(&d->changed, &d->mtx);
    known = d->shards[shard] == SHARD_KNOWN;
    if (!known)
        d->shards[shard] = SHARD_SCANNING;
    disk_unlock(d);
    return known ? 0 : scan_shard(d, shard, err);
}

int disk_shard_ready(struct disk *d, struct chunk_id id, struct dlc_err *err)
{
    return shard_ready(d, shard_of(id), err);
}

static bool stopping(struct disk *d)
{
    return atomic_load_explicit(&d->stop, memory_order_relaxed); /* with disk_close */
}

static uint32_t modified(const char *path)
{
    struct statx st;

    if (os_statx(path, STATX_MTIME, &st) < 0)
        return 1;
    return (uint32_t)DLC_CLAMP(st.stx_mtime.tv_sec, 1, (int64_t)UINT32_MAX);
}

/* The age of the chunk in a slot, if it is one that nobody has used since the restart. */
static bool age_of(struct disk *d, uint32_t slot, uint64_t *age)
{
    struct disk_path path;
    struct chunk_name n;
    bool restored;

    disk_lock(d);
    restored = slot < d->table.n_slots && (d->table.chunks[slot].flags & CHUNK_RESTORED) != 0;
    if (restored)
        n = chunk_name_of(&d->table.chunks[slot]);
    disk_unlock(d);
    if (!restored)
        return false;
    disk_path_of_chunk(d->root, &n, &path);
    *age = (uint64_t)modified(path.s) << 32 | slot;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

/* Each goes to the old end, the newest first: the oldest comes to lie last. */
static void put_in_order(struct disk *d, const uint64_t *ages, size_t n)
{
    disk_lock(d);
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = (uint32_t)ages[i];
        struct chunk *c = &d->table.chunks[slot];

        if ((c->flags & CHUNK_RESTORED) == 0)
            continue;
        c->flags &= (uint16_t)~CHUNK_RESTORED;
        c->stamped = (uint32_t)(ages[i] >> 32);
        if ((c->flags & CHUNK_BUSY) != 0)
            continue;
        groups_unlink(&d->groups, &d->table, slot);
        groups_link_oldest(&d->groups, &d->table, slot);
    }
    disk_unlock(d);
}

static void order_by_age(struct disk *d)
{
    uint32_t n_slots;
    uint64_t *ages;
    size_t n = 0;

    disk_lock(d);
    n_slots = d->table.n_slots;
    disk_unlock(d);
    ages = mem_try_alloc(n_slots * sizeof(*ages));
    if (ages == NULL)
        return; /* any order is a legal one */
    for (uint32_t slot = 0; slot < n_slots && !stopping(d); slot++)
        n += age_of(d, slot, &ages[n]);
    qsort(ages, n, sizeof(*ages), newest_first);
    for (size_t i = 0; i < n && !stopping(d); i += BATCH)
        put_in_order(d, ages + i, DLC_MIN(n - i, (size_t)BATCH));
    mem_free(&ages);
}

void *disk_scan_thread(void *arg)
{
    struct disk *d = disk_check(arg);
    struct dlc_err err = DLC_ERR_INIT;

    for (unsigned shard = 0; shard < DISK_SHARDS && !stopping(d); shard++) {
        if (shard_ready(d, shard, &err) < 0)
            log_warn("disk tier: %s; its chunks are looked for again when they are needed",
                     err.text);
    }
    order_by_age(d);
    if (!stopping(d))
        disk_trim(d);
    disk_lock(d);
    d->scanning = false;
    disk_unlock(d);
    return NULL;
}
