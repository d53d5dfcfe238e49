// SPDX-License-Identifier: Apache-2.0
#include "loader/forms_i.h"

#include "base/check.h"
#include "base/mem.h"
#include "storage/memory/limits.h"

#define DRY        0.1 /* of the time: the consumer waits */
#define WAITED_S   2.0 /* before anything is done about it */
#define LOOK_EVERY DLC_SEC(1)
#define TRY_AGAIN  DLC_SEC(60)

/* relaxed: forms_wanted() says why */
static void turn(struct forms *f, bool on)
{
    atomic_store_explicit(&f->on, on, memory_order_relaxed);
}

void forms_init(struct forms *f, enum dlc_switch wish)
{
    *f = (struct forms){.wish = wish};
    dlc_mtx_init(&f->mtx, LCK_forms);
    if (wish == DLC_ON) {
        forms_step(f, &(struct forms_batch){0});
        turn(f, true);
    }
}

static void put_locked(struct form *form)
{
    if (--form->refs == 0)
        mem_free(&form);
}

static void drop_all_locked(struct forms *f)
{
    dlc_mtx_assert_held(&f->mtx);
    map_each(e, &f->map) put_locked(e->value);
    map_release(&f->map);
    f->bytes = 0;
}

void forms_release(struct forms *f)
{
    dlc_mtx_lock(&f->mtx);
    drop_all_locked(f);
    dlc_mtx_unlock(&f->mtx);
    dlc_mtx_release(&f->mtx);
}

/* ---- on and off ---- */

static uint64_t limit_now(uint64_t bytes, uint64_t limit)
{
    const struct mem_wish wish = {.ceiling = limit, .used = bytes};
    uint64_t free_bytes, most;
    struct mem_machine m;

    mem_machine_read(&m);
    free_bytes = m.available;
    if (m.cgroup_max != UINT64_MAX)
        free_bytes = DLC_MIN(free_bytes, m.cgroup_max - DLC_MIN(m.cgroup_used, m.cgroup_max));
    most = mem_limit_now(&m, &wish);
    return DLC_MIN(most, (free_bytes + bytes) / 2);
}

/* (F1) */
static void look(struct forms *f, struct dlc_mono now)
{
    uint64_t limit = limit_now(f->bytes, f->limit);

    f->look = dlc_mono_add(now, LOOK_EVERY);
    dlc_mtx_lock(&f->mtx);
    f->limit = limit;
    if (f->bytes > limit) {
        drop_all_locked(f);
        turn(f, false);
        f->waited_s = 0;
        f->again = dlc_mono_add(now, TRY_AGAIN);
    }
    dlc_mtx_unlock(&f->mtx);
}

void forms_step(struct forms *f, const struct forms_batch *b)
{
    struct dlc_mono now = dlc_mono_now();

    if (f->wish == DLC_OFF)
        return;
    if (f->wish == DLC_AUTO && !forms_wanted(f)) {
        bool dry = b->waited_s > DRY * (b->waited_s + b->step_s);

        f->waited_s = dry && b->busy && b->more ? f->waited_s + b->waited_s : 0;
        if (f->waited_s < WAITED_S || (f->again.ns != 0 && !dlc_mono_passed(f->again, now)))
            return;
    }
    if (f->look.ns == 0 || dlc_mono_passed(f->look, now))
        look(f, now);
    if (f->again.ns == 0 || dlc_mono_passed(f->again, now)) {
        f->again = (struct dlc_mono){0};
        turn(f, true);
    }
}

/* ---- one form ---- */

struct form *forms_get(struct forms *f, uint64_t sample)
{
    struct form *form;

    if (!forms_wanted(f))
        return NULL;
    dlc_mtx_lock(&f->mtx);
    form = map_get(&f->map, sample);
    if (form != NULL) {
        form->refs++;
        f->used++;
    }
    dlc_mtx_unlock(&f->mtx);
    return form;
}

void forms_put(struct forms *f, struct form **fp)
{
    struct form *form = *fp;

    *fp = NULL;
    if (form == NULL)
        return;
    dlc_mtx_lock(&f->mtx);
    put_locked(form);
    dlc_mtx_unlock(&f->mtx);
}

struct form *forms_room(struct forms *f, size_t len)
{
    struct form *form = NULL;
    bool room;

    dlc_mtx_lock(&f->mtx);
    room = f->bytes + len <= f->limit;
    dlc_mtx_unlock(&f->mtx);
    if (room)
        form = mem_try_alloc(sizeof(*form) + len);
    if (form != NULL)
        *form = (struct form){.refs = 1, .len = len};
    return form;
}

void forms_keep(struct forms *f, uint64_t sample, struct form *form)
{
    dlc_mtx_lock(&f->mtx);
    if (forms_wanted(f) && f->bytes + form->len <= f->limit && map_get(&f->map, sample) == NULL) {
        form->refs++;
        f->bytes += form->len;
        map_set(&f->map, sample, form);
    }
    dlc_mtx_unlock(&f->mtx);
}

void forms_stats(struct forms *f, struct dlc_loader_stats *out)
{
    dlc_mtx_lock(&f->mtx);
    out->formed = f->used;
    out->forms = f->map.n;
    out->form_bytes = f->bytes;
    dlc_mtx_unlock(&f->mtx);
}
