// SPDX-License-Identifier: Apache-2.0
/*
 * Reading chunks. Plain blocking reads: they run on worker threads, which is where their
 * parallelism comes from (docs/design/0002-disk-tier.md says why not io_uring).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "storage/disk/disk_i.h"

#define LARGE       ((uint64_t)1 << 20)
#define STAMP_EVERY 3600u                 /* seconds between two writings of a file's time */
#define SYNC_OTHERS ((uint64_t)300 << 20) /* what a sync may have to write for others */

/* Drop a chunk that is not what its name says. */
static int drop_corrupt(struct disk *d, const struct chunk_name *n, const char *what,
                        struct dlc_err *err)
{
    struct disk_path path;

    disk_path_of_chunk(d->root, n, &path);
    count(disk_corrupt);
    log_warn("%s: %s; dropped", path.s, what);
    disk_forget(d, n);
    return dlc_err_set(err, DLC_ECORRUPT, "%s: %s; it has been dropped and will be fetched again",
                       path.s, what);
}

/* A chunk that cannot be read is dropped, unless it is we who lack something. */
static int read_failed(struct disk *d, const struct chunk_name *n, struct dlc_err *err)
{
    struct disk_path path;
    int e = errno;

    disk_path_of_chunk(d->root, n, &path);
    if (e == ENOENT) {
        disk_forget(d, n);
        return dlc_err_set(err, DLC_EMISS, "%s is gone", path.s);
    }
    count(disk_errors);
    if (e != EMFILE && e != ENFILE && e != ENOMEM && !disk_is_bypassed(d))
        disk_forget(d, n);
    errno = e;
    return dlc_err_sys(err, "cannot read %s", path.s);
}

struct found {
    struct chunk_name name;
    bool verified, stamp;
};

/* Look a chunk up and make it the most recently used of its group. */
static int look_up(struct disk *d, struct chunk_id id, uint64_t len, struct found *out,
                   struct dlc_err *err)
{
    uint32_t now = (uint32_t)dlc_wall_seconds(), slot;
    struct chunk *c;
    int rc = disk_shard_ready(d, id, err);

    if (rc < 0)
        return rc;
    disk_lock(d);
    slot = disk_find_locked(d, id);
    if (slot == CHUNK_NONE) {
        disk_unlock(d);
        return dlc_err_set(err, DLC_EMISS, "not in disk tier %s", d->root);
    }
    c = &d->table.chunks[slot];
    out->name = chunk_name_of(c);
    out->verified = (c->flags & CHUNK_VERIFIED) != 0;
    out->stamp = now - c->stamped >= STAMP_EVERY;
    if (out->stamp)
        c->stamped = now;
    c->flags &= (uint16_t)~CHUNK_RESTORED;
    groups_claim(&d->groups, &d->table, slot, id.group);
    groups_touch(&d->groups, &d->table, slot);
    disk_unlock(d);
    return out->name.size == len ? 0
                                 : drop_corrupt(d, &out->name, "not of the size asked for", err);
}

/* Open a chunk's file and see that it has its size. Gives *fd. */
static int open_found(struct disk *d, const struct found *f, int *fd, struct dlc_err *err)
{
    struct disk_path path;
    struct stat st;

    disk_path_of_chunk(d->root, &f->name, &path);
    *fd = os_open(path.s, O_RDONLY | O_NOFOLLOW, 0);
    if (*fd < 0)
        return read_failed(d, &f->name, err);
    if (os_fstat(*fd, &st) < 0) {
        int rc = read_failed(d, &f->name, err);

        os_close(fd);
        return rc;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != f->name.size) {
        os_close(fd);
        return drop_corrupt(d, &f->name, "wrong length", err);
    }
    /* Restarts order chunks by this; that it fails on a read-only disk does not matter. */
    if (f->stamp && os_touch(path.s) < 0)
        log_debug("cannot set the time of %s", path.s);
    if (f->name.size > LARGE)
        os_fadvise(*fd, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static int bypassed(const struct disk *d, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EMISS, "disk tier %s is bypassed", d->root);
}

/* An error of the device's counts against it, other ones do not. */
static bool was_well(int rc)
{
    return rc != DLC_EIO && rc != DLC_ETIMEDOUT;
}

static int read_whole(struct disk *d, struct chunk_id id, void *dst, uint64_t len,
                      struct dlc_err *err)
{
    struct found f;
    int fd = -1, rc;

    rc = look_up(d, id, len, &f, err);
    if (rc == 0)
        rc = open_found(d, &f, &fd, err);
    if (rc < 0)
        return rc;
    if (os_pread_all(fd, dst, len, 0) < 0)
        rc = read_failed(d, &f.name, err);
    else if (hash64(dst, len) != f.name.checksum)
        rc = drop_corrupt(d, &f.name, "wrong checksum", err);
    os_close(&fd);
    if (rc == 0)
        count(disk_hits);
    return rc;
}

int disk_read(struct disk *d, struct chunk_id id, void *dst, uint64_t len, struct dlc_err *err)
{
    struct disk_op op;
    int rc;

    disk_check(d);
    if (disk_is_bypassed(d))
        return bypassed(d, err);
    op = disk_op_begin(d, DISK_OP_READ, len);
    rc = read_whole(d, id, dst, len, err);
    disk_op_end(d, &op, was_well(rc));
    return rc;
}

/* Read all of a file through a small buffer. Not through a mapping: a device's error would be a
 * signal there. */
static int verify(struct disk *d, int fd, const struct chunk_name *n, struct dlc_err *err)
{
    XXH3_state_t *state = XXH3_createState();
    void *buf = mem_try_alloc(LARGE);
    int rc = 0;

    if (state == NULL || buf == NULL) {
        rc = dlc_err_set(err, DLC_ENOMEM, "no memory to verify a chunk");
        goto out;
    }
    XXH3_64bits_reset(state);
    for (uint64_t off = 0; off < n->size && rc == 0; off += LARGE) {
        size_t part = (size_t)DLC_MIN(n->size - off, LARGE);

        if (os_pread_all(fd, buf, part, off) < 0)
            rc = read_failed(d, n, err);
        else
            XXH3_64bits_update(state, buf, part);
    }
    if (rc == 0 && XXH3_64bits_digest(state) != n->checksum)
        rc = drop_corrupt(d, n, "wrong checksum", err);
out:
    XXH3_freeState(state);
    mem_free(&buf);
    return rc;
}

/* ---- descriptors ---- */

/* The chunk's slot while it is still this one. */
static struct chunk *same_locked(struct disk *d, const struct chunk_name *n)
{
    uint32_t slot = disk_find_locked(d, n->id);

    if (slot == CHUNK_NONE || d->table.chunks[slot].checksum != n->checksum)
        return NULL;
    return &d->table.chunks[slot];
}

/* One thread verifies a chunk, others wait for it. 1: the caller is to verify it; 0: it is
 * verified; DLC_EMISS: it went away meanwhile. */
static int verify_begin(struct disk *d, const struct chunk_name *n, struct dlc_err *err)
{
    struct chunk *c;
    bool waited = false;
    int rc = 1;

    disk_lock(d);
    while ((c = same_locked(d, n)) != NULL && (c->flags & CHUNK_VERIFYING) != 0) {
        dlc_cond_wait(&d->changed, &d->mtx);
        waited = true;
    }
    if (c != NULL && (c->flags & CHUNK_VERIFIED) != 0)
        rc = 0;
    else if (c != NULL)
        c->flags |= CHUNK_VERIFYING;
    else if (waited)
        rc = dlc_err_set(err, DLC_EMISS, "a chunk of disk tier %s went away", d->root);
    disk_unlock(d);
    return rc;
}

static void verify_end(struct disk *d, const struct chunk_name *n, bool right)
{
    struct chunk *c;

    disk_lock(d);
    c = same_locked(d, n);
    if (c != NULL) {
        c->flags &= (uint16_t)~CHUNK_VERIFYING;
        c->flags |= right ? CHUNK_VERIFIED : 0;
    }
    dlc_cond_broadcast(&d->changed);
    disk_unlock(d);
}

/* Have the kernel write a chunk to the device and forget its pages, so that the next read says
 * what the device has: a write-back that fails leaves the right bytes in memory for a while. */
static int to_device(struct disk *d, int fd, const struct chunk_name *n, struct dlc_err *err)
{
    struct disk_op op = disk_op_begin(d, DISK_OP_WRITE, n->size + SYNC_OTHERS);
    int rc = 0;

    if (os_fdatasync(fd) < 0 && errno != EROFS && errno != EINVAL) /* nothing to be written */
        rc = read_failed(d, n, err);
    disk_op_end(d, &op, was_well(rc));
    if (rc == 0)
        os_fadvise(fd, POSIX_FADV_DONTNEED);
    return rc;
}

static int verify_once(struct disk *d, int fd, const struct chunk_name *n, struct dlc_err *err)
{
    struct disk_op op;
    int rc = verify_begin(d, n, err);

    if (rc <= 0)
        return rc;
    rc = to_device(d, fd, n, err);
    if (rc == 0) {
        op = disk_op_begin(d, DISK_OP_READ, n->size);
        rc = verify(d, fd, n, err);
        disk_op_end(d, &op, was_well(rc));
    }
    verify_end(d, n, rc == 0);
    return rc;
}

int disk_map_fd(struct disk *d, struct chunk_id id, uint64_t len, int *fd, struct dlc_err *err)
{
    struct disk_op op;
    struct found f;
    int rc;

    disk_check(d);
    *fd = -1;
    if (disk_is_bypassed(d))
        return bypassed(d, err);
    op = disk_op_begin(d, DISK_OP_READ, 0);
    rc = look_up(d, id, len, &f, err);
    if (rc == 0)
        rc = open_found(d, &f, fd, err);
    disk_op_end(d, &op, was_well(rc));
    if (rc == 0 && !f.verified)
        rc = verify_once(d, *fd, &f.name, err);
    if (rc < 0)
        os_close(fd);
    else
        count(disk_hits);
    return rc;
}
