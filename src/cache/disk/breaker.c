// SPDX-License-Identifier: Apache-2.0
/*
 * A circuit breaker: a disk that hangs, fails or is far slower than disks are is bypassed, so that
 * no reader waits for it.
 *
 *     CLOSED --an operation is overdue, or FAILURES reads, or writes, in a row failed--> OPEN
 *     OPEN --after a while, when nothing is overdue--> HALF_OPEN: the watch thread writes and reads
 *            a file --well and in time--> CLOSED
 *            |--badly--> OPEN, for twice as long
 *
 * While it is not CLOSED nothing is read or written: chunks count as absent, stores are dropped. An
 * operation is overdue after 2 s, and a second more for each 10 MB. disk_tick(), called by an event
 * loop, sees running operations in a table of atomics: it does not depend on any of them to return.
 *
 * A file system that refuses writes does not trip it: existing chunks can still be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "cache/disk/disk_i.h"

#define FAILURES     8
#define OVERDUE      DLC_SEC(2)
#define SLOWEST      ((uint64_t)10000000) /* bytes per second */
#define WAIT_FIRST   DLC_SEC(1)
#define WAIT_LONGEST DLC_SEC(32)
#define PROBE_LEN    4096

static const char *const reasons[] = {
    [BREAKER_WELL] = "",
    [BREAKER_HANGS] = "an operation does not end",
    [BREAKER_FAILS] = "reads and writes fail",
};

void disk_note_write_error(struct disk *d, int e)
{
    if (e != EROFS && e != EACCES && e != EPERM)
        return;
    if (!atomic_exchange_explicit(&d->read_only, true, memory_order_relaxed)) /* with any */
        log_warn("disk tier %s cannot be written any more (%s); reading goes on", d->root,
                 strerror(e));
}

bool disk_is_bypassed(const struct disk *d)
{
    /* relaxed: who sees it late does one more operation, or one less */
    return atomic_load_explicit(&d->breaker.state, memory_order_relaxed) != BREAKER_CLOSED;
}

static void trip(struct disk *d, enum breaker_reason why)
{
    struct breaker *b = &d->breaker;
    int closed = BREAKER_CLOSED;

    atomic_store_explicit(&b->why, why, memory_order_relaxed);                  /* a figure */
    atomic_store_explicit(&b->opened, dlc_mono_now().ns, memory_order_relaxed); /* by the next */
    /* release: with the watch thread */
    if (!atomic_compare_exchange_strong_explicit(&b->state, &closed, BREAKER_OPEN,
                                                 memory_order_release, memory_order_relaxed))
        return;
    count(disk_breaker_opens);
    log_warn("disk tier %s is bypassed: %s; samples come from the bucket until it answers again",
             d->root, reasons[why]);
}

/* ---- operations ---- */

static int64_t allowed(uint64_t bytes)
{
    return OVERDUE.ns + (int64_t)(bytes / SLOWEST * 1000000000);
}

struct disk_op disk_op_begin(struct disk *d, enum disk_op_kind kind, uint64_t bytes)
{
    struct disk_op op = {.kind = kind, .began = dlc_mono_now().ns, .bytes = bytes, .slot = -1};
    int64_t end = op.began + allowed(bytes);

    for (int i = 0; i < BREAKER_OPS && op.slot < 0; i++) {
        int64_t none = 0;

        /* relaxed: it is one number, and late sight only delays */
        if (atomic_compare_exchange_strong_explicit(&d->breaker.due[i], &none, end,
                                                    memory_order_relaxed, memory_order_relaxed))
            op.slot = i;
    }
    return op;
}

/* What an operation says of the device. */
enum verdict { WELL, FAILED, NOTHING };

static void op_end(struct disk *d, const struct disk_op *op, enum verdict v)
{
    struct breaker *b = &d->breaker;

    if (dlc_mono_now().ns - op->began > allowed(op->bytes))
        v = FAILED;
    if (op->slot >= 0)
        atomic_store_explicit(&b->due[op->slot], 0, memory_order_relaxed); /* as above */
    if (v == WELL)
        atomic_store_explicit(&b->failures[op->kind], 0, memory_order_relaxed); /* a count */
    else if (v == FAILED &&
             atomic_fetch_add_explicit(&b->failures[op->kind], 1, memory_order_relaxed) + 1 >=
                 FAILURES)
        trip(d, BREAKER_FAILS);
}

void disk_op_end(struct disk *d, const struct disk_op *op, bool well)
{
    op_end(d, op, well ? WELL : FAILED);
}

/* A miss, a full disk, a file that was only opened, or we who lack something: that says nothing. If
 * it counted as well, files that can be opened and not read would never be eight in a row. */
void disk_op_end_rc(struct disk *d, const struct disk_op *op, int rc)
{
    if (rc == DLC_EIO || rc == DLC_ETIMEDOUT)
        op_end(d, op, FAILED);
    else
        op_end(d, op, rc == 0 && op->bytes > 0 ? WELL : NOTHING);
}

static bool any_overdue(const struct disk *d)
{
    int64_t now = dlc_mono_now().ns;
    bool any = false;

    for (int i = 0; i < BREAKER_OPS; i++) {
        int64_t due = atomic_load_explicit(&d->breaker.due[i], memory_order_relaxed); /* as above */

        any = any || (due != 0 && now > due);
    }
    return any;
}

void disk_tick(struct disk *d)
{
    disk_check(d);
    if (!disk_is_bypassed(d) && any_overdue(d))
        trip(d, BREAKER_HANGS);
}

/* ---- the probe, on the watch thread ---- */

static bool write_and_read(const char *path)
{
    char out[PROBE_LEN], in[PROBE_LEN];
    int fd = os_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    bool well;

    memset(out, 'p', sizeof(out));
    well = fd >= 0 && os_pwrite_all(fd, out, sizeof(out), 0) == 0 &&
           os_pread_all(fd, in, sizeof(in), 0) == 0 && memcmp(in, out, sizeof(out)) == 0;
    os_close(&fd);
    os_unlink(path);
    return well;
}

static bool probe(struct disk *d)
{
    struct dlc_mono began = dlc_mono_now();
    struct disk_path path;
    int fd;
    bool well;

    if (atomic_load_explicit(&d->read_only, memory_order_relaxed)) { /* with any */
        fd = os_open(d->root, O_RDONLY | O_DIRECTORY, 0);
        well = fd >= 0;
        os_close(&fd);
    } else {
        snprintf(path.s, sizeof(path.s), "%s/tmp/probe.tmp", d->root);
        well = write_and_read(path.s);
    }
    return well && dlc_mono_since(began).ns < OVERDUE.ns / 2;
}

void breaker_look(struct disk *d)
{
    struct breaker *b = &d->breaker;
    int64_t opened = atomic_load_explicit(&b->opened, memory_order_relaxed); /* by state */

    disk_tick(d);
    if (!disk_is_bypassed(d) || any_overdue(d) ||
        dlc_mono_now().ns - opened < DLC_MAX(b->wait.ns, WAIT_FIRST.ns))
        return;
    /* relaxed: nobody else changes it while it is not CLOSED */
    atomic_store_explicit(&b->state, BREAKER_HALF_OPEN, memory_order_relaxed);
    if (!probe(d)) {
        b->wait.ns = DLC_MIN(2 * DLC_MAX(b->wait.ns, WAIT_FIRST.ns), WAIT_LONGEST.ns);
        atomic_store_explicit(&b->opened, dlc_mono_now().ns, memory_order_relaxed); /* ours */
        atomic_store_explicit(&b->state, BREAKER_OPEN, memory_order_relaxed);       /* ours */
        return;
    }
    b->wait = WAIT_FIRST;
    for (int k = 0; k < N_DISK_OPS; k++)
        atomic_store_explicit(&b->failures[k], 0, memory_order_relaxed);    /* ours */
    atomic_store_explicit(&b->why, BREAKER_WELL, memory_order_relaxed);     /* a figure */
    atomic_store_explicit(&b->state, BREAKER_CLOSED, memory_order_release); /* with trip() */
    log_info("disk tier %s answers again and is used", d->root);
}

void breaker_figures(const struct disk *d, struct disk_figures *out)
{
    static const char *const names[] = {
        [BREAKER_CLOSED] = "closed",
        [BREAKER_OPEN] = "open",
        [BREAKER_HALF_OPEN] = "half-open",
    };

    /* relaxed: figures */
    out->breaker = names[atomic_load_explicit(&d->breaker.state, memory_order_relaxed)];
    out->breaker_why = reasons[atomic_load_explicit(&d->breaker.why, memory_order_relaxed)];
}
