// SPDX-License-Identifier: Apache-2.0
/*
 * Reads every sample of a dataset once through the library, all of them announced first, as a loop
 * with a known order would.
 *
 * usage: bench-cold URL DAEMON-SOCKET      prints one line of JSON
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "dlcache.h"

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    struct dlc_options opt = {.no_spawn = 1};
    struct dlc_dataset *ds;
    uint64_t n, bytes = 0, sum = 0, *order;
    double start, cpu_start;

    if (argc != 3) {
        fprintf(stderr, "usage: bench-cold URL DAEMON-SOCKET\n");
        return 2;
    }
    opt.socket = argv[2];
    if (dlc_open(argv[1], &opt, &ds) < 0) {
        fprintf(stderr, "bench-cold: %s\n", dlc_last_error());
        return 1;
    }
    n = dlc_count(ds);
    order = calloc(n, sizeof(*order));
    for (uint64_t i = 0; i < n; i++)
        order[i] = i;
    start = now();
    cpu_start = cpu();
    dlc_prefetch(ds, order, n);
    for (uint64_t i = 0; i < n; i++) {
        struct dlc_view v;

        if (dlc_get(ds, i, &v) < 0) {
            fprintf(stderr, "bench-cold: %s\n", dlc_last_error());
            return 1;
        }
        bytes += v.len;
        sum += ((const unsigned char *)v.data)[v.len / 2];
        dlc_put(ds, &v);
    }
    printf(
        "{\"objects\": %llu, \"bytes\": %llu, \"seconds\": %.4f, \"cpu_s\": %.4f, \"sum\": %llu}\n",
        (unsigned long long)n, (unsigned long long)bytes, now() - start, cpu() - cpu_start,
        (unsigned long long)sum);
    free(order);
    dlc_close(&ds);
    return 0;
}
