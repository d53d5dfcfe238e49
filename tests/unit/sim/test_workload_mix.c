// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "sim/workload_mix.h"

static const char table[] = "Cost,ETag,Key,Size\n"
                            "80,x,A/1,100\n"
                            "40.5,x,B/1,200\r\n"
                            "8,x,C/2,20\n"
                            "16,x,C/1,10\n"
                            "24,x,C/3,30\n"
                            "4,x,D/1,7";

static int parse(struct mix *m, const char *text, struct dlc_err *err)
{
    *m = (struct mix)MIX_INIT;
    return mix_parse(m, "t", text, strlen(text), 8, err);
}

static void test_a_table(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct mix m;

    (void)state;
    assert_int_equal(parse(&m, table, &err), 0);
    assert_int_equal(m.trace.n_chunks, 6);
    assert_int_equal(m.trace.bytes, 367);
    assert_true(m.trace.chunks[m.chunks[MIX_REUSED][0]].cost == 10);
    assert_int_equal(m.n[MIX_WINDOWS], 3);
    assert_int_equal(m.trace.chunks[m.chunks[MIX_WINDOWS][0]].size, 10); /* by key */
    assert_int_equal(m.trace.chunks[m.chunks[MIX_WINDOWS][2]].size, 30);
    mix_release(&m);
}

static void test_a_row_has_the_right_jobs(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint32_t window = 0;
    struct mix m;

    (void)state;
    assert_int_equal(parse(&m, table, &err), 0);
    mix_seed(&m, 7, false);
    mix_shuffle(&m, (struct mix_row){.reuse = 3, .share = 2, .last = 1});
    assert_int_equal(m.trace.n_jobs, 3 + 2 + 2 + 1);
    assert_int_equal(m.trace.n_reads, 3 * 1 + 2 * 2 + 2 * 2 + 1);
    assert_int_equal(m.trace.runs[MIX_REUSED], 3);
    assert_int_equal(m.trace.runs[MIX_WINDOWS], 2);
    for (uint32_t j = 0; j < m.trace.n_jobs; j++) { /* windows in their own order */
        if (m.trace.jobs[j] != MIX_WINDOWS)
            continue;
        assert_int_equal(m.trace.job_reads.at[m.trace.job_reads.from[j]],
                         m.chunks[MIX_WINDOWS][window++]);
    }
    mix_shuffle(&m, (struct mix_row){.reuse = 1, .share = 1, .last = 7}); /* no window fits */
    assert_int_equal(m.trace.n_jobs, 3);
    mix_release(&m);
}

static void test_the_grid(void **state)
{
    struct mix_row first = mix_row(0), last = mix_row(MIX_ROWS - 1), some = mix_row(21);

    (void)state;
    assert_true(first.reuse == 1 && first.share == 1 && first.last == 1);
    assert_true(some.reuse == 3 && some.share == 3 && some.last == 3);
    assert_true(last.reuse == 5 && last.share == 7 && last.last == 7);
}

static void test_what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "this has 0"},
        {"Price,Key,Size\n", "the first line names the columns"},
        {"Cost,Key,Size\n1,A/1,2\n", "this has 1"},
        {"Cost,Key,Size\nx,A/1,2\n", "t:2: Cost is a number"},
        {"Cost,Key,Size\n1,A/1,-2\n", "Size is a number"},
        {"Cost,Key,Size\n1,A/1\n", "too few columns"},
        {"Cost,Key,Size\n1,A,1\n1,B,1\n1,C,1\n1,D,1\n1,E,1\n", "t:6: a table has four datasets"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct mix m;

        assert_int_equal(parse(&m, bad[i].text, &err), DLC_EINVAL);
        assert_non_null(strstr(err.text, bad[i].says));
        mix_release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table),
        cmocka_unit_test(test_a_row_has_the_right_jobs),
        cmocka_unit_test(test_the_grid),
        cmocka_unit_test(test_what_is_wrong_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
