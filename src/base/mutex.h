// SPDX-License-Identifier: Apache-2.0
/*
 * Mutexes with a rank from tbl/locks.def. A thread takes them in increasing rank only; sanitizer
 * and debug builds (DLC_DEBUG) abort on a violation. Most of dlcache needs none: see
 * docs/design/0001. Unlocking one, or waiting with one, that nobody holds aborts in every build;
 * releasing one that is held does in those with DLC_DEBUG.
 */
#ifndef DLC_BASE_MUTEX_H
#define DLC_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"

enum lock_rank {
#define LOCK(name, rank) LCK_##name = rank,
#include "base/tbl/locks.def"
#undef LOCK
};

struct dlc_mtx {
    pthread_mutex_t m;
    enum lock_rank rank;
    int held; /* by somebody; G: m */
};

struct dlc_cond {
    pthread_cond_t c;
};

void dlc_mtx_init(struct dlc_mtx *m, enum lock_rank rank);
void dlc_mtx_release(struct dlc_mtx *m);
void dlc_mtx_lock(struct dlc_mtx *m);
bool dlc_mtx_trylock(struct dlc_mtx *m); /* false: somebody holds it */
void dlc_mtx_unlock(struct dlc_mtx *m);
void dlc_mtx_assert_held(const struct dlc_mtx *m);

void dlc_cond_init(struct dlc_cond *c); /* on the monotonic clock */
void dlc_cond_release(struct dlc_cond *c);
void dlc_cond_wait(struct dlc_cond *c, struct dlc_mtx *m);
/* Waits at most d; returns non-zero when the time passed. */
int dlc_cond_wait_for(struct dlc_cond *c, struct dlc_mtx *m, struct dlc_dur d);
void dlc_cond_signal(struct dlc_cond *c);
void dlc_cond_broadcast(struct dlc_cond *c);

#endif
