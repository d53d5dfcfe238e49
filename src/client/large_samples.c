// SPDX-License-Identifier: Apache-2.0
/*
 * Samples too large for the segment: they lie in files of the disk tier. The daemon passes a
 * descriptor and the checksum; the client reads the file into memory of its own and compares.
 *
 *     map --> read, sum --right--> view
 *                 |--wrong, cut short, an error of the device--> map, "suspects": the daemon
 *                    verifies the file itself --right--> read, sum --> view, or DLC_EBYPASS
 *                        |--wrong: it drops it--> DLC_ECORRUPT
 *
 * The file is never mapped: another process may truncate it, a device may fail, and both would be
 * SIGBUS in a training loop, at any time while the view is held. A view that was handed out is
 * private memory.
 *
 * The memory of the last view that was put is kept for the next one, which saves the kernel from
 * clearing pages: a third of the cost of reading a file from the page cache. The kernel may reclaim
 * it at any time (MADV_FREE).
 */
#include "client/large_samples.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "ipc/frame.h"

#define BLOCK ((uint64_t)256 << 10) /* summed while it is in the processor's cache */
#define ROUND ((uint64_t)2 << 20)   /* samples of about one size share memory */

/* ---- memory ---- */

/* Header of the memory that large_free() keeps for the next large_alloc(). */
struct reusable_map {
    uint64_t len;
};
/* W, R any thread: the thread that exchanges it owns what it got. */
static _Atomic(struct reusable_map *) last_freed;

/* At least size bytes, *len of them; NULL with errno. */
static void *large_alloc(uint64_t size, uint64_t *len)
{
    /* acq_rel, here and below: what one thread has written there, another may now write over */
    struct reusable_map *s = atomic_exchange_explicit(&last_freed, NULL, memory_order_acq_rel);

    if (s != NULL && s->len >= size && s->len / 2 <= size) {
        *len = s->len;
        return s;
    }
    if (s != NULL)
        os_unmap(s, s->len);
    /* No MADV_HUGEPAGE: where memory is fragmented, the kernel compacts it first, for a second and
     * more. */
    *len = (size + ROUND - 1) / ROUND * ROUND;
    return os_map_private(*len);
}

void large_free(void *p, uint64_t len)
{
    struct reusable_map *s = p;

    os_madvise(p, len, MADV_FREE);
    s->len = len;
    s = atomic_exchange_explicit(&last_freed, s, memory_order_acq_rel);
    if (s != NULL)
        os_unmap(s, s->len);
}

/* ---- reading ---- */

/* What is to be read. */
struct file {
    int fd;
    uint64_t size, checksum;
    struct dlc_mono deadline;
};

static int read_blocks(const struct file *f, char *dst, struct hash64_stream *h,
                       struct dlc_err *err)
{
    for (uint64_t off = 0; off < f->size; off += BLOCK) {
        size_t part = (size_t)DLC_MIN(f->size - off, BLOCK);

        if (os_pread_all(f->fd, dst + off, part, off) < 0)
            return dlc_err_sys(err, "cannot read a sample of %llu bytes from the disk tier",
                               (unsigned long long)f->size);
        hash64_add(h, dst + off, part);
        if (interrupted())
            return interrupt_err(err);
        if (dlc_mono_passed(f->deadline, dlc_mono_now()))
            return dlc_err_set(err, DLC_EBYPASS, "the disk tier is too slow");
    }
    return 0;
}

static int read_compared(const struct file *f, char *dst, struct dlc_err *err)
{
    struct hash64_stream *h = hash64_begin();
    int rc = h == NULL ? dlc_err_set(err, DLC_ENOMEM, "no memory for a checksum")
                       : read_blocks(f, dst, h, err);
    uint64_t checksum = hash64_end(&h);

    if (rc == 0 && checksum != f->checksum)
        rc = dlc_err_set(err, DLC_ECORRUPT, "a sample of %llu bytes on disk: wrong checksum",
                         (unsigned long long)f->size);
    return rc;
}

static int read_file(const struct file *f, struct dlc_view *out, struct dlc_err *err)
{
    uint64_t len;
    char *p;
    int rc;

    if (f->size == 0) {
        *out = (struct dlc_view){mem_alloc(1), 0, {0, VIEW_HEAP}};
        return 0;
    }
    p = large_alloc(f->size, &len);
    if (p == NULL)
        return dlc_err_sys(err, "no memory for a sample of %llu bytes",
                           (unsigned long long)f->size);
    rc = read_compared(f, p, err);
    if (rc == 0)
        *out = (struct dlc_view){p, f->size, {len, VIEW_MAPPED}};
    else
        large_free(p, len);
    return rc;
}

/* ---- asking ---- */

static int take_file(struct msg *m, struct file *f, struct dlc_err *err)
{
    json_int_t size = json_integer_value(json_object_get(m->body, "size"));
    const char *checksum = json_string_value(json_object_get(m->body, "checksum"));

    f->fd = msg_take_fd(m, 0);
    f->size = (uint64_t)size;
    if (f->fd < 0 || size < 0 || checksum == NULL || !str_parse_hex64(checksum, &f->checksum))
        return dlc_err_set(err, DLC_EPROTO,
                           "the daemon handed over a sample without file, size or checksum");
    return 0;
}

/* *suspect: the file was handed over, and what was read is wrong. */
static int map_once(struct attachment *a, uint64_t sample, struct dlc_mono deadline, bool *suspect,
                    struct dlc_view *out, struct dlc_err *err)
{
    json_t *ask = json_pack("{s:s, s:I, s:b, s:b}", "op", "map", "sample", (json_int_t)sample,
                            "compares", 1, "suspects", *suspect);
    struct file f = {.fd = -1, .deadline = deadline};
    struct msg m = MSG_INIT;
    int rc = attach_call(a, ask, -1, deadline, &m, err);

    if (rc == 0)
        rc = take_file(&m, &f, err);
    *suspect = rc == 0;
    if (rc == 0)
        rc = read_file(&f, out, err);
    *suspect = *suspect && (rc == DLC_ECORRUPT || rc == DLC_EIO);
    os_close(&f.fd);
    json_decref(ask);
    msg_release(&m);
    return rc;
}

int miss_map(struct attachment *a, uint64_t sample, struct dlc_mono deadline, struct dlc_view *out,
             struct dlc_err *err)
{
    bool suspect = false;
    int rc = map_once(a, sample, deadline, &suspect, out, err);

    if (suspect) {
        log_warn("sample %llu: %s; the daemon is asked to verify it", (unsigned long long)sample,
                 err->text);
        rc = map_once(a, sample, deadline, &suspect, out, err);
    }
    if (suspect) /* the daemon finds it right, and we do not */
        return dlc_err_set(err, DLC_EBYPASS, "sample %llu cannot be read from the disk tier",
                           (unsigned long long)sample);
    return rc == DLC_EIO ? DLC_ECORRUPT : rc; /* it is gone from there */
}
