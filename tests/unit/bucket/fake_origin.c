// SPDX-License-Identifier: Apache-2.0
#include "fake_origin.h"

#include <poll.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

void fake_fill(const struct attempt *a)
{
    uint64_t h = hash64_str(a->key);

    for (uint64_t i = 0; i < a->length; i++) {
        uint64_t at = a->offset + i;

        ((unsigned char *)a->dst)[i] = (unsigned char)((h + at * 7 + (at >> 20)) & 0xff);
    }
}

bool fake_bytes_right(const char *key, uint64_t offset, const void *data, uint64_t len)
{
    uint64_t h = hash64_str(key);

    for (uint64_t i = 0; i < len; i++) {
        uint64_t at = offset + i;

        if (((const unsigned char *)data)[i] != (unsigned char)((h + at * 7 + (at >> 20)) & 0xff))
            return false;
    }
    return true;
}

static struct fake *fake_of(struct origin *o)
{
    return dlc_container(o, struct fake, o);
}

static void finish(struct fake_call *c)
{
    struct attempt *a = c->a;

    c->f->flying--;
    a->priv = NULL;
    mem_free(&c);
    a->done(a);
}

static void deliver(struct fake_call *c)
{
    struct attempt *a = c->a;

    c->f->answered++;
    if (c->etag != NULL)
        strncpy(a->etag_seen, c->etag, ETAG_MAX - 1);
    a->rc = 0;
    if (c->fate == FAKE_FAIL) {
        a->rc = dlc_err_set(&a->err, c->rc, "the fake fails attempt %u", c->nth);
        a->retryable = c->retryable;
        a->throttled = c->throttled;
        a->retry_after = c->retry_after;
    } else if (a->op == ATTEMPT_GET) {
        if (c->fate != FAKE_EMPTY)
            fake_fill(a);
        if (c->flip)
            ((char *)a->dst)[a->length / 2] ^= 1;
        a->received = a->length - (c->fate == FAKE_SHORT);
    } else if (a->op == ATTEMPT_STAT) {
        a->size = 42;
        a->sum = c->sum;
    }
    if (a->first_byte.ns == 0)
        a->first_byte = dlc_mono_now();
    finish(c);
}

static void on_timer(struct timer *t)
{
    struct fake_call *c = dlc_container(t, struct fake_call, timer);

    if (c->first_byte.ns != 0 && c->a->first_byte.ns == 0) {
        struct dlc_dur rest = {c->delay.ns - c->first_byte.ns};

        c->a->first_byte = dlc_mono_now();
        if (c->fate != FAKE_HANG)
            loop_timer_set(c->f->loops[c->a->lane], t, dlc_mono_add(dlc_mono_now(), rest));
        return;
    }
    deliver(c);
}

static void note_flying(struct fake *f)
{
    unsigned n = ++f->flying, max = f->flying_max;

    while (n > max && !atomic_compare_exchange_weak(&f->flying_max, &max, n))
        ;
}

static void fake_start(struct origin *o, struct attempt *a)
{
    struct fake *f = fake_of(o);
    struct fake_call *c = mem_new(struct fake_call);
    struct dlc_dur first;

    c->f = f;
    c->a = a;
    c->nth = ++f->started;
    c->timer.fire = on_timer;
    f->lane_started[a->lane]++;
    a->priv = c;
    note_flying(f);
    f->script(f, c);
    if (a->op == ATTEMPT_GET && a->length > 1 && c->fate != FAKE_EMPTY)
        memset(a->dst, 0xee, a->length / 2); /* what a cut answer leaves behind */
    first = c->first_byte.ns != 0 ? c->first_byte : c->delay;
    if (c->fate != FAKE_HANG || c->first_byte.ns != 0)
        loop_timer_set(f->loops[a->lane], &c->timer, dlc_mono_add(dlc_mono_now(), first));
}

static void fake_cancel(struct origin *o, struct attempt *a)
{
    struct fake *f = fake_of(o);
    struct fake_call *c = a->priv;

    dlc_check(c != NULL);
    f->cancelled++;
    loop_timer_del(f->loops[a->lane], &c->timer);
    a->rc = dlc_err_set(&a->err, DLC_ECANCELED, "cancelled");
    finish(c);
}

static int fake_lane_open(struct origin *o, unsigned lane, struct loop *loop, struct dlc_err *err)
{
    (void)err;
    fake_of(o)->loops[lane] = loop;
    return 0;
}

static void fake_free(struct origin *o)
{
    struct fake *f = fake_of(o);

    dlc_check(f->flying == 0);
    mem_free(&f);
}

struct fake *fake_new(unsigned lanes, void (*script)(struct fake *, struct fake_call *))
{
    struct fake *f = mem_new(struct fake);

    f->ops = (struct origin_ops){
        .name = "fake",
        .lane_open = fake_lane_open,
        .start = fake_start,
        .cancel = fake_cancel,
        .free = fake_free,
        .folders = true,
    };
    f->o.ops = &f->ops;
    f->o.lanes = lanes;
    f->script = script;
    return f;
}

struct bucket *fake_bucket(struct fake *f, const struct bucket_config *c)
{
    struct bucket_config defaults = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b = NULL;

    dlc_check(bucket_open_origin(&f->o, "", c == NULL ? &defaults : c, f->o.lanes, &b, &err) == 0);
    return b;
}

static void on_read(struct bucket_read *r)
{
    dlc_container(r, struct fake_read, r)->done++;
}

void fake_read(struct bucket *b, struct fake_read *x, const char *key, uint64_t length)
{
    x->r.key = key;
    x->r.length = length;
    x->r.dst = mem_zero(length);
    x->r.done = on_read;
    bucket_read(b, &x->r);
}

void fake_read_release(struct fake_read *x)
{
    mem_free(&x->r.dst);
}

void fake_pause(struct dlc_dur step)
{
    if (step.ns > 0)
        dlc_clock_advance(step);
    poll(NULL, 0, 1);
}
