// SPDX-License-Identifier: Apache-2.0
/* Every policy against the plainest model of it: all that ever happened is kept, and the victim is
 * found by looking at every item. */
#include "unit.h"

#include <math.h>

#include "base/check.h"
#include "base/rng.h"
#include "cache/policy/policy.h"

#define ITEMS     40
#define STEPS     4000
#define HALF_LIFE 30.0

struct model {
    struct policy_item item;
    double times[STEPS]; /* of all reads */
    int n;
    int since_insert;   /* reads since it came, with the one that brought it */
    int last, inserted; /* steps */
    double next_use, weight;
    bool resident, held;
};

static struct model all[ITEMS];

/* Two numbers to compare by, the second among equals of the first. */
struct rank {
    double a, b;
};

static double references(const struct model *m, double now)
{
    double sum = 0;

    for (int i = 0; i < m->n; i++)
        sum += exp2(-(now - m->times[i]) / HALF_LIFE);
    return sum;
}

static struct rank rank_of(const struct policy_ops *ops, const struct model *m, double now)
{
    if (ops == &policy_lru)
        return (struct rank){m->last, 0};
    if (ops == &policy_lfu)
        return (struct rank){m->since_insert, m->last};
    if (ops == &policy_lrfu)
        return (struct rank){references(m, now), m->inserted};
    if (ops == &policy_cost_aware_lrfu)
        return (struct rank){references(m, now) * m->item.cost, m->item.cost};
    if (ops == &policy_greedy)
        return (struct rank){m->item.cost, m->inserted};
    if (ops == &policy_clairvoyant)
        return (struct rank){-m->next_use, m->last};
    if (ops == &policy_importance)
        return (struct rank){m->weight, m->n};
    if (ops == &policy_worth && m->item.expected >= 0)
        return (struct rank){m->item.expected * m->item.cost / (double)m->item.size, -m->last};
    if (ops == &policy_worth)
        return (struct rank){references(m, now) * m->item.cost / (double)m->item.size, -m->last};
    return (struct rank){0, 0};
}

static bool before(struct rank x, struct rank y)
{
    double slack = 1e-9 * fmax(fabs(x.a), fabs(y.a));

    if (!isfinite(x.a) || fabs(x.a - y.a) > slack)
        return x.a < y.a;
    return x.b < y.b;
}

/* No other item may stand clearly before the one that was chosen. */
static void check_victim(const struct policy_ops *ops, const struct policy_item *victim, double now)
{
    const struct model *v = dlc_container(victim, struct model, item);

    assert_true(v->resident && !v->held);
    for (int i = 0; i < ITEMS; i++)
        if (all[i].resident && !all[i].held)
            assert_false(before(rank_of(ops, &all[i], now), rank_of(ops, v, now)));
}

static void remove_one(struct policy *p, struct model *m)
{
    policy_remove(p, &m->item);
    m->resident = false;
}

static void read_one(struct policy *p, struct model *m, int step, struct rng *r)
{
    m->times[m->n++] = step;
    m->since_insert = m->resident ? m->since_insert + 1 : 1;
    m->last = step;
    policy_access(p, &m->item, step);
    m->next_use = (double)(step + 1 + (int)rng_below(r, 500));
    policy_next_use(p, &m->item, m->next_use);
    if (!m->resident) {
        m->resident = true;
        m->inserted = step;
        policy_insert(p, &m->item);
    }
}

static void tell(struct policy *p, struct model *m, struct rng *r)
{
    m->weight = (double)rng_below(r, 8);
    policy_weight(p, &m->item, m->weight);
    policy_expect(p, &m->item, (int32_t)rng_below(r, 6) - 1);
    if (rng_below(r, 2) == 0)
        policy_set_cost(p, &m->item, (double)(1 + rng_below(r, 20)));
    if (m->held)
        policy_unhold(p, &m->item);
    else if (rng_below(r, 3) == 0)
        policy_hold(p, &m->item);
    m->held = m->item.holds > 0;
}

static void compare(const struct policy_ops *ops)
{
    const struct policy_options o = {.seed = 5, .half_life = HALF_LIFE};
    struct policy *p = policy_new(ops, &o);
    struct rng r = {17};
    int victims = 0;

    memset(all, 0, sizeof(all));
    for (uint64_t i = 0; i < ITEMS; i++)
        policy_item_init(&all[i].item, i, 1 + rng_below(&r, 9), (double)(1 + rng_below(&r, 20)));
    for (int step = 0; step < STEPS; step++) {
        struct model *m = &all[rng_below(&r, ITEMS)];
        struct policy_item *victim;

        if (rng_below(&r, 3) == 0)
            tell(p, m, &r);
        read_one(p, m, step, &r);
        victim = policy_victim(p, step, false);
        if (victim != NULL && rng_below(&r, 5) < 3) {
            check_victim(ops, victim, step);
            remove_one(p, dlc_container(victim, struct model, item));
            victims++;
        } else if (rng_below(&r, 10) == 0) {
            remove_one(p, m); /* dropped for another reason */
        }
    }
    assert_true(victims > STEPS / 4);
    policy_free(&p);
}

static void test_every_policy_against_its_model(void **state)
{
    (void)state;
    for (const struct policy_ops *const *o = policies; *o != NULL; o++)
        compare(*o);
}

static void test_found_by_name(void **state)
{
    (void)state;
    for (const struct policy_ops *const *o = policies; *o != NULL; o++) {
        assert_ptr_equal(policy_find((*o)->name), *o);
        assert_true(strlen((*o)->summary) > 10);
    }
    assert_null(policy_find("fifo"));
}

/* ---- clairvoyant is optimal ---- */

#define SMALL  6
#define LENGTH 14
#define ROOM   3

/* Fewest misses of all ways to serve the trace from `at` on, with `held` in the cache; what is read
 * need not be kept. */
static int fewest(const int *trace, int at, unsigned held)
{
    unsigned bit;
    int best;

    if (at == LENGTH)
        return 0;
    bit = 1u << trace[at];
    if ((held & bit) != 0)
        return fewest(trace, at + 1, held);
    best = fewest(trace, at + 1, held);
    if (__builtin_popcount(held) < ROOM)
        return 1 + DLC_MIN(best, fewest(trace, at + 1, held | bit));
    for (int i = 0; i < SMALL; i++)
        if ((held >> i & 1) != 0)
            best = DLC_MIN(best, fewest(trace, at + 1, (held & ~(1u << i)) | bit));
    return 1 + best;
}

static double next_read(const int *trace, int at)
{
    for (int i = at + 1; i < LENGTH; i++)
        if (trace[i] == trace[at])
            return i;
    return INFINITY;
}

static int misses_of(const struct policy_ops *ops, const int *trace, bool may_refuse)
{
    struct policy *p = policy_new(ops, NULL);
    struct policy_item items[SMALL];
    int misses = 0, n = 0;

    for (uint64_t i = 0; i < SMALL; i++)
        policy_item_init(&items[i], i, 1, 1);
    for (int t = 0; t < LENGTH; t++) {
        struct policy_item *it = &items[trace[t]], *v;

        policy_access(p, it, t);
        policy_next_use(p, it, next_read(trace, t));
        if (it->resident)
            continue;
        misses++;
        if (may_refuse && !policy_admit(p, it, n == ROOM ? 1 : 0, t))
            continue;
        if (n == ROOM) {
            v = policy_victim(p, t, false);
            policy_remove(p, v);
            n--;
        }
        policy_insert(p, it);
        n++;
    }
    policy_free(&p);
    return misses;
}

static void test_clairvoyant_is_optimal(void **state)
{
    struct rng r = {99};
    int lru_worse = 0;

    (void)state;
    for (int round = 0; round < 60; round++) {
        int trace[LENGTH], best;

        for (int i = 0; i < LENGTH; i++)
            trace[i] = (int)rng_below(&r, SMALL);
        best = fewest(trace, 0, 0);
        assert_int_equal(misses_of(&policy_clairvoyant, trace, true), best);
        assert_true(misses_of(&policy_clairvoyant, trace, false) >= best);
        lru_worse += misses_of(&policy_lru, trace, false) > best;
    }
    assert_true(lru_worse > 30);
}

/* ---- what is true of all ---- */

static void make(struct policy_item *items, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        policy_item_init(&items[i], i, 10, 1 + (double)i);
}

static void test_held_items_stay(void **state)
{
    (void)state;
    for (const struct policy_ops *const *o = policies; *o != NULL; o++) {
        struct policy *p = policy_new(*o, NULL);
        struct policy_item it[3];

        make(it, 3);
        assert_null(policy_victim(p, 0, true));
        policy_hold(p, &it[0]); /* before it comes */
        for (int i = 0; i < 3; i++) {
            policy_access(p, &it[i], i);
            policy_insert(p, &it[i]);
        }
        policy_hold(p, &it[1]); /* after, and twice */
        policy_hold(p, &it[1]);
        assert_ptr_equal(policy_victim(p, 5, true), &it[2]);
        policy_remove(p, &it[2]);
        policy_unhold(p, &it[1]);
        assert_null(policy_victim(p, 5, false));
        assert_ptr_equal(policy_victim(p, 5, true), &it[1]); /* held last */
        policy_access(p, &it[0], 6);                         /* does not bring it into the order */
        assert_null(policy_victim(p, 6, false));
        policy_unhold(p, &it[1]);
        assert_ptr_equal(policy_victim(p, 6, true), &it[1]);
        policy_remove(p, &it[1]);
        policy_remove(p, &it[0]); /* while held */
        policy_remove(p, &it[0]); /* again: harmless */
        policy_unhold(p, &it[0]);
        assert_null(policy_victim(p, 7, true));
        policy_free(&p);
    }
}

/* Asking for admission must leave the order as it was. */
static void test_admit_changes_nothing(void **state)
{
    (void)state;
    for (const struct policy_ops *const *o = policies; *o != NULL; o++) {
        struct policy *asked = policy_new(*o, NULL), *left = policy_new(*o, NULL);
        struct policy_item a[12], b[12];

        if (*o == &policy_random)
            goto next;
        make(a, 12);
        make(b, 12);
        for (int i = 0; i < 10; i++) { /* all at one time: ties */
            policy_access(asked, &a[i], 1);
            policy_next_use(asked, &a[i], 9);
            policy_insert(asked, &a[i]);
            policy_access(left, &b[i], 1);
            policy_next_use(left, &b[i], 9);
            policy_insert(left, &b[i]);
        }
        policy_access(asked, &a[10], 2);
        policy_next_use(asked, &a[10], 8);
        policy_expect(asked, &a[10], 50);
        policy_weight(asked, &a[10], 50);
        assert_true(policy_admit(asked, &a[10], 35, 2));
        for (int i = 0; i < 10; i++) {
            struct policy_item *x = policy_victim(asked, 2, false);
            struct policy_item *y = policy_victim(left, 2, false);

            assert_int_equal(x->id, y->id);
            policy_remove(asked, x);
            policy_remove(left, y);
        }
    next:
        policy_free(&asked);
        policy_free(&left);
    }
}

static void test_random_is_fair_and_seeded(void **state)
{
    int hits[4] = {0}, as_first = 0;
    uint64_t first[20];

    (void)state;
    for (int round = 0; round < 3; round++) {
        const struct policy_options o = {.seed = round < 2 ? 3 : 4};
        struct policy *p = policy_new(&policy_random, &o);
        struct policy_item it[4];

        make(it, 4);
        for (int i = 0; i < 4; i++)
            policy_insert(p, &it[i]);
        for (int i = 0; i < 4000; i++) {
            uint64_t id = policy_victim(p, 0, false)->id;

            hits[id]++;
            if (i < 20 && round == 0)
                first[i] = id;
            else if (i < 20 && round == 1)
                assert_int_equal(id, first[i]);
            else if (i < 20)
                as_first += id == first[i];
        }
        policy_free(&p);
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(hits[i], 2750, 3250);
    assert_true(as_first < 20); /* another seed, another sequence */
}

/* A sample that comes back under a new record is judged by its ghost. */
static void test_importance_remembers_ghosts(void **state)
{
    struct policy *p = policy_new(&policy_importance, &(struct policy_options){.ghosts = 2});
    struct policy_item it[5], again[3];

    (void)state;
    make(it, 5);
    for (int i = 0; i < 5; i++) {
        policy_access(p, &it[i], i);
        policy_weight(p, &it[i], 1 + i);
        policy_insert(p, &it[i]);
    }
    policy_access(p, &it[2], 9);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(policy_victim(p, 9, false), &it[i]);
        policy_remove(p, &it[i]); /* ghosts of 1 and 2: two are kept */
    }
    make(again, 3);
    policy_weight(p, &it[3], 2.5);
    assert_true(policy_admit(p, &again[2], 10, 10));  /* weighed 3 */
    assert_false(policy_admit(p, &again[1], 10, 10)); /* weighed 2 */
    assert_false(policy_admit(p, &again[0], 10, 10)); /* forgotten */
    policy_access(p, &again[2], 10);
    policy_insert(p, &again[2]);
    assert_true(again[2].weight == 3);
    assert_int_equal(again[2].uses, 3);
    assert_ptr_equal(policy_victim(p, 11, false), &it[3]);
    policy_free(&p);
}

/* A policy that goes by something else than the next use keeps what it was told. */
static void test_only_the_clairvoyant_forgets_uses(void **state)
{
    struct policy *p = policy_new(&policy_importance, NULL);
    struct policy_item it[2];

    (void)state;
    make(it, 2);
    for (int i = 0; i < 2; i++) {
        policy_access(p, &it[i], i);
        policy_insert(p, &it[i]);
        policy_weight(p, &it[i], 1 + i);
    }
    policy_forget_use(p, &it[0]);
    policy_next_use(p, &it[0], 9);
    assert_ptr_equal(policy_victim(p, 3, false), &it[0]);
    assert_true(it[0].weight == 1);
    policy_free(&p);
}

static void use_all(const struct policy_ops *ops)
{
    struct policy *p = policy_new(ops, NULL);
    struct policy_item it[100];

    make(it, 100);
    for (int i = 0; i < 100; i++) {
        policy_access(p, &it[i], i);
        policy_insert(p, &it[i]);
        policy_expect(p, &it[i], i % 2 - 1); /* both orders of `worth` */
    }
    for (int i = 0; i < 50; i++)
        policy_remove(p, &it[i]);
    policy_admit(p, &it[0], 100, 200);
    policy_free(&p);
    assert_null(p);
}

static void test_freed_with_all_it_remembers(void **state)
{
    enum { ROUNDS = 200 };
    struct policy *none = NULL;
    size_t before = 0;

    (void)state;
    policy_free(&none); /* harmless */
    for (const struct policy_ops *const *o = policies; *o != NULL; o++) {
        for (unsigned i = 0; i < 10 + ROUNDS; i++) {
            if (i == 10)
                before = unit_heap();
            use_all(*o);
        }
        assert_true(unit_heap() < before + (size_t)ROUNDS * 16);
    }
}

static void test_cost_of_losing(void **state)
{
    const struct policy_prices prices = {.share = 0.25, .request = 0.5, .transfer = 0.001};

    (void)state;
    assert_true(fabs(policy_money(&prices, 2000) - 2.5) < 1e-12);
    assert_true(fabs(policy_cost(&prices, 8, 2000) - (0.25 * 8 + 0.75 * 2.5)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy_against_its_model),
        cmocka_unit_test(test_found_by_name),
        cmocka_unit_test(test_clairvoyant_is_optimal),
        cmocka_unit_test(test_held_items_stay),
        cmocka_unit_test(test_admit_changes_nothing),
        cmocka_unit_test(test_random_is_fair_and_seeded),
        cmocka_unit_test(test_importance_remembers_ghosts),
        cmocka_unit_test(test_only_the_clairvoyant_forgets_uses),
        cmocka_unit_test(test_freed_with_all_it_remembers),
        cmocka_unit_test(test_cost_of_losing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
