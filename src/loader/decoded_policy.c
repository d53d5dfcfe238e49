// SPDX-License-Identifier: Apache-2.0
#include "loader/decoded_policy_i.h"

#include "base/log.h"

#define DRY       0.1  /* of the time: the consumer waits */
#define WAITED_S  2.0  /* before anything is done about it */
#define EASY_S    60.0 /* without waiting: nothing has to be done any more */
#define TRY_AGAIN DLC_SEC(60)
#define SHORT     (1u << 20) /* bytes: there is room for hardly another one */
#define UNDER_WAY 64u        /* decoded samples that the daemon may not have taken yet */

/* ---- on and off ---- */

static struct decoded_handle *handle_of(struct decoded_policy *f)
{
    /* acquire: pairs with turn_on() */
    return atomic_load_explicit(&f->handle, memory_order_acquire);
}

static void set_making(struct decoded_policy *f, bool making)
{
    /* relaxed: with decoded_policy_wanted() */
    atomic_store_explicit(&f->making, making, memory_order_relaxed);
    f->waited_s = f->easy_s = 0;
}

static void turn_on(struct decoded_policy *f)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct decoded_handle *k = handle_of(f);

    if (k == NULL && decoded_handle_open(f->ds, f->policy, &k, &err) < 0) {
        log_info("decoded samples are not kept: %s", err.text);
        f->again = dlc_mono_add(dlc_mono_now(), TRY_AGAIN);
        return;
    }
    atomic_store_explicit(&f->handle, k, memory_order_release);        /* to all threads */
    f->made_at = atomic_load_explicit(&f->made, memory_order_relaxed); /* a figure */
    set_making(f, true);
}

void decoded_policy_begin(struct decoded_policy *f, enum dlc_switch wish, struct dlc_dataset *ds,
                          uint64_t policy)
{
    *f = (struct decoded_policy){.wish = wish, .ds = ds, .policy = policy};
    if (wish == DLC_ON)
        turn_on(f);
}

void decoded_policy_release(struct decoded_policy *f)
{
    struct decoded_handle *k = handle_of(f);

    atomic_store(&f->handle, NULL);
    decoded_handle_close(&k);
}

/* Memory is short, and of what was made most has left again. */
static bool in_vain(struct decoded_policy *f)
{
    uint64_t made =
        atomic_load_explicit(&f->made, memory_order_relaxed) - f->made_at; /* a figure */
    struct decoded_handle_figures now;

    decoded_handle_figures(handle_of(f), &now);
    return now.room < SHORT && made > UNDER_WAY + 2 * now.samples;
}

static void step_off(struct decoded_policy *f, const struct decoded_policy_batch *b, bool dry)
{
    f->waited_s = dry && b->busy && b->more ? f->waited_s + b->waited_s : 0;
    if (f->wish == DLC_AUTO && f->waited_s < WAITED_S)
        return;
    if (f->again.ns == 0 || dlc_mono_passed(f->again, dlc_mono_now()))
        turn_on(f);
}

static void step_on(struct decoded_policy *f, const struct decoded_policy_batch *b, bool dry)
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
    log_info("no more decoded samples are made: %s", why);
    f->again = dlc_mono_add(dlc_mono_now(), TRY_AGAIN);
    set_making(f, false);
}

void decoded_policy_step(struct decoded_policy *f, const struct decoded_policy_batch *b)
{
    bool dry = b->waited_s > DRY * (b->waited_s + b->step_s);

    if (f->wish == DLC_OFF)
        return;
    if (decoded_policy_wanted(f))
        step_on(f, b, dry);
    else
        step_off(f, b, dry);
}

/* ---- one decoded sample ---- */

bool decoded_policy_get(struct decoded_policy *f, uint64_t sample, struct decoded_sample *out)
{
    struct decoded_handle *k = handle_of(f);

    *out = (struct decoded_sample){0};
    if (k == NULL || !decoded_handle_get(k, sample, &out->view))
        return false;
    out->data = out->view.data;
    out->len = out->view.len;
    return true;
}

bool decoded_policy_reserve(struct decoded_policy *f, uint64_t sample, size_t len,
                            struct decoded_sample *out)
{
    struct decoded_handle *k = handle_of(f);

    *out = (struct decoded_sample){.sample = sample};
    return k != NULL && decoded_policy_wanted(f) && decoded_handle_reserve(k, len, &out->upload);
}

void decoded_policy_put(struct decoded_policy *f, struct decoded_sample *d)
{
    struct decoded_handle *k = handle_of(f);

    if (d->upload.data != NULL && d->data != NULL) {
        decoded_handle_upload(k, &d->upload, d->sample, d->len);
        atomic_fetch_add_explicit(&f->made, 1, memory_order_relaxed); /* a figure */
    } else if (d->upload.data != NULL) {
        decoded_handle_cancel(k, &d->upload);
    } else if (d->data != NULL) {
        decoded_handle_put(k, &d->view);
    }
    *d = (struct decoded_sample){0};
}

void decoded_policy_count(struct decoded_policy *f, bool from_kept)
{
    atomic_fetch_add_explicit(from_kept ? &f->used : &f->decoded, 1,
                              memory_order_relaxed); /* figures */
}

void decoded_policy_stats(struct decoded_policy *f, struct dlc_loader_stats *out)
{
    struct decoded_handle *k = handle_of(f);
    struct decoded_handle_figures figures = {0};

    if (k != NULL)
        decoded_handle_figures(k, &figures);
    out->from_decoded_cache = atomic_load_explicit(&f->used, memory_order_relaxed);
    out->decoded = atomic_load_explicit(&f->decoded, memory_order_relaxed);
    out->decoded_cache_samples = figures.samples;
    out->decoded_cache_bytes = figures.bytes;
}
