// SPDX-License-Identifier: Apache-2.0
/* How well eviction keeps a full tier full. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/rng.h"
#include "client.h"
#include "cache/memory/memory_i.h"

#define MB ((uint64_t)1 << 20)

enum sizes { IMAGES, TINY, MIXED, EQUAL };

/* About normal(0, 1). */
static double normal(struct rng *r)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += rng_unit(r);
    return sum - 6;
}

static uint64_t draw(struct rng *r, enum sizes sizes)
{
    switch (sizes) {
    case IMAGES: return (uint64_t)(100e3 * exp(0.6 * normal(r))); /* JPEG files of ImageNet */
    case TINY: return 100 + rng_below(r, 4000);                   /* tokens, CIFAR */
    case MIXED: return (uint64_t)exp(log(1e3) + rng_unit(r) * log(1e3)); /* 1 kB to 1 MB */
    case EQUAL: return 150528;                                           /* 224 x 224 x 3 */
    }
    return 0;
}

/* Read at random from a dataset twice as large as the tier, whose samples differ in size each time.
 * Returns the mean part of the tier that holds sample bytes once it is full. */
static double utilisation(enum sizes sizes, uint64_t ceiling, uint64_t n)
{
    struct rng r = {7 + sizes};
    struct memory *m;
    struct mem_index *x;
    double sum = 0;
    uint64_t counted = 0, filled = 0;

    assert_int_equal(memory_new(ceiling, ceiling, &m, NULL), 0);
    assert_int_equal(mem_index_new(m, n, 1, &x, NULL), 0);
    while (filled < 8 * ceiling) {
        uint64_t sample = rng_below(&r, n), len = DLC_MIN(draw(&r, sizes), ceiling / 4);
        struct mem_fill *f;

        if (mem_index_ready(x, sample)) {
            memory_touch(m, x, sample);
            continue;
        }
        assert_int_equal(memory_reserve(m, x, sample, len, &f), 0);
        memory_publish(m, &f);
        filled += len;
        if (filled > 2 * ceiling) {
            sum += (double)mem_index_bytes(x) / (double)ceiling;
            counted++;
        }
    }
    arena_check(&m->arena);
    mem_index_free(&x);
    memory_free(&m);
    return sum / (double)counted;
}

static void test_utilisation(void **state)
{
    static const struct {
        const char *name;
        enum sizes sizes;
        uint64_t ceiling, n;
        double want;
    } rows[] = {
        {"images, 64 MB", IMAGES, 64 * MB, 1000, 0.85},
        {"images, 1 GB", IMAGES, 1024 * MB, 16000, 0.85},
        {"tiny, 64 MB", TINY, 64 * MB, 64000, 0.85},
        {"mixed, 256 MB", MIXED, 256 * MB, 3500, 0.85},
        {"equal, 64 MB", EQUAL, 64 * MB, 900, 0.95},
    };

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(rows); i++) {
        double got = utilisation(rows[i].sizes, rows[i].ceiling, rows[i].n);

        print_message("%-16s %.1f %% full\n", rows[i].name, 100 * got);
        assert_true(got >= rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_utilisation)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
