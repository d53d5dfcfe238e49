// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics.h"

#include "base/mem.h"
#include "unit.h"

/* The value of one series, as it is written; fails the test when it is not there once. */
static const char *value(const struct buf *b, const char *series)
{
    static char out[64];
    char *line = mem_fmt("\n%s ", series);
    const char *p = strstr(b->data, line);

    if (p == NULL)
        print_error("%s is missing\n", series);
    assert_non_null(p);
    assert_null(strstr(p + 1, line));
    p += strlen(line);
    snprintf(out, sizeof(out), "%.*s", (int)strcspn(p, "\n"), p);
    mem_free(&line);
    return out;
}

#define P "dlcache_operator_"

static void test_counters_and_gauges(void **state)
{
    struct metrics *m = mem_new(struct metrics);
    struct metrics_now now = {.leader = true, .transitions = 3, .due = 4, .waiting = 5};
    struct buf b = BUF_INIT;

    (void)state;
    now.watches[now.n_watches++] =
        (struct metrics_watch){"Pod", true, .lists = 1, .watches = 3, .failures = 2, .objects = 9};
    now.watches[now.n_watches++] = (struct metrics_watch){"Node", false};
    now.oldest = DLC_MS(250);
    now.certificate_end = 1800000000;
    metrics_call(m, METRICS_patch, 409);
    metrics_call(m, METRICS_patch, 200);
    metrics_call(m, METRICS_patch, 200);
    metrics_call(m, METRICS_get, 0);
    metrics_call(m, METRICS_get, -5);
    metrics_call(m, METRICS_get, 70000);
    metrics_review(m, WEBHOOK_ODD);
    metrics_text(m, &now, &b);
    assert_string_equal(value(&b, P "leader"), "1");
    assert_string_equal(value(&b, P "lease_transitions_total"), "3");
    assert_string_equal(value(&b, P "queue_length{state=\"due\"}"), "4");
    assert_string_equal(value(&b, P "queue_length{state=\"waiting\"}"), "5");
    assert_string_equal(value(&b, P "queue_late_seconds"), "0.25");
    assert_string_equal(value(&b, P "api_requests_total{verb=\"patch\",code=\"200\"}"), "2");
    assert_string_equal(value(&b, P "api_requests_total{verb=\"patch\",code=\"409\"}"), "1");
    assert_string_equal(value(&b, P "api_requests_total{verb=\"get\",code=\"0\"}"), "3");
    assert_string_equal(value(&b, P "watch_restarts_total{kind=\"Pod\"}"), "2");
    assert_string_equal(value(&b, P "watch_restarts_total{kind=\"Node\"}"), "0");
    assert_string_equal(value(&b, P "watch_synced{kind=\"Node\"}"), "0");
    assert_string_equal(value(&b, P "cached_objects{kind=\"Pod\"}"), "9");
    assert_string_equal(value(&b, P "webhook_reviews_total{outcome=\"odd\"}"), "1");
    assert_string_equal(value(&b, P "webhook_reviews_total{outcome=\"patched\"}"), "0");
    assert_string_equal(value(&b, P "certificate_end_seconds"), "1800000000");
    buf_release(&b);
    mem_free(&m);
}

static void test_the_histogram(void **state)
{
    struct metrics *m = mem_new(struct metrics);
    struct metrics_now now = {0};
    struct buf b = BUF_INIT;

    (void)state;
    metrics_round(m, false, METRICS_DONE, DLC_MS(1)); /* on a bound: within it */
    metrics_round(m, false, METRICS_DONE, DLC_MS(2));
    metrics_round(m, false, METRICS_FAILED, DLC_SEC(60));
    metrics_round(m, true, METRICS_AGAIN, DLC_MS(-1)); /* a clock that went back */
    metrics_text(m, &now, &b);
#define H P "reconciliation_seconds_"
    assert_string_equal(value(&b, H "bucket{kind=\"DLTPod\",le=\"0.001\"}"), "1");
    assert_string_equal(value(&b, H "bucket{kind=\"DLTPod\",le=\"0.0025\"}"), "2");
    assert_string_equal(value(&b, H "bucket{kind=\"DLTPod\",le=\"10\"}"), "2");
    assert_string_equal(value(&b, H "bucket{kind=\"DLTPod\",le=\"+Inf\"}"), "3");
    assert_string_equal(value(&b, H "count{kind=\"DLTPod\"}"), "3");
    assert_string_equal(value(&b, H "sum{kind=\"DLTPod\"}"), "60.003");
    assert_string_equal(value(&b, H "sum{kind=\"CachedDataset\"}"), "0");
    assert_string_equal(value(&b, P "reconciliations_total{kind=\"DLTPod\",result=\"error\"}"),
                        "1");
    assert_string_equal(
        value(&b, P "reconciliations_total{kind=\"CachedDataset\",result=\"again\"}"), "1");
    buf_release(&b);
    mem_free(&m);
}

/* Every line is a comment or NAME{LABELS} VALUE, and each name has one TYPE before it. */
static void test_every_line_is_in_the_format(void **state)
{
    struct metrics *m = mem_new(struct metrics);
    struct metrics_now now = {0};
    struct buf b = BUF_INIT;
    char type[100] = "", *rest, *line;

    (void)state;
    metrics_call(m, METRICS_watch, 410);
    metrics_text(m, &now, &b);
    rest = b.data;
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        if (strncmp(line, "# TYPE ", 7) == 0) {
            snprintf(type, sizeof(type), "%.*s", (int)strcspn(line + 7, " "), line + 7);
        } else if (strncmp(line, "# HELP ", 7) != 0) {
            char *end;

            assert_int_equal(strncmp(line, type, strlen(type)), 0);
            assert_non_null(strrchr(line, ' '));
            strtod(strrchr(line, ' ') + 1, &end);
            assert_int_equal(*end, '\0');
        }
    }
    buf_release(&b);
    mem_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_and_gauges),
        cmocka_unit_test(test_the_histogram),
        cmocka_unit_test(test_every_line_is_in_the_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
