// SPDX-License-Identifier: Apache-2.0
/*
 * Pin blocks of threads. A thread has one block per attachment and claims entries there without a
 * lock. A thread that holds more views than a block has pins claims further ones under the
 * session's lock, in blocks that belong to no thread; so do threads for which no block is left. A
 * block is returned when its thread ends; pins that are still set in it stay valid.
 */
#include "client/pins.h"

#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "ipc/pin_reader.h"
#include "ipc/shm.h"

#define OVERFLOW_BLOCKS 64 /* that no thread can have for itself */

_Thread_local struct pins_cached pins_cache[PINS_CACHE];

/* All blocks a thread owns, also those that fell out of its cache. */
struct owned {
    struct attachment *a;
    uint64_t generation;
    unsigned block;
};

struct owned_list {
    struct owned *v;
    size_t n, cap;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* struct owned_list of the thread */

/*
 * Attachments that exist, so that a thread that ends late finds out whether its block still does.
 * The lock is held for moments and nothing else is locked under it but the attachment's own.
 */
static pthread_mutex_t live_mtx = PTHREAD_MUTEX_INITIALIZER;
static struct owned *live; /* G: live_mtx; block unused */
static size_t n_live, cap_live;

static bool is_live(const struct owned *o)
{
    for (size_t i = 0; i < n_live; i++) {
        if (live[i].a == o->a && live[i].generation == o->generation)
            return true;
    }
    return false;
}

static void thread_ends(void *arg)
{
    struct owned_list *l = arg;

    pthread_mutex_lock(&live_mtx);
    for (size_t i = 0; i < l->n; i++) {
        struct attachment *a = l->v[i].a;

        if (!is_live(&l->v[i]) || a->foreign)
            continue;
        dlc_mtx_lock(&a->mtx);
        a->block_owned[l->v[i].block] = 0;
        dlc_mtx_unlock(&a->mtx);
    }
    pthread_mutex_unlock(&live_mtx);
    mem_free(&l->v);
    mem_free(&l);
    memset(pins_cache, 0, sizeof(pins_cache)); /* other destructors may still read samples */
}

static void before_fork(void)
{
    pthread_mutex_lock(&live_mtx);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&live_mtx);
}

static void make_key(void)
{
    dlc_check(pthread_key_create(&key, thread_ends) == 0);
    pthread_atfork(before_fork, after_fork, after_fork);
}

static struct owned_list *my_blocks(void)
{
    struct owned_list *l;

    pthread_once(&once, make_key);
    l = pthread_getspecific(key);
    if (l == NULL) {
        l = mem_new(struct owned_list);
        pthread_setspecific(key, l);
    }
    return l;
}

/* Take a block of the first n that no thread claims pins in. Its number, or -1. */
static int claim_block_locked(struct attachment *a, unsigned n)
{
    dlc_mtx_assert_held(&a->mtx);
    for (unsigned i = 0; i < n; i++) {
        if (a->block_owned[i])
            continue;
        a->block_owned[i] = 1;
        /* Before the first pin: the evictor looks at blocks below blocks_high that are in use. */
        if (atomic_load(&a->session->blocks_high) < i + 1)
            atomic_store(&a->session->blocks_high, i + 1);
        atomic_store(&a->blocks[i].in_use, 1);
        return (int)i;
    }
    return -1;
}

static void note_live(const struct owned *o)
{
    pthread_mutex_lock(&live_mtx);
    if (!is_live(o)) {
        mem_reserve(live, n_live, cap_live);
        live[n_live++] = *o;
    }
    pthread_mutex_unlock(&live_mtx);
}

void pins_attachment_gone(const struct attachment *a)
{
    pthread_mutex_lock(&live_mtx);
    for (size_t i = 0; i < n_live; i++) {
        if (live[i].a == a)
            live[i--] = live[--n_live];
    }
    pthread_mutex_unlock(&live_mtx);
}

static struct shm_pin_block *remember(struct attachment *a, unsigned block)
{
    struct pins_cached *c = &pins_cache[a->generation % PINS_CACHE];

    *c = (struct pins_cached){a->generation, &a->blocks[block], 0};
    return c->block;
}

/* Forget blocks of attachments that are gone. */
static void forget_gone(struct owned_list *l)
{
    size_t n = 0;

    pthread_mutex_lock(&live_mtx);
    for (size_t i = 0; i < l->n; i++) {
        if (is_live(&l->v[i]))
            l->v[n++] = l->v[i];
    }
    pthread_mutex_unlock(&live_mtx);
    l->n = n;
}

struct shm_pin_block *pins_slow(struct attachment *a)
{
    struct owned_list *l = my_blocks();
    int block;

    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].a == a && l->v[i].generation == a->generation)
            return remember(a, l->v[i].block);
    }
    dlc_mtx_lock(&a->mtx);
    block = claim_block_locked(a, SHM_BLOCKS - OVERFLOW_BLOCKS);
    dlc_mtx_unlock(&a->mtx);
    if (block < 0)
        return NULL;
    if (l->n == l->cap)
        forget_gone(l);
    mem_reserve(l->v, l->n, l->cap);
    l->v[l->n] = (struct owned){a, a->generation, (unsigned)block};
    note_live(&l->v[l->n++]);
    return remember(a, (unsigned)block);
}

_Atomic uint64_t *pins_overflow(struct attachment *a, uint64_t sample)
{
    _Atomic uint64_t *pin = NULL;
    int block = -1, entry;

    dlc_mtx_lock(&a->mtx);
    if (a->overflow != UINT32_MAX)
        block = (int)a->overflow;
    entry = block < 0 ? -1 : shm_free_entry(&a->blocks[block], 0);
    /* Blocks marked 2 were overflow blocks before and may have room again. */
    for (unsigned i = 0; entry < 0 && i < SHM_BLOCKS; i++) {
        if (a->block_owned[i] == 2) {
            block = (int)i;
            entry = shm_free_entry(&a->blocks[i], 0);
        }
    }
    if (entry < 0) {
        block = claim_block_locked(a, SHM_BLOCKS);
        entry = block < 0 ? -1 : shm_free_entry(&a->blocks[block], 0);
        if (block >= 0)
            a->block_owned[block] = 2;
    }
    if (entry >= 0) {
        a->overflow = (uint32_t)block;
        pin = &a->blocks[block].pins[entry];
        atomic_store(pin, sample + 1);
    }
    dlc_mtx_unlock(&a->mtx);
    return pin;
}
