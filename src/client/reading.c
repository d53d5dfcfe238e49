// SPDX-License-Identifier: Apache-2.0
#include "client/reading.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/process.h"
#include "ipc/frame.h"
#include "order/schedule.h"

static const char *const kind_names[] = {"sequential", "shuffled", "explicit"};

const char *reading_kind(const struct reading *r)
{
    return kind_names[r->spec.kind];
}

static json_t *order_json(const struct reading *r, uint64_t pos)
{
    const struct order_spec *s = &r->spec;

    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:b, s:I}", "op",
                     "order", "kind", reading_kind(r), "n", (json_int_t)s->n, "first",
                     (json_int_t)s->first, "seed", (json_int_t)s->seed, "rank", (json_int_t)s->rank,
                     "world", (json_int_t)s->world, "drop_last", (int)s->drop_last, "epoch",
                     (json_int_t)r->epoch, "epochs", (json_int_t)r->epochs, "position",
                     (json_int_t)pos, "swaps", (int)r->swaps, "window", (json_int_t)r->window);
}

/* Earlier lists have gone: the order is told from the oldest one on. */
static json_t *list_json(const struct reading *r, const struct schedule_list *l, uint64_t pos)
{
    uint64_t left = r->epochs != 0 ? r->epochs - (l->epoch - r->epoch) : 0;

    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "op", "order", "kind", "explicit",
                     "epoch", (json_int_t)l->epoch, "epochs", (json_int_t)left, "begin",
                     (json_int_t)l->begin, "position", (json_int_t)pos, "window",
                     (json_int_t)r->window);
}

#define SEALS (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL)

/* A descriptor of numbers, or -1. The daemon takes sealed memory only. */
static int list_fd(const void *list, size_t bytes)
{
    int fd = os_memfd("dlcache-order");

    if (fd >= 0 && (os_write_all(fd, list, bytes) < 0 || os_fcntl(fd, F_ADD_SEALS, SEALS) < 0))
        os_close(&fd);
    return fd;
}

/* Takes ask. list: what goes with it; 0 bytes: nothing. */
static int tell(struct dlc_dataset *ds, struct attachment *a, json_t *ask, const void *list,
                size_t bytes, struct dlc_err *err)
{
    struct msg m = MSG_INIT;
    int fd = -1, rc = 0;

    if (bytes > 0 && (fd = list_fd(list, bytes)) < 0)
        rc = dlc_err_sys(err, "cannot hand over an order: a list of %zu bytes", bytes);
    if (rc == 0)
        rc = attach_call(a, ask, fd, dlc_mono_add(dlc_mono_now(), ds->timeout), &m, err);
    json_decref(ask);
    msg_release(&m);
    os_close(&fd);
    return rc;
}

int reading_tell_more(struct dlc_dataset *ds, struct attachment *a, const struct schedule_list *l,
                      struct dlc_err *err)
{
    return tell(ds, a, json_pack("{s:s, s:b}", "op", "order", "more", 1), l->list,
                l->length * sizeof(*l->list), err);
}

static int tell_computed(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    const struct reading *r = &ds->reading;
    struct swap_pair *pairs = NULL;
    size_t n = 0;
    uint64_t pos;
    int rc;

    client_lock();
    /* relaxed: where to begin to fetch; the cursor follows. With swaps it changes under the lock */
    pos = atomic_load_explicit(&ds->at, memory_order_relaxed);
    if (r->swaps)
        n = schedule_swaps(r->schedule, &pairs);
    client_unlock();
    rc = tell(ds, a, order_json(r, pos), pairs, n * sizeof(*pairs), err);
    mem_free(&pairs);
    return rc;
}

int reading_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    const struct reading *r = &ds->reading;
    const struct schedule_list *l;
    uint64_t pos;
    int rc;

    if (r->schedule == NULL)
        return 0;
    l = r->schedule->lists[0];
    if (l == NULL)
        return tell_computed(ds, a, err);
    pos = atomic_load_explicit(&ds->at, memory_order_relaxed); /* as above */
    rc = tell(ds, a, list_json(r, l, pos), l->list, l->length * sizeof(*l->list), err);
    if (rc == 0 && r->schedule->lists[1] != NULL)
        rc = reading_tell_more(ds, a, r->schedule->lists[1], err);
    return rc;
}

void reading_release(struct reading *r)
{
    schedule_free(&r->schedule);
    *r = (struct reading){0};
}
