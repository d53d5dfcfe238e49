// SPDX-License-Identifier: Apache-2.0
#include "loader/decoded_policy_i.h"

#include "base/log.h"

#define DRY       0.1  /* of the time: the consumer waits */
#define WAITED_S  2.0  /* before anything is done about it */
#define EASY_S    60.0 /* without waiting: nothing has to be done any more */
#define TRY_AGAIN DLC_SEC(60)
#define SHORT     (1u << 20) /* bytes: there is room for hardly another one */
#define UNDER_WAY 64u        /* forms that the daemon may not have taken yet */

/* ---- on and off ---- */

static struct kept *kept_of(struct forms *f)
{
    /* acquire: pairs with turn_on() */
    return atomic_load_explicit(&f->kept, memory_order_acquire);
}

static void set_making(struct forms *f, bool making)
{
    atomic_store_explicit(&f->making, making, memory_order_relaxed); /* with forms_wanted() */
    f->waited_s = f->easy_s = 0;
}

static void turn_on(struct forms *f)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct kept *k = kept_of(f);

    if (k == NULL && kept_open(f->ds, f->policy, &k, &err) < 0) {
        log_info("forms are not kept: %s", err.text);
        f->again = dlc_mono_add(dlc_mono_now(), TRY_AGAIN);
        return;
    }
    atomic_store_explicit(&f->kept, k, memory_order_release);          /* to all threads */
    f->made_at = atomic_load_explicit(&f->made, memory_order_relaxed); /* a figure */
    set_making(f, true);
}

void forms_begin(struct forms *f, enum dlc_switch wish, struct dlc_dataset *ds, uint64_t policy)
{
    *f = (struct forms){.wish = wish, .ds = ds, .policy = policy};
    if (wish == DLC_ON)
        turn_on(f);
}

void forms_release(struct forms *f)
{
    struct kept *k = kept_of(f);

    atomic_store(&f->kept, NULL);
    kept_close(&k);
}

/* Memory is short, and of what was made most has left again. */
static bool in_vain(struct forms *f)
{
    uint64_t made =
        atomic_load_explicit(&f->made, memory_order_relaxed) - f->made_at; /* a figure */
    struct kept_figures now;

    kept_figures(kept_of(f), &now);
    return now.room < SHORT && made > UNDER_WAY + 2 * now.forms;
}

static void step_off(struct forms *f, const struct forms_batch *b, bool dry)
{
    f->waited_s = dry && b->busy && b->more ? f->waited_s + b->waited_s : 0;
    if (f->wish == DLC_AUTO && f->waited_s < WAITED_S)
        return;
    if (f->again.ns == 0 || dlc_mono_passed(f->again, dlc_mono_now()))
        turn_on(f);
}

static void step_on(struct forms *f, const struct forms_batch *b, bool dry)
{
    const char *why = NULL;

    f->easy_s = dry ? 0 : f->easy_s + b->waited_s + b->step_s;
    if (f->easy_s >= EASY_S)
        why = "nobody waits";
    else if (!b->more)
        why = "this is the last epoch";
    else if (in_vain(f))
        why = "memory is short, and they do not stay";
    if (f->wish == DLC_ON || why == NULL)
        return;
    log_info("no more forms are made: %s", why);
    f->again = dlc_mono_add(dlc_mono_now(), TRY_AGAIN);
    set_making(f, false);
}

void forms_step(struct forms *f, const struct forms_batch *b)
{
    bool dry = b->waited_s > DRY * (b->waited_s + b->step_s);

    if (f->wish == DLC_OFF)
        return;
    if (forms_wanted(f))
        step_on(f, b, dry);
    else
        step_off(f, b, dry);
}

/* ---- one form ---- */

bool forms_get(struct forms *f, uint64_t sample, struct form *out)
{
    struct kept *k = kept_of(f);

    *out = (struct form){0};
    if (k == NULL || !kept_get(k, sample, &out->view))
        return false;
    out->data = out->view.data;
    out->len = out->view.len;
    return true;
}

bool forms_room(struct forms *f, uint64_t sample, size_t len, struct form *out)
{
    struct kept *k = kept_of(f);

    *out = (struct form){.sample = sample};
    return k != NULL && forms_wanted(f) && kept_room(k, len, &out->upload);
}

void forms_put(struct forms *f, struct form *form)
{
    struct kept *k = kept_of(f);

    if (form->upload.data != NULL && form->data != NULL) {
        kept_give(k, &form->upload, form->sample, form->len);
        atomic_fetch_add_explicit(&f->made, 1, memory_order_relaxed); /* a figure */
    } else if (form->upload.data != NULL) {
        kept_drop(k, &form->upload);
    } else if (form->data != NULL) {
        kept_put(k, &form->view);
    }
    *form = (struct form){0};
}

void forms_count(struct forms *f, bool from_kept)
{
    atomic_fetch_add_explicit(from_kept ? &f->used : &f->decoded, 1,
                              memory_order_relaxed); /* figures */
}

void forms_stats(struct forms *f, struct dlc_loader_stats *out)
{
    struct kept *k = kept_of(f);
    struct kept_figures figures = {0};

    if (k != NULL)
        kept_figures(k, &figures);
    out->formed = atomic_load_explicit(&f->used, memory_order_relaxed);
    out->decoded = atomic_load_explicit(&f->decoded, memory_order_relaxed);
    out->forms = figures.forms;
    out->form_bytes = figures.bytes;
}
