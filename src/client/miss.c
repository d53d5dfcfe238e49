// SPDX-License-Identifier: Apache-2.0
/*
 * Misses: a request cell in shared memory, a doorbell, a futex. A waiting thread checks a few times
 * per second whether the daemon still lives.
 *
 *     FREE --(ours)--> WAITED --answered, read--> FREE
 *                      WAITED --gave up waiting--> UNWATCHED --daemon lets go--> FREE
 *     FREE --(ours)--> UNWATCHED (prefetch) ------------------daemon lets go--> FREE
 */
#include "client/miss.h"

#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/heartbeat.h"
#include "ipc/frame.h"
#include "ipc/shm.h"

#define PREFETCH_WAIT DLC_MS(100) /* for a daemon that takes nothing: it was only a hint */

static void futex_wait(_Atomic uint32_t *word, uint32_t value, struct dlc_dur d)
{
    struct timespec ts = {.tv_sec = d.ns / 1000000000, .tv_nsec = d.ns % 1000000000};

    os_futex_wait(word, value, &ts);
}

/* ---- cells ---- */

static int try_cell_locked(struct attachment *a, uint8_t use)
{
    dlc_mtx_assert_held(&a->mtx);
    for (unsigned i = 0; i < SHM_CELLS; i++) {
        /* acquire: pairs with the daemon's release when it lets go of the cell */
        if (a->cell_use[i] == CELL_UNWATCHED &&
            atomic_load_explicit(&a->cells[i].state, memory_order_acquire) != SHM_CELL_ASKED)
            a->cell_use[i] = CELL_FREE;
        if (a->cell_use[i] == CELL_FREE) {
            a->cell_use[i] = use;
            /* Now, not when it is filled: what is UNWATCHED and not ASKED is taken by the next. */
            atomic_store_explicit(&a->cells[i].state, SHM_CELL_ASKED, memory_order_relaxed);
            return (int)i;
        }
    }
    return -1;
}

/* A cell, waiting for one if all are in use. -1: the daemon was lost, or, unless patient, hangs;
 * the time is up; or the caller gave up. */
static int take_cell(struct attachment *a, uint8_t use, struct dlc_mono deadline, bool patient)
{
    struct hang_watch w = {0};

    for (unsigned turn = 0;; turn++) {
        struct dlc_mono now;
        int i;

        dlc_mtx_lock(&a->mtx);
        i = try_cell_locked(a, use);
        dlc_mtx_unlock(&a->mtx);
        if (i >= 0)
            return i;
        now = dlc_mono_now();
        if (attachment_lost(a) || dlc_mono_passed(deadline, now) || interrupted() ||
            (!patient && (attachment_hangs(a) || hang_watch_look(&w, a, now))))
            return -1;
        futex_wait(&a->cells[turn % SHM_CELLS].state, SHM_CELL_ASKED, DLC_MS(1));
    }
}

static void give_cell(struct attachment *a, int i, uint8_t use)
{
    dlc_mtx_lock(&a->mtx);
    a->cell_use[i] = use;
    dlc_mtx_unlock(&a->mtx);
}

/* The cell is filled: hand it to the daemon. */
void miss_submit(struct attachment *a, int cell)
{
    dlc_mtx_lock(&a->mtx);
    /* relaxed: published by the store of tail. There are fewer cells than entries: never full. */
    atomic_store_explicit(&a->ring[a->tail % SHM_RING_LEN], (uint32_t)cell, memory_order_relaxed);
    atomic_store(&a->session->tail, ++a->tail);
    dlc_mtx_unlock(&a->mtx);
    /* seq_cst on both sides: either the daemon sees the new tail, or we see need_wake */
    if (atomic_load(&a->session->need_wake) != 0 && atomic_exchange(&a->session->need_wake, 0) != 0)
        os_wake(a->doorbell);
}

/* ---- one sample ---- */

static int read_answer(struct attachment *a, int cell, struct dlc_err *err)
{
    struct shm_cell *c = &a->cells[cell];
    int rc = c->rc;

    c->text[sizeof(c->text) - 1] = '\0';
    if (rc < 0)
        dlc_err_set(err, rc, "%s", c->text);
    give_cell(a, cell, CELL_FREE);
    return rc;
}

static void ask_for(struct attachment *a, int cell, uint64_t sample)
{
    a->cells[cell].op = SHM_OP_FETCH;
    a->cells[cell].sample = sample;
    miss_submit(a, cell);
}

static int hangs(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EBYPASS, "the daemon hangs");
}

/* Wait until the daemon lets go of the cell. */
static int await(struct attachment *a, struct shm_cell *c, struct dlc_mono deadline, bool patient,
                 struct dlc_err *err)
{
    struct dlc_mono now = dlc_mono_now(), look = dlc_mono_add(now, LOOK_EVERY);
    struct hang_watch w = {.next = look};

    /* acquire: pairs with the daemon's release after it wrote rc and text */
    while (atomic_load_explicit(&c->state, memory_order_acquire) == SHM_CELL_ASKED) {
        if (dlc_mono_passed(look, now)) {
            if (attachment_lost(a))
                return dlc_err_set(err, DLC_ENODAEMON, "the daemon was lost");
            look = dlc_mono_add(now, LOOK_EVERY);
        }
        if (hang_watch_look(&w, a, now) && !patient)
            return hangs(err);
        if (interrupted())
            return interrupt_err(err);
        if (dlc_mono_passed(deadline, now))
            return dlc_err_set(err, DLC_ETIMEDOUT, "sample %llu did not come in time",
                               (unsigned long long)c->sample);
        futex_wait(&c->state, SHM_CELL_ASKED,
                   (struct dlc_dur){DLC_MIN(look.ns, deadline.ns) - now.ns});
        now = dlc_mono_now();
    }
    return 0;
}

/* Why take_cell() gave none. */
static int no_cell(struct attachment *a, bool patient, struct dlc_err *err)
{
    if (attachment_lost(a))
        return dlc_err_set(err, DLC_ENODAEMON, "the daemon was lost");
    if (!patient && attachment_hangs(a))
        return hangs(err);
    return dlc_err_set(err, DLC_ETIMEDOUT, "no free request cell in time");
}

int miss_wait(struct attachment *a, uint64_t sample, struct dlc_mono deadline, bool patient,
              struct dlc_err *err)
{
    int cell, rc;

    if (!patient && attachment_hangs(a))
        return hangs(err);
    cell = take_cell(a, CELL_WAITED, deadline, patient);
    if (cell < 0)
        return no_cell(a, patient, err);
    ask_for(a, cell, sample);
    rc = await(a, &a->cells[cell], deadline, patient, err);
    if (rc == 0)
        return read_answer(a, cell, err);
    give_cell(a, cell, CELL_UNWATCHED);
    return rc;
}

void miss_ask(struct attachment *a, uint64_t sample)
{
    int cell;

    dlc_mtx_lock(&a->mtx);
    cell = try_cell_locked(a, CELL_UNWATCHED);
    dlc_mtx_unlock(&a->mtx);
    if (cell >= 0)
        ask_for(a, cell, sample);
}

int miss_prefetch(struct attachment *a, const uint64_t *idx, size_t n)
{
    while (n > 0) {
        uint32_t k = (uint32_t)DLC_MIN(n, (size_t)SHM_CELL_BATCH);
        int cell = take_cell(a, CELL_UNWATCHED, dlc_mono_add(dlc_mono_now(), PREFETCH_WAIT), false);

        if (cell < 0)
            return attachment_lost(a) ? DLC_ENODAEMON : DLC_ETIMEDOUT;
        a->cells[cell].op = SHM_OP_PREFETCH;
        a->cells[cell].count = k;
        memcpy(a->cells[cell].batch, idx, k * sizeof(*idx));
        miss_submit(a, cell);
        idx += k;
        n -= k;
    }
    return 0;
}
