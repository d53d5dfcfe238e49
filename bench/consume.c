// SPDX-License-Identifier: Apache-2.0
/*
 * A training loop's appetite: reads a dataset in shuffled order for some epochs, at a steady rate
 * or as fast as it can, following a known order or (plain) asking for each sample when it needs it.
 *
 * usage: bench-consume URL SOCKET EPOCHS RATE follow|relaxed|plain [SEED RANK WORLD]
 *        RATE in samples per second; 0: as fast as possible
 *        relaxed: follow, in a relaxed order
 *        RANK of WORLD (follow): reads its part of each epoch
 * Prints one line of JSON per epoch: seconds, seconds stalled, the same without the first second of
 * all, the sum of the samples' first bytes, and when (monotonic clock) each 16th of the epoch
 * began and the last ended. Then waits for a line before the next one.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dlcache.h"
#include "order/order.h"

#define SEED  2023 /* unless told */
#define TICKS 16

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void wait_until(double t)
{
    struct timespec ts = {.tv_sec = (time_t)t, .tv_nsec = (long)((t - (double)(time_t)t) * 1e9)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

static int die(const char *what)
{
    fprintf(stderr, "bench-consume: %s: %s\n", what, dlc_last_error());
    exit(1);
}

/* The next view; 0 at the end of the epoch. */
static int take(struct dlc_dataset *ds, int follow, const struct permutation *p, uint64_t i,
                struct dlc_view *v)
{
    if (follow)
        return dlc_next(ds, v, NULL);
    if (i == dlc_count(ds))
        return 0;
    return dlc_get(ds, permutation_at(p, i), v) < 0 ? -1 : 1;
}

static void print_ticks(const double *ticks)
{
    printf(", \"ticks\": [");
    for (unsigned k = 0; k <= TICKS; k++)
        printf("%s%.6f", k > 0 ? ", " : "", ticks[k]);
    printf("]}\n");
    fflush(stdout);
}

static void epoch(struct dlc_dataset *ds, uint64_t seed, unsigned e, double rate, int follow,
                  double begin)
{
    struct permutation p;
    struct dlc_stats st;
    struct dlc_view v;
    double start = now(), due = start, stalled = 0, later = 0, first = 0;
    double ticks[TICKS + 1];
    uint64_t i = 0, sum = 0, n = follow ? (uint64_t)dlc_epoch_length(ds) : dlc_count(ds);
    unsigned tick = 0;
    int rc;

    permutation_init(&p, dlc_count(ds), seed, e);
    for (;; i++) {
        double t = now(), took;

        while (tick <= TICKS && i >= n * tick / TICKS)
            ticks[tick++] = t;
        if (rate > 0 && t < due) {
            wait_until(due);
            t = now();
        }
        rc = take(ds, follow, &p, i, &v);
        if (rc < 0)
            die("reading");
        if (rc == 0)
            break;
        took = now() - t;
        first = i == 0 ? took : first;
        stalled += took;
        later += t - begin > 1 ? took : 0;
        sum += *(const unsigned char *)v.data;
        dlc_put(ds, &v);
        /* A clock that woke us late is made up for; a stall is not: a training loop does not
         * catch up. */
        due += rate > 0 ? 1 / rate : 0;
        if (t + took - due > 5 / (rate > 0 ? rate : 1))
            due = t + took;
    }
    dlc_dataset_stats(ds, &st);
    printf("{\"epoch\": %u, \"samples\": %llu, \"seconds\": %.4f, \"stalled_s\": %.5f, "
           "\"stalled_later_s\": %.5f, \"first_s\": %.5f, \"sum\": %llu",
           e, (unsigned long long)i, now() - start, stalled, later, first, (unsigned long long)sum);
    print_ticks(ticks);
}

int main(int argc, char **argv)
{
    struct dlc_options opt = {.no_spawn = 1};
    struct dlc_order order = {.kind = DLC_SHUFFLED, .seed = SEED};
    struct dlc_dataset *ds;
    char go[8];
    int follow;

    if (argc != 6 && argc != 9) {
        fprintf(stderr, "usage: bench-consume URL SOCKET EPOCHS RATE follow|relaxed|plain "
                        "[SEED RANK WORLD]\n");
        return 2;
    }
    opt.socket = argv[2];
    order.epochs = strtoull(argv[3], NULL, 10);
    order.relaxed = strcmp(argv[5], "relaxed") == 0;
    follow = order.relaxed || strcmp(argv[5], "follow") == 0;
    if (argc == 9) {
        order.seed = strtoull(argv[6], NULL, 10);
        order.rank = (uint32_t)strtoul(argv[7], NULL, 10);
        order.world = (uint32_t)strtoul(argv[8], NULL, 10);
    }
    if (dlc_open(argv[1], &opt, &ds) < 0 || (follow && dlc_follow(ds, &order, 0, 0) < 0))
        die(argv[1]);
    for (unsigned e = 0; e < order.epochs; e++) {
        static double begin;

        begin = e == 0 ? now() : begin;
        epoch(ds, order.seed, e, strtod(argv[4], NULL), follow, begin);
        if (fgets(go, sizeof(go), stdin) == NULL) /* whoever measures reads the counters now */
            break;
    }
    dlc_close(&ds);
    return 0;
}
