// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/backoff.h"

static void waits_double_up_to_the_most(void **state)
{
    static const int64_t ms[] = {50, 100, 200, 400, 500, 500};

    (void)state;
    for (unsigned i = 0; i < DLC_COUNT(ms); i++)
        assert_int_equal(backoff_after(i + 1, DLC_MS(50), DLC_MS(500)).ns, DLC_MS(ms[i]).ns);
    assert_int_equal(backoff_after(0, DLC_MS(50), DLC_MS(500)).ns, DLC_MS(50).ns);
    assert_int_equal(backoff_after(1, DLC_MS(50), DLC_MS(20)).ns, DLC_MS(20).ns);
    assert_int_equal(backoff_after(UINT32_MAX, DLC_MS(50), (struct dlc_dur){INT64_MAX}).ns,
                     INT64_MAX);
}

static void the_next_wait_follows_the_last(void **state)
{
    struct dlc_dur d = {0};

    (void)state;
    for (unsigned i = 1; i < 10; i++) {
        d = backoff_next(d, DLC_SEC(1), DLC_SEC(30));
        assert_int_equal(d.ns, backoff_after(i, DLC_SEC(1), DLC_SEC(30)).ns);
    }
}

static void jitter_takes_off_a_share(void **state)
{
    struct rng r = {1};
    int64_t least = INT64_MAX, most = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct dlc_dur d = backoff_jitter(DLC_MS(1000), 0.5, &r);

        least = DLC_MIN(least, d.ns);
        most = DLC_MAX(most, d.ns);
    }
    assert_in_range(least, DLC_MS(500).ns, DLC_MS(501).ns);
    assert_in_range(most, DLC_MS(999).ns, DLC_MS(1000).ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_up_to_the_most),
        cmocka_unit_test(the_next_wait_follows_the_last),
        cmocka_unit_test(jitter_takes_off_a_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
