// SPDX-License-Identifier: Apache-2.0
/*
 * Writing chunks: a temporary file, filled by write (disk_store) or through a mapping
 * (disk_fill_*), renamed to its final name when it is complete. After any failure the temporary
 * file and its reservation are gone: a chunk is there completely or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/map_guard.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "cache/disk/disk_i.h"

#define FILL_TAG    DLC_TAG4('d', 'f', 'i', 'l')
#define PREALLOCATE ((uint64_t)256 << 10) /* smaller files are written in one call anyway */

/* A file being written: its space is reserved. */
struct draft {
    int fd;
    uint64_t len;
    struct disk_path path;
    uint16_t group;
};

struct disk_fill {
    uint32_t tag;
    struct chunk_id id;
    struct map_guard *map; /* NULL: of length 0, or done with */
    struct draft draft;
};

static bool is_full(int e)
{
    return e == ENOSPC || e == EDQUOT;
}

/* Is it worth trying? */
static int may_write(struct disk *d, struct dlc_err *err)
{
    if (disk_is_bypassed(d))
        return dlc_err_set(err, DLC_EDENIED, "disk tier %s is bypassed: it hangs or fails",
                           d->root);
    if (!atomic_load_explicit(&d->read_only, memory_order_relaxed)) /* with any */
        return 0;
    return dlc_err_set(err, DLC_EDENIED, "disk tier %s can only be read", d->root);
}

/* Report a failed write, and give up writing when it was for good. */
static int write_failed(struct disk *d, const char *path, struct dlc_err *err)
{
    int e = errno, rc;

    count(disk_errors);
    disk_note_write_error(d, e);
    errno = e;
    rc = dlc_err_sys(err, "cannot write %s", path);
    return disk_we_lack(e) ? disk_lacking(err) : rc;
}

/* A chunk of the draft's group begins or ends to be PREPARE. */
static void count_preparing(struct disk *d, const struct draft *f, bool begins)
{
    _Atomic uint64_t *n = &d->groups.seen[f->group].preparing;

    atomic_fetch_add_explicit(n, begins ? 1 : UINT64_MAX, memory_order_relaxed); /* a figure */
}

static void draft_release(struct disk *d, struct draft *f)
{
    count_preparing(d, f, false);
    os_close(&f->fd);
    os_unlink(f->path.s);
    disk_unreserve(d, f->len);
}

/* Create and allocate; -1 with errno, and nothing left. A small file is left to the file system's
 * delayed allocation, which costs nothing for a chunk that is soon evicted. */
static int draft_create(struct draft *f)
{
    int e;

    f->fd = os_open(f->path.s, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (f->fd < 0)
        return -1;
    if (f->len < PREALLOCATE || os_fallocate(f->fd, f->len) == 0)
        return 0;
    e = errno;
    os_close(&f->fd);
    os_unlink(f->path.s);
    errno = e;
    return -1;
}

/* Reserve space and make the file. When the file system is fuller than it said, once more. */
static int draft_begin(struct disk *d, struct chunk_id id, uint64_t len, struct draft *f,
                       struct dlc_err *err)
{
    bool full = false;
    int rc;

    f->fd = -1;
    f->len = len;
    f->group = (uint16_t)id.group;
    snprintf(f->path.s, sizeof(f->path.s), "%s/tmp/%016llx%016llx.%llx.tmp", d->root,
             (unsigned long long)id.hi, (unsigned long long)id.lo,
             (unsigned long long)atomic_fetch_add_explicit(&d->serial, 1, memory_order_relaxed));
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        rc = disk_reserve(d, id, len, false, err);
        if (rc < 0)
            return rc;
        rc = draft_create(f);
        full = rc < 0 && is_full(errno);
        if (rc < 0)
            rc = write_failed(d, f->path.s, err);
        disk_allocated(d, len);
        if (rc == 0) {
            count_preparing(d, f, true);
            return 0;
        }
        disk_unreserve(d, len);
        if (!full || !disk_evict_more(d, id, len))
            return rc;
    }
    return rc;
}

/* Have the names of a shard and of its new file last. A shard may have been made by a store that
 * failed since: whoever syncs next, syncs its name. */
static int sync_names(struct disk *d, const struct disk_path *shard, bool made)
{
    struct disk_path chunks;

    /* relaxed: who made the shard syncs it in any case */
    if (made || atomic_exchange_explicit(&d->shard_open, false, memory_order_relaxed)) {
        snprintf(chunks.s, sizeof(chunks.s), "%s/chunks", d->root);
        if (os_sync_dir(chunks.s) < 0) {
            atomic_store_explicit(&d->shard_open, true, memory_order_relaxed); /* as above */
            return -1;
        }
    }
    return os_sync_dir(shard->s);
}

/* Give the file its final name; -1 with errno, and it has none. */
static int put_in_place(struct disk *d, const char *tmp, const struct chunk_name *n)
{
    struct disk_path shard, path;
    bool made = false;
    int rc, e;

    disk_path_of_shard(d->root, shard_of(n->id), &shard);
    disk_path_of_chunk(d->root, n, &path);
    rc = os_rename(tmp, path.s);
    if (rc < 0 && errno == ENOENT) {
        rc = os_mkdirs(shard.s, 0700);
        made = rc == 0;
        if (rc == 0)
            rc = os_rename(tmp, path.s);
        if (rc < 0)
            atomic_store_explicit(&d->shard_open, true, memory_order_relaxed); /* sync_names() */
    }
    if (rc == 0 && d->sync)
        rc = sync_names(d, &shard, made);
    if (rc < 0) {
        e = errno;
        os_unlink(path.s);
        errno = e;
    }
    return rc;
}

/* Take the name of a chunk for renaming: a busy slot. CHUNK_NONE with *rc 0: the chunk is there
 * already; otherwise why not. */
static uint32_t claim_locked(struct disk *d, const struct chunk_name *n, int *rc)
{
    uint32_t slot;

    *rc = 0;
    while ((slot = chunks_find(&d->table, n->id)) != CHUNK_NONE) {
        struct chunk *c = &d->table.chunks[slot];

        if ((c->flags & CHUNK_BUSY) != 0) {
            dlc_cond_wait(&d->changed, &d->mtx);
        } else if (c->size == n->size && c->checksum == n->checksum) {
            groups_claim(&d->groups, &d->table, slot, n->id.group);
            return CHUNK_NONE;
        } else if (!disk_remove_locked(d, slot)) {
            *rc = DLC_EDENIED;
            return CHUNK_NONE;
        }
    }
    slot = chunks_add(&d->table, n->id, n->size, n->checksum);
    if (slot == CHUNK_NONE)
        *rc = DLC_ENOMEM;
    else {
        d->table.chunks[slot].flags |= CHUNK_BUSY;
        d->table.chunks[slot].group = (uint16_t)n->id.group;
        groups_chunk_cost(&d->groups, &d->table, slot, (double)n->id.cost);
    }
    return slot;
}

static void settle_locked(struct disk *d, uint32_t slot, bool placed)
{
    struct chunk *c = &d->table.chunks[slot];

    if (placed) {
        c->flags = CHUNK_USED; /* not verified: that is of what the device has */
        c->stamped = (uint32_t)dlc_wall_seconds();
        d->bytes += c->size;
        d->writing -= c->size;
        groups_link_newest(&d->groups, &d->table, slot, disk_now());
    } else {
        groups_forget(&d->groups, slot);
        chunks_remove(&d->table, slot);
    }
    dlc_cond_broadcast(&d->changed);
}

/* Takes the draft, also on failure. */
static int draft_commit(struct disk *d, struct draft *f, struct chunk_id id, uint64_t checksum,
                        struct dlc_err *err)
{
    struct chunk_name n = {id, f->len, checksum};
    uint32_t slot;
    int rc;

    if (d->sync && os_fsync(f->fd) < 0) {
        rc = write_failed(d, f->path.s, err);
        goto out;
    }
    disk_lock(d);
    slot = claim_locked(d, &n, &rc);
    disk_unlock(d);
    if (slot == CHUNK_NONE) {
        if (rc < 0)
            dlc_err_set(err, rc, "cannot put a chunk into disk tier %s: %s", d->root,
                        rc == DLC_ENOMEM ? "no memory" : "the old one cannot be removed");
        goto out;
    }
    rc = put_in_place(d, f->path.s, &n) < 0 ? write_failed(d, f->path.s, err) : 0;
    disk_lock(d);
    settle_locked(d, slot, rc == 0);
    disk_unlock(d);
    if (rc == 0) {
        count(disk_stores);
        count_preparing(d, f, false);
        os_close(&f->fd);
        return 0;
    }
out:
    draft_release(d, f);
    return rc;
}

static bool have_same(struct disk *d, const struct chunk_name *n)
{
    uint32_t slot;
    bool same;

    disk_lock(d);
    slot = disk_find_locked(d, n->id);
    same = slot != CHUNK_NONE && d->table.chunks[slot].size == n->size &&
           d->table.chunks[slot].checksum == n->checksum;
    if (same)
        groups_claim(&d->groups, &d->table, slot, n->id.group);
    disk_unlock(d);
    return same;
}

static int store(struct disk *d, struct chunk_id id, const void *data, uint64_t len,
                 uint64_t checksum, struct dlc_err *err)
{
    struct chunk_name n = {id, len, checksum};
    struct draft f;
    int rc = disk_shard_ready(d, id, err);

    if (rc < 0)
        return rc;
    if (have_same(d, &n))
        return 0;
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        bool full;

        rc = draft_begin(d, id, len, &f, err);
        if (rc < 0)
            return rc;
        if (os_pwrite_all(f.fd, data, len, 0) == 0)
            return draft_commit(d, &f, id, n.checksum, err);
        /* Where space was not or could not be reserved, a full disk shows here. */
        full = is_full(errno);
        rc = write_failed(d, f.path.s, err);
        draft_release(d, &f);
        if (!full || !disk_evict_more(d, id, len))
            break;
    }
    return rc;
}

int disk_store_sum(struct disk *d, struct chunk_id id, const void *data, uint64_t len,
                   uint64_t checksum, struct dlc_err *err)
{
    struct disk_op op;
    int rc;

    disk_check(d);
    rc = may_write(d, err);
    if (rc < 0)
        return rc;
    if (hash64(data, len) != checksum)
        return dlc_err_set(
            err, DLC_ECORRUPT,
            "not stored in disk tier %s: the bytes in memory have changed since they "
            "came (checksum)",
            d->root);
    op = disk_op_begin(d, DISK_OP_WRITE, len);
    rc = store(d, id, data, len, checksum, err);
    disk_op_end_rc(d, &op, rc);
    return rc;
}

int disk_store(struct disk *d, struct chunk_id id, const void *data, uint64_t len,
               struct dlc_err *err)
{
    return disk_store_sum(d, id, data, len, hash64(data, len), err);
}

/* Reserves what draft_create did not. Where the file system cannot, it writes: a mapping that meets
 * a full disk loses bytes (map_guard.h). */
static int fill_map(struct disk_fill *f)
{
    if (f->draft.len == 0)
        return 0;
    if (os_fallocate_sure(f->draft.fd, f->draft.len) < 0)
        return -1;
    f->map = map_guard_new(f->draft.fd, f->draft.len);
    return f->map == NULL ? -1 : 0;
}

int disk_fill_begin(struct disk *d, struct chunk_id id, uint64_t len, struct disk_fill **out,
                    struct dlc_err *err)
{
    struct disk_fill *f;
    struct disk_op op;
    int rc;

    disk_check(d);
    *out = NULL;
    rc = may_write(d, err);
    if (rc == 0)
        rc = disk_shard_ready(d, id, err);
    if (rc < 0)
        return rc;
    f = mem_new(struct disk_fill);
    f->tag = FILL_TAG;
    f->id = id;
    op = disk_op_begin(d, DISK_OP_WRITE, len);
    rc = draft_begin(d, id, len, &f->draft, err);
    if (rc == 0 && fill_map(f) < 0) {
        rc = write_failed(d, f->draft.path.s, err);
        draft_release(d, &f->draft);
    }
    disk_op_end_rc(d, &op, rc);
    if (rc < 0)
        goto out;
    atomic_fetch_add_explicit(&d->n_fills, 1, memory_order_relaxed); /* with disk_close */
    *out = f;
    f = NULL;
out:
    mem_free(&f);
    return rc;
}

static struct disk_fill *fill_check(struct disk_fill *f)
{
    dlc_check(f != NULL && f->tag == FILL_TAG);
    return f;
}

void *disk_fill_data(struct disk_fill *f)
{
    static char nothing;

    fill_check(f);
    return f->map == NULL ? &nothing : map_guard_data(f->map);
}

void disk_fill_set_cost(struct disk_fill *f, double cost)
{
    fill_check(f);
    f->id.cost = (float)cost;
}

bool disk_fill_failed(const struct disk_fill *f)
{
    return f->map != NULL && map_guard_failed(f->map);
}

int disk_fill_append(struct disk *d, struct disk_fill *f, const void *data, size_t len,
                     struct dlc_err *err)
{
    struct disk_op op;
    int rc;

    disk_check(d);
    fill_check(f);
    dlc_check(f->map == NULL);
    rc = disk_reserve(d, f->id, len, true, err);
    if (rc < 0)
        return rc;
    op = disk_op_begin(d, DISK_OP_WRITE, len);
    if (os_pwrite_all(f->draft.fd, data, len, f->draft.len) < 0)
        rc = write_failed(d, f->draft.path.s, err);
    disk_op_end_rc(d, &op, rc);
    disk_allocated(d, len);
    if (rc < 0)
        disk_unreserve(d, len);
    else
        f->draft.len += len;
    return rc;
}

static void fill_free(struct disk *d, struct disk_fill **fp)
{
    atomic_fetch_sub_explicit(&d->n_fills, 1, memory_order_relaxed); /* with disk_close */
    (*fp)->tag = 0;
    mem_free(fp);
}

/* Read back, not through the mapping: pages may have left memory, and a device's error would be a
 * signal there. */
static int fill_sum(struct disk *d, struct disk_fill *f, const uint64_t *wanted, uint64_t *checksum,
                    struct dlc_err *err)
{
    bool failed = disk_fill_failed(f);

    map_guard_free(&f->map);
    if (failed) {
        errno = EIO;
        return write_failed(d, f->draft.path.s, err);
    }
    if (disk_sum_file(f->draft.fd, f->draft.len, checksum) < 0)
        return write_failed(d, f->draft.path.s, err);
    if (wanted != NULL && *wanted != *checksum)
        return dlc_err_set(err, DLC_ECORRUPT, "%s: not the bytes that were to come (checksum)",
                           f->draft.path.s);
    return 0;
}

int disk_fill_commit_sum(struct disk *d, struct disk_fill **fp, const uint64_t *checksum,
                         struct dlc_err *err)
{
    struct disk_fill *f = fill_check(*fp);
    struct disk_op op;
    uint64_t sum;
    int rc;

    disk_check(d);
    *fp = NULL;
    op = disk_op_begin(d, DISK_OP_WRITE, f->draft.len);
    rc = fill_sum(d, f, checksum, &sum, err);
    if (rc < 0)
        draft_release(d, &f->draft);
    else
        rc = draft_commit(d, &f->draft, f->id, sum, err);
    disk_op_end_rc(d, &op, rc);
    fill_free(d, &f);
    return rc;
}

int disk_fill_commit(struct disk *d, struct disk_fill **fp, struct dlc_err *err)
{
    return disk_fill_commit_sum(d, fp, NULL, err);
}

void disk_fill_abandon(struct disk *d, struct disk_fill **fp)
{
    struct disk_fill *f = *fp;

    disk_check(d);
    *fp = NULL;
    if (f == NULL)
        return;
    fill_check(f);
    map_guard_free(&f->map);
    draft_release(d, &f->draft);
    fill_free(d, &f);
}
