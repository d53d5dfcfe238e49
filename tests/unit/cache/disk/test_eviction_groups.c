// SPDX-License-Identifier: Apache-2.0
/* Who goes first: groups by themselves, against a model, and in the tier. */
#include "unit.h"
#include "util.h"

#include "cache/disk/eviction_groups_i.h"
#include "cache/policy/policy.h"

#define COOL 60.0

/* ---- groups by themselves ---- */

struct setting {
    struct chunks table;
    struct groups groups;
};

static void set_up(struct setting *s)
{
    s->table = (struct chunks)CHUNKS_INIT;
    groups_init(&s->groups, COOL, NULL, NULL);
}

static void tear_down(struct setting *s)
{
    groups_release(&s->groups);
    chunks_release(&s->table);
}

static struct group *group(struct setting *s, uint64_t key)
{
    return groups_get(&s->groups, groups_find(&s->groups, key, "g", 0));
}

static uint32_t put(struct setting *s, struct group *g, unsigned id, uint64_t size)
{
    uint32_t slot = chunks_add(&s->table, (struct chunk_id){.hi = id, .lo = id}, size, 0);

    s->table.chunks[slot].group = g->number;
    groups_link_newest(&s->groups, &s->table, slot, 0);
    return slot;
}

static struct group *victim(struct setting *s, double now, enum life_pressure want)
{
    enum life_pressure pressure;
    struct group *g = groups_victim(&s->groups, now, &pressure);

    if (g != NULL)
        assert_int_equal(pressure, want);
    return g;
}

static void test_states_decide_first(void **state)
{
    struct setting s;
    struct group *unknown, *a, *b;

    (void)state;
    set_up(&s);
    unknown = groups_get(&s.groups, GROUP_UNKNOWN);
    a = group(&s, 1);
    b = group(&s, 2);
    assert_ptr_equal(group(&s, 1), a);
    assert_null(victim(&s, 0, LIFE_CALM));
    put(&s, a, 1, 10);
    put(&s, b, 2, 10);
    groups_join(&s.groups, a, 0);
    groups_join(&s.groups, b, 0);
    groups_join(&s.groups, b, 0);
    assert_non_null(victim(&s, 1, LIFE_DIRE));
    groups_leave(&s.groups, a, 10);
    groups_leave(&s.groups, b, 10);
    assert_ptr_equal(victim(&s, 10, LIFE_SHORT), a);
    assert_int_equal(b->life.state, LIFE_ACTIVE); /* one of two jobs */
    groups_leave(&s.groups, b, 30);
    assert_ptr_equal(victim(&s, 10 + COOL, LIFE_CALM), a);
    assert_int_equal(b->life.state, LIFE_COOL_DOWN);
    groups_join(&s.groups, a, 75); /* again */
    assert_ptr_equal(victim(&s, 80, LIFE_SHORT), b);
    put(&s, unknown, 3, 10);
    assert_ptr_equal(victim(&s, 80, LIFE_CALM), unknown);
    assert_ptr_equal(victim(&s, 1000, LIFE_CALM), unknown); /* b was read once: it is worth more */
    groups_unlink(&s.groups, &s.table, unknown->chunks.oldest);
    assert_ptr_equal(victim(&s, 1000, LIFE_CALM), b);
    groups_leave(&s.groups, a, 1000);
    tear_down(&s);
}

static void test_worth_decides_between_equals(void **state)
{
    struct setting s;
    struct group *cheap, *dear;

    (void)state;
    set_up(&s);
    cheap = group(&s, 1);
    dear = group(&s, 2);
    for (unsigned i = 0; i < 2; i++) {
        groups_join(&s.groups, i == 0 ? dear : cheap, 0);
        groups_leave(&s.groups, i == 0 ? dear : cheap, 0);
    }
    put(&s, cheap, 1, 10);
    put(&s, dear, 2, 1000); /* its size alone says nothing */
    groups_cost(&s.groups, cheap, 1, 100);
    groups_cost(&s.groups, dear, 5, 100);
    assert_ptr_equal(victim(&s, 100, LIFE_CALM), cheap);
    groups_join(&s.groups, cheap, 100);
    groups_join(&s.groups, dear, 100);
    assert_ptr_equal(victim(&s, 100, LIFE_DIRE), cheap);
    groups_expect(&s.groups, cheap, 6);
    groups_expect(&s.groups, dear, 1);
    assert_ptr_equal(victim(&s, 100, LIFE_DIRE), dear); /* 1 x 5 < 6 x 1 */
    groups_expect(&s.groups, dear, POLICY_UNKNOWN);
    groups_expect(&s.groups, cheap, 0);
    assert_ptr_equal(victim(&s, 100, LIFE_DIRE), cheap);
    tear_down(&s);
}

static void test_admission(void **state)
{
    struct setting s;
    struct group *unknown, *a, *b;
    const double now = 100;

    (void)state;
    set_up(&s);
    unknown = groups_get(&s.groups, GROUP_UNKNOWN);
    a = group(&s, 1);
    b = group(&s, 2);
    put(&s, a, 1, 10);
    put(&s, b, 2, 10);
    put(&s, unknown, 3, 10);
    groups_tick(&s.groups, now);                                               /* both INACTIVE */
    assert_true(groups_admit(&s.groups, unknown, 0, unknown, LIFE_CALM, now)); /* plain LRU */
    assert_true(groups_admit(&s.groups, a, 0, a, LIFE_CALM, now));
    groups_join(&s.groups, a, now);
    assert_true(groups_admit(&s.groups, a, 0, unknown, LIFE_CALM, now));
    assert_true(groups_admit(&s.groups, a, 0, b, LIFE_CALM, now));
    assert_false(groups_admit(&s.groups, b, 0, a, LIFE_DIRE, now)); /* nobody reads b */
    assert_false(groups_admit(&s.groups, a, 0, a, LIFE_DIRE, now)); /* its own: no gain */
    groups_join(&s.groups, b, now);
    assert_false(groups_admit(&s.groups, b, 0, a, LIFE_DIRE, now));    /* no better */
    assert_false(groups_admit(&s.groups, b, 1000, a, LIFE_DIRE, now)); /* one dear chunk: noise */
    groups_cost(&s.groups, a, 1, 100);
    groups_cost(&s.groups, b, 1.9, 100);
    assert_false(groups_admit(&s.groups, b, 0, a, LIFE_DIRE, now)); /* not enough better */
    groups_cost(&s.groups, b, 0.3, 0);
    assert_true(groups_admit(&s.groups, b, 0, a, LIFE_DIRE, now)); /* 2.2 against 1 */
    assert_false(groups_admit(&s.groups, a, 0, b, LIFE_DIRE, now));
    groups_leave(&s.groups, b, now);
    assert_true(groups_admit(&s.groups, a, 0, b, LIFE_SHORT, now)); /* jobs come first */
    tear_down(&s);
}

/* A job that says how often it will read takes the room of idle chunks that are worth less; one that
 * does not say takes that of all. */
static void test_admission_of_declared_runs(void **state)
{
    struct setting s;
    struct group *idle, *job;
    const double now = 1000;

    (void)state;
    set_up(&s);
    idle = group(&s, 1);
    job = group(&s, 2);
    for (unsigned i = 0; i < 4; i++) { /* four runs, of which nothing has faded */
        groups_join(&s.groups, idle, now - COOL);
        groups_leave(&s.groups, idle, now - COOL);
    }
    groups_cost(&s.groups, idle, 1, 1);
    groups_cost(&s.groups, job, 1, 1);
    put(&s, idle, 1, 10);
    groups_join(&s.groups, job, now);
    assert_ptr_equal(victim(&s, now, LIFE_CALM), idle);
    assert_true(groups_admit(&s.groups, job, 0, idle, LIFE_CALM, now)); /* it does not say */
    groups_expect(&s.groups, job, 3);
    assert_false(groups_admit(&s.groups, job, 0, idle, LIFE_CALM, now));
    assert_true(groups_admit(&s.groups, job, 2, idle, LIFE_CALM, now)); /* a dear chunk of it */
    groups_expect(&s.groups, job, 5);
    assert_true(groups_admit(&s.groups, job, 0, idle, LIFE_CALM, now));
    assert_false(groups_admit(&s.groups, job, 0.5, idle, LIFE_CALM, now));
    tear_down(&s);
}

/* A chunk goes to the group that uses it, but not away from one that jobs read. */
static void test_claim(void **state)
{
    struct setting s;
    struct group *unknown, *a, *b;
    uint32_t slot;

    (void)state;
    set_up(&s);
    unknown = groups_get(&s.groups, GROUP_UNKNOWN);
    a = group(&s, 1);
    b = group(&s, 2);
    slot = put(&s, unknown, 1, 10);
    groups_claim(&s.groups, &s.table, slot, a->number);
    assert_int_equal(a->n, 1);
    assert_int_equal(unknown->n, 0);
    assert_int_equal(unknown->bytes, 0);
    groups_claim(&s.groups, &s.table, slot, GROUP_UNKNOWN);
    assert_int_equal(a->n, 1);
    groups_join(&s.groups, a, 0);
    groups_join(&s.groups, b, 0);
    groups_claim(&s.groups, &s.table, slot, b->number);
    assert_int_equal(a->bytes, 10);
    groups_leave(&s.groups, a, 1);
    groups_claim(&s.groups, &s.table, slot, b->number);
    assert_int_equal(a->bytes, 0);
    assert_int_equal(b->bytes, 10);
    tear_down(&s);
}

static void test_too_many(void **state)
{
    struct setting s;

    (void)state;
    set_up(&s);
    for (unsigned i = 1; i <= GROUPS_MAX; i++)
        assert_int_equal(groups_find(&s.groups, i, "g", 0), i);
    assert_int_equal(groups_find(&s.groups, 1u << 20, "g", 0), GROUP_UNKNOWN);
    assert_int_equal(groups_find(&s.groups, 7, "g", 0), 7);
    groups_join(&s.groups, groups_get(&s.groups, GROUP_UNKNOWN), 0);
    groups_leave(&s.groups, groups_get(&s.groups, GROUP_UNKNOWN), 0);
    assert_int_equal(groups_get(&s.groups, GROUP_UNKNOWN)->life.state, LIFE_INACTIVE);
    tear_down(&s);
}

static void assert_seen(struct setting *s, const struct group *g, enum life_state state,
                        uint32_t jobs, uint64_t chunks, uint64_t bytes)
{
    struct disk_group_figures f;

    groups_seen(&s->groups, g->number, &f);
    assert_int_equal(f.state, state);
    assert_int_equal(f.jobs, jobs);
    assert_int_equal(f.chunks, chunks);
    assert_int_equal(f.bytes, bytes);
}

/* Figures follow every change, and a group's first line in the log is not held back. */
static void test_seen(void **state)
{
    struct setting s;
    struct group *g;
    uint32_t one, two;

    (void)state;
    set_up(&s);
    assert_seen(&s, groups_get(&s.groups, GROUP_UNKNOWN), LIFE_INACTIVE, 0, 0, 0);
    g = group(&s, 7);
    assert_true(g->said < -100000);
    assert_seen(&s, g, LIFE_COOL_DOWN, 0, 0, 0);
    one = put(&s, g, 1, 100);
    two = put(&s, g, 2, 30);
    assert_seen(&s, g, LIFE_COOL_DOWN, 0, 2, 130);
    groups_join(&s.groups, g, 1);
    groups_join(&s.groups, g, 2);
    assert_seen(&s, g, LIFE_ACTIVE, 2, 2, 130);
    groups_leave(&s.groups, g, 3);
    assert_seen(&s, g, LIFE_ACTIVE, 1, 2, 130);
    groups_leave(&s.groups, g, 4);
    assert_seen(&s, g, LIFE_COOL_DOWN, 0, 2, 130);
    groups_tick(&s.groups, 4 + COOL - 1);
    assert_seen(&s, g, LIFE_COOL_DOWN, 0, 2, 130);
    groups_tick(&s.groups, 4 + COOL + 1);
    assert_seen(&s, g, LIFE_INACTIVE, 0, 2, 130);
    groups_touch(&s.groups, &s.table, one, 100);
    assert_int_equal(g->chunks.oldest, two);
    groups_unlink(&s.groups, &s.table, one);
    assert_seen(&s, g, LIFE_INACTIVE, 0, 1, 30);
    groups_link_oldest(&s.groups, &s.table, one);
    assert_int_equal(g->chunks.oldest, one);
    assert_seen(&s, g, LIFE_INACTIVE, 0, 2, 130);
    groups_claim(&s.groups, &s.table, one, group(&s, 8)->number);
    assert_seen(&s, g, LIFE_INACTIVE, 0, 1, 30);
    assert_seen(&s, group(&s, 8), LIFE_COOL_DOWN, 0, 1, 100);
    tear_down(&s);
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 200 };
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 10 + ROUNDS; i++) {
        struct setting s;

        if (i == 10)
            before = unit_heap();
        set_up(&s);
        put(&s, group(&s, 1), 1, 100);
        put(&s, group(&s, 2), 2, 100);
        tear_down(&s);
    }
    assert_true(unit_heap() < before + ROUNDS * 16);
}

/* Random joins, leaves, chunks and time: the victim is always of the least pressure there is, and
 * sizes and counts are those of a plain sum. */
enum { GROUPS = 5, CHUNKS = 60 };

static void check_model(struct setting *s, const int *group_of, const unsigned *jobs,
                        const double *left, double now)
{
    enum life_pressure least = LIFE_DIRE + 1, pressure, want;
    struct group *v = groups_victim(&s->groups, now, &pressure);

    for (int g = 0; g < GROUPS; g++) {
        unsigned n = 0, size = 0;

        for (int i = 0; i < CHUNKS; i++) {
            n += group_of[i] == g;
            size += group_of[i] == g ? (unsigned)i : 0;
        }
        want = g == 0          ? LIFE_CALM
               : jobs[g] > 0   ? LIFE_DIRE
               : now < left[g] ? LIFE_SHORT
                               : LIFE_CALM;
        if (n > 0)
            least = DLC_MIN(least, want);
        assert_int_equal(s->groups.v[g]->n, n);
        assert_int_equal(s->groups.v[g]->bytes, size);
        assert_true(life_evictable(&s->groups.v[g]->life, want));
        assert_true(want == LIFE_CALM || !life_evictable(&s->groups.v[g]->life, want - 1));
    }
    assert_int_equal(v == NULL ? LIFE_DIRE + 1 : (int)pressure, least);
    assert_true(v == NULL || v->chunks.oldest != CHUNK_NONE);
}

static void test_model(void **state)
{
    struct setting s;
    struct rng r = {11};
    unsigned jobs[GROUPS] = {0};
    double left[GROUPS], now = 0;
    uint32_t slot_of[CHUNKS];
    int group_of[CHUNKS];

    (void)state;
    set_up(&s);
    for (int g = 1; g < GROUPS; g++) {
        group(&s, (uint64_t)g);
        left[g] = COOL;
    }
    memset(group_of, -1, sizeof(group_of));
    for (unsigned step = 0; step < 20000; step++) {
        int g = (int)rng_below(&r, GROUPS), i = (int)rng_below(&r, CHUNKS);
        struct group *at = s.groups.v[g];

        now += (double)rng_below(&r, 10);
        switch (rng_below(&r, 5)) {
        case 0:
            groups_join(&s.groups, at, now);
            jobs[g] += g > 0;
            break;
        case 1:
            if (jobs[g] == 0)
                break;
            groups_leave(&s.groups, at, now);
            if (--jobs[g] == 0)
                left[g] = now + COOL;
            break;
        case 2:
            if (group_of[i] < 0) {
                slot_of[i] = put(&s, at, (unsigned)i, (uint64_t)i);
                group_of[i] = g;
            } else if (g > 0 && jobs[group_of[i]] == 0) {
                groups_claim(&s.groups, &s.table, slot_of[i], (uint32_t)g);
                group_of[i] = g;
            }
            break;
        case 3:
            if (group_of[i] < 0)
                break;
            groups_unlink(&s.groups, &s.table, slot_of[i]);
            chunks_remove(&s.table, slot_of[i]);
            group_of[i] = -1;
            break;
        case 4:
            groups_cost(&s.groups, at, (double)i, 10);
            groups_expect(&s.groups, at, (int32_t)rng_below(&r, 5) - 1);
            break;
        }
        check_model(&s, group_of, jobs, left, now);
    }
    tear_down(&s);
}

/* ---- policies ---- */

enum { FLAT_GROUPS = 4, FLAT_CHUNKS = 80 };

struct flat {
    struct setting s;
    struct policy *p; /* one order of all chunks */
    struct policy_item items[FLAT_CHUNKS];
    uint32_t slots[FLAT_CHUNKS];
};

static void flat_put(struct flat *f, unsigned i, struct group *g, double cost, double now)
{
    uint32_t slot = chunks_add(&f->s.table, (struct chunk_id){.hi = i, .lo = i}, 1 + i % 7, 0);

    f->s.table.chunks[slot].group = g->number;
    groups_chunk_cost(&f->s.groups, &f->s.table, slot, cost);
    groups_link_newest(&f->s.groups, &f->s.table, slot, now);
    f->slots[i] = slot;
    policy_item_init(&f->items[i], i, 1 + i % 7, cost);
    policy_expect(f->p, &f->items[i], 1);
    policy_access(f->p, &f->items[i], now);
    policy_insert(f->p, &f->items[i]);
}

static void flat_step(struct flat *f, struct rng *r, double now)
{
    unsigned i = (unsigned)rng_below(r, FLAT_CHUNKS);
    struct group *g = f->s.groups.v[1 + rng_below(r, FLAT_GROUPS)];

    if (!f->items[i].resident) {
        flat_put(f, i, g, 1 + (double)rng_below(r, 1 << 30), now);
    } else if (rng_below(r, 3) > 0) {
        groups_touch(&f->s.groups, &f->s.table, f->slots[i], now);
        policy_access(f->p, &f->items[i], now);
    } else {
        groups_unlink(&f->s.groups, &f->s.table, f->slots[i]);
        groups_forget(&f->s.groups, f->slots[i]);
        chunks_remove(&f->s.table, f->slots[i]);
        policy_remove(f->p, &f->items[i]);
    }
}

/* The victim of two levels is that of one order of all chunks, under every policy. */
static void test_as_one_order(void **state)
{
    static const struct policy_ops *const all[] = {
        &policy_lru,  &policy_lfu, &policy_lrfu, &policy_greedy, &policy_cost_aware_lrfu,
        &policy_worth};
    const struct policy_options o = {.half_life = 50};

    (void)state;
    for (size_t k = 0; k < unit_count(all); k++) {
        struct flat f = {.p = policy_new(all[k], &o), .s.table = CHUNKS_INIT};
        struct rng r = {k + 1};

        groups_init(&f.s.groups, 0, all[k], &o);
        for (uint64_t g = 1; g <= FLAT_GROUPS; g++)
            groups_expect(&f.s.groups, group(&f.s, g), 1);
        for (int step = 0; step < 4000; step++) {
            const struct group *v;
            const struct policy_item *want;

            flat_step(&f, &r, step);
            v = victim(&f.s, step, LIFE_CALM);
            want = policy_victim(f.p, step, false);
            assert_int_equal(v == NULL, want == NULL);
            if (want != NULL)
                assert_int_equal(groups_victim_chunk(v), f.slots[want->id]);
        }
        policy_free(&f.p);
        tear_down(&f.s);
    }
}

/* Every chunk of the least pressure may go, whichever group has more of them. */
static void test_random(void **state)
{
    struct setting s = {.table = CHUNKS_INIT};
    unsigned of_small = 0;

    (void)state;
    groups_init(&s.groups, 0, &policy_random, NULL);
    put(&s, group(&s, 1), 1, 10);
    for (unsigned i = 2; i <= 10; i++)
        put(&s, group(&s, 2), i, 10);
    for (unsigned i = 0; i < 2000; i++)
        of_small += victim(&s, 1, LIFE_CALM) == group(&s, 1);
    assert_in_range(of_small, 120, 280); /* one of ten */
    groups_join(&s.groups, group(&s, 2), 1);
    for (unsigned i = 0; i < 20; i++)
        assert_ptr_equal(victim(&s, 1, LIFE_CALM), group(&s, 1));
    tear_down(&s);
    s.table = (struct chunks)CHUNKS_INIT;
    groups_init(&s.groups, 0, &policy_random, NULL); /* the one that is read is the first */
    put(&s, group(&s, 1), 1, 10);
    put(&s, group(&s, 2), 2, 10);
    groups_join(&s.groups, group(&s, 1), 1);
    for (unsigned i = 0; i < 50; i++)
        assert_ptr_equal(victim(&s, 1, LIFE_CALM), group(&s, 2));
    tear_down(&s);
}

/* Ranks of chunks lie in blocks of 4096: each has its own, in whichever block. */
static void test_many_ranks(void **state)
{
    enum { MANY = 9000 };
    static uint32_t slots[MANY];
    struct setting s = {.table = CHUNKS_INIT};

    (void)state;
    groups_init(&s.groups, 0, &policy_greedy, NULL);
    for (unsigned i = 0; i < MANY; i++) {
        slots[i] = put(&s, group(&s, 1), i + 1, 10);
        groups_chunk_cost(&s.groups, &s.table, slots[i], 1 + (i * 7919u) % MANY);
    }
    for (unsigned rank = 0; rank < MANY; rank++) { /* the cheapest first */
        uint32_t slot = groups_victim_chunk(victim(&s, 1, LIFE_CALM));
        unsigned i = 0;

        while (slots[i] != slot)
            i++;
        assert_int_equal((i * 7919u) % MANY, rank);
        groups_unlink(&s.groups, &s.table, slot);
    }
    tear_down(&s);
}

/* One that could not be removed is not the next again, under any policy, until it is used. */
static void test_stuck(void **state)
{
    struct setting s;
    uint32_t one, two;

    (void)state;
    set_up(&s);
    one = put(&s, group(&s, 1), 1, 10);
    two = put(&s, group(&s, 1), 2, 10); /* read last: it goes first */
    assert_int_equal(groups_victim_chunk(group(&s, 1)), two);
    groups_unlink(&s.groups, &s.table, two);
    groups_link_stuck(&s.groups, &s.table, two);
    assert_int_equal(groups_victim_chunk(victim(&s, COOL, LIFE_CALM)), one);
    groups_unlink(&s.groups, &s.table, one);
    assert_null(victim(&s, COOL, LIFE_CALM));
    groups_touch(&s.groups, &s.table, two, COOL);
    assert_int_equal(groups_victim_chunk(victim(&s, COOL, LIFE_CALM)), two);
    tear_down(&s);
}

/* A chunk of which nothing is known has the mean of its group; then its own cost counts. */
static void test_own_cost(void **state)
{
    struct setting s;
    uint32_t one, two;

    (void)state;
    set_up(&s);
    groups_cost(&s.groups, group(&s, 1), 10, 10);
    one = put(&s, group(&s, 1), 1, 10);
    two = put(&s, group(&s, 1), 2, 10);
    groups_chunk_cost(&s.groups, &s.table, one, 9);
    assert_int_equal(groups_victim_chunk(group(&s, 1)), one);
    groups_chunk_cost(&s.groups, &s.table, one, 11);
    assert_int_equal(groups_victim_chunk(group(&s, 1)), two);
    groups_cost(&s.groups, group(&s, 1), 40, 10); /* the mean is 2.5 now */
    groups_touch(&s.groups, &s.table, two, 1);
    assert_int_equal(groups_victim_chunk(group(&s, 1)), one);
    tear_down(&s);
}

static void test_refusals(void **state)
{
    (void)state;
    for (const struct policy_ops *const *o = policies; *o != NULL; o++) {
        bool fed = *o != &policy_clairvoyant && *o != &policy_importance;

        assert_int_equal(disk_policy_refusal(*o) == NULL, fed);
        if (!fed)
            assert_non_null(strstr(disk_policy_refusal(*o), "choose worth"));
    }
}

/* ---- in the tier ---- */

static int store_in(struct disk *d, uint32_t g, unsigned i, size_t len)
{
    unsigned char *p = bytes_of(i, len);
    struct chunk_id id = id_of(i);
    int rc;

    id.group = g;
    rc = disk_store(d, id, p, len, NULL);
    mem_free(&p);
    return rc;
}

static struct disk_group_figures in_group(struct disk *d, uint32_t g)
{
    struct disk_group_figures f;

    disk_group_figures(d, g, &f);
    return f;
}

static struct disk *open_cooling(uint64_t limit)
{
    return open_config(
        &(struct disk_config){.root = root, .limit = limit, .cool_down = dlc_dur_of_seconds(COOL)});
}

/* Epochs in fresh orders over twice what fits: half of the reads hit, nothing is evicted. */
static void test_larger_than_the_disk(void **state)
{
    struct disk *d = open_cooling(50000);
    uint64_t evictions = count_read(disk_evictions), refused = count_read(disk_not_admitted);
    uint32_t g = disk_group(d, 1, "large");
    struct rng r = {5};
    unsigned hits = 0;

    (void)state;
    disk_group_join(d, g);
    for (unsigned epoch = 0; epoch < 4; epoch++) {
        unsigned order[100];

        for (unsigned i = 0; i < 100; i++) {
            unsigned k = (unsigned)rng_below(&r, i + 1);

            order[i] = order[k];
            order[k] = i;
        }
        for (unsigned i = 0; i < 100; i++) {
            if (fetch(d, order[i], 1000) == 0)
                hits++;
            else
                assert_int_equal(store_in(d, g, order[i], 1000),
                                 in_group(d, g).bytes < 50000 ? 0 : DLC_ENOSPACE);
        }
    }
    assert_int_equal(hits, 3 * 50);
    assert_int_equal(count_read(disk_evictions), evictions);
    assert_int_equal(count_read(disk_not_admitted) - refused, 4 * 50);
    assert_int_equal(in_group(d, g).state, LIFE_ACTIVE);
    assert_int_equal(in_group(d, g).chunks, 50);
    disk_close(&d);
}

static void test_idle_goes_for_active(void **state)
{
    struct disk *d = open_cooling(10000);
    uint32_t a = disk_group(d, 1, "a"), b = disk_group(d, 2, "b");

    (void)state;
    assert_int_equal(store(d, 90, 1000), 0); /* of nobody */
    disk_group_join(d, a);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(store_in(d, a, i, 1000), 0);
    disk_group_join(d, b);
    assert_int_equal(store_in(d, b, 10, 1000), 0); /* for the one of nobody */
    assert_false(disk_has(d, id_of(90)));
    assert_int_equal(store_in(d, b, 11, 1000), DLC_ENOSPACE);
    disk_group_leave(d, a);
    assert_int_equal(in_group(d, a).state, LIFE_COOL_DOWN);
    assert_int_equal(store_in(d, b, 11, 1000), 0);
    assert_false(disk_has(d, id_of(8))); /* of equals the last one read: it is needed last */
    assert_int_equal(in_group(d, a).bytes, 8000);
    disk_group_leave(d, b);
    dlc_clock_advance(DLC_SEC(2 * COOL));
    assert_int_equal(in_group(d, a).state, LIFE_INACTIVE);
    disk_group_join(d, b);
    for (unsigned i = 12; i < 20; i++)
        assert_int_equal(store_in(d, b, i, 1000), 0);
    assert_int_equal(in_group(d, a).chunks, 0);
    assert_int_equal(in_group(d, b).chunks, 10);
    assert_int_equal(store_in(d, b, 20, 1000), DLC_ENOSPACE);
    disk_close(&d);
}

static void assert_states(struct disk *d, uint32_t g, uint64_t prepare, uint64_t pending,
                          uint64_t active, uint64_t cool_down, uint64_t inactive)
{
    struct disk_group_figures f = in_group(d, g);

    assert_int_equal(f.by_state[LIFE_PREPARE], prepare);
    assert_int_equal(f.by_state[LIFE_PENDING], pending);
    assert_int_equal(f.by_state[LIFE_ACTIVE], active);
    assert_int_equal(f.by_state[LIFE_COOL_DOWN], cool_down);
    assert_int_equal(f.by_state[LIFE_INACTIVE], inactive);
}

static void assert_state(struct disk *d, unsigned i, enum life_state want)
{
    enum life_state state;

    assert_int_equal(disk_chunk_state(d, id_of(i), &state), 0);
    assert_string_equal(life_name(state), life_name(want));
}

/* Each chunk has a life of its own: written, waiting for the job that runs, read by it. */
static void test_life_of_chunks(void **state)
{
    struct disk *d = open_cooling(100000);
    uint32_t g = disk_group(d, 1, "g");
    enum life_state none;
    struct chunk_id id = id_of(9);
    struct disk_fill *f;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(store_in(d, g, i, 1000), 0);
    assert_states(d, g, 0, 0, 0, 3, 0);
    disk_group_join(d, g);
    assert_states(d, g, 0, 3, 0, 0, 0);
    assert_int_equal(fetch(d, 1, 1000), 0);
    assert_int_equal(fetch(d, 1, 1000), 0);
    assert_states(d, g, 0, 2, 1, 0, 0);
    assert_state(d, 0, LIFE_PENDING);
    assert_state(d, 1, LIFE_ACTIVE);
    id.group = g;
    assert_int_equal(disk_fill_begin(d, id, 500, &f, NULL), 0);
    assert_states(d, g, 1, 2, 1, 0, 0);
    disk_fill_abandon(d, &f);
    assert_int_equal(disk_chunk_state(d, id, &none), DLC_EMISS);
    assert_int_equal(disk_fill_begin(d, id, 500, &f, NULL), 0);
    memset(disk_fill_data(f), 7, 500);
    assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
    assert_states(d, g, 0, 2, 2, 0, 0); /* what comes while jobs run comes for one of them */
    disk_group_join(d, g);              /* another one: what was read stays ACTIVE */
    disk_group_leave(d, g);
    assert_states(d, g, 0, 2, 2, 0, 0);
    disk_drop(d, id_of(1));
    assert_states(d, g, 0, 2, 1, 0, 0);
    disk_group_leave(d, g);
    assert_states(d, g, 0, 0, 0, 3, 0);
    assert_state(d, 0, LIFE_COOL_DOWN);
    dlc_clock_advance(DLC_SEC(2 * COOL));
    assert_states(d, g, 0, 0, 0, 0, 3);
    assert_state(d, 0, LIFE_INACTIVE);
    disk_group_join(d, g); /* the next run: nothing of it is read yet */
    assert_states(d, g, 0, 3, 0, 0, 0);
    disk_close(&d);
}

/* A lower limit and a chunk that cannot be done without take what jobs read. */
static void test_pressure(void **state)
{
    struct disk *d = open_cooling(10000);
    uint32_t a = disk_group(d, 1, "a");
    struct chunk_id id = id_of(50);
    struct disk_fill *f;
    static char data[2000];

    (void)state;
    disk_group_join(d, a);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(store_in(d, a, i, 1000), 0);
    disk_set_limit(d, 5000);
    assert_int_equal(in_group(d, a).bytes, 5000);
    assert_true(disk_has(d, id_of(4)));
    id.group = a;
    assert_int_equal(disk_fill_begin(d, id, 2000, &f, NULL), DLC_ENOSPACE);
    assert_int_equal(disk_fill_begin(d, id, 0, &f, NULL), 0);
    assert_int_equal(disk_fill_append(d, f, data, sizeof(data), NULL), 0);
    assert_int_equal(disk_fill_commit(d, &f, NULL), 0);
    assert_int_equal(in_group(d, a).bytes, 5000);
    assert_true(disk_has(d, id));
    assert_false(disk_has(d, id_of(3)));
    disk_close(&d);
}

/* After a restart nobody owns anything, until it is used. */
static void test_restart(void **state)
{
    struct disk *d = open_cooling(10000);
    uint32_t a = disk_group(d, 1, "a");
    struct chunk_id id = id_of(3);

    (void)state;
    disk_group_join(d, a);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(store_in(d, a, i, 1000), 0);
    disk_close(&d);
    d = open_cooling(10000);
    a = disk_group(d, 7, "a");
    disk_group_join(d, a);
    assert_int_equal(in_group(d, 0).chunks, 10);
    id.group = a;
    assert_true(disk_has(d, id));
    assert_int_equal(in_group(d, a).bytes, 1000);
    for (unsigned i = 20; i < 29; i++)
        assert_int_equal(store_in(d, a, i, 1000), 0);
    assert_true(disk_has(d, id));
    assert_int_equal(in_group(d, 0).chunks, 0);
    assert_int_equal(store_in(d, a, 30, 1000), DLC_ENOSPACE);
    assert_int_equal(disk_drop_all(d), 10000);
    assert_int_equal(in_group(d, a).chunks, 0);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_decide_first),
        cmocka_unit_test(test_worth_decides_between_equals),
        cmocka_unit_test(test_admission),
        cmocka_unit_test(test_admission_of_declared_runs),
        cmocka_unit_test(test_claim),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_no_leak),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_as_one_order),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_own_cost),
        cmocka_unit_test(test_refusals),
        disk_test(test_larger_than_the_disk),
        disk_test(test_idle_goes_for_active),
        disk_test(test_life_of_chunks),
        disk_test(test_pressure),
        disk_test(test_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
