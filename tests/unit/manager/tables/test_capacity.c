// SPDX-License-Identifier: Apache-2.0
/* A cluster of nodes a, b, c with 1000 bytes each; dataset d has splits train (600) and test (300).
 */
#include "unit.h"

#include <jansson.h>

#include "manager/tables/capacity.h"
#include "manager/tables/job_table.h"

#define JOBS 6

static struct node_info nodes[3];
static struct job jobs[JOBS];
static size_t n_jobs;

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);

    assert_non_null(v);
    return v;
}

static int set_up(void **state)
{
    (void)state;
    memset(nodes, 0, sizeof(nodes));
    memset(jobs, 0, sizeof(jobs));
    n_jobs = 0;
    for (int i = 0; i < 3; i++) {
        nodes[i].name[0] = (char)('a' + i);
        nodes[i].state = NODE_LIVE;
        nodes[i].capacity = 1000;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        json_decref(nodes[i].figures);
    for (int i = 0; i < JOBS; i++)
        job_release(&jobs[i]);
    return 0;
}

/* A job of `dataset`, whose splits are "[...]". */
static struct job *job(const char *dataset, const char *splits, enum job_state state)
{
    struct job *j = &jobs[n_jobs++];

    snprintf(j->id, sizeof(j->id), "j-%zu", n_jobs);
    snprintf(j->dataset, sizeof(j->dataset), "%s", dataset);
    j->state = state;
    j->qos.use_cache = true;
    j->splits = parse(splits);
    j->created_ms = (int64_t)n_jobs;
    j->snapshot = parse("{\"bytes\": 900, \"splits\": [{\"name\": \"train\", \"bytes\": 600}, "
                        "{\"name\": \"test\", \"bytes\": 300}]}");
    return j;
}

static void figures(int i, const char *text)
{
    json_decref(nodes[i].figures);
    nodes[i].figures = parse(text);
}

static struct admission ask(const struct job *j)
{
    struct admission a;
    bool known;

    capacity_admit(nodes, 3, jobs, n_jobs, j, &a, &known);
    assert_int_equal(known, j->snapshot != NULL || !j->qos.use_cache);
    return a;
}

#define expect(a, n, f, e, p)                                                                      \
    do {                                                                                           \
        assert_int_equal((a).need, n);                                                             \
        assert_int_equal((a).free, f);                                                             \
        assert_int_equal((a).evictable, e);                                                        \
        assert_int_equal((a).promised, p);                                                         \
    } while (0)

static void test_alone(void **state)
{
    struct admission a = ask(job("d", "[]", JOB_QUEUED));

    (void)state;
    expect(a, 900, 3000, 0, 0);
    assert_true(a.admitted);
    a = ask(job("d", "[\"test\"]", JOB_QUEUED));
    expect(a, 300, 3000, 0, 600); /* the first waits before it, and needs the same 300 */
}

static void test_nodes_that_do_not_count(void **state)
{
    struct job *j = job("d", "[]", JOB_QUEUED);

    (void)state;
    nodes[0].state = NODE_DRAINING;
    nodes[1].state = NODE_GONE;
    expect(ask(j), 900, 1000, 0, 0);
    nodes[1].state = NODE_JOINING;
    expect(ask(j), 900, 1000, 0, 0);
    j->lies_on = parse("[\"a\", \"b\"]");
    expect(ask(j), 900, 0, 0, 0);
    j->nodes = parse("[\"c\"]"); /* what the job says goes before */
    expect(ask(j), 900, 1000, 0, 0);
}

static void test_what_is_there(void **state)
{
    struct job *j = job("d", "[]", JOB_QUEUED);

    (void)state;
    figures(0, "{\"disk_used\": 700, \"datasets\": {\"d\": {\"bytes\": 300}, \"x\": {\"bytes\": "
               "400}}}");
    expect(ask(j), 600, 2300, 400, 0);
    job("x", "[\"test\"]", JOB_RUNNING); /* wants 300 of x, and has 400: nothing more comes */
    expect(ask(j), 600, 2300, 0, 0);
    figures(1, "{\"disk_used\": \"many\", \"datasets\": [1]}"); /* nonsense counts as nothing */
    expect(ask(j), 600, 2300, 0, 0);
}

static void test_memory_where_there_is_no_disk(void **state)
{
    struct job *j = job("d", "[]", JOB_QUEUED);

    (void)state;
    nodes[0].capacity = 0;
    nodes[0].memory = 500;
    figures(0, "{\"disk_used\": 100, \"memory_used\": 200}");
    expect(ask(j), 900, 2300, 200, 0);
}

static void test_promises(void **state)
{
    struct job *j, *other;

    (void)state;
    other = job("x", "[\"train\"]", JOB_RUNNING);
    j = job("d", "[]", JOB_QUEUED);
    expect(ask(j), 900, 3000, 0, 600);
    job("x", "[\"train\"]", JOB_RUNNING); /* the same bytes again */
    expect(ask(j), 900, 3000, 0, 600);
    job("x", "[\"test\"]", JOB_RUNNING); /* others */
    expect(ask(j), 900, 3000, 0, 900);
    job("x", "[]", JOB_REFUSED);
    expect(ask(j), 900, 3000, 0, 900);
    figures(2, "{\"disk_used\": 200, \"datasets\": {\"x\": {\"bytes\": 200}}}");
    expect(ask(j), 900, 2800, 0, 700); /* part of it came */
    other->qos.use_cache = false;
    expect(ask(j), 900, 2800, 0, 700); /* the third still wants all of it */
}

static void test_promises_of_the_same_dataset(void **state)
{
    struct job *j, *other;

    (void)state;
    other = job("d", "[\"train\"]", JOB_RUNNING);
    j = job("d", "[\"train\"]", JOB_QUEUED);
    expect(ask(j), 0, 3000, 0, 600); /* what it reads comes anyway */
    j->splits = (json_decref(j->splits), parse("[]"));
    expect(ask(j), 300, 3000, 0, 600);
    j->splits = (json_decref(j->splits), parse("[\"test\"]"));
    expect(ask(j), 300, 3000, 0, 600);
    other->qos.mode = QOS_PARTITIONED;
    other->qos.memory_limit = 50;
    j->qos.mode = QOS_PARTITIONED;
    j->qos.memory_limit = 70;
    expect(ask(j), 70, 3000, 0, 50);
}

static void test_where_promises_lie(void **state)
{
    struct job *j, *other;

    (void)state;
    other = job("x", "[]", JOB_RUNNING);
    j = job("d", "[]", JOB_QUEUED);
    j->nodes = parse("[\"a\"]");
    expect(ask(j), 900, 1000, 0, 300); /* a third of x will lie on a */
    other->lies_on = parse("[\"b\", \"c\"]");
    expect(ask(j), 900, 1000, 0, 0);
}

static void test_the_queue(void **state)
{
    struct job *first, *second, *third;

    (void)state;
    first = job("x", "[]", JOB_QUEUED);
    second = job("y", "[]", JOB_QUEUED);
    third = job("z", "[]", JOB_QUEUED);
    expect(ask(first), 900, 3000, 0, 0);
    expect(ask(second), 900, 3000, 0, 900);
    expect(ask(third), 900, 3000, 0, 1800);
    third->qos.priority = 1;
    expect(ask(third), 900, 3000, 0, 0);
    expect(ask(first), 900, 3000, 0, 900);
    /* Who can never run holds nobody up. */
    first->snapshot = (json_decref(first->snapshot), parse("{\"bytes\": 3001}"));
    expect(ask(second), 900, 3000, 0, 900);
    assert_false(ask(first).admitted);
}

static void test_not_listed_yet(void **state)
{
    struct job *j = job("d", "[]", JOB_QUEUED);

    (void)state;
    json_decref(j->snapshot);
    j->snapshot = NULL;
    expect(ask(j), 0, 3000, 0, 0);
    j->qos.use_cache = false; /* it does not matter then */
    assert_true(ask(j).admitted);
}

static bool fits_on(unsigned gpus, const char *node, const char *job_asking)
{
    struct place_ask want = {.bytes = 900, .gpus = gpus, .nodes = 3, .job = job_asking};
    json_t *out = capacity_place(nodes, 3, jobs, n_jobs, "d", NULL, &want);
    bool fits = false;

    for (size_t i = 0; i < json_array_size(out); i++) {
        const json_t *one = json_array_get(out, i);

        if (strcmp(json_string_value(json_object_get(one, "node")), node) == 0)
            fits = json_number_value(json_object_get(one, "weight")) >= 1;
    }
    json_decref(out);
    return fits;
}

/* GPUs of jobs that run on a node are not free, whatever the node says; those of the job that asks
 * are. */
static void test_gpus_of_running_jobs(void **state)
{
    struct job *j;

    (void)state;
    nodes[0].gpus = nodes[1].gpus = 8;
    figures(0, "{\"gpus_free\": 8}");
    assert_true(fits_on(8, "a", NULL) && fits_on(8, "b", NULL));
    j = job("d", "[]", JOB_RUNNING);
    j->gpus = 6;
    assert_true(fits_on(8, "a", NULL)); /* nobody knows where it runs */
    figures(0, "{\"gpus_free\": 8, \"jobs\": {\"j-1\": {\"readers\": 2}}}");
    assert_true(fits_on(2, "a", NULL) && !fits_on(3, "a", NULL) && fits_on(8, "b", NULL));
    assert_true(fits_on(8, "a", "j-1"));
    figures(0, "{\"gpus_free\": 1, \"jobs\": {\"j-1\": {\"readers\": 2}}}");
    assert_true(fits_on(1, "a", NULL) && !fits_on(2, "a", NULL)); /* somebody else has one */
    j = job("d", "[]", JOB_RUNNING);
    j->gpus = 5;
    j->nodes = parse("[\"b\"]");
    assert_true(fits_on(3, "b", NULL) && !fits_on(4, "b", NULL));
    j->state = JOB_QUEUED;
    assert_true(fits_on(8, "b", NULL));
}

static void test_place(void **state)
{
    struct place_ask want = {.bytes = 900, .gpus = 2};
    json_t *out, *only = parse("[\"a\", \"b\"]");

    (void)state;
    nodes[0].gpus = 2;
    nodes[2].gpus = 8;
    figures(2, "{\"gpus_free\": 1}");
    out = capacity_place(nodes, 3, jobs, n_jobs, "d", NULL, &want);
    assert_int_equal(json_array_size(out), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(out, 0), "node")), "a");
    json_decref(out);
    want.bytes = 2500;
    assert_null(capacity_place(nodes, 3, jobs, n_jobs, "d", only, &want));
    /* x is read on b: its bytes there cannot go. */
    figures(1, "{\"disk_used\": 900, \"datasets\": {\"x\": {\"bytes\": 900}}}");
    want.bytes = 1500;
    out = capacity_place(nodes, 3, jobs, n_jobs, "d", only, &want);
    assert_int_equal(json_array_size(out), 2);
    json_decref(out);
    job("x", "[]", JOB_RUNNING);
    assert_null(capacity_place(nodes, 3, jobs, n_jobs, "d", only, &want));
    json_decref(only);
}

static void test_parts(void **state)
{
    struct job *j = job("d", "[]", JOB_QUEUED);

    (void)state;
    j->qos.mode = QOS_PARTITIONED;
    j->qos.memory_limit = 100;
    assert_int_equal(ask(j).need, 100);
    j->node_count = 3;
    assert_int_equal(ask(j).need, 300); /* one on each node */
    j->node_count = 0;
    j->nodes = parse("[\"a\", \"b\"]");
    assert_int_equal(ask(j).need, 200);
    j->qos.memory_limit = UINT64_MAX;
    assert_int_equal(ask(j).need, 900);
    j->state = JOB_RUNNING;
    j->qos.memory_limit = 100;
    assert_int_equal(ask(job("x", "[]", JOB_QUEUED)).promised, 200);
}

static void test_use_of_a_dataset(void **state)
{
    struct job_use use;

    (void)state;
    job("d", "[]", JOB_RUNNING)->qos.epochs = 10;
    jobs[0].epochs_done = 4;
    job("d", "[]", JOB_QUEUED)->qos.priority = 200; /* one run, that counts four times */
    job("d", "[]", JOB_RUNNING)->qos.use_cache = false;
    job("d", "[]", JOB_RUNNING)->qos.mode = QOS_PARTITIONED;
    job("d", "[]", JOB_REFUSED);
    job("x", "[]", JOB_RUNNING)->qos.priority = -1000; /* little, but not nothing */
    use = jobs_of_dataset(jobs, n_jobs, "d");
    assert_int_equal(use.running, 3);
    assert_int_equal(use.keepers, 1);
    assert_int_equal(use.runs, 6 + 4);
    use = jobs_of_dataset(jobs, n_jobs, "x");
    assert_int_equal(use.runs, 1);
    assert_int_equal(job_part(&jobs[3]), ADMISSION_PARTITION);
    assert_int_equal(job_part(&jobs[2]), 0);
}

/* A node that does not say what it takes: what its disk may hold, or its memory where that is more. */
static void test_capacity_of_its_own(void **state)
{
    struct admission a;
    struct job *j;
    bool known;

    (void)state;
    for (int i = 0; i < 3; i++) {
        nodes[i].capacity = 0;
        nodes[i].memory = 100;
    }
    j = job("d", "[]", JOB_QUEUED);
    capacity_admit(nodes, 3, jobs, n_jobs, j, &a, &known);
    assert_int_equal(a.free, 300);
    assert_false(a.admitted);
    figures(0, "{\"disk_limit\": 800, \"disk_used\": 60, \"memory_used\": 100}");
    figures(1, "{\"disk_limit\": 50, \"disk_used\": 50, \"memory_used\": 70}");
    capacity_admit(nodes, 3, jobs, n_jobs, j, &a, &known);
    assert_int_equal(a.free, 740 + 30 + 100);
    figures(2, "{\"disk_limit\": 800, \"disk_used\": 0, \"memory_used\": 100}");
    capacity_admit(nodes, 3, jobs, n_jobs, j, &a, &known);
    assert_true(a.admitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_that_do_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_where_there_is_no_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_capacity_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_promises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_promises_of_the_same_dataset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_where_promises_lie, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_listed_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpus_of_running_jobs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_use_of_a_dataset, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
