// SPDX-License-Identifier: Apache-2.0
/* The screen of top and the paragraph of explain. */
#include "unit.h"

#include "cli/figures_view.h"

static json_t *figures;

static int set_up(void **state)
{
    (void)state;
    figures = json_pack("{s:s, s:f, s:{s:i, s:i}, s:[{s:s, s:s}], s:[{s:s, s:s, s:{s:i}, s:{s:f, "
                        "s:f, s:f, s:{s:i}},"
                        " s:s}, {s:s, s:s, s:{s:i}, s:{s:f, s:f, s:{s:i}}, s:{s:i, s:i, s:i}}],"
                        " s:[{s:s, s:i, s:i, s:{s:i}}]}",
                        "name", "n\x1b", "uptime_s", 61.0, "memory", "used", 5, "ceiling", 10,
                        "problems", "what", "The disk is full.", "remedy", "Empty it.", "jobs",
                        "job", "", "dataset", "s3://b/\n", "readers", "sessions", 2, "recent",
                        "seconds", 20.0, "waiting", 0.5, "disk", 0.5, "usage", "read_bytes", 40000,
                        "advice", "waits for the disk", "job", "fast", "dataset", "d", "readers",
                        "sessions", 1, "recent", "seconds", 10.0, "waiting", 0.004, "usage",
                        "read_bytes", 90000, "order", "epoch", 3, "at", 1, "length", 4, "datasets",
                        "name", "d", "bytes", 1000, "memory_bytes", 250, "usage", "requests", 7);
    assert_non_null(figures);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(figures);
    return 0;
}

static const char *screen(struct top_screen s)
{
    static struct buf out = BUF_INIT;

    buf_clear(&out);
    top_render(figures, &s, &out);
    return buf_str(&out);
}

static void test_screen(void **state)
{
    (void)state;
    assert_string_equal(
        screen((struct top_screen){.sort = TOP_WAITING}),
        "dlcache n? up 1m01s   memory 5 B of 10 B\n"
        "! The disk is full. Empty it.\n"
        "> (no name) waits for the disk\n"
        "\n"
        "JOB        READERS     READS  WAITS  latency  bandwidth  disk  memory  order    EPOCH\n"
        "(no name)        2  4.0 kB/s   50 %                      50 %                       -\n"
        "fast             1  9.0 kB/s  0.4 %                                           3, 25 %\n"
        "\n"
        "DATASET    SIZE  MEMORY  DISK  REQUESTS     COST   DIRECT\n"
        "d        1.0 kB    25 %   0 %         7  $0.0000  $0.0000\n");
}

static void test_order_of_jobs(void **state)
{
    const char *s;

    (void)state;
    s = screen((struct top_screen){.sort = TOP_READ});
    assert_true(strstr(s, "\nfast") < strstr(s, "\n(no name)"));
    s = screen((struct top_screen){.sort = TOP_NAME});
    assert_true(strstr(s, "\n(no name)") < strstr(s, "\nfast"));
}

/* Nothing beyond the edges of a terminal. */
static void test_small_screen(void **state)
{
    (void)state;
    assert_string_equal(screen((struct top_screen){.rows = 2, .columns = 9}),
                        "dlcache n\n! The dis\n");
    json_object_set_new(figures, "name", json_string("\xd7\x90\xd7\x91\xd7\x92"));
    assert_string_equal(screen((struct top_screen){.rows = 1, .columns = 10}),
                        "dlcache \xd7\x90\xd7\x91\n");
}

static void test_explain(void **state)
{
    struct buf out = BUF_INIT;

    (void)state;
    assert_true(explain_render(figures, "", &out));
    assert_string_equal(buf_str(&out),
                        "Job (no name) reads s3://b/? with 2 readers.\n"
                        "In the last 20 s of its readers' time, at 4.0 kB/s, it waited 50 % of the "
                        "time: disk 50 %; trained or computed 50 %.\n"
                        "It waits for the disk\n");
    buf_clear(&out);
    assert_true(explain_render(figures, "fast", &out));
    assert_non_null(strstr(buf_str(&out), "with 1 reader.\n"));
    assert_non_null(strstr(buf_str(&out), "nothing to advise"));
    buf_clear(&out);
    assert_false(explain_render(figures, "absent", &out));
    buf_release(&out);
}

/* A daemon of another version, or of a tenant's token: what is absent is left out. */
static void test_absent_members(void **state)
{
    (void)state;
    json_object_clear(figures);
    assert_string_equal(screen((struct top_screen){0}),
                        "dlcache up 0 ns\n\nNo job has read here yet.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_screen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_jobs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_small_screen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_explain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_absent_members, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
