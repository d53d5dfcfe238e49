// SPDX-License-Identifier: Apache-2.0
/*
 * Getting samples. The hit path is the first twenty lines: a thread-local look-up, one pin, two
 * loads; no lock, no system call, no copy. Everything else is below it and slow.
 */
#include "client/client_i.h"

#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/os.h"
#include "storage/memory/reader.h"

#define EVICTED_RETRIES 8

/* ---- hit ---- */

/* Is the sample resident? Then *out is a view of it. */
static inline bool hit(struct dlc_dataset *ds, struct attachment *a, uint64_t i,
                       struct dlc_view *out)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);
    _Atomic uint64_t *pin;
    uint64_t offset;
    uint32_t len;
    int e;

    if (b == NULL || i >= a->n)
        return false;
    e = shm_free_entry(b, *hint);
    if (e >= 0) {
        *hint = (unsigned)e + 1;
        pin = &b->pins[e];
        atomic_store(pin, i + 1); /* seq_cst: (M1) with the evictor, (A1) with who retires a */
    } else {
        pin = pins_overflow(a, i);
        if (pin == NULL)
            return false;
    }
    if (atomic_load(&ds->cur) != a || !shm_look(a->slots, i, a->segment_size, &offset, &len)) {
        atomic_store_explicit(pin, 0, memory_order_release);
        return false;
    }
    shm_log(b, i, len);
    *out = (struct dlc_view){a->segment + offset, len, {(uintptr_t)pin, (uintptr_t)a}};
    return true;
}

int dlc_try_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out)
{
    /* acquire: pairs with the store that publishes a complete attachment */
    struct attachment *a = atomic_load_explicit(&ds->cur, memory_order_acquire);

    if (a != NULL && hit(ds, a, i, out))
        return 0;
    *out = (struct dlc_view){0};
    return i >= ds->n ? client_failf(DLC_EINVAL, "sample %llu of %llu", (unsigned long long)i,
                                     (unsigned long long)ds->n)
                      : DLC_EMISS;
}

/* ---- miss ---- */

static void note_stall(struct attachment *a, struct dlc_mono since)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);
    uint64_t ns = (uint64_t)dlc_mono_since(since).ns;

    if (b == NULL)
        return;
    /* relaxed load and store: this thread is the only writer */
    atomic_store_explicit(&b->misses, atomic_load_explicit(&b->misses, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&b->stall_ns,
                          atomic_load_explicit(&b->stall_ns, memory_order_relaxed) + ns,
                          memory_order_relaxed);
}

static void note_bypass(struct attachment *a, size_t len)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);

    if (b == NULL)
        return;
    atomic_store_explicit(&b->bypasses,
                          atomic_load_explicit(&b->bypasses, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&b->bytes, atomic_load_explicit(&b->bytes, memory_order_relaxed) + len,
                          memory_order_relaxed);
}

/* A hit that had to be waited for is counted as a miss, not as a hit. */
static void uncount_hit(struct attachment *a)
{
    unsigned *hint;
    struct shm_pin_block *b = pins_block(a, &hint);

    if (b != NULL)
        atomic_store_explicit(&b->hits, atomic_load_explicit(&b->hits, memory_order_relaxed) - 1,
                              memory_order_relaxed);
}

/* One try through the daemon. 0: *out is set. DLC_EMISS: evicted before we could pin it. */
static int through_daemon(struct dlc_dataset *ds, struct attachment *a, uint64_t i,
                          struct dlc_mono deadline, struct dlc_view *out, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();
    int rc = miss_wait(a, i, deadline, err);

    if (rc == 0) {
        rc = hit(ds, a, i, out) ? 0 : DLC_EMISS;
        if (rc == 0)
            uncount_hit(a);
    } else if (rc == DLC_ELARGE) {
        rc = miss_map(a, i, ds->timeout, out, err);
        if (rc == 0)
            note_bypass(a, out->len);
        else if (rc == DLC_EMISS)
            rc = DLC_EBYPASS; /* evicted from disk in between */
    }
    note_stall(a, start);
    return rc;
}

static int get_slow(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out, struct dlc_err *err)
{
    struct dlc_mono deadline = dlc_mono_add(dlc_mono_now(), ds->timeout);

    for (int turn = 0; turn < EVICTED_RETRIES; turn++) {
        struct attachment *a = dataset_attached(ds);
        int rc;

        if (a == NULL)
            return direct_get(ds, i, out, err);
        if (hit(ds, a, i, out))
            return 0;
        rc = through_daemon(ds, a, i, deadline, out, err);
        if (rc == DLC_EBYPASS)
            return direct_get(ds, i, out, err);
        if (rc == DLC_ENODAEMON)
            dataset_lost(ds, a);
        else if (rc != DLC_EMISS)
            return rc;
    }
    return direct_get(ds, i, out, err); /* memory is too tight to keep it long enough */
}

int dlc_get(struct dlc_dataset *ds, uint64_t i, struct dlc_view *out)
{
    /* acquire: pairs with the store that publishes a complete attachment */
    struct attachment *a = atomic_load_explicit(&ds->cur, memory_order_acquire);
    struct dlc_err err = DLC_ERR_INIT;

    if (a != NULL && hit(ds, a, i, out))
        return 0;
    *out = (struct dlc_view){0};
    if (i >= ds->n)
        return client_failf(DLC_EINVAL, "sample %llu: the dataset has %llu, numbered from 0",
                            (unsigned long long)i, (unsigned long long)ds->n);
    if (get_slow(ds, i, out, &err) < 0)
        return client_fail(&err);
    return 0;
}

void dlc_put(struct dlc_dataset *ds, struct dlc_view *v)
{
    (void)ds;
    if (v->priv[1] > VIEW_MAPPED) {
        const struct attachment *a = (const void *)(uintptr_t)v->priv[1];

        if (!a->foreign) /* (A3) */
            atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)v->priv[0], 0,
                                  memory_order_release);
    } else if (v->priv[1] == VIEW_HEAP) {
        free((void *)(uintptr_t)v->data);
    } else if (v->priv[1] == VIEW_MAPPED) {
        munmap((void *)(uintptr_t)v->data, v->len);
    }
    *v = (struct dlc_view){0};
}

/* ---- several, copies, hints ---- */

int dlc_prefetch(struct dlc_dataset *ds, const uint64_t *idx, size_t n)
{
    struct attachment *a;
    int rc;

    for (size_t k = 0; k < n; k++) {
        if (idx[k] >= ds->n)
            return client_failf(DLC_EINVAL, "sample %llu: the dataset has %llu, numbered from 0",
                                (unsigned long long)idx[k], (unsigned long long)ds->n);
    }
    a = dataset_attached(ds);
    if (a == NULL)
        return 0; /* a hint; there is nobody to give it to */
    rc = miss_prefetch(a, idx, n);
    if (rc == DLC_ENODAEMON)
        dataset_lost(ds, a);
    return 0;
}

/* Ask for all that is not resident before waiting for the first. */
static void announce(struct dlc_dataset *ds, const uint64_t *idx, size_t n,
                     const struct dlc_view *have)
{
    uint64_t *missing = mem_alloc(n * sizeof(*missing));
    size_t m = 0;

    for (size_t k = 0; k < n; k++) {
        if (have[k].priv[1] == VIEW_NONE)
            missing[m++] = idx[k];
    }
    if (m > 1)
        dlc_prefetch(ds, missing, m);
    mem_free(&missing);
}

int dlc_get_many(struct dlc_dataset *ds, const uint64_t *idx, size_t n, struct dlc_view *out,
                 size_t *bad)
{
    size_t hits = 0, k;
    int rc = 0;

    for (k = 0; k < n; k++) {
        struct attachment *a =
            atomic_load_explicit(&ds->cur, memory_order_acquire); /* as dlc_get */

        if (a != NULL && hit(ds, a, idx[k], &out[k]))
            hits++;
        else
            out[k] = (struct dlc_view){0};
    }
    if (hits == n)
        return 0;
    announce(ds, idx, n, out);
    for (k = 0; k < n && rc == 0; k++) {
        if (out[k].priv[1] == VIEW_NONE)
            rc = dlc_get(ds, idx[k], &out[k]);
    }
    if (rc == 0)
        return 0;
    if (bad != NULL)
        *bad = k - 1;
    for (k = 0; k < n; k++)
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
