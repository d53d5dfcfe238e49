// SPDX-License-Identifier: Apache-2.0
#include "base/fork_fds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mtx = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *bits; /* G: mtx; a bit per descriptor */
static size_t n_words; /* G: mtx */
static _Atomic unsigned
    n_bits; /* W under mtx. Relaxed: who closes a descriptor has seen it added */

static void in_child(void)
{
    for (size_t w = 0; w < n_words; w++) {
        for (unsigned b = 0; b < 64; b++) {
            if (bits[w] >> b & 1)
                close((int)(w * 64 + b));
        }
        bits[w] = 0;
    }
    n_bits = 0;
    fork_fds_unlock(); /* taken before the fork, on this very thread */
}

static void init_once(void)
{
    pthread_atfork(fork_fds_lock, fork_fds_unlock, in_child);
}

void fork_fds_init(void)
{
    pthread_once(&once, init_once);
}

void fork_fds_lock(void)
{
    pthread_mutex_lock(&mtx);
}

void fork_fds_unlock(void)
{
    pthread_mutex_unlock(&mtx);
}

void fork_fds_add(int fd)
{
    size_t w = (size_t)fd / 64;

    if (fd < 0)
        return;
    if (w >= n_words) {
        bits = mem_grow(bits, (w + 1) * sizeof(*bits));
        memset(bits + n_words, 0, (w + 1 - n_words) * sizeof(*bits));
        n_words = w + 1;
    }
    if ((bits[w] >> (fd % 64) & 1) == 0) /* else the program has closed it behind our back */
        n_bits++;
    bits[w] |= (uint64_t)1 << (fd % 64);
}

bool fork_fds_close(int fd)
{
    size_t w = (size_t)fd / 64;
    bool mine;

    if (atomic_load_explicit(&n_bits, memory_order_relaxed) == 0)
        return false;
    fork_fds_lock();
    mine = w < n_words && (bits[w] >> (fd % 64) & 1) != 0;
    if (mine) {
        bits[w] &= ~((uint64_t)1 << (fd % 64));
        n_bits--;
        close(fd); /* under the lock: the number may be another's at once */
    }
    fork_fds_unlock();
    return mine;
}
