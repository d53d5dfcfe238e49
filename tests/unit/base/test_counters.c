// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/counters.h"

static void test_adding_is_seen_in_the_table(void **state)
{
    uint64_t before = count_read(bucket_bytes);
    bool found = false;

    (void)state;
    count_add(bucket_bytes, 41);
    count(bucket_bytes);
    assert_true(count_read(bucket_bytes) - before == 42);
    for (unsigned i = 0; i < counter_table_len; i++) {
        if (strcmp(counter_table[i].name, "bucket_bytes") == 0) {
            assert_true(*counter_table[i].value - before == 42);
            found = true;
        }
    }
    assert_true(found);
}

static void test_table_is_complete_and_without_doubles(void **state)
{
    (void)state;
    assert_int_equal(counter_table_len * sizeof(uint64_t), sizeof(struct counters));
    for (unsigned i = 0; i < counter_table_len; i++) {
        assert_true(strlen(counter_table[i].help) > 10);
        assert_true(strlen(counter_table[i].unit) > 0);
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(counter_table[i].name, counter_table[k].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adding_is_seen_in_the_table),
        cmocka_unit_test(test_table_is_complete_and_without_doubles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
