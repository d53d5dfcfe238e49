// SPDX-License-Identifier: Apache-2.0
#include "operator/reconcile/reconcile_i.h"
#include "unit.h"

static const struct row {
    const char *what, *data;
    int64_t bytes;
    bool at_once, later; /* is it over just after the order, and long after? */
} rows[] = {
    {"nothing yet",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 0, 'nodes': []}}", 0, false,
     true},
    {"a part that fits",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 60, 'nodes': [{'bytes': "
     "60}]}}",
     60, false, true},
    {"each has its share",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 100, 'nodes': [{'bytes': "
     "40}, "
     "{'bytes': 60}]}}",
     100, true, true},
    {"one has it all",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 120, 'nodes': [{'bytes': "
     "100}, "
     "{'bytes': 20}]}}",
     100, true, true},
    {"copies: nobody knows yet",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 140, 'nodes': [{'bytes': "
     "70}, "
     "{'bytes': 70}]}}",
     100, false, true},
    {"copies, and a node that fetches",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 140, 'nodes': [{'bytes': "
     "70}, "
     "{'bytes': 70}]}, 'preparation': [{'phase': 'warming', 'done': 5, 'total': 10}]}",
     75, false, false},
    {"all fetch, and have just begun",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 0, 'nodes': []}, "
     "'preparation': [{'phase': "
     "'warming', 'done': 0, 'total': 10}, {'phase': 'warming', 'done': 1, 'total': 10}]}",
     0, false, false},
    {"what was fetched was evicted again",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 30, 'nodes': [{'bytes': "
     "30}]}, "
     "'preparation': [{'phase': 'warming', 'done': 9, 'total': 10}]}",
     30, false, false},
    {"another phase is no fetching",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 30, 'nodes': [{'bytes': "
     "30}]}, "
     "'preparation': [{'phase': 'listing', 'done': 0, 'total': 10}]}",
     30, false, true},
    {"shares that differ",
     "{'snapshot': {'bytes': 100, 'samples': 40}, 'cached': {'bytes': 50, 'nodes': []}, "
     "'preparation': [{'phase': 'warming', 'done': 20, 'total': 21}, {'phase': 'warming', 'done': "
     "0, 'total': 19}]}",
     50, false, false},
    {"more than there is",
     "{'snapshot': {'bytes': 100, 'samples': 20}, 'cached': {'bytes': 50, 'nodes': []}, "
     "'preparation': [{'phase': 'warming', 'done': 0, 'total': 30}]}",
     0, false, false},
    {"an empty bucket", "{'snapshot': {'bytes': 0}, 'cached': {'bytes': 0, 'nodes': []}}", 0, true,
     true},
};

static json_t *parse(const char *s)
{
    char text[512];
    json_t *v;

    snprintf(text, sizeof(text), "%s", s);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    v = json_loads(text, 0, NULL);
    assert_non_null(v);
    return v;
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        json_t *data = parse(rows[i].data);

        if (prepared_bytes(data) != rows[i].bytes || prepared_is_over(data, 0) != rows[i].at_once ||
            prepared_is_over(data, RECON_WARM_S) != rows[i].later)
            fail_msg("%s: %lld bytes", rows[i].what, (long long)prepared_bytes(data));
        json_decref(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
