// SPDX-License-Identifier: Apache-2.0
/*
 * Space on the disk: the byte limit, the minimum of free space, and eviction.
 *
 * Reserved bytes count before they are written, so that many writers together keep the limits. The
 * file system is asked for its free space ten times a second at most; in between, our own changes
 * are added. Reserved bytes that it has not allocated yet (`unallocated`) already count as used.
 *
 * The groups choose victims (eviction_groups_i.h). Nothing is evicted for a chunk that cannot be
 * stored anyway, or is worth less. If the limits are already exceeded (the limit was lowered,
 * another program filled the file system), anything may be evicted.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cache/disk/block_sums_i.h"
#include "cache/disk/disk_i.h"

#define ASK_EVERY DLC_MS(100)
#define MORE_MIN  ((uint64_t)1 << 20)
#define FS_BLOCK  ((uint64_t)4096)
#define SAY_EVERY 600.0 /* seconds between two lines about one group */

static uint64_t ask_free(const struct disk *d)
{
    struct statvfs v;

    if (os_statvfs(d->root, &v) < 0)
        return UINT64_MAX; /* the write will tell */
    return (uint64_t)v.f_bavail * v.f_frsize;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t sub(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What a file of len bytes takes of the file system, about. */
static uint64_t on_disk(uint64_t len)
{
    return len > UINT64_MAX - FS_BLOCK ? len : DLC_ALIGN_UP(len, FS_BLOCK);
}

void disk_refresh(struct disk *d)
{
    struct dlc_mono now = dlc_mono_now();
    struct disk_op op;
    uint64_t bytes;
    bool ask;

    disk_lock(d);
    ask = !d->fs_asking &&
          (d->fs_asked.ns == 0 || dlc_mono_passed(dlc_mono_add(d->fs_asked, ASK_EVERY), now));
    d->fs_asking |= ask;
    disk_unlock(d);
    if (!ask)
        return;
    op = disk_op_begin(d, DISK_OP_ASK, 0);
    bytes = ask_free(d); /* NFS, FUSE and the like may take for ever: nobody else waits for it */
    disk_op_end(d, &op, true);
    atomic_store_explicit(&d->seen.fs_free, bytes, memory_order_relaxed); /* a figure */
    disk_lock(d);
    d->fs_free = bytes;
    d->fs_asked = now;
    d->fs_asking = false;
    disk_unlock(d);
}

bool disk_remove_locked(struct disk *d, uint32_t slot)
{
    struct chunk_name n = chunk_name_of(&d->table.chunks[slot]);
    struct disk_path path;
    int rc;

    dlc_mtx_assert_held(&d->mtx);
    d->table.chunks[slot].flags |= CHUNK_BUSY | CHUNK_LEAVING;
    groups_unlink(&d->groups, &d->table, slot);
    d->leaving++;
    disk_unlock(d);
    disk_path_of_chunk(d->root, &n, &path);
    rc = os_unlink(path.s);
    if (rc < 0 && errno == ENOENT)
        rc = 0;
    if (rc < 0) {
        count(disk_errors);
        log_debug("cannot remove %s: %s", path.s, strerror(errno));
        disk_note_write_error(d, errno);
    }
    disk_lock(d);
    d->leaving--;
    if (rc == 0) {
        d->bytes -= n.size;
        d->fs_free = add(d->fs_free, on_disk(n.size));
        block_sums_forget(&d->sums, n.id);
        groups_forget(&d->groups, slot);
        chunks_remove(&d->table, slot);
    } else {
        d->table.chunks[slot].flags &= (uint16_t) ~(CHUNK_BUSY | CHUNK_LEAVING);
        groups_link_stuck(&d->groups, &d->table, slot); /* not the next victim again */
    }
    dlc_cond_broadcast(&d->changed);
    return rc == 0;
}

/* ---- who goes ---- */

/* For whom is room made? */
struct need {
    uint32_t group;
    double byte_cost; /* of the chunk; 0: not known */
    bool must;        /* whatever has to go */
    const char *why;
};

static struct need need_of(struct chunk_id id, uint64_t len, bool must, const char *why)
{
    return (struct need){id.group, len == 0 ? 0 : (double)id.cost / (double)len, must, why};
}

enum evicted { EVICTED, EVICT_NONE, EVICT_NOT_WORTH };

/* One line about a group now and then, however many chunks it is about. */
static bool may_say(struct group *g, double now)
{
    if (now - g->said < SAY_EVERY)
        return false;
    g->said = now;
    return true;
}

static enum evicted refuse(struct disk *d, struct group *g, enum life_pressure pressure, double now)
{
    char size[24];

    count(disk_not_admitted);
    if (pressure == LIFE_DIRE && g->life.state == LIFE_ACTIVE && may_say(g, now))
        log_warn(
            "disk tier %s is full of what jobs are reading: %s of %s stay there, the rest comes "
            "from the bucket each time (give it more with --disk)",
            d->root, str_size(g->bytes, size), g->name);
    return EVICT_NOT_WORTH;
}

static void say_pressure(struct disk *d, struct group *victim, const struct need *need, double now)
{
    if (may_say(victim, now))
        log_warn("disk tier %s: evicting chunks of %s though jobs (%u) are reading it: %s", d->root,
                 victim->name, victim->life.jobs, need->why);
}

/* Let one chunk go, or wait for one that goes already. EVICT_NONE: there is none, or its file
 * stays. */
static enum evicted evict_locked(struct disk *d, const struct need *need)
{
    struct group *g = groups_get(&d->groups, need->group), *victim;
    enum life_pressure pressure;
    double now = disk_now();

    victim = groups_victim(&d->groups, now, &pressure);
    if (victim == NULL && d->leaving > 0) {
        dlc_cond_wait(&d->changed, &d->mtx);
        return EVICTED; /* the caller looks again: that may have been room enough */
    }
    if (victim == NULL)
        return EVICT_NONE;
    if (!need->must && !groups_admit(&d->groups, g, need->byte_cost, victim, pressure, now))
        return refuse(d, g, pressure, now);
    if (pressure == LIFE_DIRE)
        say_pressure(d, victim, need, now);
    if (!disk_remove_locked(d, groups_victim_chunk(victim)))
        return EVICT_NONE;
    count(disk_evictions);
    return EVICTED;
}

/* ---- limits ---- */

static bool over_limit_locked(const struct disk *d, uint64_t len)
{
    return d->limit != 0 && add(add(d->bytes, d->writing), len) > d->limit;
}

static bool too_full_locked(struct disk *d, uint64_t len)
{
    return sub(d->fs_free, d->unallocated) < add(d->keep_free, on_disk(len));
}

/* Would evicting everything make room? */
static bool can_help_locked(struct disk *d, uint64_t len)
{
    if (d->limit != 0 && add(d->writing, len) > d->limit)
        return false;
    return add(sub(d->fs_free, d->unallocated), d->bytes) >= add(d->keep_free, on_disk(len));
}

static int no_room(struct disk *d, uint64_t len, struct dlc_err *err)
{
    char size[24], limit[24], free_now[24], keep[24];

    return dlc_err_set(
        err, DLC_ENOSPACE,
        "no room for %s in disk tier %s (limit %s, %s free on the file system, %s to "
        "be kept free)",
        str_size(len, size), d->root, d->limit == 0 ? "none" : str_size(d->limit, limit),
        str_size(d->fs_free, free_now), str_size(d->keep_free, keep));
}

static int not_worth(struct disk *d, uint64_t len, struct dlc_err *err)
{
    char size[24];

    return dlc_err_set(err, DLC_ENOSPACE,
                       "disk tier %s is full of what is worth more than these %s", d->root,
                       str_size(len, size));
}

/* Let one chunk go, for a newcomer or because the limits are broken without it. */
static int make_room_locked(struct disk *d, struct chunk_id id, uint64_t len, bool must,
                            struct dlc_err *err)
{
    struct need need = need_of(id, len, must, "others need the room more");

    if (!can_help_locked(d, len))
        return no_room(d, len, err);
    if (too_full_locked(d, 0)) {
        need = need_of(id, len, true, "the file system is full");
    } else if (over_limit_locked(d, 0)) {
        need = need_of(id, len, true, "the limit is lower than what is there");
    }
    switch (evict_locked(d, &need)) {
    case EVICTED: return 0;
    case EVICT_NOT_WORTH: return not_worth(d, len, err);
    case EVICT_NONE: break;
    }
    return no_room(d, len, err);
}

int disk_reserve(struct disk *d, struct chunk_id id, uint64_t len, bool must, struct dlc_err *err)
{
    int rc = 0;

    disk_refresh(d);
    disk_lock(d);
    while (rc == 0 && (over_limit_locked(d, len) || too_full_locked(d, len)))
        rc = make_room_locked(d, id, len, must, err);
    if (rc == 0) {
        d->writing += len;
        d->unallocated += len;
    }
    disk_unlock(d);
    return rc;
}

void disk_allocated(struct disk *d, uint64_t len)
{
    disk_lock(d);
    d->unallocated -= len;
    d->fs_free = sub(d->fs_free, on_disk(len));
    disk_unlock(d);
}

void disk_unreserve(struct disk *d, uint64_t len)
{
    disk_lock(d);
    d->writing -= len;
    d->fs_free = add(d->fs_free, on_disk(len));
    disk_unlock(d);
}

bool disk_evict_more(struct disk *d, struct chunk_id id, uint64_t len)
{
    const struct need need = need_of(id, len, false, "the file system is full");
    uint64_t target;
    bool any = false;

    disk_lock(d);
    target = sub(d->bytes, DLC_MAX(len, MORE_MIN));
    while (d->bytes > target && evict_locked(d, &need) == EVICTED)
        any = true;
    d->fs_asked = (struct dlc_mono){0}; /* what it said was wrong */
    disk_unlock(d);
    return any;
}

void disk_trim(struct disk *d)
{
    const struct need need = need_of((struct chunk_id){.group = GROUP_UNKNOWN}, 0, true,
                                     "the limit is lower than what is there");

    disk_lock(d);
    while (!atomic_load_explicit(&d->stop, memory_order_relaxed) && /* with disk_close */
           over_limit_locked(d, 0) && evict_locked(d, &need) == EVICTED)
        continue;
    disk_unlock(d);
}
