// SPDX-License-Identifier: Apache-2.0
#include "sim/training_cost.h"

#include <math.h>

#include "base/check.h"

/* As in daemon/prefetch/prefetch.c. */
#define MARGIN     1.3
#define WINDOW_MIN 8
#define HOLES      64 /* a 64th of memory: between samples, and on its way out */

#define MONTH_S (730.0 * 3600)

static double part(double amount, double of)
{
    return of > 0 ? DLC_CLAMP(amount / of, 0.0, 1.0) : 1;
}

static double mean_of(uint64_t sum, uint64_t n)
{
    return n > 0 ? (double)sum / (double)n : 0;
}

double cost_window(const struct cost_data *d, const struct cost_bucket *b,
                   const struct cost_setup *s)
{
    double block = mean_of(d->memory_bytes, d->samples), half = (double)s->memory / 2;
    double want = s->samples_per_s * b->p99_s * MARGIN + s->batch + WINDOW_MIN;

    /* Who does not wait for a step reads at once whatever is there. */
    return s->samples_per_s > 0 ? DLC_MIN(want * block, half) : half;
}

static double reuse(const struct cost_data *d, const struct cost_bucket *b,
                    const struct cost_setup *s)
{
    double nodes = s->nodes, data = (double)d->memory_bytes;
    double memory = nodes * ((double)s->memory - (double)s->memory / HOLES);
    double window = nodes * cost_window(d, b, s);

    return memory >= data ? 1 : part(memory - window, data - window);
}

/* Seconds of training alone, in one epoch. */
static double training(const struct cost_data *d, const struct cost_setup *s)
{
    double each = (double)d->samples / s->nodes;

    return s->samples_per_s > 0 ? each / s->samples_per_s : 0;
}

/* Seconds in which one node gets its part of so many requests and bytes, with n in flight. */
static double fetching(const struct cost_bucket *b, const struct cost_setup *s, double requests,
                       double bytes, double in_flight)
{
    double by_latency = requests / s->nodes * b->latency_s / DLC_MAX(in_flight, 1.0);
    double by_bytes = b->bytes_per_s > 0 ? bytes / s->nodes / b->bytes_per_s : 0;

    return DLC_MAX(by_latency, by_bytes);
}

static void epoch(const struct cost_data *d, const struct cost_bucket *b,
                  const struct cost_setup *s, struct cost_epoch *e)
{
    double work = training(d, s), ahead = cost_window(d, b, s);

    ahead *= mean_of(d->gets, d->samples) / DLC_MAX(mean_of(d->memory_bytes, d->samples), 1.0);
    e->requests = e->bucket * (double)d->gets;
    e->bytes = e->bucket * (double)d->bytes;
    e->money = e->requests * b->price_get + e->bytes * b->price_byte;
    e->seconds =
        fetching(b, s, e->requests, e->bytes, DLC_MIN((double)b->max_requests, ahead * e->bucket));
    e->seconds = DLC_MAX(e->seconds, work);
    e->waiting_s = e->seconds - work;
}

static void predict_cached(const struct cost_data *d, const struct cost_bucket *b,
                           const struct cost_setup *s, struct cost_forecast *out)
{
    double again = (double)s->epochs - 1;
    double disk = s->disk > 0 ? part((double)s->nodes * (double)s->disk, (double)d->disk_bytes) : 0;
    struct cost_epoch *first = &out->first, *later = &out->later;

    *first = (struct cost_epoch){.bucket = 1};
    epoch(d, b, s, first);
    first->requests += (double)d->list_requests;
    first->bytes += (double)d->list_bytes;
    first->money += d->list_money;
    first->waiting_s += d->list_s + b->latency_s; /* and the first batch */
    first->seconds += d->list_s + b->latency_s;
    later->reuse = reuse(d, b, s);
    later->disk = (1 - later->reuse) * disk;
    later->bucket = 1 - later->reuse - later->disk;
    epoch(d, b, s, later);
    out->cached = (struct cost_run){
        .requests = first->requests + again * later->requests,
        .bytes = first->bytes + again * later->bytes,
        .money = first->money + again * later->money,
        .seconds = first->seconds + again * later->seconds,
        .waiting_s = first->waiting_s + again * later->waiting_s,
    };
}

/* Loaders whose workers ask for one sample after the other, in every epoch again. */
static void predict_direct(const struct cost_data *d, const struct cost_bucket *b,
                           const struct cost_setup *s, struct cost_run *r)
{
    double work = training(d, s), n = s->epochs;
    double requests = (double)d->gets, bytes = (double)d->bytes;
    double seconds = fetching(b, s, requests, bytes, s->workers);
    double first =
        b->latency_s * (double)DLC_MIN(s->batch, d->samples); /* one worker makes the first batch */

    seconds = DLC_MAX(seconds, work);
    *r = (struct cost_run){
        .requests = n * requests + (double)d->list_requests,
        .bytes = n * bytes + (double)d->list_bytes,
        .money = n * (requests * b->price_get + bytes * b->price_byte) + d->list_money,
        .seconds = n * seconds + first + d->list_s,
        .waiting_s = n * (seconds - work) + first + d->list_s,
    };
}

/* Every node copies everything, then trains from its disk, which never lets it wait. */
static void predict_ssd(const struct cost_data *d, const struct cost_bucket *b,
                        const struct cost_setup *s, struct cost_run *r)
{
    double requests = (double)s->nodes * (double)d->gets;
    double bytes = (double)s->nodes * (double)d->bytes;
    double copy = fetching(b, s, requests, bytes, b->max_requests) + d->list_s;

    *r = (struct cost_run){
        .requests = requests + (double)d->list_requests,
        .bytes = bytes + (double)d->list_bytes,
        .money = requests * b->price_get + bytes * b->price_byte + d->list_money,
        .seconds = s->epochs * training(d, s) + copy,
        .waiting_s = copy,
    };
    r->storage_money = bytes / 1e9 * s->price_ssd * r->seconds / MONTH_S;
}

static void add_rent(const struct cost_setup *s, struct cost_run *r)
{
    r->waiting_money = r->waiting_s / 3600 * s->price_gpu * s->gpus * s->nodes;
}

void cost_forecast(const struct cost_data *d, const struct cost_bucket *b,
                   const struct cost_setup *s, struct cost_forecast *out)
{
    dlc_check(s->epochs > 0 && s->nodes > 0);
    *out = (struct cost_forecast){.first = {0}};
    predict_cached(d, b, s, out);
    out->cached.storage_money =
        (double)s->nodes * (double)s->disk / 1e9 * s->price_ssd * out->cached.seconds / MONTH_S;
    predict_direct(d, b, s, &out->direct);
    predict_ssd(d, b, s, &out->ssd);
    add_rent(s, &out->cached);
    add_rent(s, &out->direct);
    add_rent(s, &out->ssd);
}

double cost_money(const struct cost_run *r)
{
    return r->money + r->waiting_money + r->storage_money;
}
