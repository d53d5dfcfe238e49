// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer/peer_health.h"

#include "unit.h"

static struct dlc_mono at(double s)
{
    return (struct dlc_mono){(int64_t)((s + 1000) * 1e9)};
}

static struct health fresh(void)
{
    struct health h;

    health_init(&h, DLC_MS(50), DLC_SEC(2));
    return h;
}

static void test_three_failures_in_a_row(void **state)
{
    struct health h = fresh();

    (void)state;
    for (int i = 0; i < 10; i++) { /* never three */
        assert_false(health_bad(&h, false, at(0)));
        assert_false(health_bad(&h, false, at(0)));
        health_good(&h);
    }
    assert_int_equal(health_admit(&h, at(0)), HEALTH_ASK);
    assert_false(health_bad(&h, false, at(0)));
    assert_false(health_bad(&h, false, at(0)));
    assert_true(health_bad(&h, false, at(0)));
    assert_true(health_skipping(&h));
    assert_int_equal(health_admit(&h, at(0.99)), HEALTH_SKIP);
    assert_false(health_usable(&h, at(0.99)));
    assert_true(health_usable(&h, at(1)));
}

static void test_pauses_double_up_to_thirty(void **state)
{
    static const double pauses[] = {1, 2, 4, 8, 16, 30, 30, 30};
    struct health h = fresh();
    double now = 0;

    (void)state;
    h.failures = 2;
    assert_true(health_bad(&h, false, at(now)));
    for (size_t i = 0; i < unit_count(pauses); i++) {
        assert_int_equal(health_admit(&h, at(now + pauses[i] - 0.01)), HEALTH_SKIP);
        now += pauses[i];
        assert_int_equal(health_admit(&h, at(now)), HEALTH_TRY);
        assert_int_equal(health_admit(&h, at(now)), HEALTH_SKIP); /* one question at a time */
        assert_true(health_bad(&h, true, at(now)));
    }
    now += 30;
    assert_int_equal(health_admit(&h, at(now)), HEALTH_TRY);
    health_good(&h);
    assert_int_equal(health_admit(&h, at(now)), HEALTH_ASK);
    h.failures = 2;
    assert_true(health_bad(&h, false, at(now)));
    assert_int_equal(health_admit(&h, at(now + 1)), HEALTH_TRY); /* from the beginning again */
}

static void test_who_answers_is_on_probation(void **state)
{
    struct health h = fresh();

    (void)state;
    h.failures = 2;
    assert_true(health_bad(&h, false, at(0)));
    assert_int_equal(health_admit(&h, at(1)), HEALTH_TRY);
    health_answers(&h);
    assert_false(health_skipping(&h));
    assert_int_equal(health_admit(&h, at(1)), HEALTH_ASK);
    assert_true(health_bad(&h, false, at(1))); /* one is enough */
    assert_false(health_usable(&h, at(2.9)));
    assert_int_equal(health_admit(&h, at(3)), HEALTH_TRY);
    health_answers(&h);
    health_good(&h); /* a sample came */
    assert_false(health_bad(&h, false, at(4)));
    assert_false(health_bad(&h, false, at(4)));
    assert_true(health_bad(&h, false, at(4)));
    assert_true(health_usable(&h, at(5))); /* from the beginning again */
}

static void test_stragglers_do_not_make_it_longer(void **state)
{
    struct health h = fresh();

    (void)state;
    for (int i = 0; i < 16; i++)
        assert_int_equal(health_bad(&h, false, at(0)), i == 2);
    assert_int_equal(health_admit(&h, at(1)), HEALTH_TRY);
    health_neither(&h, true); /* it was cancelled: another may find out */
    assert_int_equal(health_admit(&h, at(1)), HEALTH_TRY);
}

static void test_patience(void **state)
{
    struct health h = fresh();

    (void)state;
    assert_int_equal(health_patience(&h).ns, DLC_SEC(2).ns); /* nothing is known yet */
    for (int i = 0; i < 1000; i++)
        health_sign(&h, DLC_MS(1));
    assert_int_equal(health_patience(&h).ns, DLC_MS(50).ns);
    for (int i = 0; i < 50; i++)
        health_sign(&h, DLC_MS(100));
    assert_in_range(health_patience(&h).ns, DLC_MS(350).ns, DLC_MS(450).ns);
    for (int i = 0; i < 50; i++)
        health_sign(&h, DLC_SEC(5));
    assert_int_equal(health_patience(&h).ns, DLC_SEC(2).ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_failures_in_a_row),
        cmocka_unit_test(test_pauses_double_up_to_thirty),
        cmocka_unit_test(test_who_answers_is_on_probation),
        cmocka_unit_test(test_stragglers_do_not_make_it_longer),
        cmocka_unit_test(test_patience),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
