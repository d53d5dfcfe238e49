// SPDX-License-Identifier: Apache-2.0
/* The value of samples as the memory tier and the shared tier see it: by weights of jobs, by next
 * uses and by runs to come. The memory tier's view is seen by what it evicts. */
#include "daemon/parts.h"

#include <math.h>

#include "cache/policy/policy.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/next_use.h"
#include "daemon/prefetch/sample_value.h"
#include "daemon/session.h"
#include "order/schedule.h"

#define N 10u

static struct node n;
static struct dataset *ds, *second;
static struct mem_index *other; /* worth more than the datasets */
static struct session s[2];
static struct job_weights jobs[2];
static void *memory_of[2];

static double much(void *arg, uint64_t sample)
{
    (void)arg;
    (void)sample;
    return 1e9;
}

static int32_t many(void *arg)
{
    (void)arg;
    return 1000000;
}

static struct dataset *open_dataset(const char *name)
{
    struct dataset *d = parts_dataset(&n, name, parts_catalog(name, N));

    d->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &d->index, NULL), 0);
    sample_value_events.dataset_ready(d);
    return d;
}

static void set_up(const struct policy_ops *policy)
{
    static const struct mem_value_ops dear = {.weight = much, .runs = many};
    uint64_t room = 4096 + 4 * 1024; /* four samples */

    parts_node(&n);
    n.loop = loop_new(NULL);
    assert_non_null(n.loop);
    tenant_memories_init(&n.memories, room, room, policy);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &other, NULL), 0);
    mem_index_set_value(other, &dear, NULL);
    ds = open_dataset("a");
    second = open_dataset("b");
    memset(s, 0, sizeof(s));
    memset(jobs, 0, sizeof(jobs));
    for (unsigned i = 0; i < 2; i++) {
        memory_of[i] = aligned_alloc(4096, weights_size(N));
        assert_non_null(memory_of[i]);
        memset(memory_of[i], 0, weights_size(N));
        weights_format(memory_of[i], N, 1);
        assert_int_equal(weights_open(&jobs[i].w, memory_of[i], weights_size(N), N, NULL), 0);
    }
}

static int set_up_importance(void **state)
{
    (void)state;
    set_up(&policy_importance);
    return 0;
}

static int set_up_worth(void **state)
{
    (void)state;
    set_up(&policy_worth);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        schedule_free(&s[i].reader.schedule);
        free(memory_of[i]);
    }
    mem_index_free(&ds->index);
    mem_index_free(&second->index);
    mem_index_free(&other);
    parts_free_all(&n);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    loop_free(&n.loop);
    return 0;
}

static void bring(struct mem_index *x, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(n.own_memory->memory, x, sample, PARTS_SIZE, &f), 0);
    mem_fill_set_cost(f, 1);
    memory_publish(n.own_memory->memory, &f);
}

/* Of two samples, whichever came first, does the first one go? */
static bool goes(struct dataset *a, uint64_t of_a, struct dataset *b, uint64_t of_b)
{
    bool went[2];

    for (unsigned turn = 0; turn < 2; turn++) {
        memory_evict_all(n.own_memory->memory, NULL);
        memory_tick(n.own_memory->memory);
        bring(other, 1);
        bring(other, 2);
        bring(turn == 0 ? a->index : b->index, turn == 0 ? of_a : of_b);
        bring(turn == 0 ? b->index : a->index, turn == 0 ? of_b : of_a);
        bring(other, 0);
        went[turn] = !mem_index_ready(a->index, of_a);
        assert_int_equal(!mem_index_ready(b->index, of_b), !went[turn]);
    }
    assert_int_equal(went[0], went[1]);
    return went[0];
}

/* A job with weights of samples 0 and 1; that of sample 2 is not known. */
static void weigh(unsigned job, unsigned users, float of_0, float of_1, double mean)
{
    jobs[job].users = users;
    jobs[job].mean = mean;
    weights_set(&jobs[job].w, 0, of_0);
    weights_set(&jobs[job].w, 1, of_1);
    dlc_list_push_tail(&ds->job_weights, &jobs[job].link);
}

static bool is(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static void follow(unsigned i, uint64_t samples, uint64_t epochs, uint64_t pos)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = samples};

    s[i].ds = ds;
    s[i].reader.active = true;
    s[i].reader.pos = pos;
    s[i].reader.schedule = schedule_new(&spec, 0, epochs, NULL);
    assert_non_null(s[i].reader.schedule);
    dlc_list_push_tail(&ds->sessions, &s[i].link);
}

/* ---- tests ---- */

static void test_weight_decides(void **state)
{
    (void)state;
    weigh(0, 1, 0.1f, 0.9f, 0.5);
    assert_true(goes(ds, 0, ds, 1));
    assert_true(goes(ds, 2, ds, 1)); /* it has the mean */
    assert_true(goes(ds, 0, ds, 2));
}

/* The weight of the job to which it matters most; that of a job that nobody runs does not count. */
static void test_weights_of_jobs(void **state)
{
    (void)state;
    weigh(0, 1, 0.1f, 0.3f, 0.2);
    weigh(1, 0, 0.8f, 0.6f, 0.7);
    assert_true(goes(ds, 0, ds, 1));
    assert_true(goes(ds, 2, ds, 1));
    jobs[1].users = 1;
    assert_true(goes(ds, 1, ds, 0));
    assert_true(goes(ds, 1, ds, 2));
    assert_true(goes(ds, 2, ds, 0));
}

static void test_runs_decide(void **state)
{
    (void)state;
    ds->runs = 1;
    second->runs = 100;
    assert_true(goes(ds, 0, second, 0));
    second->runs = 0;
    assert_true(goes(second, 1, ds, 1));
}

static void test_likely_by_weight(void **state)
{
    (void)state;
    assert_true(is(sample_likely(ds, 0), 0.5));
    weigh(0, 1, 0.1f, 0.9f, 0.5);
    assert_true(is(sample_likely(ds, 0), 0.1 / 0.6));
    assert_true(is(sample_likely(ds, 1), 0.9 / 1.4));
    assert_true(is(sample_likely(ds, 2), 0.5));
    weigh(1, 1, 0.8f, 0.2f, 0.2);
    assert_true(is(sample_likely(ds, 0), 0.8));
    assert_true(is(sample_likely(ds, 1), 0.9 / 1.4));
    jobs[1].users = 0;
    assert_true(is(sample_likely(ds, 0), 0.1 / 0.6));
    follow(0, N, 0, 0);
    assert_true(is(sample_likely(ds, 0), 0.1 / 0.6)); /* weights come before next uses */
    jobs[0].mean = 0;                                 /* none is known yet */
    assert_true(is(sample_likely(ds, 0), 1 / (1 + 1.0)));
    assert_true(is(sample_likely(ds, 5), 1 / (1 + 1.5)));
}

/* When is it read once more after the use that it is brought for? Counted in epochs. */
static void test_likely_by_next_use(void **state)
{
    (void)state;
    follow(0, N, 0, 3);
    assert_true(is(next_use_after(ds, 5), 1.2));
    assert_true(is(next_use_after(ds, 2), 1.9));
    assert_true(is(sample_likely(ds, 5), 1 / 2.2));
    follow(1, N, 0, 4);
    assert_true(is(next_use_after(ds, 5), 1.1)); /* by the reader that needs it first */
    s[1].reader.active = false;
    assert_true(is(next_use_after(ds, 5), 1.2));
    s[0].reader.active = false;
    assert_true(isinf(next_use_after(ds, 5)));
    assert_true(is(sample_likely(ds, 5), 0.5));
}

static void test_next_use_in_last_epochs(void **state)
{
    (void)state;
    follow(0, N, 2, N + 3); /* in the last one */
    assert_true(isinf(next_use_after(ds, 5)));
    assert_true(isinf(next_use_after(ds, 2)));
    follow(1, 1, 0, 0); /* an order of one sample */
    assert_true(is(next_use_after(ds, 0), 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_weight_decides, set_up_importance, tear_down),
        cmocka_unit_test_setup_teardown(test_weights_of_jobs, set_up_importance, tear_down),
        cmocka_unit_test_setup_teardown(test_runs_decide, set_up_worth, tear_down),
        cmocka_unit_test_setup_teardown(test_likely_by_weight, set_up_importance, tear_down),
        cmocka_unit_test_setup_teardown(test_likely_by_next_use, set_up_importance, tear_down),
        cmocka_unit_test_setup_teardown(test_next_use_in_last_epochs, set_up_importance, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
