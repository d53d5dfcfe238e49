// SPDX-License-Identifier: Apache-2.0
/*
 * A reader's latency while others change what they read, in a daemon that holds many samples.
 *
 *     bench-residents serve DIR SOCKET SAMPLES       a daemon with memory for that many tiny
 * samples, which are there when the first dataset is opened bench-residents read X Y SOCKET SECONDS
 * 64 sessions of X follow, idle, wake, jump and close while a reader of Y misses; JSON
 *
 * To fetch ten million samples takes minutes, so the daemon is the real one but for one function:
 * the first session fills the index of its dataset (--wrap=session_new).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "dlcache.h"
#include "daemon/daemon.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

#define SESSIONS  64u
#define SIZE      64u
#define FREE_ROOM 4000000u /* for Y before X begins to leave */
#define READS_MAX 200000u

/* ---- the daemon ---- */

static uint64_t residents;

int __real_session_new(struct conn *c, struct dataset *ds, struct dlc_err *err);
int __wrap_session_new(struct conn *c, struct dataset *ds, struct dlc_err *err);

int __wrap_session_new(struct conn *c, struct dataset *ds, struct dlc_err *err)
{
    for (uint64_t i = 0; i < residents; i++) {
        struct mem_fill *f;

        if (memory_reserve(dataset_memory(ds), ds->index, i, SIZE, &f) < 0)
            abort();
        memcpy(mem_fill_data(f), &i, sizeof(i));
        memory_publish(dataset_memory(ds), &f);
    }
    residents = 0;
    return __real_session_new(c, ds, err);
}

static int serve(const char *dir, const char *socket, uint64_t n)
{
    struct config config = {0};
    struct dlc_err err = DLC_ERR_INIT;
    const struct node_start start = {NULL, NULL, NULL};
    char memory[32];

    residents = n;
    snprintf(memory, sizeof(memory), "%llu", (unsigned long long)(n * SIZE + FREE_ROOM));
    if (config_load(&config, "/dev/null", &err) < 0 || config_set(&config, "dir", dir, &err) < 0 ||
        config_set(&config, "socket", socket, &err) < 0 ||
        config_set(&config, "memory", memory, &err) < 0 ||
        config_set(&config, "disk", "0", &err) < 0 ||
        config_set(&config, "log-level", "error", &err) < 0 ||
        node_main(&config, &start, &err) < 0) {
        fprintf(stderr, "bench-residents: %s\n", err.text);
        return 1;
    }
    config_release(&config);
    return 0;
}

/* ---- its clients ---- */

static const char *x_url, *y_url, *socket_path;
static _Atomic bool done;
static _Atomic uint64_t changes;

static struct dlc_dataset *open_dataset(const char *url)
{
    const struct dlc_options opt = {.socket = socket_path, .no_spawn = 1};
    struct dlc_dataset *ds;

    if (dlc_open(url, &opt, &ds) < 0) {
        fprintf(stderr, "bench-residents: %s\n", dlc_last_error());
        exit(1);
    }
    return ds;
}

static void follow(struct dlc_dataset *ds, uint64_t seed)
{
    const struct dlc_order order = {.kind = DLC_SHUFFLED, .seed = seed, .epochs = 3};

    if (dlc_follow(ds, &order, 0, 0) < 0)
        exit(1);
}

static void read_some(struct dlc_dataset *ds, unsigned n)
{
    struct dlc_view v;

    while (n-- > 0 && !done && dlc_next(ds, &v, NULL) > 0)
        dlc_put(ds, &v);
}

/* Every 10 ms one of the sessions does something else; each is left alone for 0.64 s between two
 * turns, and half of them for 2 s, so that they fall idle. */
static void *change(void *arg)
{
    struct dlc_dataset **all = arg;
    struct rng r = {3};

    for (unsigned k = 0; !done; k++) {
        struct dlc_dataset **ds = &all[k % SESSIONS];

        usleep(10000);
        if (k % SESSIONS < SESSIONS / 2 && k / SESSIONS % 4 != 0)
            continue;
        switch (rng_below(&r, 4)) {
        case 0: follow(*ds, k); break;
        case 1:
            dlc_advance(*ds, &(struct dlc_progress){.epoch = 1, .position = rng_below(&r, 1000)});
            break;
        case 2:
            dlc_close(ds);
            *ds = open_dataset(x_url);
            follow(*ds, k);
            break;
        default: break;
        }
        read_some(*ds, 8);
        changes++;
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Each sample once, so that all are misses; a millisecond apart. */
static size_t misses(struct dlc_dataset *y, double *ms, double seconds)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), dlc_dur_of_seconds(seconds));
    size_t n = 0;

    while (n < DLC_MIN(dlc_count(y), READS_MAX) && !dlc_mono_passed(end, dlc_mono_now())) {
        struct dlc_mono t = dlc_mono_now();
        struct dlc_view v;

        if (dlc_get(y, n, &v) < 0) {
            fprintf(stderr, "bench-residents: %s\n", dlc_last_error());
            exit(1);
        }
        ms[n++] = dlc_dur_seconds(dlc_mono_since(t)) * 1e3;
        dlc_put(y, &v);
        usleep(1000);
    }
    return n;
}

static int read_while(double seconds)
{
    struct dlc_dataset *all[SESSIONS], *y;
    double *ms = mem_alloc(READS_MAX * sizeof(*ms));
    struct dlc_mono t = dlc_mono_now();
    pthread_t changer;
    double open_s;
    size_t n;

    for (unsigned k = 0; k < SESSIONS; k++) {
        all[k] = open_dataset(x_url);
        follow(all[k], k);
        read_some(all[k], 8);
    }
    y = open_dataset(y_url);
    open_s = dlc_dur_seconds(dlc_mono_since(t));
    pthread_create(&changer, NULL, change, all);
    n = misses(y, ms, seconds);
    done = true;
    pthread_join(changer, NULL);
    qsort(ms, n, sizeof(*ms), by_value);
    printf(
        "{\"reads\": %zu, \"changes\": %llu, \"open_s\": %.2f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, "
        "\"most_ms\": %.3f}\n",
        n, (unsigned long long)changes, open_s, ms[n / 2], ms[n * 99 / 100], ms[n - 1]);
    for (unsigned k = 0; k < SESSIONS; k++)
        dlc_close(&all[k]);
    dlc_close(&y);
    mem_free(&ms);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n;

    if (argc == 5 && strcmp(argv[1], "serve") == 0 && str_parse_u64(argv[4], &n))
        return serve(argv[2], argv[3], n);
    if (argc == 6 && strcmp(argv[1], "read") == 0) {
        x_url = argv[2];
        y_url = argv[3];
        socket_path = argv[4];
        return read_while(atof(argv[5]));
    }
    fprintf(stderr, "usage: bench-residents serve DIR SOCKET SAMPLES | read X Y SOCKET SECONDS\n");
    return 2;
}
