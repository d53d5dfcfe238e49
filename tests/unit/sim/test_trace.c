// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "sim/trace.h"

static int parse(struct sim_trace *t, const char *text, struct dlc_err *err)
{
    *t = (struct sim_trace)SIM_TRACE_INIT;
    return sim_trace_parse(t, "t", text, strlen(text), err);
}

static void test_a_trace(void **state)
{
    static const char text[] = "# two jobs side by side\r\n"
                               "chunk 10GB 80.5 train/0 of 2.tar\n"
                               "chunk 1500 0 b\r\n"
                               "\n"
                               "job one  images of cats\n"
                               "job two images of cats\n"
                               "job three\n"
                               "read one train/0 of 2.tar\n"
                               "read two b\n"
                               "weight 2.5 b\n"
                               "\tread one   b\n"
                               "read three b";
    struct dlc_err err = DLC_ERR_INIT;
    struct sim_trace t;

    (void)state;
    assert_int_equal(parse(&t, text, &err), 0);
    sim_trace_index(&t);
    assert_int_equal(t.n_chunks, 2);
    assert_int_equal(t.chunks[0].size, 10000000000);
    assert_true(t.chunks[0].cost == 80.5);
    assert_int_equal(t.bytes, 10000001500);
    assert_int_equal(t.n_datasets, 2);
    assert_int_equal(t.runs[0], 2);
    assert_int_equal(t.runs[1], 1);
    assert_int_equal(t.n_reads, 4);
    assert_int_equal(t.reads[0].next, SIM_NONE);
    assert_int_equal(t.reads[1].next, 2);
    assert_true(t.reads[1].weight == 2.5f && t.reads[0].weight < 0);
    assert_int_equal(t.job_reads.from[1], 2); /* job one read two */
    assert_int_equal(t.job_reads.at[0], 0);
    assert_int_equal(t.job_reads.at[1], 1);
    assert_int_equal(t.dataset_chunks.from[1], 2); /* each chunk once */
    assert_int_equal(t.dataset_chunks.from[2], 3);
    sim_trace_release(&t);
}

static void test_what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no reads"},
        {"chunk 1 1 a\njob j\n", "no reads"},
        {"hunk 1 1 a\n", "t:1: a line begins with"},
        {"chunk big 1 a\n", "a chunk's size"},
        {"chunk 9999999TB 1 a\n", "a chunk's size"},
        {"chunk 1 -2 a\n", "a chunk's cost"},
        {"chunk 1 nan a\n", "a chunk's cost"},
        {"chunk 1 1\n", "has a key"},
        {"chunk 1 1 a\nchunk 1 1 a\n", "t:2: this chunk is there already: \"a\""},
        {"job\n", "a job has a name"},
        {"job a\njob a\n", "this job is there already"},
        {"chunk 1 1 a\nread j a\n", "t:2: no job line before this names \"j\""},
        {"job j\nread j a\n", "no chunk line before this names \"a\""},
        {"chunk 1 1 a\nweight 1 a\n", "nobody has read \"a\""},
        {"chunk 1 1 a\nweight x a\n", "a weight is a number"},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        struct sim_trace t;

        assert_int_equal(parse(&t, bad[i].text, &err), DLC_EINVAL);
        assert_non_null(strstr(err.text, bad[i].says));
        sim_trace_release(&t);
    }
}

static void test_bytes_that_are_no_text(void **state)
{
    struct sim_trace t = SIM_TRACE_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(sim_trace_parse(&t, "t", "job\0a", 5, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "not a text"));
    sim_trace_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trace),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_bytes_that_are_no_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
