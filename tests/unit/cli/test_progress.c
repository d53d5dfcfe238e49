// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *text;
static size_t text_len;

static void start(struct progress *p, bool terminal)
{
    progress_init(p, "samples", false);
    p->out = open_memstream(&text, &text_len);
    p->terminal = terminal;
}

static void finish(struct progress *p)
{
    if (p->out != NULL)
        fclose(p->out);
    free(text);
    text = NULL;
}

/* 100 MB in 2 s of 400 MB in all. */
static void run_half(struct progress *p)
{
    progress_update(p, "warming", 0, 1000, 0, 400000000);
    for (int i = 1; i <= 4; i++) {
        dlc_clock_advance(DLC_MS(500));
        progress_update(p, "warming", (uint64_t)i * 62, 1000, (uint64_t)i * 25000000, 400000000);
    }
}

static void test_terminal(void **state)
{
    struct progress p;

    (void)state;
    start(&p, true);
    run_half(&p);
    assert_non_null(strstr(text, "\rwarming [#####---------------]  25 %  248 of 1,000 samples"));
    assert_non_null(strstr(text, "MB/s"));
    assert_non_null(strstr(text, " left\033[K"));
    assert_null(strchr(text, '\n'));
    progress_end(&p);
    assert_non_null(strstr(text, "left\033[K\r\033[K")); /* the line is gone */
    finish(&p);
}

static void test_rate_and_time_left(void **state)
{
    struct progress p;
    struct buf b = BUF_INIT;

    (void)state;
    start(&p, true);
    run_half(&p);
    assert_true(p.byte_rate > 45e6 && p.byte_rate < 55e6); /* 50 MB/s */
    progress_format(&p, 0, &b);
    assert_true(strstr(b.data, "  6 s left") != NULL || strstr(b.data, "  7 s left") != NULL);
    buf_release(&b);
    progress_format(&p, 70, &b); /* too narrow for the bar */
    assert_null(strchr(b.data, '['));
    assert_non_null(strstr(b.data, "s left"));
    buf_release(&b);
    finish(&p);
}

static void test_rate_follows(void **state)
{
    struct progress p;
    double before;

    (void)state;
    start(&p, true);
    run_half(&p);
    before = p.byte_rate;
    for (int i = 1; i <= 20; i++) { /* ten seconds of nothing */
        dlc_clock_advance(DLC_MS(500));
        progress_update(&p, "warming", 248, 1000, 100000000, 400000000);
    }
    assert_true(p.byte_rate < before / 10);
    finish(&p);
}

static void test_lines(void **state)
{
    struct progress p;

    (void)state;
    start(&p, false);
    run_half(&p);
    assert_null(text == NULL || text_len == 0 ? NULL : strchr(text, '\n')); /* not every time */
    dlc_clock_advance(DLC_SEC(5));
    progress_update(&p, "warming", 500, 1000, 200000000, 400000000);
    assert_non_null(strstr(text, "warming  50 %  500 of 1,000 samples  200.0 MB"));
    assert_null(strchr(text, '['));
    assert_null(strchr(text, '\033'));
    assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n')); /* one line in all that time */
    finish(&p);
}

static void test_unknown_total(void **state)
{
    struct progress p;
    struct buf b = BUF_INIT;

    (void)state;
    start(&p, true);
    progress_update(&p, "listing", 0, 0, 0, 0);
    dlc_clock_advance(DLC_SEC(1));
    progress_update(&p, "listing", 2000, 0, 0, 0);
    progress_format(&p, 0, &b);
    assert_ptr_equal(b.data, strstr(b.data, "listing  2,000 samples  "));
    assert_null(strstr(b.data, "left"));
    buf_release(&b);
    progress_format(&p, 12, &b);
    assert_string_equal("listing  2,0", b.data); /* narrow terminals */
    buf_release(&b);
    finish(&p);
}

static void test_quiet(void **state)
{
    struct progress p;

    (void)state;
    progress_init(&p, "samples", true);
    run_half(&p);
    progress_end(&p);
    assert_false(p.painted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terminal),           cmocka_unit_test(test_lines),
        cmocka_unit_test(test_rate_and_time_left), cmocka_unit_test(test_rate_follows),
        cmocka_unit_test(test_unknown_total),      cmocka_unit_test(test_quiet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
