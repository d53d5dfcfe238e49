// SPDX-License-Identifier: Apache-2.0
/*
 * The disk tier: opening, closing, and the rules that its parts follow.
 *
 * A chunk's life:
 *
 *     (tmp file) --rename--> PRESENT --unlink--> gone
 *                  BUSY               BUSY
 *
 * - (DISK-1) A file under its final name is complete; its bytes never change.
 * - (DISK-2) While a chunk is BUSY one thread changes its file's name, without the lock. All others
 *   treat it as absent, or wait if they want to change that name too.
 * - (DISK-3) The files of a shard are changed only after it was scanned, so a scan never finds a
 *   file that the table has forgotten.
 * - (DISK-4) bytes + writing <= limit when the scan has ended, but for a limit just lowered.
 * - (DISK-5) The table is only a hint: a reader that finds the file gone, short or wrong drops the
 *   chunk and reports it. Losing a chunk is always harmless.
 *
 * One process owns the root (flock on root/lock). One lock guards the memory; no file operation is
 * made with it held.
 */
#include "cache/disk/disk_i.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cache/disk/block_sums_i.h"

#define ROOT_MAX (PATH_MAX - 128)

/* Says which process has the lock, as far as it told. */
static int busy(const struct disk *d, const char *path, struct dlc_err *err)
{
    char pid[24] = "";
    ssize_t n = os_pread(d->lock_fd, pid, sizeof(pid) - 1, 0);

    pid[n > 0 ? n : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
    return dlc_err_set(err, DLC_EBUSY,
                       "disk tier %s is in use by process %s (it holds %s); stop it "
                       "or choose another directory",
                       d->root, pid[0] == '\0' ? "?" : pid, path);
}

static int lock_root(struct disk *d, struct dlc_err *err)
{
    char *path = mem_fmt("%s/lock", d->root), pid[24];
    int rc = 0, n;

    d->lock_fd = os_open(path, O_RDWR | O_CREAT, 0600);
    if (d->lock_fd < 0) {
        rc = dlc_err_sys(err, "cannot open %s", path);
    } else if (os_flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        rc = errno == EWOULDBLOCK ? busy(d, path, err) : dlc_err_sys(err, "cannot lock %s", path);
    } else {
        n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
        /* Only for the message above; a full disk must not keep us from reading. */
        if (os_ftruncate(d->lock_fd, 0) < 0 || os_pwrite_all(d->lock_fd, pid, (size_t)n, 0) < 0)
            log_debug("cannot write %s: %s", path, strerror(errno));
    }
    mem_free(&path);
    return rc;
}

static int make_directories(struct disk *d, struct dlc_err *err)
{
    static const char *const names[] = {"chunks", "tmp"};

    for (unsigned i = 0; i < DLC_COUNT(names); i++) {
        char *path = mem_fmt("%s/%s", d->root, names[i]);
        int rc = os_mkdirs(path, 0700);

        if (rc < 0)
            rc = dlc_err_sys(err, "cannot make %s", path);
        else if (d->sync && os_sync_dir(path) < 0)
            rc = dlc_err_sys(err, "cannot sync %s", path);
        mem_free(&path);
        if (rc < 0)
            return rc;
    }
    /* Names of directories can be lost as any others, and all that is in them. */
    if (d->sync && (os_sync_dir(d->root) < 0 || os_sync_dir_of(d->root) < 0))
        return dlc_err_sys(err, "cannot sync %s", d->root);
    return 0;
}

/* We hold the lock, so who wrote them is dead. Others' files stay. */
static int clean_tmp(struct disk *d, struct dlc_err *err)
{
    char *path = mem_fmt("%s/tmp", d->root);
    int fd = os_open(path, O_RDONLY | O_DIRECTORY, 0), rc = 0;
    DIR *dir = fd < 0 ? NULL : os_fdopendir(&fd);
    struct dirent *e;

    if (dir == NULL) {
        rc = dlc_err_sys(err, "cannot read %s", path);
        os_close(&fd);
        goto out;
    }
    while ((e = os_readdir(dir)) != NULL) {
        if (str_ends(e->d_name, ".tmp") && os_unlinkat(dirfd(dir), e->d_name) < 0)
            disk_note_write_error(d, errno);
    }
    os_closedir(&dir);
out:
    mem_free(&path);
    return rc;
}

static void disk_free(struct disk **dp)
{
    struct disk *d = *dp;

    *dp = NULL;
    os_close(&d->lock_fd);
    block_sums_release(&d->sums);
    chunks_release(&d->table);
    groups_release(&d->groups);
    notes_release(&d->notes);
    dlc_cond_release(&d->stopping);
    dlc_cond_release(&d->changed);
    dlc_mtx_release(&d->mtx);
    mem_free(&d->root);
    d->tag = 0;
    mem_free(&d);
}

static struct disk *disk_new(const struct disk_config *c)
{
    struct disk *d = mem_new(struct disk);

    d->tag = DISK_TAG;
    d->root = mem_str(c->root);
    d->limit = c->limit;
    d->keep_free = c->keep_free;
    d->sync = c->sync;
    d->lock_fd = -1;
    d->scanning = true;
    d->table = (struct chunks)CHUNKS_INIT;
    groups_init(&d->groups, dlc_dur_seconds(c->cool_down), c->policy, &c->policy_options);
    dlc_mtx_init(&d->mtx, LCK_disk);
    dlc_cond_init(&d->changed);
    dlc_cond_init(&d->stopping);
    notes_init(&d->notes);
    d->fs_free = UINT64_MAX; /* not known: a write will tell */
    disk_lock(d);
    disk_unlock(d); /* publishes */
    return d;
}

static void stop_thread(struct disk *d, pthread_t thread)
{
    disk_lock(d);
    atomic_store_explicit(&d->stop, true, memory_order_relaxed); /* with the threads */
    dlc_cond_broadcast(&d->stopping);
    disk_unlock(d);
    pthread_join(thread, NULL);
}

static int start_threads(struct disk *d, struct dlc_err *err)
{
    errno = os_thread(&d->scanner, disk_scan_thread, d);
    if (errno == 0) {
        errno = os_thread(&d->watcher, disk_watch_thread, d);
        if (errno != 0)
            stop_thread(d, d->scanner);
    }
    if (errno != 0)
        return dlc_err_sys(err, "cannot start a thread for disk tier %s", d->root);
    pthread_setname_np(d->scanner, "disk-scan");
    pthread_setname_np(d->watcher, "disk-watch");
    return 0;
}

int disk_open(const struct disk_config *c, struct disk **out, struct dlc_err *err)
{
    struct disk *d;
    int rc;

    *out = NULL;
    if (strlen(c->root) == 0 || strlen(c->root) > ROOT_MAX)
        return dlc_err_set(err, DLC_EINVAL, "the path of the disk tier is empty or too long");
    d = disk_new(c);
    rc = make_directories(d, err);
    if (rc == 0)
        rc = lock_root(d, err);
    if (rc == 0)
        rc = clean_tmp(d, err);
    if (rc == 0) {
        disk_refresh(d);
        rc = start_threads(d, err);
    }
    if (rc < 0)
        disk_free(&d);
    *out = d;
    return rc;
}

void disk_close(struct disk **dp)
{
    struct disk *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    disk_check(d);
    stop_thread(d, d->scanner);
    stop_thread(d, d->watcher);
    dlc_check(atomic_load_explicit(&d->n_fills, memory_order_relaxed) == 0); /* with fills */
    disk_free(&d);
}

const char *disk_policy_refusal(const struct policy_ops *ops)
{
    switch (ops->input) {
    case POLICY_NEXT_USE:
        return "the disk tier does not know when a chunk is read next; choose worth, which keeps "
               "what declared runs will read";
    case POLICY_WEIGHT:
        return "a chunk on disk may hold many samples, and has no weight; choose worth or "
               "cost-aware-lrfu, or this policy for --memory-policy";
    case POLICY_EXPECTED:
    case POLICY_NO_INPUT: break;
    }
    return NULL;
}

bool disk_has(struct disk *d, struct chunk_id id)
{
    uint32_t slot;

    disk_check(d);
    if (disk_shard_ready(d, id, NULL) < 0)
        return false;
    disk_lock(d);
    slot = disk_find_locked(d, id);
    if (slot != CHUNK_NONE)
        groups_claim(&d->groups, &d->table, slot, id.group);
    disk_unlock(d);
    return slot != CHUNK_NONE;
}

int disk_chunk_state(struct disk *d, struct chunk_id id, enum life_state *out)
{
    uint32_t slot;

    disk_check(d);
    disk_lock(d);
    groups_tick(&d->groups, disk_now());
    slot = chunks_find(&d->table, id);
    if (slot != CHUNK_NONE && (d->table.chunks[slot].flags & CHUNK_LEAVING) != 0)
        slot = CHUNK_NONE;
    if (slot != CHUNK_NONE)
        *out = groups_chunk_state(&d->groups, &d->table, slot);
    disk_unlock(d);
    return slot == CHUNK_NONE ? DLC_EMISS : 0;
}

void disk_forget(struct disk *d, const struct chunk_name *n)
{
    uint32_t slot;

    disk_lock(d);
    slot = disk_find_locked(d, n->id);
    if (slot != CHUNK_NONE && d->table.chunks[slot].size == n->size &&
        d->table.chunks[slot].checksum == n->checksum)
        disk_remove_locked(d, slot);
    disk_unlock(d);
}

void disk_drop(struct disk *d, struct chunk_id id)
{
    uint32_t slot;

    disk_check(d);
    if (disk_shard_ready(d, id, NULL) < 0)
        return;
    disk_lock(d);
    while ((slot = chunks_find(&d->table, id)) != CHUNK_NONE) {
        if ((d->table.chunks[slot].flags & CHUNK_BUSY) != 0)
            dlc_cond_wait(&d->changed, &d->mtx);
        else if (!disk_remove_locked(d, slot))
            break;
    }
    disk_unlock(d);
}

/* Bounded, so that a busy writer cannot keep us here for ever. */
static uint64_t drop_group_locked(struct disk *d, struct group *g)
{
    uint64_t freed = 0;

    for (uint32_t n = g->n; n > 0 && g->n > 0; n--) {
        uint64_t size = d->table.chunks[g->chunks.oldest].size;

        if (disk_remove_locked(d, g->chunks.oldest))
            freed += size;
    }
    return freed;
}

uint64_t disk_drop_all(struct disk *d)
{
    uint64_t freed = 0;

    disk_check(d);
    for (unsigned shard = 0; shard < DISK_SHARDS; shard++)
        disk_shard_ready(d, (struct chunk_id){.hi = (uint64_t)shard << 56}, NULL);
    disk_lock(d);
    for (uint32_t g = 0; g < d->groups.n; g++)
        freed += drop_group_locked(d, groups_get(&d->groups, g));
    disk_unlock(d);
    return freed;
}

void disk_set_limit(struct disk *d, uint64_t limit)
{
    disk_check(d);
    disk_lock(d);
    d->limit = limit;
    disk_unlock(d);
    disk_trim(d);
}
