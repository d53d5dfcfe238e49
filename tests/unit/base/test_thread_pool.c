// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread_pool.h"

static _Atomic int ran;

static void count_and_free(struct work *w)
{
    ran++;
    mem_free(&w);
}

static void test_all_work_runs_once(void **state)
{
    struct pool *p = pool_new("test", 3, NULL);

    (void)state;
    ran = 0;
    assert_non_null(p);
    for (int i = 0; i < 2000; i++) {
        struct work *w = mem_new(struct work);

        w->run = count_and_free;
        pool_run(p, w);
    }
    pool_free(&p); /* runs what is queued */
    assert_null(p);
    assert_int_equal(ran, 2000);
    pool_free(&p);
}

struct stuck {
    struct work work;
    struct dlc_mtx mtx;
    struct dlc_cond more;
    bool may_end, ended; /* G: mtx */
};

static void wait_until_told(struct work *w)
{
    struct stuck *s = dlc_container(w, struct stuck, work);

    dlc_mtx_lock(&s->mtx);
    while (!s->may_end)
        dlc_cond_wait(&s->more, &s->mtx);
    s->ended = true;
    dlc_mtx_unlock(&s->mtx);
    dlc_cond_broadcast(&s->more);
}

/* Whoever ends does not wait for work that never does. */
static void test_end_without_stuck_work(void **state)
{
    static struct stuck s = {.work.run = wait_until_told};
    struct pool *p = pool_new("test", 2, NULL);
    struct work *w = mem_new(struct work);

    (void)state;
    ran = 0;
    dlc_mtx_init(&s.mtx, LCK_sync);
    dlc_cond_init(&s.more);
    w->run = count_and_free;
    pool_run(p, &s.work);
    pool_run(p, w);
    assert_false(pool_free_within(&p, DLC_MS(0)));
    assert_int_equal(ran, 1);
    dlc_mtx_lock(&s.mtx); /* let it end, for those who look for leaks */
    s.may_end = true;
    dlc_cond_broadcast(&s.more);
    while (!s.ended)
        dlc_cond_wait(&s.more, &s.mtx);
    dlc_mtx_unlock(&s.mtx);
    assert_true(pool_free_within(&p, DLC_SEC(30)));
    assert_null(p);
    assert_true(pool_free_within(&p, DLC_SEC(30)));
}

struct chain {
    struct work work;
    struct pool *pool;
    int left;
};

static void run_again(struct work *w)
{
    struct chain *c = dlc_container(w, struct chain, work);

    ran++;
    if (--c->left > 0)
        pool_run(c->pool, w);
}

static void test_work_may_queue_itself_again(void **state)
{
    struct pool *p = pool_new("test", 2, NULL);
    struct chain c = {.work.run = run_again, .pool = p, .left = 100};

    (void)state;
    ran = 0;
    pool_run(p, &c.work);
    pool_free(&p);
    assert_int_equal(ran, 100);
}

/* Two pieces of work that each wait for the other: they end only if two threads really run. */
struct meeting {
    struct dlc_mtx m;
    struct dlc_cond c;
    int here;
};

struct guest {
    struct work work;
    struct meeting *meeting;
};

static void meet(struct work *w)
{
    struct meeting *m = dlc_container(w, struct guest, work)->meeting;

    dlc_mtx_lock(&m->m);
    m->here++;
    dlc_cond_broadcast(&m->c);
    while (m->here < 2)
        dlc_cond_wait(&m->c, &m->m);
    dlc_mtx_unlock(&m->m);
}

static void test_threads_run_side_by_side(void **state)
{
    struct pool *p = pool_new("test", 2, NULL);
    struct meeting m = {.here = 0};
    struct guest a = {{.run = meet}, &m}, b = {{.run = meet}, &m};

    (void)state;
    dlc_mtx_init(&m.m, LCK_sync);
    dlc_cond_init(&m.c);
    pool_run(p, &a.work);
    pool_run(p, &b.work);
    pool_free(&p);
    assert_int_equal(m.here, 2);
    dlc_cond_release(&m.c);
    dlc_mtx_release(&m.m);
}

/* Holds a thread until it is let go. */
struct gate {
    struct work work;
    struct dlc_mtx m;
    struct dlc_cond c;
    bool entered, open;
};

static void wait_at_gate(struct work *w)
{
    struct gate *g = dlc_container(w, struct gate, work);

    dlc_mtx_lock(&g->m);
    g->entered = true;
    dlc_cond_broadcast(&g->c);
    while (!g->open)
        dlc_cond_wait(&g->c, &g->m);
    dlc_mtx_unlock(&g->m);
}

static void gate_close(struct gate *g, struct pool *p)
{
    dlc_mtx_init(&g->m, LCK_sync);
    dlc_cond_init(&g->c);
    g->work.run = wait_at_gate;
    pool_run(p, &g->work);
    dlc_mtx_lock(&g->m);
    while (!g->entered)
        dlc_cond_wait(&g->c, &g->m);
    dlc_mtx_unlock(&g->m);
}

static void gate_open(struct gate *g)
{
    dlc_mtx_lock(&g->m);
    g->open = true;
    dlc_cond_broadcast(&g->c);
    dlc_mtx_unlock(&g->m);
}

static void just_count(struct work *w)
{
    (void)w;
    ran++;
}

static void test_a_bound_in_length_and_bytes(void **state)
{
    struct pool *p = pool_new("test", 1, NULL);
    struct gate g = {.open = false};
    struct work all[4] = {{.run = just_count, .bytes = 200},
                          {.run = just_count, .bytes = 50},
                          {.run = just_count, .bytes = 1},
                          {.run = just_count}};
    struct pool_figures f;

    (void)state;
    ran = 0;
    pool_set_bound(p, 2, 100);
    gate_close(&g, p);
    assert_true(pool_try_run(p, &all[0])); /* the queue is empty: whatever its size */
    assert_false(pool_try_run(p, &all[1]));
    assert_true(pool_take_back(p, &all[0]));
    assert_false(pool_take_back(p, &all[0]));
    assert_true(pool_try_run(p, &all[1]));
    assert_true(pool_try_run(p, &all[2]));
    assert_false(pool_try_run(p, &all[3])); /* two wait */
    pool_run(p, &all[3]);                   /* does not ask */
    pool_figures(p, &f);
    assert_int_equal(f.queued, 3);
    assert_int_equal(f.queued_bytes, 51);
    assert_int_equal(f.running, 1);
    assert_int_equal(f.refused, 2);
    assert_true(f.waiting.ns > 0 && f.longest.ns >= f.waiting.ns && f.busiest.ns >= f.waiting.ns);
    gate_open(&g);
    pool_free(&p);
    assert_int_equal(ran, 3);
    dlc_cond_release(&g.c);
    dlc_mtx_release(&g.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_work_runs_once),
        cmocka_unit_test(test_work_may_queue_itself_again),
        cmocka_unit_test(test_end_without_stuck_work),
        cmocka_unit_test(test_threads_run_side_by_side),
        cmocka_unit_test(test_a_bound_in_length_and_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
