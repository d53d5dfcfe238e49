// SPDX-License-Identifier: Apache-2.0
/*
 * Shutdown watchdog: ends the process in time, even if something hangs. The supervisor (Kubernetes,
 * systemd, a successor that waits for the directory) gives the daemon seconds; a write to a dead
 * NFS server, or a manager that does not answer, can take for ever. So a thread ends the process
 * when the time is over. This loses no more than a kill would: a chunk is on disk completely or not
 * at all, and the bucket has everything.
 */
#include "daemon/ending.h"

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "daemon/cluster_ops.h"
#include "daemon/state.h"

#define TIME_TO_END DLC_MS(1500)

struct ending {
    struct dlc_mtx mtx; /* rank LCK_sync */
    struct dlc_cond cond;
    bool over; /* G: mtx */
    pthread_t thread;
};

static void *watch_main(void *arg)
{
    struct ending *e = arg;
    int late = 0;

    dlc_mtx_lock(&e->mtx);
    while (!e->over && late == 0)
        late = dlc_cond_wait_for(&e->cond, &e->mtx, TIME_TO_END);
    if (!e->over) {
        log_warn("not everything that was under way has ended after %.1f s (a disk, a bucket or "
                 "the manager does not answer): the daemon ends without it, nothing is lost",
                 dlc_dur_seconds(TIME_TO_END));
        _exit(0);
    }
    dlc_mtx_unlock(&e->mtx);
    return NULL;
}

/* From now on there is little time; again is a no-op. */
static void ending_begin(struct node *n)
{
    struct ending *e;

    if (n->ending_watch != NULL)
        return;
    e = mem_new(struct ending);
    dlc_mtx_init(&e->mtx, LCK_sync);
    dlc_cond_init(&e->cond);
    if (os_thread(&e->thread, watch_main, e) == 0) {
        n->ending_watch = e;
        return;
    }
    log_warn("no thread to watch the end: it may take long");
    dlc_cond_release(&e->cond);
    dlc_mtx_release(&e->mtx);
    mem_free(&e);
}

void ending_over(struct node *n)
{
    struct ending *e = n->ending_watch;

    n->ending_watch = NULL;
    if (e == NULL)
        return;
    dlc_mtx_lock(&e->mtx);
    e->over = true;
    dlc_cond_broadcast(&e->cond);
    dlc_mtx_unlock(&e->mtx);
    pthread_join(e->thread, NULL);
    dlc_cond_release(&e->cond);
    dlc_mtx_release(&e->mtx);
    mem_free(&e);
}

void node_stop_now(struct node *n)
{
    n->stopping = true;
    loop_timer_set(n->loop, &n->tick, loop_now(n->loop)); /* the tick does the rest */
}

void node_stop(struct node *n)
{
    if (n->stopping)
        return;
    ending_begin(n);
    if (n->cluster_ops == NULL || !n->cluster_ops->leave(n))
        node_stop_now(n);
}
