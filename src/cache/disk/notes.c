// SPDX-License-Identifier: Apache-2.0
/*
 * Notes: updates and questions of the node loop about groups that do not wait for the tier's lock.
 *
 * A thread that holds that lock may be in the middle of making room, so the loop leaves notes,
 * under a leaf lock that is held for a few instructions. disk_lock() applies them, in order, before
 * its caller does anything: so every holder of the lock knows all earlier notes. If the lock is
 * free, as it mostly is, the loop takes it at once and applies its note itself.
 *
 * (DISK-NOTES-1) Numbers of groups are assigned here, in the order in which the notes make the
 *                groups.
 */
#include "base/mem.h"
#include "cache/disk/disk_i.h"

void notes_init(struct notes *n)
{
    dlc_mtx_init(&n->mtx, LCK_disk_notes);
    n->n_groups = 1; /* GROUP_UNKNOWN is there */
}

void notes_release(struct notes *n)
{
    for (size_t i = 0; i < n->n; i++)
        mem_free(&n->v[i].name);
    mem_free(&n->v);
    map_release(&n->by_key);
    dlc_mtx_release(&n->mtx);
}

static void apply_chunk_cost(struct disk *d, const struct note *note)
{
    uint32_t slot = chunks_find(&d->table, note->id);

    if (slot != CHUNK_NONE)
        groups_chunk_cost(&d->groups, &d->table, slot, note->cost);
}

static void apply(struct disk *d, struct note *note)
{
    struct groups *gs = &d->groups;
    struct group *g;

    if (note->kind == NOTE_NEW) {
        uint32_t number = groups_find(gs, note->key, note->name, note->at);

        dlc_check(number == note->group); /* (DISK-NOTES-1) */
        mem_free(&note->name);
        return;
    }
    g = groups_get(gs, note->group);
    switch (note->kind) {
    case NOTE_NEW: break;
    case NOTE_JOIN: groups_join(gs, g, note->at); break;
    case NOTE_LEAVE: groups_leave(gs, g, note->at); break;
    case NOTE_EXPECT: groups_expect(gs, g, note->runs); break;
    case NOTE_COST: groups_cost(gs, g, note->cost, note->bytes); break;
    case NOTE_CHUNK: apply_chunk_cost(d, note); break;
    }
}

static void apply_all_locked(struct disk *d)
{
    struct notes *n = &d->notes;
    struct note *v;
    size_t count;

    if (!atomic_load_explicit(&n->any, memory_order_acquire)) /* with note() */
        return;
    dlc_mtx_lock(&n->mtx);
    v = n->v;
    count = n->n;
    n->v = NULL;
    n->n = n->cap = 0;
    atomic_store_explicit(&n->any, false, memory_order_relaxed); /* under the lock */
    dlc_mtx_unlock(&n->mtx);
    for (size_t i = 0; i < count; i++)
        apply(d, &v[i]);
    mem_free(&v);
}

void disk_lock(struct disk *d)
{
    dlc_mtx_lock(&d->mtx);
    apply_all_locked(d);
}

static bool disk_trylock(struct disk *d)
{
    if (!dlc_mtx_trylock(&d->mtx))
        return false;
    apply_all_locked(d);
    return true;
}

void disk_unlock(struct disk *d)
{
    /* relaxed: figures */
    atomic_store_explicit(&d->seen.chunks, d->table.n, memory_order_relaxed);
    atomic_store_explicit(&d->seen.bytes, d->bytes, memory_order_relaxed);
    atomic_store_explicit(&d->seen.limit, d->limit, memory_order_relaxed);
    atomic_store_explicit(&d->seen.scanning, d->scanning, memory_order_relaxed);
    dlc_mtx_unlock(&d->mtx);
}

/* ---- notes ---- */

static void push_locked(struct notes *n, const struct note *note)
{
    struct note *last = n->n > 0 ? &n->v[n->n - 1] : NULL;

    if (last != NULL && note->kind == NOTE_COST && last->kind == NOTE_COST &&
        last->group == note->group) { /* one for each sample that is fetched */
        last->cost += note->cost;
        last->bytes += note->bytes;
        return;
    }
    mem_reserve(n->v, n->n, n->cap);
    n->v[n->n++] = *note;
    atomic_store_explicit(&n->any, true, memory_order_release); /* with apply_all_locked() */
}

static void note(struct disk *d, struct note note)
{
    disk_check(d);
    note.at = disk_now();
    dlc_mtx_lock(&d->notes.mtx);
    push_locked(&d->notes, &note);
    dlc_mtx_unlock(&d->notes.mtx);
    if (disk_trylock(d))
        disk_unlock(d);
}

uint32_t disk_group(struct disk *d, uint64_t key, const char *name)
{
    struct notes *n = &d->notes;
    uintptr_t number;

    disk_check(d);
    dlc_mtx_lock(&n->mtx);
    number = (uintptr_t)map_get(&n->by_key, key);
    if (number == GROUP_UNKNOWN && n->n_groups <= GROUPS_MAX) {
        number = n->n_groups++;
        map_set(&n->by_key, key, (void *)number);
        push_locked(n, &(struct note){.kind = NOTE_NEW,
                                      .group = (uint32_t)number,
                                      .key = key,
                                      .name = mem_str(name),
                                      .at = disk_now()});
    }
    dlc_mtx_unlock(&n->mtx);
    if (disk_trylock(d))
        disk_unlock(d);
    return (uint32_t)number;
}

void disk_group_join(struct disk *d, uint32_t group)
{
    note(d, (struct note){.kind = NOTE_JOIN, .group = group});
}

void disk_group_leave(struct disk *d, uint32_t group)
{
    note(d, (struct note){.kind = NOTE_LEAVE, .group = group});
}

void disk_group_expect(struct disk *d, uint32_t group, int32_t runs)
{
    note(d, (struct note){.kind = NOTE_EXPECT, .group = group, .runs = runs});
}

void disk_group_cost(struct disk *d, uint32_t group, double cost, uint64_t bytes)
{
    note(d, (struct note){.kind = NOTE_COST, .group = group, .cost = cost, .bytes = bytes});
}

/* ---- figures ---- */

void disk_chunk_cost(struct disk *d, struct chunk_id id, double cost)
{
    note(d, (struct note){.kind = NOTE_CHUNK, .group = id.group, .id = id, .cost = cost});
}

void disk_group_figures(struct disk *d, uint32_t group, struct disk_group_figures *out)
{
    disk_check(d);
    if (disk_trylock(d)) { /* else: as of the last change */
        groups_tick(&d->groups, disk_now());
        disk_unlock(d);
    }
    groups_seen(&d->groups, group, out);
}

void disk_figures(struct disk *d, struct disk_figures *out)
{
    disk_check(d);
    /* relaxed: figures */
    *out = (struct disk_figures){
        .keep_free = d->keep_free,
        .fs_free = atomic_load_explicit(&d->seen.fs_free, memory_order_relaxed),
        .read_only = atomic_load_explicit(&d->read_only, memory_order_relaxed),
        .chunks = atomic_load_explicit(&d->seen.chunks, memory_order_relaxed),
        .bytes = atomic_load_explicit(&d->seen.bytes, memory_order_relaxed),
        .limit = atomic_load_explicit(&d->seen.limit, memory_order_relaxed),
        .scanning = atomic_load_explicit(&d->seen.scanning, memory_order_relaxed),
    };
    breaker_figures(d, out);
}

enum disk_presence disk_lookup(struct disk *d, struct chunk_id id)
{
    enum disk_presence p;

    disk_check(d);
    if (disk_is_bypassed(d))
        return DISK_ABSENT;
    if (!disk_trylock(d))
        return DISK_UNKNOWN;
    if (d->shards[shard_of(id)] != SHARD_KNOWN)
        p = DISK_UNKNOWN;
    else
        p = disk_find_locked(d, id) == CHUNK_NONE ? DISK_ABSENT : DISK_PRESENT;
    disk_unlock(d);
    return p;
}
