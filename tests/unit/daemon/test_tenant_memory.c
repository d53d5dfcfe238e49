// SPDX-License-Identifier: Apache-2.0
/* Memories of tenants: apart from each other, of one ceiling, and gone with their last dataset. */
#include "daemon/tenant_memory.h"

#include "unit.h"

#include "base/syscalls.h"
#include "cache/memory/memory_i.h"
#include "ipc/shm.h"

#define MB     ((uint64_t)1 << 20)
#define TOTAL  (128 * MB)
#define EXTENT (TOTAL / 256)
#define SAMPLE ((uint64_t)128 << 10)
#define N      2048u /* samples of a dataset: twice the memory of the node */

static struct tenant_memories t;

static int set_up(void **state)
{
    (void)state;
    tenant_memories_init(&t, TOTAL, TOTAL, NULL);
    return 0;
}

static uint64_t sum_of_ceilings(void)
{
    uint64_t sum = 0;

    dlc_list_each (l, &t.all)
        sum += memory_ceiling(dlc_container(l, struct tenant_memory, link)->memory);
    return sum;
}

static void settle(void)
{
    tenant_memories_tick(&t);
    while (tenant_memories_free_some(&t))
        ;
    assert_true(sum_of_ceilings() <= t.ceiling);
}

/* A test that has failed leaves memories that cannot be freed. */
static int tear_down(void **state)
{
    (void)state;
    settle();
    assert_int_equal(t.n, 0);
    tenant_memories_free(&t);
    return 0;
}

struct set {
    struct tenant_memory *m;
    struct mem_index *x;
    uint64_t next;
};

static void set_open(struct set *s, const char *tenant)
{
    *s = (struct set){0};
    assert_int_equal(tenant_memory_get(&t, tenant, &s->m, NULL), 0);
    assert_int_equal(mem_index_new(s->m->memory, N, 1, &s->x, NULL), 0);
}

static void set_close(struct set *s)
{
    mem_index_free(&s->x);
    tenant_memory_put(&s->m);
}

/* Bring in the next sample; the oldest leaves if need be. False: there is no room. */
static bool set_bring(struct set *s, int byte)
{
    struct mem_fill *f;

    if (mem_index_known(s->x, s->next % N))
        memory_evict(s->m->memory, s->x, s->next % N);
    if (memory_reserve(s->m->memory, s->x, s->next % N, SAMPLE, &f) < 0)
        return false;
    memset(mem_fill_data(f), byte, SAMPLE);
    memory_publish(s->m->memory, &f);
    s->next++;
    return true;
}

static uint64_t ceiling_of(const struct set *s)
{
    return memory_ceiling(s->m->memory);
}

/* ---- life ---- */

static void a_tenant_has_one_memory_while_it_is_used(void **state)
{
    struct tenant_memory *a, *b, *again;
    struct memory *first;

    (void)state;
    assert_int_equal(tenant_memory_get(&t, "a", &a, NULL), 0);
    assert_int_equal(tenant_memory_get(&t, "b", &b, NULL), 0);
    assert_int_equal(tenant_memory_get(&t, "a", &again, NULL), 0);
    assert_ptr_equal(a, again);
    assert_int_equal(t.n, 2);
    assert_true(a->memory != b->memory && memory_fd(a->memory) != memory_fd(b->memory));
    tenant_memory_put(&again);
    settle();
    assert_int_equal(t.n, 2);
    first = a->memory;
    tenant_memory_put(&a); /* it may come back before the memory is gone */
    assert_int_equal(tenant_memory_get(&t, "a", &a, NULL), 0);
    assert_ptr_equal(a->memory, first);
    settle();
    assert_int_equal(t.n, 2);
    tenant_memory_put(&a);
    tenant_memory_put(&b);
    tenant_memory_put(&b); /* NULL */
    settle();
    assert_int_equal(t.n, 0);
}

/* Its index is evicted in steps: until that has ended, the segment stays. */
static void a_memory_is_freed_in_steps(void **state)
{
    struct set a;
    unsigned steps = 0;

    (void)state;
    set_open(&a, "a");
    for (unsigned i = 0; i < 900; i++)
        assert_true(set_bring(&a, 'a'));
    set_close(&a);
    while (tenant_memories_free_some(&t))
        steps++;
    assert_true(steps > 10);
    assert_int_equal(t.n, 0);
}

/* ---- apart ---- */

static bool has_byte(const struct tenant_memory *m, int byte)
{
    const struct extents *e = &m->memory->extents;

    for (uint32_t k = 0; k < e->n; k++)
        if (e->all[k].fd >= 0 && memchr(e->map + ((uint64_t)k << e->shift), byte,
                                        (size_t)extents_granularity(e)) != NULL)
            return true;
    return false;
}

static void no_byte_lies_in_the_memory_of_another(void **state)
{
    struct set a, b;

    (void)state;
    set_open(&a, "alpha");
    set_open(&b, "beta");
    settle();
    for (unsigned i = 0; i < 16; i++)
        assert_true(set_bring(&a, 'A') && set_bring(&b, 'B'));
    assert_true(has_byte(a.m, 'A') && has_byte(b.m, 'B'));
    assert_false(has_byte(a.m, 'B') || has_byte(b.m, 'A'));
    set_close(&a);
    set_close(&b);
}

/* ---- the ceiling ---- */

static void one_alone_has_the_whole_ceiling(void **state)
{
    struct memory_figures f;
    struct set a;

    (void)state;
    set_open(&a, "");
    assert_int_equal(memory_size(a.m->memory), TOTAL);
    assert_int_equal(ceiling_of(&a), TOTAL);
    tenant_memories_set_ceiling(&t, TOTAL / 2);
    settle();
    assert_int_equal(ceiling_of(&a), TOTAL / 2);
    tenant_memories_figures(&t, &f);
    assert_true(f.max == TOTAL && f.ceiling == TOTAL / 2);
    set_close(&a);
}

static void a_newcomer_gets_its_share_from_one_that_has_all(void **state)
{
    struct set a, b;
    unsigned ticks = 0;

    (void)state;
    set_open(&a, "a");
    while (a.next < N)
        assert_true(set_bring(&a, 'a'));
    assert_int_equal(ceiling_of(&a), TOTAL);
    set_open(&b, "b");
    for (; ceiling_of(&b) < TOTAL / 2 && ticks < 20; ticks++) {
        settle();
        for (unsigned i = 0; i < N; i++)
            assert_true(set_bring(&b, 'b') && set_bring(&a, 'a')); /* the other one goes on */
    }
    assert_true(ticks < 20);
    settle();
    assert_int_equal(ceiling_of(&a), TOTAL / 2);
    set_close(&b); /* and it has all again */
    for (ticks = 0; ceiling_of(&a) < TOTAL && ticks < 20; ticks++) {
        settle();
        for (unsigned i = 0; i < N; i++)
            assert_true(set_bring(&a, 'a'));
    }
    assert_true(ticks < 20);
    set_close(&a);
}

/* Whoever reads little leaves the rest to who reads much. */
static void what_is_not_used_can_be_borrowed(void **state)
{
    struct set a, b;

    (void)state;
    set_open(&a, "a");
    set_open(&b, "b");
    for (unsigned tick = 0; tick < 10; tick++) {
        settle();
        for (unsigned i = 0; i < N; i++)
            assert_true(set_bring(&a, 'a'));
        if (tick == 0)
            assert_true(set_bring(&b, 'b'));
    }
    assert_true(ceiling_of(&a) > TOTAL / 4 * 3);
    assert_true(mem_index_ready(b.x, 0)); /* what it has stays */
    set_close(&a);
    set_close(&b);
}

static void the_sum_follows_the_node(void **state)
{
    struct memory_figures f;
    struct set s[5];
    char name[8];

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        set_open(&s[i], name);
    }
    for (uint64_t total = TOTAL; total >= 4 * MB; total /= 2) {
        tenant_memories_set_ceiling(&t, total);
        for (unsigned tick = 0; tick < 4; tick++) {
            for (unsigned i = 0; i < 5; i++)
                for (unsigned k = 0; k < i * 200; k++)
                    set_bring(&s[i], 'x');
            settle();
        }
        assert_true(ceiling_of(&s[4]) + EXTENT >= total / 5);
        tenant_memories_figures(&t, &f);
        assert_true(f.ceiling <= total && f.ceiling + 5 * EXTENT > total); /* whole extents */
        assert_true(f.used <= total);
    }
    for (unsigned i = 0; i < 5; i++)
        set_close(&s[i]);
}

static void too_many_tenants_are_refused(void **state)
{
    struct tenant_memory *m[TENANT_MEMORIES_MAX + 1];
    struct dlc_err err = DLC_ERR_INIT;
    unsigned n = 0;
    char name[16];
    int rc = 0;

    (void)state;
    tenant_memories_set_ceiling(&t, 10 * TENANT_MEMORY_MIN);
    for (; rc == 0 && n <= TENANT_MEMORIES_MAX; n += rc == 0) {
        snprintf(name, sizeof(name), "t%u", n);
        rc = tenant_memory_get(&t, name, &m[n], &err);
    }
    assert_int_equal(rc, DLC_EBUSY);
    assert_int_equal(n, 10);
    assert_non_null(strstr(err.text, "--memory"));
    settle();
    tenant_memories_set_ceiling(&t, TOTAL);
    for (rc = 0; rc == 0 && n <= TENANT_MEMORIES_MAX; n += rc == 0) {
        snprintf(name, sizeof(name), "t%u", n);
        rc = tenant_memory_get(&t, name, &m[n], &err);
    }
    assert_int_equal(n, TENANT_MEMORIES_MAX);
    settle();
    for (unsigned i = 0; i < n; i++)
        tenant_memory_put(&m[i]);
    settle();
    assert_int_equal(t.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_tenant_has_one_memory_while_it_is_used, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_memory_is_freed_in_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_byte_lies_in_the_memory_of_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_alone_has_the_whole_ceiling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newcomer_gets_its_share_from_one_that_has_all, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_used_can_be_borrowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_sum_follows_the_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_tenants_are_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
