// SPDX-License-Identifier: Apache-2.0
#include "client/dataset.h"

#include <sys/mman.h>

#include "base/backoff.h"
#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/extents.h"
#include "client/heartbeat.h"
#include "client/job_weights.h"
#include "client/process.h"
#include "client/reading.h"
#include "client/watch.h"
#include "ipc/shm.h"

#define LOOK_SOON    DLC_MS(250) /* for a daemon that is waited for */
#define LOOK_AGAIN   DLC_MS(250) /* for a lost daemon, and doubling up to */
#define LOOK_SELDOM  DLC_SEC(30)
#define STOPPED      DLC_SEC(30)  /* who told it to stop may start another */
#define ATTACH_LIMIT DLC_MS(1500) /* for a thread within a read that may read the bucket */
#define ATTACH_WAIT  DLC_SEC(1)   /* the same, while another thread attaches */
#define GREETING     DLC_SEC(2)   /* which a daemon answers at once; else the bucket is read */
#define ATTACH_PAUSE DLC_MS(2)    /* between looks at that thread */

/* ---- attaching ---- */

/* Does anybody read there, or may: (ATTACHMENT-1)? */
static bool in_use(const struct attachment *a)
{
    if (a->foreign) /* its users are threads of the parent */
        return a->inherited > 0;
    return atomic_load(&a->users) > 0 || attachment_held(a) > 0;
}

static void add_session(const struct attachment *a, struct dlc_stats *out)
{
    uint32_t high = DLC_MIN(atomic_load(&a->session->blocks_high), SHM_BLOCKS);

    for (uint32_t i = 0; i < high && !a->foreign; i++) {
        const struct shm_pin_block *b = &a->blocks[i];

        /* relaxed: statistics */
        out->hits += atomic_load_explicit(&b->hits, memory_order_relaxed);
        out->misses += atomic_load_explicit(&b->misses, memory_order_relaxed);
        out->bytes += atomic_load_explicit(&b->bytes, memory_order_relaxed);
        out->stall_ns += atomic_load_explicit(&b->stall_ns, memory_order_relaxed);
    }
}

/* Nobody reads there any more: keep its figures and give its pages back. The mapping stays
 * (ATTACHMENT-2). */
static void session_empty(struct dlc_dataset *ds, struct attachment *a)
{
    if (a->foreign) /* the parent's */
        return;
    add_session(a, &ds->past);
    os_madvise(a->session, SHM_SESSION_SIZE, MADV_REMOVE);
}

static void reap_locked(struct dlc_dataset *ds)
{
    bool left = false;

    dlc_list_each (l, &ds->retired) {
        struct attachment *a = dlc_container(l, struct attachment, link);

        if (!a->unmapped && !in_use(a)) {
            attachment_unmap(a);
            session_empty(ds, a);
        }
        left = left || !a->unmapped;
    }
    atomic_store(&ds->unreaped, left);
}

void dataset_reap(struct dlc_dataset *ds)
{
    client_lock();
    reap_locked(ds);
    client_unlock();
}

/* Stop using the current attachment. It is mapped: nobody can have retired it. */
static void retire_locked(struct dlc_dataset *ds, struct attachment *a)
{
    if (atomic_load(&a->header->closing) != 0)
        ds->spawn_from = dlc_mono_add(dlc_mono_now(), STOPPED);
    ds->lost = true;
    atomic_store(&ds->cur, NULL);
    dlc_list_push_tail(&ds->retired, &a->link);
    atomic_store(&ds->unreaped, true);
}

/* On the watch thread: this process may make no call for long. The look a moment later is for who
 * put a view just then: see dataset_checked_until(). */
static void daemon_gone(uint64_t generation)
{
    client_lock();
    dlc_list_each (l, &client_datasets) {
        struct dlc_dataset *ds = dlc_container(l, struct dlc_dataset, link);
        struct attachment *a = atomic_load(&ds->cur);

        if (a != NULL && a->generation == generation)
            retire_locked(ds, a);
        if (atomic_load(&ds->unreaped))
            reap_locked(ds);
    }
    client_unlock();
}

/* On the watch thread: the daemon has made extents, or dropped some and wants the memory now. */
static void extents_changed(uint64_t generation)
{
    client_lock();
    dlc_list_each (l, &client_datasets) {
        struct dlc_dataset *ds = dlc_container(l, struct dlc_dataset, link);
        struct attachment *a = atomic_load(&ds->cur);

        if (a != NULL && a->generation == generation)
            extents_follow(a);
    }
    client_unlock();
}

static const struct watch_calls watch_calls = {.gone = daemon_gone, .channel = extents_changed};

void dataset_put_inherited(struct dlc_dataset *ds, struct attachment *a)
{
    client_lock();
    if (a->inherited > 0)
        a->inherited--;
    client_unlock();
    dataset_reap(ds);
}

void dataset_attach_to(struct dlc_dataset *ds, struct attachment *a)
{
    if (ds->catalog == NULL) {
        ds->catalog = a->catalog;
        a->catalog = NULL;
        ds->n = a->n;
        ds->place = a->place;
        ds->place_endpoint = a->place_endpoint;
        a->place = a->place_endpoint = NULL;
    }
    catalog_close(&a->catalog);
    client_lock();
    if (ds->lost) /* relaxed: statistics */
        atomic_fetch_add_explicit(&ds->reconnects, 1, memory_order_relaxed);
    ds->lost = false;
    ds->spawn_from = (struct dlc_mono){0};
    atomic_store(&ds->cur, a);
    atomic_store_explicit(&ds->said, false, memory_order_relaxed);
    a->watched = watch_add(a->sock, a->channel, a->generation, &watch_calls);
    client_unlock();
}

static struct dlc_mono spawn_from(struct dlc_dataset *ds)
{
    struct dlc_mono from;

    client_lock();
    from = ds->spawn_from;
    client_unlock();
    return from;
}

/* Tell order and weights before anybody else knows of the attachment. false: the daemon has gone
 * again. */
static bool tell_first(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    int rc = reading_tell(ds, a, err);

    if (rc < 0 && rc != DLC_ENODAEMON && rc != DLC_ETIMEDOUT) {
        log_info("%s: the daemon does not follow the order: %s", ds->shown, err->text);
        rc = 0;
    }
    if (rc == 0)
        rc = importance_tell(ds, a, err);
    if (rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT)
        return false;
    if (rc < 0)
        log_info("%s: the daemon does not keep the weights: %s", ds->shown, err->text);
    return true;
}

/* When to look for a daemon next. */
static void back_off_locked(struct dlc_dataset *ds, const struct dlc_err *err)
{
    struct dlc_mono now = dlc_mono_now(), from = spawn_from(ds);

    atomic_store_explicit(&ds->refused, err->code == DLC_ECHANGED, memory_order_relaxed);
    if (err->code == DLC_ECHANGED) { /* it may be borrowed or listed yet; until then: */
        log_warn("reading %s from the bucket, past the cache: %s", ds->shown, err->text);
        ds->patience = LOOK_SELDOM;
    } else {
        log_info("reading %s from the bucket: %s", ds->shown, err->text);
    }
    ds->patience = backoff_next(ds->patience, LOOK_AGAIN, LOOK_SELDOM);
    ds->try_again = dlc_mono_add(now, ds->patience);
    if (from.ns > now.ns) /* then it may start one */
        ds->try_again.ns = DLC_MIN(ds->try_again.ns, from.ns);
}

void dataset_back_off(struct dlc_dataset *ds, const struct dlc_err *err)
{
    dlc_mtx_lock(&ds->mtx);
    back_off_locked(ds, err);
    dlc_mtx_unlock(&ds->mtx);
}

/* Takes what attachment_new() gave, or why it gave nothing. */
static void attached_locked(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    dlc_mtx_assert_held(&ds->mtx);
    if (a != NULL && !tell_first(ds, a, err))
        attachment_free(&a);
    if (a == NULL) {
        back_off_locked(ds, err);
        return;
    }
    ds->patience = (struct dlc_dur){0};
    atomic_store_explicit(&ds->refused, false, memory_order_relaxed); /* R get_slow() */
    dataset_attach_to(ds, a);
    /* relaxed: as publish(), whose number may have gone to the one before */
    atomic_store_explicit(&a->session->cursor, atomic_load_explicit(&ds->at, memory_order_relaxed),
                          memory_order_relaxed);
}

struct attachment *dataset_current(struct dlc_dataset *ds)
{
    struct attachment *a = atomic_load(&ds->cur);

    if (a == NULL)
        return NULL;
    atomic_fetch_add(&a->users, 1);
    if (atomic_load(&ds->cur) == a)
        return a;
    dataset_detach(ds, a);
    return NULL;
}

/* Another thread looks for a daemon: for a moment it is worth waiting for. */
static void await_attached(struct dlc_dataset *ds)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), ATTACH_WAIT);

    while (atomic_load(&ds->attaching) && !dlc_mono_passed(end, dlc_mono_now()) && !interrupted())
        dlc_sleep(ATTACH_PAUSE);
}

/* Attach, unless there is an attachment, or it is too early, or another thread does. That is done
 * without the lock: it may take long, and the others read the bucket meanwhile. */
static void reattach(struct dlc_dataset *ds, struct dlc_mono deadline)
{
    struct dlc_mono now = dlc_mono_now();
    struct attachment *a = NULL;
    struct attach_how how = {.greeting = GREETING, .silence = ATTACH_SILENCE, .deadline = deadline};
    struct dlc_err err = DLC_ERR_INIT;
    bool mine;

    dlc_mtx_lock(&ds->mtx);
    mine = atomic_load(&ds->cur) == NULL && !atomic_load(&ds->attaching) &&
           (ds->try_again.ns == 0 || dlc_mono_passed(ds->try_again, now));
    if (mine)
        atomic_store(&ds->attaching, true);
    dlc_mtx_unlock(&ds->mtx);
    if (!mine)
        return;
    how.may_spawn = ds->opt.no_spawn == 0 && spawn_from(ds).ns <= now.ns;
    attachment_new(ds, &how, &a, &err);
    dlc_mtx_lock(&ds->mtx);
    attached_locked(ds, a, &err);
    atomic_store(&ds->attaching, false);
    dlc_mtx_unlock(&ds->mtx);
}

static struct attachment *attached_until(struct dlc_dataset *ds, struct dlc_mono deadline)
{
    struct attachment *a = dataset_current(ds);

    if (a != NULL)
        return a;
    await_attached(ds);
    if (!atomic_load(&ds->attaching))
        reattach(ds, deadline);
    return dataset_current(ds);
}

/* The limit of a caller that can do without a daemon. */
static struct dlc_mono attach_limit(const struct dlc_dataset *ds)
{
    struct dlc_dur most = {DLC_MIN(ATTACH_LIMIT.ns, ds->timeout.ns)};

    return dlc_mono_add(dlc_mono_now(), most);
}

struct attachment *dataset_attached(struct dlc_dataset *ds)
{
    return attached_until(ds, attach_limit(ds));
}

void dataset_hurry(struct dlc_dataset *ds)
{
    struct dlc_mono soon = dlc_mono_add(dlc_mono_now(), LOOK_SOON);

    dlc_mtx_lock(&ds->mtx);
    ds->patience = (struct dlc_dur){0};
    ds->try_again.ns = DLC_MIN(ds->try_again.ns, soon.ns);
    dlc_mtx_unlock(&ds->mtx);
}

/* The attachment unless its daemon has gone: then its memory goes back. NULL: none. Gives as
 * dataset_current(). */
static struct attachment *current_unless_lost(struct dlc_dataset *ds)
{
    struct attachment *a = dataset_current(ds);

    if (a == NULL || !attachment_lost(a))
        return a;
    dataset_lost(ds, a);
    dataset_detach(ds, a);
    return NULL;
}

void dataset_drop_lost(struct dlc_dataset *ds)
{
    struct attachment *a = current_unless_lost(ds);

    if (a != NULL)
        dataset_detach(ds, a);
}

struct attachment *dataset_checked_until(struct dlc_dataset *ds, struct dlc_mono deadline)
{
    struct attachment *a = current_unless_lost(ds);

    /* Who puts the last view, or takes back a pin, may not see that its attachment was retired (its
     * store and its look at `cur` may change places), and who retires it may still see the pin. */
    if (atomic_load_explicit(&ds->unreaped, memory_order_relaxed))
        dataset_reap(ds);
    if (a != NULL)
        extents_look(a);
    return a != NULL ? a : attached_until(ds, deadline);
}

struct attachment *dataset_checked(struct dlc_dataset *ds)
{
    return dataset_checked_until(ds, attach_limit(ds));
}

void dataset_detach(struct dlc_dataset *ds, struct attachment *a)
{
    if (atomic_fetch_sub(&a->users, 1) == 1 && atomic_load(&ds->cur) != a)
        dataset_reap(ds);
}

void dataset_lost(struct dlc_dataset *ds, struct attachment *a)
{
    client_lock();
    if (atomic_load(&ds->cur) == a)
        retire_locked(ds, a);
    client_unlock();
}

/* ---- among all open datasets ---- */

void dataset_enlist(struct dlc_dataset *ds)
{
    client_lock();
    dlc_list_push_tail(&client_datasets, &ds->link);
    client_unlock();
}

void dataset_delist(struct dlc_dataset *ds)
{
    client_lock();
    dlc_list_remove(&ds->link);
    client_unlock();
}

/* ---- figures ---- */

void dlc_dataset_stats(struct dlc_dataset *ds, struct dlc_stats *out)
{
    const struct attachment *a;

    dataset_drop_lost(ds); /* a program that only asks notices, too */
    client_lock();
    *out = ds->past;
    a = atomic_load(&ds->cur);
    if (a != NULL)
        add_session(a, out);
    dlc_list_each (l, &ds->retired)
        add_session(dlc_container(l, struct attachment, link), out);
    client_unlock();
    out->bypasses = atomic_load_explicit(&ds->direct_reads, memory_order_relaxed);
    out->bytes += atomic_load_explicit(&ds->direct_bytes, memory_order_relaxed);
    out->stall_ns += atomic_load_explicit(&ds->direct_ns, memory_order_relaxed);
    out->reconnects = atomic_load_explicit(&ds->reconnects, memory_order_relaxed);
    out->without_daemon = atomic_load_explicit(&ds->without_daemon, memory_order_relaxed);
}
