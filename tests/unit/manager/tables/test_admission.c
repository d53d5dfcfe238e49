// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "manager/tables/admission.h"

#define MAX UINT64_MAX

static const struct row {
    struct qos q;
    uint64_t bytes, cached, free, evictable, promised;
    uint64_t need;
    bool admitted;
} table[] = {
    /* lazy: what is missing must find room */
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 100, 0, 0, 100, true},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 99, 0, 0, 100, false},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 60, 40, 0, 100, true},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 60, 39, 0, 100, false},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 40, 60, 0, 0, 60, true},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 40, 59, 0, 0, 60, false},
    /* a limit of partitions says nothing to a lazy one */
    {{true, QOS_LAZY, 10, 0, 0}, 100, 0, 50, 0, 0, 100, false},
    /* others were there before */
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 150, 0, 50, 100, true},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 150, 0, 51, 100, false},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 0, 50, 50, 200, 100, false},
    /* all there: it needs nothing, whatever was promised */
    {{true, QOS_LAZY, 0, 0, 0}, 100, 100, 0, 0, 500, 0, true},
    {{true, QOS_LAZY, 0, 0, 0}, 100, 200, 0, 0, 0, 0, true},
    {{true, QOS_LAZY, 0, 0, 0}, 0, 0, 0, 0, 0, 0, true},
    /* partitioned: one partition, and no more than is missing */
    {{true, QOS_PARTITIONED, 10, 0, 0}, 100, 0, 10, 0, 0, 10, true},
    {{true, QOS_PARTITIONED, 10, 0, 0}, 100, 0, 9, 0, 0, 10, false},
    {{true, QOS_PARTITIONED, 10, 0, 0}, 100, 95, 5, 0, 0, 5, true},
    {{true, QOS_PARTITIONED, 500, 0, 0}, 100, 0, 99, 0, 0, 100, false},
    {{true, QOS_PARTITIONED, 0, 0, 0}, 100, 0, 100, 0, 0, 100, true},
    {{true, QOS_PARTITIONED, 0, 0, 0},
     MAX,
     0,
     ADMISSION_PARTITION,
     0,
     0,
     ADMISSION_PARTITION,
     true},
    {{true, QOS_PARTITIONED, 0, 0, 0},
     MAX,
     0,
     ADMISSION_PARTITION,
     0,
     1,
     ADMISSION_PARTITION,
     false},
    /* past the cache: nothing */
    {{false, QOS_LAZY, 0, 0, 0}, MAX, 0, 0, 0, MAX, 0, true},
    {{false, QOS_PARTITIONED, 10, 0, 0}, 100, 0, 0, 0, 0, 0, true},
    /* sums that do not fit */
    {{true, QOS_LAZY, 0, 0, 0}, MAX, 0, MAX, MAX, 0, MAX, true},
    {{true, QOS_LAZY, 0, 0, 0}, MAX, 0, MAX, MAX, 1, MAX, false},
    {{true, QOS_LAZY, 0, 0, 0}, MAX, 0, MAX - 1, 0, 0, MAX, false},
    {{true, QOS_LAZY, 0, 0, 0}, 1, 0, 0, 0, MAX, 1, false},
};

static void test_every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(table); i++) {
        const struct row *r = &table[i];
        struct admission a = {.need = 7, .admitted = !r->admitted};

        admit(&a, &r->q, r->bytes, r->cached, r->free, r->evictable, r->promised);
        if (a.need != r->need || a.admitted != r->admitted)
            fail_msg("row %zu: need %llu, admitted %d", i, (unsigned long long)a.need, a.admitted);
        assert_true(a.free == r->free && a.evictable == r->evictable && a.promised == r->promised);
    }
}

/* More room never refuses what less room admitted; more promised never admits what was refused. */
static void test_monotonous(void **state)
{
    static const uint64_t v[] = {0, 1, 2, 10, 99, 100, 101, MAX - 1, MAX};
    struct qos q = {.use_cache = true};

    (void)state;
    for (size_t b = 0; b < unit_count(v); b++)
        for (size_t p = 0; p < unit_count(v); p++) {
            bool before = false;

            for (size_t f = 0; f < unit_count(v); f++) {
                struct admission a, less;

                admit(&a, &q, v[b], 0, v[f], 0, v[p]);
                assert_true(a.admitted >= before);
                before = a.admitted;
                admit(&less, &q, v[b], 0, v[f], 0, p > 0 ? v[p - 1] : 0);
                assert_true(less.admitted >= a.admitted);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_monotonous),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
