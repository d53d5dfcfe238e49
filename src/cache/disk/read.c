// SPDX-License-Identifier: Apache-2.0
/*
 * Reading chunks. Plain blocking reads: they run on worker threads, which is where their
 * parallelism comes from (docs/design/0002-disk-tier.md says why not io_uring).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "cache/disk/block_sums_i.h"
#include "cache/disk/disk_i.h"

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
    int e = errno, rc;

    disk_path_of_chunk(d->root, n, &path);
    if (e == ENOENT) {
        disk_forget(d, n);
        return dlc_err_set(err, DLC_EMISS, "%s is gone", path.s);
    }
    count(disk_errors);
    if (!disk_we_lack(e) && !disk_is_bypassed(d))
        disk_forget(d, n);
    errno = e;
    rc = dlc_err_sys(err, "cannot read %s", path.s);
    return disk_we_lack(e) ? disk_lacking(err) : rc;
}

struct found {
    struct chunk_name name;
    bool stamp;
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
    out->stamp = now - c->stamped >= STAMP_EVERY;
    if (out->stamp)
        c->stamped = now;
    c->flags &= (uint16_t)~CHUNK_RESTORED;
    groups_claim(&d->groups, &d->table, slot, id.group);
    groups_touch(&d->groups, &d->table, slot, disk_now());
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

/* Read all of a file into dst (NULL: nowhere), LARGE bytes at a time so that they are summed while
 * they are in the processor's cache. Never through a mapping: a device's error would be a signal
 * there. Sums of its blocks go to `blocks` (NULL: nowhere). -1 with errno. */
static int read_and_sum(int fd, char *dst, uint64_t len, struct block_sums *blocks,
                        uint64_t *checksum)
{
    struct hash64_stream *h = hash64_begin();
    char *buf = dst == NULL ? mem_try_alloc(LARGE) : NULL;
    int rc = h == NULL || (dst == NULL && buf == NULL) ? -1 : 0, e;

    errno = ENOMEM;
    for (uint64_t off = 0; off < len && rc == 0; off += LARGE) {
        size_t part = (size_t)DLC_MIN(len - off, LARGE);
        char *at = dst != NULL ? dst + off : buf;

        rc = os_pread_all(fd, at, part, off);
        if (rc == 0)
            hash64_add(h, at, part);
        if (rc == 0 && blocks != NULL)
            block_sums_set(blocks, off, at, part);
    }
    e = errno;
    *checksum = hash64_end(&h);
    mem_free(&buf);
    errno = e;
    return rc;
}

int disk_sum_file(int fd, uint64_t len, uint64_t *checksum)
{
    return read_and_sum(fd, NULL, len, NULL, checksum);
}

/* Read all of a chunk and compare its checksum. */
static int read_verified(struct disk *d, int fd, const struct chunk_name *n, void *dst,
                         struct block_sums *blocks, struct dlc_err *err)
{
    uint64_t checksum;
    int rc;

    if (dst != NULL && n->size <= LARGE) {
        rc = os_pread_all(fd, dst, n->size, 0);
        checksum = rc == 0 ? hash64(dst, n->size) : 0;
    } else {
        rc = read_and_sum(fd, dst, n->size, blocks, &checksum);
    }
    if (rc < 0)
        return read_failed(d, n, err);
    return checksum == n->checksum ? 0 : drop_corrupt(d, n, "wrong checksum", err);
}

int disk_read_sum(struct disk *d, struct chunk_id id, void *dst, uint64_t len, uint64_t *checksum,
                  struct dlc_err *err)
{
    struct disk_op op;
    struct found f;
    int fd = -1, rc;

    disk_check(d);
    if (disk_is_bypassed(d))
        return bypassed(d, err);
    op = disk_op_begin(d, DISK_OP_READ, len);
    rc = look_up(d, id, len, &f, err);
    if (rc == 0)
        rc = open_found(d, &f, &fd, err);
    if (rc == 0)
        rc = read_verified(d, fd, &f.name, dst, NULL, err);
    os_close(&fd);
    disk_op_end_rc(d, &op, rc);
    if (rc < 0)
        return rc;
    count(disk_hits);
    *checksum = f.name.checksum;
    return 0;
}

int disk_read(struct disk *d, struct chunk_id id, void *dst, uint64_t len, struct dlc_err *err)
{
    uint64_t checksum;

    return disk_read_sum(d, id, dst, len, &checksum, err);
}

/* Gives *fd, not verified. */
static int open_chunk(struct disk *d, struct chunk_id id, uint64_t len, int *fd, struct found *f,
                      struct dlc_err *err)
{
    struct disk_op op;
    int rc;

    disk_check(d);
    *fd = -1;
    if (disk_is_bypassed(d))
        return bypassed(d, err);
    op = disk_op_begin(d, DISK_OP_READ, 0);
    rc = look_up(d, id, len, f, err);
    if (rc == 0)
        rc = open_found(d, f, fd, err);
    disk_op_end_rc(d, &op, rc);
    return rc;
}

int disk_open_chunk(struct disk *d, struct chunk_id id, uint64_t len, int *fd, uint64_t *checksum,
                    struct dlc_err *err)
{
    struct found f;
    int rc = open_chunk(d, id, len, fd, &f, err);

    if (rc < 0)
        return rc;
    count(disk_hits);
    *checksum = f.name.checksum;
    return 0;
}

/* ---- verification ---- */

/* The chunk's slot while it is still this one. */
static struct chunk *same_locked(struct disk *d, const struct chunk_name *n)
{
    uint32_t slot = disk_find_locked(d, n->id);

    if (slot == CHUNK_NONE || d->table.chunks[slot].checksum != n->checksum)
        return NULL;
    return &d->table.chunks[slot];
}

/* One thread verifies a chunk, others wait for it. 1: the caller is to verify it; 0: it is
 * verified, and gives *out; DLC_EMISS: it went away meanwhile. */
static int verify_begin(struct disk *d, const struct chunk_name *n, struct block_sums **out,
                        struct dlc_err *err)
{
    struct chunk *c;
    bool waited = false;
    int rc = 1;

    disk_lock(d);
    while ((c = same_locked(d, n)) != NULL && (c->flags & CHUNK_VERIFYING) != 0) {
        dlc_cond_wait(&d->changed, &d->mtx);
        waited = true;
    }
    *out = c != NULL ? block_sums_get(&d->sums, n) : NULL;
    if (*out != NULL)
        rc = 0;
    else if (c != NULL)
        c->flags |= CHUNK_VERIFYING;
    else if (waited)
        rc = dlc_err_set(err, DLC_EMISS, "a chunk of disk tier %s went away", d->root);
    disk_unlock(d);
    return rc;
}

static void verify_end(struct disk *d, const struct chunk_name *n, struct block_sums *right)
{
    struct chunk *c;

    disk_lock(d);
    c = same_locked(d, n);
    if (c != NULL) {
        c->flags &= (uint16_t)~CHUNK_VERIFYING;
        if (right != NULL)
            block_sums_keep(&d->sums, right);
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
    disk_op_end_rc(d, &op, rc);
    if (rc == 0)
        os_fadvise(fd, POSIX_FADV_DONTNEED);
    return rc;
}

/* Gives *out on success. */
static int verify_once(struct disk *d, int fd, const struct chunk_name *n, struct block_sums **out,
                       struct dlc_err *err)
{
    struct disk_op op;
    int rc = verify_begin(d, n, out, err);

    if (rc <= 0)
        return rc;
    rc = to_device(d, fd, n, err);
    if (rc == 0)
        *out = block_sums_new(n);
    if (rc == 0 && *out == NULL)
        rc = dlc_err_set(err, DLC_ENOMEM, "no memory for checksums of disk tier %s", d->root);
    if (rc == 0) {
        op = disk_op_begin(d, DISK_OP_READ, n->size);
        rc = read_verified(d, fd, n, NULL, *out, err);
        disk_op_end_rc(d, &op, rc);
    }
    verify_end(d, n, rc == 0 ? *out : NULL);
    if (rc < 0)
        block_sums_put(out);
    return rc;
}

int disk_verify(struct disk *d, struct chunk_id id, uint64_t len, struct dlc_err *err)
{
    struct block_sums *sums = NULL;
    struct found f;
    int fd, rc = open_chunk(d, id, len, &fd, &f, err);

    if (rc < 0)
        return rc;
    disk_lock(d);
    block_sums_forget(&d->sums, id);
    disk_unlock(d);
    rc = verify_once(d, fd, &f.name, &sums, err);
    block_sums_put(&sums);
    os_close(&fd);
    return rc;
}

/* ---- ranges ---- */

/* Read and compare [off, off + n): whole blocks in place, the first and the last one through buf
 * where they are wanted in part. -1 with errno; EBADMSG: they are wrong. */
static int read_blocks(int fd, const struct block_sums *sums, uint64_t len, uint64_t off, char *dst,
                       uint64_t n, char *buf)
{
    for (uint64_t at = off / DISK_BLOCK * DISK_BLOCK; at < off + n; at += DISK_BLOCK) {
        size_t block = (size_t)DLC_MIN(len - at, DISK_BLOCK);
        uint64_t from = DLC_MAX(at, off), to = DLC_MIN(at + block, off + n);
        bool whole = to - from == block;
        char *into = whole ? dst + (at - off) : buf;

        if (os_pread_all(fd, into, block, at) < 0)
            return -1;
        if (!block_sums_match(sums, at, into, block)) {
            errno = EBADMSG;
            return -1;
        }
        if (!whole)
            memcpy(dst + (from - off), buf + (from - at), to - from);
    }
    return 0;
}

static int read_range(struct disk *d, int fd, const struct chunk_name *name, uint64_t off,
                      void *dst, uint64_t n, struct dlc_err *err)
{
    struct block_sums *sums = NULL;
    struct disk_op op;
    char *buf;
    int rc = verify_once(d, fd, name, &sums, err);

    if (rc < 0)
        return rc;
    buf = mem_try_alloc(DISK_BLOCK);
    if (buf == NULL) {
        block_sums_put(&sums);
        return dlc_err_set(err, DLC_ENOMEM, "no memory to read from disk tier %s", d->root);
    }
    op = disk_op_begin(d, DISK_OP_READ, n);
    if (read_blocks(fd, sums, name->size, off, dst, n, buf) < 0)
        rc = errno == EBADMSG ? drop_corrupt(d, name, "wrong checksum", err)
                              : read_failed(d, name, err);
    disk_op_end_rc(d, &op, rc);
    mem_free(&buf);
    block_sums_put(&sums);
    return rc;
}

int disk_read_range(struct disk *d, struct chunk_id id, uint64_t len, uint64_t off, void *dst,
                    uint64_t n, struct dlc_err *err)
{
    struct found f;
    int fd, rc;

    if (off > len || n > len - off)
        return dlc_err_set(err, DLC_EINVAL, "disk tier: bytes %llu to %llu of a chunk of %llu",
                           (unsigned long long)off, (unsigned long long)(off + n),
                           (unsigned long long)len);
    rc = open_chunk(d, id, len, &fd, &f, err);
    if (rc < 0)
        return rc;
    rc = read_range(d, fd, &f.name, off, dst, n, err);
    os_close(&fd);
    if (rc == 0)
        count(disk_hits);
    return rc;
}
