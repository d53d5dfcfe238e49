// SPDX-License-Identifier: Apache-2.0
/* The ring of batch slots, and the assignment of samples to them. */
#include "loader/loader_i.h"

#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define HUGE_PAGE (2u << 20)

/* ---- memory ---- */

static size_t bytes_of(const struct dlc_loader *l)
{
    return (size_t)l->batch * l->decode.bytes;
}

/* Huge pages where there are any: a batch is written once and read once. */
static void *map_memory(size_t bytes)
{
    void *p = fault_hit(FAULT_ALLOC) ? NULL : os_map_private(bytes);

    if (p != NULL && bytes >= HUGE_PAGE)
        os_madvise(p, bytes, MADV_HUGEPAGE); /* a wish */
    return p;
}

static void release_memory(struct dlc_loader *l, void *p)
{
    if (p == NULL)
        return;
    if (l->alloc == NULL)
        os_unmap(p, bytes_of(l));
    else if (l->free != NULL)
        l->free(p, bytes_of(l), l->alloc_arg);
}

struct slot *slot_new(struct dlc_loader *l, struct dlc_err *err)
{
    struct slot *s = mem_new(struct slot);

    s->loader = l;
    dlc_list_init(&s->link);
    s->data = l->alloc != NULL ? l->alloc(bytes_of(l), l->alloc_arg) : map_memory(bytes_of(l));
    s->index = mem_try_alloc(l->batch * sizeof(*s->index));
    s->labels = mem_try_alloc(l->batch * sizeof(*s->labels));
    s->lengths = mem_try_alloc(l->batch * sizeof(*s->lengths));
    s->bad = mem_try_alloc(l->batch);
    if (s->data == NULL || s->index == NULL || s->labels == NULL || s->lengths == NULL ||
        s->bad == NULL) {
        dlc_err_set(err, DLC_ENOMEM,
                    "no memory for a batch of %u samples of %zu bytes: make the batch or the ring "
                    "smaller, or put batches back",
                    l->batch, l->decode.bytes);
        slot_free(&s);
    }
    return s;
}

void slot_free(struct slot **sp)
{
    struct slot *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    release_memory(s->loader, s->data);
    mem_free(&s->index);
    mem_free(&s->labels);
    mem_free(&s->lengths);
    mem_free(&s->bad);
    mem_free(&s);
}

/* ---- planning ---- */

bool ring_has_batch(const struct dlc_loader *l, uint64_t length, uint64_t position)
{
    return position < length && (!l->drop_last || length - position >= l->batch);
}

/* Is anything of the plan's epoch left to be planned? */
static bool plan_has_batch(const struct dlc_loader *l)
{
    return ring_has_batch(l, l->plan.length, l->plan_at);
}

static void fill(struct dlc_loader *l, struct slot *s)
{
    s->epoch = l->plan.epoch;
    s->begin = l->plan_at;
    s->n = (uint32_t)DLC_MIN((uint64_t)l->batch, l->plan.length - l->plan_at);
    s->taken = s->done = s->n_bad = 0;
    s->busy_ns = 0;
    s->err = (struct dlc_err)DLC_ERR_INIT;
    memset(s->bad, 0, s->n);
    for (uint32_t k = 0; k < s->n; k++)
        s->index[k] = order_at(&l->plan, s->begin + k);
    l->plan_at += s->n;
}

static struct slot *slot_of(struct dlc_list *link)
{
    return dlc_container(link, struct slot, link);
}

struct slot *ring_fresh_locked(struct dlc_loader *l)
{
    struct slot *s;

    dlc_mtx_assert_held(&l->mtx);
    if (!dlc_list_empty(&l->queue) && slot_of(l->queue.prev)->taken < slot_of(l->queue.prev)->n)
        return slot_of(l->queue.prev);
    if (dlc_list_empty(&l->spare))
        return NULL;
    if (!plan_has_batch(l)) {
        if (!place_plan_locked(l, l->plan.epoch + 1))
            return NULL;
        l->plan_at = 0;
    }
    s = slot_of(dlc_list_pop_head(&l->spare));
    fill(l, s);
    dlc_list_push_tail(&l->queue, &s->link);
    return s;
}

void ring_restart_locked(struct dlc_loader *l, uint64_t epoch, uint64_t position)
{
    struct dlc_list *n;
    bool known;

    dlc_mtx_assert_held(&l->mtx);
    dlc_check(l->running == 0);
    l->n_late = 0;
    while ((n = dlc_list_pop_head(&l->queue)) != NULL)
        dlc_list_push_tail(&l->spare, n);
    known = place_plan_locked(l, epoch);
    dlc_check(known); /* position.c looked before */
    l->plan_at = position;
}

void ring_progress_locked(struct dlc_loader *l, struct dlc_progress *p)
{
    bool found = false;

    dlc_mtx_assert_held(&l->mtx);
    p->epoch = l->plan.epoch;
    p->position = plan_has_batch(l) ? l->plan_at : l->plan.length;
    dlc_list_each (n, &l->queue) {
        const struct slot *s = slot_of(n);

        if (!found && s->done == s->n)
            continue;
        if (!found) {
            p->epoch = s->epoch;
            p->position = s->begin;
        }
        found = true;
        p->ahead += s->taken;
    }
}

/* ---- holes ---- */

static void move_sample(struct slot *s, uint32_t to, uint32_t from)
{
    size_t bytes = s->loader->decode.bytes;

    memcpy(s->data + to * bytes, s->data + from * bytes, bytes);
    s->index[to] = s->index[from];
    s->labels[to] = s->labels[from];
    s->lengths[to] = s->lengths[from];
}

/* What is good moves up. */
static void close_holes(struct slot *s)
{
    uint32_t to = 0;

    for (uint32_t k = 0; k < s->n; k++) {
        if (s->bad[k])
            continue;
        if (to != k)
            move_sample(s, to, k);
        to++;
    }
}

/* Each hole gets the next good one behind it; from the front again at the end. */
static void fill_holes(struct slot *s)
{
    for (uint32_t k = 0; k < s->n; k++) {
        uint32_t from = k;

        while (s->bad[from])
            from = (from + 1) % s->n;
        if (from != k)
            move_sample(s, k, from);
    }
}

uint32_t slot_settle(struct slot *s)
{
    if (s->n_bad == 0)
        return s->n;
    if (s->n_bad < s->n && s->loader->on_bad == DLC_BAD_REPLACE) {
        fill_holes(s);
        return s->n;
    }
    close_holes(s);
    return s->n - s->n_bad;
}
