// SPDX-License-Identifier: Apache-2.0
/*
 * Getting samples. The hit path is the first twenty lines: a thread-local lookup, one pin, two
 * loads; no lock, no system call, no copy. The slow paths are below it.
 */
#include <string.h>

#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attachment.h"
#include "client/bypass.h"
#include "client/dataset.h"
#include "client/extents.h"
#include "client/heartbeat.h"
#include "client/large_samples.h"
#include "client/last_error.h"
#include "client/miss.h"
#include "client/pins.h"
#include "ipc/node_marker.h"
#include "ipc/pin_reader.h"
#include "ipc/shm.h"

#define EVICTED_RETRIES 8
#define MAP_PAUSE       DLC_SEC(1) /* before extents are mapped again, after it failed */
#define HIT_UNMAPPED    1 /* it is resident, in an extent that this process has not mapped */
#define ROOM_WAIT       DLC_SEC(30) /* for room at the daemon, where the bucket cannot be read */
#define ASK_AHEAD       64          /* samples of dlc_get_many() on their way at once */

/* ---- hit ---- */

/* 0: the sample is resident and *out a view of it. HIT_UNMAPPED: it is resident. DLC_EMISS: it is not. DLC_ENODAEMON: the daemon
 * has died; its memory goes back as soon as nobody uses it. DLC_EBUSY: this process holds as many
 * views as there are pins. */
static inline int hit_mapped(struct dlc_dataset *ds, struct attachment *a, uint64_t i,
                             struct dlc_view *out)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);
    _Atomic uint64_t *pin;
    uint64_t offset;
    uint32_t len;
    bool died;
    int e;

    if (i >= a->n)
        return DLC_EMISS;
    e = b == NULL ? -1 : shm_free_entry(b, *hint);
    if (e >= 0) {
        *hint = (unsigned)e + 1;
        pin = &b->pins[e];
        /* seq_cst: (SHM-1) with the evictor, (ATTACHMENT-1) with the thread that retires a */
        atomic_store(pin, i + 1);
    } else {
        pin = pins_overflow(a, i);
        if (pin == NULL)
            return DLC_EBUSY;
    }
    died = false;
    if (atomic_load(&ds->cur) != a || (died = attachment_died(a)) ||
        !shm_look(a->slots, i, a->segment_size, &offset, &len)) {
        atomic_store_explicit(pin, 0, memory_order_release);
        return died ? DLC_ENODAEMON : DLC_EMISS;
    }
    if (!extents_are_mapped(a, offset, len)) {
        atomic_store_explicit(pin, 0, memory_order_release);
        return HIT_UNMAPPED;
    }
    if (b != NULL)
        shm_log(b, i, len);
    *out = (struct dlc_view){a->segment + offset, len, {(uintptr_t)pin, (uintptr_t)a}};
    return 0;
}

/* Map what it lies in: a question to the daemon, once for each extent. A daemon that does not answer
 * is lost, since its answer may still come. DLC_EBUSY: it cannot be mapped, and is not tried again at
 * once: this process may have no descriptor or mapping left. */
static int map_and_hit_as_user(struct dlc_dataset *ds, struct attachment *a, uint64_t i,
                               struct dlc_view *out)
{
    struct dlc_mono now = dlc_mono_now(),
                    deadline = dlc_mono_add(now, (struct dlc_dur){ds->timeout.ns / 2});
    struct dlc_err err = DLC_ERR_INIT;
    int rc = HIT_UNMAPPED;

    if (now.ns < atomic_load_explicit(&a->map_again, memory_order_relaxed))
        return DLC_EBUSY;
    for (int turn = 0; turn < EVICTED_RETRIES && rc == HIT_UNMAPPED; turn++) {
        rc = extents_map(a, i, deadline, &err);
        if (rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT) {
            dataset_lost(ds, a);
            return DLC_EMISS;
        }
        if (rc < 0) {
            log_info("%s: samples are read past the daemon for a moment: %s", ds->shown, err.text);
            atomic_store_explicit(&a->map_again, dlc_mono_add(now, MAP_PAUSE).ns,
                                  memory_order_relaxed);
            return DLC_EBUSY;
        }
        rc = hit_mapped(ds, a, i, out);
    }
    return rc == HIT_UNMAPPED ? DLC_EMISS : rc;
}

__attribute__((noinline)) static int map_and_hit(struct dlc_dataset *ds, uint64_t i,
                                                 struct dlc_view *out)
{
    struct attachment *a = dataset_current(ds);
    int rc = a != NULL ? map_and_hit_as_user(ds, a, i, out) : DLC_EMISS;

    if (a != NULL)
        dataset_detach(ds, a);
    return rc;
}

/* The same, mapping extents that are not mapped yet. */
static inline int hit(struct dlc_dataset *ds, struct attachment *a, uint64_t i,
                      struct dlc_view *out)
{
    int rc = hit_mapped(ds, a, i, out);

    return __builtin_expect(rc == HIT_UNMAPPED, 0) ? map_and_hit(ds, i, out) : rc;
}

static int no_such_sample(const struct dlc_dataset *ds, uint64_t i)
{
    return client_failf(DLC_EINVAL, "sample %llu: the dataset has %llu, numbered from 0",
                        (unsigned long long)i, (unsigned long long)ds->n);
}

int dlc_try_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out)
{
    /* acquire: pairs with the store that publishes a complete attachment */
    struct attachment *a = atomic_load_explicit(&ds->cur, memory_order_acquire);

    int rc = a != NULL ? hit(ds, a, i, out) : DLC_EMISS;

    if (rc == 0)
        return 0;
    *out = (struct dlc_view){0};
    if (i >= ds->n)
        return no_such_sample(ds, i);
    if (rc == DLC_ENODAEMON) /* there may never be a miss that notices */
        dataset_drop_lost(ds);
    return client_failf(DLC_EMISS, "sample %llu is not resident", (unsigned long long)i);
}

/* ---- miss ---- */

/* A relaxed load and store: the thread that owns the block is the only writer. */
static void add_to(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* What became of a sample that was not resident when it was asked for. */
static void note(struct attachment *a, struct dlc_mono since, int rc)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);

    if (b == NULL)
        return;
    add_to(&b->stall_ns, (uint64_t)dlc_mono_since(since).ns);
    if (rc == 0)
        add_to(&b->misses, 1);
    else if (rc == DLC_EBYPASS)
        add_to(&b->bypasses, 1);
}

/* As hit(), for who had to wait: it is counted as a miss, not as a hit. */
static int hit_late(struct dlc_dataset *ds, struct attachment *a, uint64_t i, struct dlc_view *out)
{
    int rc = hit(ds, a, i, out);
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);

    if (rc == 0 && b != NULL)
        add_to(&b->hits, UINT64_MAX);
    return rc;
}

/*
 * How one sample is waited for: the daemon has half of the time that the caller gives. If it lives
 * but has not answered by then (a call of a worker hangs, or a disk, or a peer), the bucket has the
 * other half.
 */
struct waiting {
    struct dlc_mono deadline; /* of the daemon */
    struct dlc_mono end;      /* of all */
    bool late;                /* the first deadline has passed */
    bool patient; /* the bucket cannot be read from here: wait for a daemon that hangs */
    bool away;    /* there is no daemon, or it ends or hangs */
    bool damaged; /* its file was, once */
};

/* It lies in a file of the disk tier. */
static int from_file(struct dlc_dataset *ds, struct attachment *a, uint64_t i, struct waiting *w,
                     struct dlc_view *out, struct dlc_err *err)
{
    int rc = miss_map(a, i, w->deadline, out, err);
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);

    if (rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT)
        dataset_lost(ds, a);
    if (rc == DLC_ETIMEDOUT && !dlc_mono_passed(w->deadline, dlc_mono_now()))
        rc = DLC_ENODAEMON; /* it hangs */
    if (rc == 0 && b != NULL)
        add_to(&b->bytes, out->len);
    if (rc == 0 || rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT || rc == DLC_ECANCELED)
        return rc;
    if (rc == DLC_ECORRUPT && !w->damaged) {
        w->damaged = true;
        return DLC_EMISS; /* the daemon has dropped it: it fetches it again */
    }
    return DLC_EBYPASS; /* evicted from disk in between, or no descriptor left: the bucket has it */
}

/* One try through the daemon. 0: *out is set. DLC_EMISS: evicted before we could pin it. */
static int through_daemon(struct dlc_dataset *ds, struct attachment *a, uint64_t i,
                          struct waiting *w, struct dlc_view *out, struct dlc_err *err)
{
    int rc = hit_late(ds, a, i, out);

    if (rc == 0)
        return 0;
    if (rc == DLC_EBUSY)
        return dlc_err_set(err, DLC_EBYPASS, "this process holds as many samples as it may");
    if (rc == DLC_EMISS)
        rc = miss_wait(a, i, w->deadline, w->patient, err);
    else
        dlc_err_set(err, rc, "the daemon was lost");
    if (rc == 0)
        return hit_late(ds, a, i, out) == 0 ? 0 : DLC_EMISS;
    if (rc == DLC_ELARGE)
        return from_file(ds, a, i, w, out, err);
    if (rc == DLC_ENODAEMON)
        dataset_lost(ds, a);
    w->away = rc == DLC_ECANCELED || attachment_hangs(a);
    return rc == DLC_ECANCELED ? DLC_EBYPASS : rc; /* the daemon is ending: do without it */
}

static int nobody_answers(const struct dlc_dataset *ds, struct dlc_err *err)
{
    char *node = node_marker_read(ds->config.socket);

    if (node != NULL)
        dlc_err_set(err, DLC_ENODAEMON, "%.300s does not answer at %s: start it again", node,
                    ds->config.socket);
    else
        dlc_err_set(err, DLC_ENODAEMON, "no daemon answers at %s", ds->config.socket);
    mem_free(&node);
    return err->code;
}

static int by_daemon(struct dlc_dataset *ds, uint64_t i, struct waiting *w, struct dlc_view *out,
                     struct dlc_err *err)
{
    int rc = DLC_EMISS;

    for (int turn = 0; turn < EVICTED_RETRIES && (rc == DLC_EMISS || rc == DLC_ENODAEMON); turn++) {
        struct dlc_mono start = dlc_mono_now();
        struct attachment *a =
            w->patient ? dataset_checked_until(ds, w->deadline) : dataset_checked(ds);

        w->away = a == NULL;
        if (a == NULL)
            return nobody_answers(ds, err);
        rc = through_daemon(ds, a, i, w, out, err);
        note(a, start, rc);
        dataset_detach(ds, a);
    }
    w->away = w->away || rc == DLC_ENODAEMON;
    return rc;
}

/* No daemon, no room there, or memory too tight to keep it long enough. */
static bool is_for_bucket(int rc)
{
    return rc == DLC_EMISS || rc == DLC_ENODAEMON || rc == DLC_EBYPASS;
}

/* False: the time is up, or the caller gave up. */
static bool pause_until(struct dlc_mono deadline)
{
    dlc_sleep(LOOK_EVERY);
    return !interrupted() && !dlc_mono_passed(deadline, dlc_mono_now());
}

/* Says once for what it waits; true: for the node of this machine. */
static bool says_waiting(struct dlc_dataset *ds, const struct dlc_err *err)
{
    char *node = node_marker_read(ds->config.socket);
    bool of_node = node != NULL;

    if (!atomic_exchange_explicit(&ds->said, true, memory_order_relaxed))
        log_warn("%s: waiting for %.300s at %s, since the bucket cannot be read without it: %s",
                 ds->shown, of_node ? node : "a daemon", ds->config.socket, err->text);
    mem_free(&node);
    return of_node;
}

/*
 * The daemon is away, and *err says why the bucket cannot be read from here. That may be as it
 * should be: only the daemon has the credentials, or the way there. Wait for it.
 */
static int await_daemon(struct dlc_dataset *ds, uint64_t i, struct waiting *w, struct dlc_view *out,
                        struct dlc_err *err)
{
    struct dlc_err late = DLC_ERR_INIT, direct = *err;
    int rc = DLC_ENODAEMON;
    bool of_node = says_waiting(ds, err);

    w->patient = w->away = true;
    w->deadline = w->end;
    while (is_for_bucket(rc) && w->away && pause_until(w->deadline)) {
        dataset_hurry(ds);
        rc = by_daemon(ds, i, w, out, &late);
    }
    if (interrupted())
        return interrupt_err(err);
    if (rc < 0 && !is_for_bucket(rc) && rc != DLC_ETIMEDOUT)
        *err = late;
    else if (rc == DLC_ENODAEMON && of_node && !w->late)
        dlc_err_set(err, rc, "%s; and the bucket cannot be read without it: %s", late.text,
                    direct.text);
    else if (rc < 0)
        dlc_err_set(err, w->late ? DLC_ETIMEDOUT : direct.code, "%s; and through the cache: %s",
                    direct.text, late.text);
    return rc < 0 ? err->code : 0;
}

/* The daemon had no room, as *said has it, and the bucket cannot be read from here, as *err has it:
 * ask again until it has room. */
static int await_room(struct dlc_dataset *ds, uint64_t i, struct waiting *w, struct dlc_view *out,
                      struct dlc_err *said, struct dlc_err *err)
{
    struct dlc_mono now = dlc_mono_now(), end = dlc_mono_add(now, ROOM_WAIT);
    struct dlc_err direct;
    char *node;
    int rc = DLC_EBYPASS;

    w->deadline = end.ns < w->end.ns ? end : w->end;
    while ((rc == DLC_EBYPASS || rc == DLC_EMISS) && !w->away && pause_until(w->deadline))
        rc = by_daemon(ds, i, w, out, said);
    if (interrupted())
        return interrupt_err(err);
    if (is_for_bucket(rc) && w->away)
        return await_daemon(ds, i, w, out, err);
    if (rc == 0 || (!is_for_bucket(rc) && rc != DLC_ETIMEDOUT)) {
        *err = *said;
        return rc;
    }
    node = node_marker_read(ds->config.socket);
    direct = *err;
    dlc_err_set(
        err, DLC_ENOSPACE,
        "%.300s at %s had no room for sample %llu in %.0f s (%.200s): give it more --memory "
        "or a --disk, or hold fewer samples at a time; this program has no way around it: %s",
        node != NULL ? node : "the daemon", ds->config.socket, (unsigned long long)i,
        (double)dlc_mono_since(now).ns / 1e9, said->text, direct.text);
    mem_free(&node);
    return err->code;
}

/* The daemon lives, and does not answer in its time. */
static bool is_late(const struct waiting *w, int rc)
{
    struct dlc_mono now = dlc_mono_now();

    return rc == DLC_ETIMEDOUT && dlc_mono_passed(w->deadline, now) &&
           !dlc_mono_passed(w->end, now);
}

static int get_slow(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out, struct dlc_err *err)
{
    struct dlc_mono now = dlc_mono_now();
    struct waiting w = {.deadline = dlc_mono_add(now, (struct dlc_dur){ds->timeout.ns / 2}),
                        .end = dlc_mono_add(now, ds->timeout)};
    struct dlc_err said = DLC_ERR_INIT;
    int rc = by_daemon(ds, i, &w, out, &said);
    bool no_room = (rc == DLC_EBYPASS || rc == DLC_EMISS) && !w.away;

    *err = said;
    w.late = is_late(&w, rc);
    w.away = w.away || w.late;
    if (!is_for_bucket(rc) && !w.late)
        return rc;
    rc = direct_get(ds, i, w.end, out, err);
    if (w.away && rc == 0) /* relaxed: statistics */
        atomic_fetch_add_explicit(&ds->without_daemon, 1, memory_order_relaxed);
    /* One that has not our snapshot is not worth waiting for. relaxed: a look too late or too early
     * costs a pause */
    if (w.away && (rc == DLC_EDENIED || rc == DLC_EBUCKET || rc == DLC_ENOTFOUND) &&
        !atomic_load_explicit(&ds->refused, memory_order_relaxed))
        rc = await_daemon(ds, i, &w, out, err);
    else if (no_room && (rc == DLC_EDENIED || rc == DLC_EBUCKET))
        rc = await_room(ds, i, &w, out, &said, err);
    return rc;
}

int dlc_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out)
{
    /* acquire: pairs with the store that publishes a complete attachment */
    struct attachment *a = atomic_load_explicit(&ds->cur, memory_order_acquire);
    struct dlc_err err = DLC_ERR_INIT;

    if (a != NULL && hit(ds, a, i, out) == 0)
        return 0;
    *out = (struct dlc_view){0};
    if (i >= ds->n)
        return no_such_sample(ds, i);
    if (get_slow(ds, i, out, &err) < 0)
        return client_fail(&err);
    return 0;
}

void dlc_put(struct dlc_dataset *ds, struct dlc_view *v)
{
    if (v->priv[1] > VIEW_MAPPED) {
        struct attachment *a = (void *)(uintptr_t)v->priv[1];

        if (a->foreign) { /* (ATTACHMENT-3) */
            dataset_put_inherited(ds, a);
        } else {
            atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)v->priv[0], 0,
                                  memory_order_release);
            /* relaxed: reaping looks for itself. The last view of a lost daemon frees its memory.
             */
            if (atomic_load_explicit(&ds->cur, memory_order_relaxed) != a)
                dataset_reap(ds);
        }
    } else if (v->priv[1] == VIEW_HEAP) {
        free((void *)(uintptr_t)v->data);
    } else if (v->priv[1] == VIEW_MAPPED) {
        large_free((void *)(uintptr_t)v->data, v->priv[0]);
    }
    *v = (struct dlc_view){0};
}

/* ---- several, copies, hints ---- */

int dlc_prefetch(struct dlc_dataset *ds, const uint64_t *idx, size_t n)
{
    struct attachment *a;

    for (size_t k = 0; k < n; k++) {
        if (idx[k] >= ds->n)
            return no_such_sample(ds, idx[k]);
    }
    a = dataset_checked(ds);
    if (a == NULL)
        return 0; /* a hint; there is nobody to give it to */
    if (miss_prefetch(a, idx, n) == DLC_ENODAEMON)
        dataset_lost(ds, a);
    dataset_detach(ds, a);
    return 0;
}

/* Have a sample fetched that will be waited for soon. */
static void ask_ahead(struct dlc_dataset *ds, uint64_t i)
{
    struct attachment *a = i < ds->n ? dataset_attached(ds) : NULL;

    if (a == NULL)
        return;
    miss_ask(a, i);
    dataset_detach(ds, a);
}

/* Get what is not held yet, asking for the next ones before waiting for one. Returns how far it
 * came: n, or the position of the sample that failed. */
static size_t get_missing(struct dlc_dataset *ds, const uint64_t *idx, size_t n,
                          struct dlc_view *out, int *rc)
{
    size_t ahead = 0, asked = 0; /* asked: of those in (k, ahead) */
    struct dlc_err err = DLC_ERR_INIT;

    for (size_t k = 0; k < n; k++) {
        if (out[k].priv[1] != VIEW_NONE)
            continue;
        if (k < ahead)
            asked--;
        else
            ahead = k + 1;
        for (; ahead < n && asked < ASK_AHEAD; ahead++) {
            if (out[ahead].priv[1] == VIEW_NONE) {
                ask_ahead(ds, idx[ahead]);
                asked++;
            }
        }
        if (idx[k] >= ds->n)
            *rc = no_such_sample(ds, idx[k]);
        else if (get_slow(ds, idx[k], &out[k], &err) < 0)
            *rc = client_fail(&err);
        if (*rc < 0)
            return k;
    }
    return n;
}

int dlc_get_many(struct dlc_dataset *ds, const uint64_t *idx, size_t n, struct dlc_view *out,
                 size_t *bad)
{
    size_t hits = 0, at;
    int rc = 0;

    for (size_t k = 0; k < n; k++) {
        struct attachment *a =
            atomic_load_explicit(&ds->cur, memory_order_acquire); /* as dlc_get */

        if (a != NULL && hit(ds, a, idx[k], &out[k]) == 0)
            hits++;
        else
            out[k] = (struct dlc_view){0};
    }
    if (hits == n)
        return 0;
    at = get_missing(ds, idx, n, out, &rc);
    if (rc == 0)
        return 0;
    if (bad != NULL)
        *bad = at;
    for (size_t k = 0; k < n; k++)
        dlc_put(ds, &out[k]);
    return rc;
}

int64_t dlc_read(struct dlc_dataset *ds, uint64_t i, void *buf, size_t cap)
{
    struct dlc_view v;
    int rc = dlc_get(ds, i, &v);
    int64_t len;

    if (rc < 0)
        return rc;
    len = (int64_t)v.len;
    if (v.len <= cap)
        memcpy(buf, v.data, v.len);
    dlc_put(ds, &v);
    return len;
}
