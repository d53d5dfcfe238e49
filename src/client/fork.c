// SPDX-License-Identifier: Apache-2.0
#include "client/fork.h"

#include <pthread.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fork_fds.h"
#include "base/list.h"
#include "base/mutex.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/job_weights.h"
#include "client/process.h"
#include "client/reading.h"
#include "client/watch.h"

static void count_held(struct attachment *a)
{
    if (!a->foreign)
        a->inherited = a->unmapped ? 0 : attachment_held(a);
}

/* Counted here: in the child it is too late, since the parent goes on and puts its views. */
static void before_fork(void)
{
    client_lock();
    dlc_list_each (l, &client_datasets) {
        struct dlc_dataset *ds = dlc_container(l, struct dlc_dataset, link);
        struct attachment *a = atomic_load(&ds->cur);

        if (a != NULL)
            count_held(a);
        dlc_list_each (r, &ds->retired)
            count_held(dlc_container(r, struct attachment, link));
    }
}

static void disown(struct attachment *a)
{
    a->foreign = true;
    a->sock = a->doorbell = a->channel = -1; /* base/fork_fds.h has closed them */
    a->watched = false;
    dlc_mtx_init(&a->mtx, LCK_session);
    dlc_mtx_init(&a->rpc, LCK_rpc);
    if (a->inherited == 0) /* else a daemon that ends could not return its memory */
        attachment_unmap(a);
}

/*
 * The child has one thread, whatever locks others held: make them again. Its copies of the parent's
 * descriptors are closed, those of attachments in the making too (base/fork_fds.h); what lies in
 * shared memory is left alone (ATTACHMENT-3).
 */
static void in_child(void)
{
    dlc_list_each (l, &client_datasets) {
        struct dlc_dataset *ds = dlc_container(l, struct dlc_dataset, link);
        struct attachment *a = atomic_load(&ds->cur);

        dlc_mtx_init(&ds->mtx, LCK_dataset);
        dlc_mtx_init(&ds->direct_mtx, LCK_direct);
        atomic_store(&ds->attaching, false);
        dlc_list_each (r, &ds->retired)
            disown(dlc_container(r, struct attachment, link));
        if (a != NULL) {
            disown(a);
            dlc_list_push_tail(&ds->retired, &a->link);
            atomic_store(&ds->unreaped, true);
        }
        atomic_store(&ds->cur, NULL);
        ds->lost = false;
        ds->direct = NULL;             /* its threads stayed with the parent */
        reading_release(&ds->reading); /* the parent goes on with it */
        importance_release(&ds->importance);
        importance_init(&ds->importance);
        ds->try_again = (struct dlc_mono){0};
        ds->reconnects = ds->without_daemon = 0;
        ds->past = (struct dlc_stats){0};
        ds->direct_reads = ds->direct_bytes = ds->direct_ns = 0;
    }
    watch_in_child();
    client_unlock(); /* taken before the fork, on this very thread */
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_once(void)
{
    fork_fds_init(); /* its lock is taken under ours */
    pthread_atfork(before_fork, client_unlock, in_child);
}

void client_init(void)
{
    pthread_once(&once, init_once);
}
