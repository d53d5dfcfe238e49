// SPDX-License-Identifier: Apache-2.0
/* A dataset that is read in a relaxed order, with the test in the daemon's place: its slots, horizon
 * and head of the ring. Orders are sequential, so that sample i is read at position i. */
#ifndef DLC_TESTS_READING_WORLD_H
#define DLC_TESTS_READING_WORLD_H

#include "unit.h"

#include "base/mem.h"
#include "client/attachment.h"
#include "client/dataset.h"

struct world {
    struct dlc_dataset *ds;
    struct attachment *a;
    struct shm_session_hdr *session;
    struct shm_slot *slots;
};

static struct world w;

/* An order over n samples for so many epochs (0: no end), the first of which is `epoch`. It was read
 * up to the absolute position `pos`. */
static inline void begin_epochs(uint64_t n, uint64_t epoch, uint64_t epochs, uint64_t pos,
                                uint64_t horizon)
{
    struct reading *r;

    w.ds = mem_new(struct dlc_dataset);
    dlc_list_init(&w.ds->retired);
    w.a = mem_new(struct attachment);
    w.session = mem_zero(SHM_HDR_SIZE);
    w.slots = mem_zero((n + 1) * sizeof(*w.slots));
    w.a->session = w.session;
    w.a->slots = w.slots;
    w.a->n = n;
    atomic_store(&w.session->horizon, horizon);
    atomic_store(&w.ds->cur, w.a);
    r = &w.ds->reading;
    r->spec = (struct order_spec){.kind = ORDER_SEQUENTIAL, .n = n};
    r->schedule = schedule_new(&r->spec, epoch, epochs, NULL);
    assert_non_null(r->schedule);
    r->epoch = epoch;
    r->epochs = epochs;
    r->relaxed = r->swaps = true;
    r->pos = r->dealt = pos;
    schedule_move(r->schedule, pos);
}

static inline void begin(uint64_t n, uint64_t pos, uint64_t horizon)
{
    begin_epochs(n, 0, 0, pos, horizon);
}

static inline int end(void **state)
{
    (void)state;
    if (w.ds != NULL)
        schedule_free(&w.ds->reading.schedule);
    mem_free(&w.ds);
    mem_free(&w.a);
    mem_free(&w.session);
    mem_free(&w.slots);
    return 0;
}

static inline void resident(uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to; i++)
        atomic_store(&w.slots[i].where, shm_where_make(SHM_READY, 0, 1));
}

#endif
