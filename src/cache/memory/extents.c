// SPDX-License-Identifier: Apache-2.0
#include "cache/memory/extents_i.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/thread_pool.h"

/* 256 extents: each needs a descriptor of the daemon and a mapping of every client, and one that
 * cannot be dropped because of a pin keeps 1/256 of the memory. */
#define EXTENTS_SHIFT 8
#define SMALLEST      ((uint64_t)64 << 10)
#define FREE_STEP     ((uint64_t)8 << 20) /* bytes unmapped in one call: a millisecond */

/* A dropped extent that clients may still map. */
struct dropped {
    struct dlc_list node;
    uint32_t k, generation;
    uint64_t number; /* of the drop */
    uint64_t bytes;  /* that it holds */
    uint64_t inode;  /* 0: the kernel does not tell when it is freed */
    bool freed;      /* it is */
};

/* A dropped extent that the daemon still maps. */
struct freeing {
    struct work work;
    struct extents *e;
    uint32_t k, generation;
    int fd;
};

static uint64_t extent_begin(const struct extents *e, uint32_t k)
{
    return (uint64_t)k << e->shift;
}

static uint64_t extent_end(const struct extents *e, uint32_t k)
{
    return DLC_MIN(extent_begin(e, k + 1), e->size);
}

static uint64_t extent_size(const struct extents *e, uint32_t k)
{
    return extent_end(e, k) - extent_begin(e, k);
}

static _Atomic uint32_t *generation_in_table(const struct extents *e, uint32_t k)
{
    return shm_generations(e->header.map) + k;
}

/* ---- open and close ---- */

static unsigned choose_shift(uint64_t size)
{
    uint64_t least = DLC_MAX(DLC_MAX(size >> EXTENTS_SHIFT, SMALLEST), os_page_size());
    unsigned shift = 63u - (unsigned)__builtin_clzll(least);

    return (uint64_t)1 << shift < least ? shift + 1 : shift;
}

int extents_open(struct extents *e, uint64_t size, struct dlc_err *err)
{
    int rc;

    *e = (struct extents){
        .size = size, .page = os_page_size(), .shift = choose_shift(size), .header = SEGMENT_INIT};
    e->n = (uint32_t)((size + extents_granularity(e) - 1) >> e->shift);
    dlc_list_init(&e->dropped);
    rc = segment_open(&e->header, "dlcache-segment", SHM_HDR_SIZE + e->n * sizeof(uint32_t),
                      SEGMENT_CLIENTS_READ, err);
    if (rc < 0)
        return rc;
    e->map = os_reserve(NULL, size);
    if (e->map == NULL) {
        rc = dlc_err_sys(err,
                         "no address space for a segment of %llu bytes (is the limit on address "
                         "space, ulimit -v, too small?)",
                         (unsigned long long)size);
        segment_close(&e->header);
        return rc;
    }
    e->all = mem_alloc(e->n * sizeof(*e->all));
    for (uint32_t k = 0; k < e->n; k++)
        e->all[k] = (struct extent){-1, 0};
    freed_open(&e->freed);
    dlc_mtx_init(&e->mtx, LCK_extents);
    return 0;
}

void extents_close(struct extents *e)
{
    pool_free(&e->freeing);
    for (uint32_t k = 0; k < e->n; k++)
        os_close(&e->all[k].fd);
    mem_free(&e->all);
    os_unmap(e->map, e->size);
    extents_forget_dropped(e, NULL, NULL);
    freed_close(&e->freed);
    segment_close(&e->header);
    dlc_mtx_release(&e->mtx);
}

/* ---- making ---- */

static bool make_mapped(struct extents *e, uint32_t k, int fd)
{
    char *at = e->map + extent_begin(e, k);
    bool mapped;

    dlc_mtx_lock(&e->mtx); /* what is left of one that was dropped here is replaced */
    e->all[k].generation = ++e->generations == 0 ? ++e->generations : e->generations;
    mapped = os_map_at(at, fd, extent_size(e, k), true) != NULL;
    dlc_mtx_unlock(&e->mtx);
    if (mapped && segment_seal(fd, SEGMENT_CLIENTS_READ) == 0) {
        os_madvise(at, extent_size(e, k), MADV_DONTDUMP); /* a hint */
        return true;
    }
    if (mapped)
        os_reserve(at, extent_size(e, k));
    return false;
}

static bool extent_make(struct extents *e, uint32_t k)
{
    int fd = os_memfd("dlcache-extent");

    if (fd < 0 || os_ftruncate(fd, extent_size(e, k)) < 0 || !make_mapped(e, k, fd)) {
        os_close(&fd);
        return false;
    }
    e->all[k].fd = fd;
    /* Before the first slot that lies here is READY: (EXTENT-1). R clients */
    atomic_store_explicit(generation_in_table(e, k), e->all[k].generation, memory_order_release);
    return true;
}

bool extents_ensure(struct extents *e, uint64_t off, uint64_t len)
{
    uint32_t last = (uint32_t)((off + len - 1) >> e->shift);

    dlc_check(len > 0 && off + len <= e->size);
    for (uint32_t k = (uint32_t)(off >> e->shift); k <= last; k++)
        if (e->all[k].fd < 0 && !extent_make(e, k))
            return false;
    return true;
}

/* ---- giving back ---- */

/* Remove our mapping of it, unless another one was mapped there meanwhile. */
static void free_work(struct work *w)
{
    struct freeing *f = dlc_container(w, struct freeing, work);
    struct extents *e = f->e;
    uint64_t size = extent_size(e, f->k);
    bool ours = true;

    for (uint64_t at = 0; at < size && ours; at += FREE_STEP) {
        dlc_mtx_lock(&e->mtx);
        ours = e->all[f->k].generation == f->generation;
        if (ours) /* if that fails, it stays until the place is used again */
            os_reserve(e->map + extent_begin(e, f->k) + at, DLC_MIN(FREE_STEP, size - at));
        dlc_mtx_unlock(&e->mtx);
    }
    os_close(&f->fd);
    mem_free(&f);
}

static void free_mapping(struct extents *e, struct freeing *f)
{
    if (extents_granularity(e) > FREE_STEP && e->freeing == NULL)
        e->freeing = pool_new("dlc-extents", 1, NULL);
    if (extents_granularity(e) > FREE_STEP && e->freeing != NULL)
        pool_run(e->freeing, &f->work);
    else
        free_work(&f->work);
}

static void extent_drop(struct extents *e, uint32_t k)
{
    struct dropped *d = mem_new(struct dropped);
    struct freeing *f = mem_new(struct freeing);
    struct stat st = {0};

    os_fstat(e->all[k].fd, &st);
    *d = (struct dropped){.k = k,
                          .generation = e->all[k].generation,
                          .number = ++e->drops,
                          .bytes = (uint64_t)st.st_blocks * 512,
                          .inode = freed_watch(&e->freed, e->all[k].fd)};
    dlc_list_push_tail(&e->dropped, &d->node);
    e->dropped_bytes += d->bytes;
    *f = (struct freeing){.work.run = free_work,
                          .e = e,
                          .k = k,
                          .generation = e->all[k].generation,
                          .fd = e->all[k].fd};
    e->all[k].fd = -1;
    /* R clients: who sees the number of drops sees the table, too */
    atomic_store_explicit(generation_in_table(e, k), 0, memory_order_relaxed);
    atomic_store_explicit(&extents_header(e)->drops, e->drops, memory_order_release);
    free_mapping(e, f);
}

uint64_t extents_release(struct extents *e, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;
    uint32_t k = 0;

    if (off > SHM_HDR_SIZE) /* the arena begins there, and nothing lies before it */
        k = (uint32_t)((off + extents_granularity(e) - 1) >> e->shift);
    for (; k < e->n && extent_end(e, k) <= end; k++) {
        if (e->all[k].fd >= 0) {
            extent_drop(e, k);
            return extent_end(e, k) - off;
        }
    }
    return len;
}

void extents_look_freed(struct extents *e)
{
    struct map kept = {0};

    if (!dlc_list_empty(&e->dropped) && freed_read(&e->freed, &kept)) {
        dlc_list_each (n, &e->dropped) {
            struct dropped *d = dlc_container(n, struct dropped, node);

            d->freed = d->inode != 0 && map_get(&kept, d->inode) == NULL;
        }
    }
    map_release(&kept);
}

static bool is_kept(const struct dropped *d, extents_held_f *fn, void *arg)
{
    return d->inode != 0 ? !d->freed : fn(arg, d->k, d->generation, d->number);
}

void extents_forget_dropped(struct extents *e, extents_held_f *fn, void *arg)
{
    dlc_list_each_safe (n, &e->dropped) {
        struct dropped *d = dlc_container(n, struct dropped, node);

        if (fn != NULL && is_kept(d, fn, arg))
            continue;
        e->dropped_bytes -= d->bytes;
        dlc_list_remove(&d->node);
        mem_free(&d);
    }
}

uint64_t extents_populated(const struct extents *e)
{
    uint64_t bytes = e->dropped_bytes;

    for (uint32_t k = 0; k < e->n; k++) {
        struct stat st = {0};

        if (e->all[k].fd >= 0 && os_fstat(e->all[k].fd, &st) == 0)
            bytes += (uint64_t)st.st_blocks * 512;
    }
    return bytes;
}
