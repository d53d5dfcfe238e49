// SPDX-License-Identifier: Apache-2.0
/*
 * What does it cost to know the order? Nanoseconds of processor time, so that a busy machine does
 * not show, for
 *
 *   at        the elements at positions one after another, as a prefetcher asks
 *   inverse   the positions of elements one after another
 *   *_wait    each asked for only when the one before is known
 *   init      a new epoch
 *   next_use  a cursor's answer to when a random sample is read next, this epoch or the one after
 *   index     the same of an explicit list
 *
 * usage: bench-order N ROUNDS
 * Prints one line of JSON: nanoseconds each, a list with one figure per round.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "order/cursor.h"

#define CALLS       400000
#define INIT_CALLS  20000
#define LIST_LENGTH 1000000 /* at most: of the explicit list */

struct bench {
    struct permutation perm;
    struct cursor cursor, listed;
    struct order_index index;
    uint64_t n, list_n;
    uint64_t sink; /* keeps results alive */
};

static double at(struct bench *b)
{
    for (uint64_t i = 0, k = 0; i < CALLS; i++, k = k + 1 < b->n ? k + 1 : 0)
        b->sink += permutation_at(&b->perm, k);
    return CALLS;
}

static double inverse(struct bench *b)
{
    for (uint64_t i = 0, k = 0; i < CALLS; i++, k = k + 1 < b->n ? k + 1 : 0)
        b->sink += permutation_inverse(&b->perm, k);
    return CALLS;
}

static double at_wait(struct bench *b)
{
    uint64_t k = b->sink % b->n;

    for (unsigned i = 0; i < CALLS; i++)
        k = permutation_at(&b->perm, k);
    b->sink += k;
    return CALLS;
}

static double inverse_wait(struct bench *b)
{
    uint64_t k = b->sink % b->n;

    for (unsigned i = 0; i < CALLS; i++)
        k = permutation_inverse(&b->perm, k);
    b->sink += k;
    return CALLS;
}

static double init(struct bench *b)
{
    struct permutation p;

    for (uint64_t i = 0; i < INIT_CALLS; i++) {
        permutation_init(&p, b->n, 1, i);
        b->sink += permutation_at(&p, 0);
    }
    return INIT_CALLS;
}

static double next_use(struct bench *b)
{
    struct rng r = {b->sink};

    for (unsigned i = 0; i < CALLS; i++)
        b->sink += cursor_next_use(&b->cursor, rng_below(&r, b->n), b->n / 2);
    return CALLS;
}

static double index_next(struct bench *b)
{
    struct rng r = {b->sink};

    for (unsigned i = 0; i < CALLS; i++)
        b->sink += cursor_next_use(&b->listed, rng_below(&r, b->list_n), b->list_n / 2);
    return CALLS;
}

static const struct {
    const char *name;
    double (*run)(struct bench *b); /* gives the number of calls */
} contenders[] = {
    {"at_ns", at},
    {"inverse_ns", inverse},
    {"at_wait_ns", at_wait},
    {"inverse_wait_ns", inverse_wait},
    {"init_ns", init},
    {"next_use_ns", next_use},
    {"index_ns", index_next},
};

#define N_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static double cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void die(const char *why)
{
    fprintf(stderr, "bench-order: %s\n", why);
    exit(1);
}

static uint64_t *set_up(struct bench *b)
{
    struct order_spec spec = {.kind = ORDER_SHUFFLED, .n = b->n, .seed = 1, .world = 1};
    struct order_spec explicit = {.kind = ORDER_EXPLICIT};
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t *list;

    permutation_init(&b->perm, b->n, 1, 0);
    b->list_n = b->n < LIST_LENGTH ? b->n : LIST_LENGTH;
    list = calloc(b->list_n, sizeof(*list));
    if (list == NULL)
        die("no memory");
    for (uint64_t k = 0; k < b->list_n; k++) /* every element below list_n once, shuffled */
        list[k] = k;
    for (uint64_t k = b->list_n; k > 1; k--) {
        uint64_t j = permutation_at(&b->perm, k - 1) % k, t = list[j];

        list[j] = list[k - 1];
        list[k - 1] = t;
    }
    if (cursor_init(&b->cursor, &spec, 0, 0, &err) < 0 ||
        cursor_init(&b->listed, &explicit, 0, 0, &err) < 0 ||
        order_index_init(&b->index, list, b->list_n, b->list_n, &err) < 0 ||
        cursor_give(&b->listed, &b->index, &err) < 0 ||
        cursor_give(&b->listed, &b->index, &err) < 0)
        die(err.text);
    return list;
}

int main(int argc, char **argv)
{
    struct bench b = {.n = argc == 3 ? strtoull(argv[1], NULL, 10) : 0};
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    double *ns = calloc(N_CONTENDERS * (size_t)(rounds > 0 ? rounds : 1), sizeof(*ns));
    uint64_t *list;

    if (rounds <= 0 || b.n == 0 || b.n > PERMUTATION_MAX || ns == NULL)
        die("usage: bench-order N ROUNDS");
    list = set_up(&b);
    for (int k = 0; k < rounds; k++)
        for (unsigned c = 0; c < N_CONTENDERS; c++) {
            double start = cpu_ns(), calls = contenders[c].run(&b);

            ns[c * (unsigned)rounds + (unsigned)k] = (cpu_ns() - start) / calls;
        }
    for (unsigned c = 0; c < N_CONTENDERS; c++) {
        printf("%s\"%s\": [", c == 0 ? "{" : ", ", contenders[c].name);
        for (int k = 0; k < rounds; k++)
            printf("%s%.2f", k == 0 ? "" : ", ", ns[c * (unsigned)rounds + (unsigned)k]);
        printf("]");
    }
    printf(", \"sink\": %llu}\n", (unsigned long long)(b.sink & 1));
    order_index_release(&b.index);
    free(list);
    free(ns);
    return 0;
}
