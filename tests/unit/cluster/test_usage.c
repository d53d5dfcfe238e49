// SPDX-License-Identifier: Apache-2.0
/* Batches of usage: what is in them, until they are acknowledged, and from one process to the next. */
#include "unit.h"

#include "base/config.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "bucket/bucket.h"
#include "cluster/member.h"
#include "cluster/usage.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/session.h"
#include "daemon/state.h"

static struct node n;
static struct member m;
static struct config config;
static struct dataset ds;
static struct bucket_tally tally;

static int set_up(void **state)
{
    char path[256];

    (void)state;
    memset(&n, 0, sizeof(n));
    memset(&m, 0, sizeof(m));
    memset(&ds, 0, sizeof(ds));
    memset(&tally, 0, sizeof(tally));
    n.member = &m;
    n.config = &config;
    config.dir = (char *)(uintptr_t)mem_str(unit_path("node", path));
    assert_int_equal(os_mkdirs(config.dir, 0700), 0);
    dlc_list_init(&n.datasets);
    dlc_list_init(&ds.sessions);
    ds.node = &n;
    ds.cid = (char *)(uintptr_t) "d";
    ds.shared_as = (char *)(uintptr_t) "ann/d";
    ds.tally = &tally;
    ds.id = ++n.next_id;
    ds.asked.name = (char *)(uintptr_t) "d";
    dataset_table_add(&ds);
    usage_open(&n);
    usage_end(&n); /* every batch at once */
    return 0;
}

static int tear_down(void **state)
{
    char *file = mem_fmt("%s/usage.json", config.dir);

    (void)state;
    usage_close(&n);
    dataset_table_remove(&ds);
    os_unlink(file);
    mem_free(&file);
    mem_free(&config.dir);
    return 0;
}

static void acknowledge(const json_t *b)
{
    usage_heard(&n, b);
}

static json_t *next_batch(void)
{
    assert_true(usage_collect(&n));
    return usage_batch(&n);
}

static void test_a_batch_is_sent_until_it_is_acknowledged(void **state)
{
    json_t *a, *b;

    (void)state;
    assert_null(next_batch()); /* nothing was used */
    tally.requests = 3;
    tally.bytes = 30;
    a = next_batch();
    b = json_object_get(json_object_get(json_object_get(a, "rows"), "ann/d"), "");
    assert_int_equal(json_u64_at(b, "requests"), 3);
    assert_int_equal(json_u64_at(b, "bytes"), 30);
    tally.requests = 5;
    b = next_batch();
    assert_true(json_equal(a, b)); /* what came since waits for the next one */
    acknowledge(NULL);
    json_decref(b);
    b = json_pack("{s:s, s:i}", "id", json_text_at(a, "id"), "seq", 7);
    acknowledge(b); /* of another batch */
    json_decref(b);
    b = next_batch();
    assert_true(json_equal(a, b));
    acknowledge(b);
    json_decref(a);
    json_decref(b);
    b = next_batch();
    a = json_object_get(json_object_get(json_object_get(b, "rows"), "ann/d"), "");
    assert_int_equal(json_u64_at(a, "requests"), 2);
    assert_int_equal(json_u64_at(b, "seq"), 2);
    acknowledge(b);
    json_decref(b);
    assert_null(next_batch());
}

/* Only jobs as the manager names them have rows of their own. */
static void test_rows_of_jobs(void **state)
{
    static const struct {
        const char *job, *row;
    } cases[] = {{NULL, ""},
                 {"mine", ""},
                 {"j-0123456789abcdeg", ""},
                 {"j-0123456789abcdef0", ""},
                 {"j-0123456789abcdef", "j-0123456789abcdef"}};
    struct conn c = {0};
    struct mem_session_stats st = {.hits = 2, .misses = 1, .bytes = 60, .stall_ns = 9};

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct session s = {.conn = &c, .ds = &ds};
        json_t *b, *row;

        c.job = (char *)(uintptr_t)cases[i].job;
        s.waited.n[USAGE_disk_hits] = 1;
        usage_events.session_closed(&s, &st);
        usage_events.session_closed(&s, &st); /* nothing has come since */
        b = next_batch();
        row = json_object_get(json_object_get(json_object_get(b, "rows"), "ann/d"), cases[i].row);
        assert_int_equal(json_u64_at(row, "samples"), 3);
        assert_int_equal(json_u64_at(row, "memory_hits"), 2);
        assert_int_equal(json_u64_at(row, "disk_hits"), 1);
        assert_int_equal(json_u64_at(row, "read_bytes"), 60);
        assert_int_equal(json_u64_at(row, "stall_ns"), 9);
        acknowledge(b);
        json_decref(b);
    }
}

/* A process that ends leaves what was not acknowledged; the next one sends it first. */
static void test_the_next_process_sends_what_is_left(void **state)
{
    json_t *first, *b;

    (void)state;
    tally.requests = 3;
    first = next_batch();
    tally.requests = 8;
    usage_close(&n);
    memset(&ds.accounted, 0, sizeof(ds.accounted));
    tally.requests = 100;
    usage_open(&n);
    usage_end(&n);
    b = next_batch();
    assert_true(json_equal(first, b));
    acknowledge(b);
    json_decref(b);
    b = next_batch();
    assert_string_equal(json_text_at(b, "id"), json_text_at(first, "id"));
    assert_int_equal(json_u64_at(b, "seq"), 2);
    acknowledge(b);
    json_decref(b);
    b = next_batch();
    assert_string_not_equal(json_text_at(b, "id"), json_text_at(first, "id"));
    assert_int_equal(json_u64_at(b, "seq"), 1);
    acknowledge(b);
    json_decref(b);
    json_decref(first);
}

/* Thousands of datasets are accounted in steps, in batches of bounded size. */
static void test_many_datasets(void **state)
{
    enum { MANY = 3000 };
    struct dataset *others = test_calloc(MANY, sizeof(*others));
    char(*names)[16] = test_calloc(MANY, sizeof(*names));
    unsigned steps = 0, batches = 0;
    size_t rows = 0;
    json_t *b;

    (void)state;
    dataset_table_remove(&ds);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "ann/%u", i);
        others[i] = ds;
        others[i].id = ++n.next_id;
        others[i].cid = others[i].shared_as = names[i];
        dlc_list_init(&others[i].sessions);
        dataset_table_add(&others[i]);
    }
    tally.requests = 1;
    for (; rows < MANY; batches++) {
        for (; !usage_collect(&n); steps++)
            ;
        b = usage_batch(&n);
        assert_in_range(json_object_size(json_object_get(b, "rows")), 1, 1024);
        rows += json_object_size(json_object_get(b, "rows"));
        acknowledge(b);
        json_decref(b);
    }
    assert_int_equal(rows, MANY);
    assert_int_equal(batches, 3);
    assert_in_range(steps, 30, 100);
    for (unsigned i = 0; i < MANY; i++)
        dataset_table_remove(&others[i]);
    dataset_table_add(&ds);
    test_free(others);
    test_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_batch_is_sent_until_it_is_acknowledged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_many_datasets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows_of_jobs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_next_process_sends_what_is_left, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
