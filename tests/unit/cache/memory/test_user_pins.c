// SPDX-License-Identifier: Apache-2.0
/* A user who pins all that it can leaves the others an eighth of memory: (USER-PINS-1), -2. */
#include "world.h"

#define MB   ((uint64_t)1 << 20)
#define SIZE (8u << 10)
#define ANN  1001u
#define BOB  1002u

/* The world's session is the owner's. */
struct user {
    struct mem_session *s;
    struct client c;
    unsigned pins;
};

static void user_open(struct user *u, struct memory *m, struct mem_index *x, uint64_t id)
{
    *u = (struct user){0};
    assert_int_equal(mem_session_new(x, &u->s, NULL), 0);
    mem_session_set_user(u->s, id);
    client_open(&u->c, m, x, u->s);
}

static void user_close(struct user *u)
{
    client_close(&u->c);
    mem_session_free(&u->s);
}

static void user_pin(struct user *u, uint64_t sample)
{
    struct shm_pin_block *b = client_block(&u->c, u->pins / SHM_PINS);

    atomic_store(&b->pins[u->pins++ % SHM_PINS], sample + 1);
}

static void user_let_go(struct user *u)
{
    for (unsigned i = 0; i < u->pins; i++)
        atomic_store(&client_block(&u->c, i / SHM_PINS)->pins[i % SHM_PINS], 0);
    u->pins = 0;
}

/* A miss of the user's reader. */
static int bring(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t user)
{
    struct mem_fill *f;
    int rc = memory_reserve_for(m, x, sample, SIZE, user, &f);

    if (rc == 0)
        memory_publish(m, &f);
    return rc;
}

/* It brings in samples from `from` on and pins each, until it gets no more. How many. */
static unsigned take_all(struct memory *m, struct mem_index *x, struct user *u, uint64_t from,
                         uint64_t id)
{
    unsigned n = 0;

    while (bring(m, x, from + n, id) == 0)
        user_pin(u, from + n++);
    return n;
}

static int setup(void **state)
{
    *state = world_new(4 * MB, 4 * MB);
    return 0;
}

#define ALL (4 * MB / SIZE)

static void test_eighth_is_left(void **state)
{
    struct world *w = *state;
    struct mem_index *y;
    struct user ann, bob;
    unsigned n;

    assert_int_equal(mem_index_new(w->m, 1000, WORLD_SNAPSHOT, &y, NULL), 0);
    user_open(&ann, w->m, w->x, ANN);
    user_open(&bob, w->m, y, BOB);
    n = take_all(w->m, w->x, &ann, 0, ANN);
    assert_in_range(n, ALL * 7 / 8 - 2, ALL * 7 / 8);
    assert_int_equal(bring(w->m, w->x, 999, ANN), DLC_EBYPASS);
    assert_int_equal(bring(w->m, y, 999, MEM_NOBODY), DLC_EBYPASS);
    for (unsigned i = 0; i < 500; i++) /* many more than fit beside ann's */
        assert_int_equal(bring(w->m, y, i, BOB), 0);
    assert_in_range(mem_index_resident(y), ALL / 8 - 10, ALL / 8);
    assert_int_equal(mem_index_resident(w->x), n);
    /* Nothing of bob's goes for misses of ann's that are refused. */
    n = (unsigned)mem_index_resident(y);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(bring(w->m, w->x, 900 + i, ANN), DLC_EBYPASS);
    assert_int_equal(mem_index_resident(y), n);
    user_let_go(&ann);
    memory_tick(w->m);
    assert_int_equal(bring(w->m, w->x, 999, ANN), 0);
    user_close(&ann);
    user_close(&bob);
    mem_index_free(&y);
}

/* It fills memory without pins, as it may, and then pins all of it at once. */
static void test_pins_all_at_once(void **state)
{
    struct world *w = *state;
    struct mem_index *y;
    struct user ann, bob;

    assert_int_equal(mem_index_new(w->m, 1000, WORLD_SNAPSHOT, &y, NULL), 0);
    user_open(&ann, w->m, w->x, ANN);
    user_open(&bob, w->m, y, BOB);
    for (unsigned i = 0; i < 900; i++)
        assert_int_equal(bring(w->m, w->x, i, ANN), 0);
    for (unsigned i = 0; i < 1000; i++)
        user_pin(&ann, i);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(bring(w->m, y, i, BOB), 0);
    assert_in_range(mem_index_resident(y), ALL / 8 - 10, ALL / 8);
    user_close(&ann);
    user_close(&bob);
    mem_index_free(&y);
}

/* The owner has a place beside another user, too; and one user alone keeps nothing for others. */
static void test_owner(void **state)
{
    struct world *w = *state;
    struct user ann, mine = {.s = w->s, .c = w->c};
    unsigned n;

    assert_int_equal(memory_usable(w->m), memory_ceiling(w->m));
    user_open(&ann, w->m, w->x, ANN);
    assert_int_equal(memory_usable(w->m), memory_ceiling(w->m) / 8 * 7);
    n = take_all(w->m, w->x, &ann, 0, ANN);
    assert_int_equal(bring(w->m, w->x, 999, MEM_OWNER), 0);
    user_close(&ann);
    memory_tick(w->m);
    assert_int_equal(memory_usable(w->m), memory_ceiling(w->m));
    n = take_all(w->m, w->x, &mine, n, MEM_OWNER);
    assert_in_range(n, ALL - 2, ALL);
    user_let_go(&mine);
}

/* What two users pin counts once for all and once for each, in whatever session; and a copy that
 * was evicted counts, too. */
static void test_counts_once(void **state)
{
    struct world *w = *state;
    struct user ann, again, bob;
    uint64_t limit = 3 * MB + MB / 2;

    user_open(&ann, w->m, w->x, ANN);
    user_open(&bob, w->m, w->x, BOB);
    user_open(&again, w->m, w->x, ANN);
    for (unsigned i = 0; i < ALL / 8; i++)
        assert_int_equal(bring(w->m, w->x, i, ANN), 0);
    for (unsigned i = 0; i < ALL / 8; i++) {
        user_pin(&ann, i);
        user_pin(&again, i);
        user_pin(&again, i);
        user_pin(&bob, i);
    }
    memory_tick(w->m);
    assert_in_range(user_pins_total(w->m), MB / 2, MB / 2 + MB / 16);
    assert_int_equal(user_pins_limit(w->m, ANN), limit);
    assert_int_equal(user_pins_limit(w->m, MEM_OWNER), limit);
    memory_evict_soon(w->x, 0);
    memory_tick(w->m);
    assert_in_range(user_pins_total(w->m), MB / 2, MB / 2 + MB / 16);
    user_let_go(&ann);
    user_let_go(&again);
    user_let_go(&bob);
    memory_tick(w->m);
    assert_int_equal(user_pins_total(w->m), 0);
    user_close(&ann);
    user_close(&bob);
    user_close(&again);
}

/* What a user pins counts for it, whether the owner pins the same or not. */
static void test_counts_beside_the_owner(void **state)
{
    struct world *w = *state;
    struct user ann, mine = {.s = w->s, .c = w->c};

    user_open(&ann, w->m, w->x, ANN);
    for (unsigned i = 0; i < ALL / 8; i++) {
        assert_int_equal(bring(w->m, w->x, i, ANN), 0);
        user_pin(&ann, i);
    }
    memory_tick(w->m);
    for (unsigned i = 0; i < ALL / 8; i++)
        user_pin(&mine, i);
    memory_tick(w->m);
    assert_in_range(user_pins_total(w->m), MB / 2, MB / 2 + MB / 16);
    assert_int_equal(w->s->user->pinned.now.bytes, ann.s->user->pinned.now.bytes);
    assert_int_equal(w->s->user->pinned.now.pass, ann.s->user->pinned.now.pass);
    user_let_go(&mine);
    user_let_go(&ann);
    user_close(&ann);
}

/* Each has a number of its own, also after the last one was given out. */
static void test_users_are_told_apart(void **state)
{
    struct world *w = *state;
    struct user u[4];

    for (unsigned i = 0; i < unit_count(u); i++) {
        user_open(&u[i], w->m, w->x, ANN + i);
        assert_int_not_equal(u[i].s->user->number, w->s->user->number);
        for (unsigned k = i > 2; k < i; k++)
            assert_int_not_equal(u[i].s->user->number, u[k].s->user->number);
        if (i == 1)
            w->m->last_number = UINT16_MAX - 1;
        else if (i == 2)
            user_close(&u[0]); /* whose number is free again */
    }
    for (unsigned i = 1; i < unit_count(u); i++)
        user_close(&u[i]);
}

/* A pass that has begun says nothing until it ends: what the one before it saw counts. */
static void test_counts_of_the_last_pass(void **state)
{
    struct world *w = *state;
    struct user ann;
    uint64_t limit, total;

    user_open(&ann, w->m, w->x, ANN);
    for (unsigned i = 0; i < ALL * 7 / 8 - 2; i++) {
        assert_int_equal(bring(w->m, w->x, i, ANN), 0);
        user_pin(&ann, i);
    }
    memory_tick(w->m);
    total = user_pins_total(w->m);
    limit = user_pins_limit(w->m, MEM_OWNER);
    assert_true(limit > memory_usable(w->m));
    assert_int_equal(user_pins_limit(w->m, ANN), memory_usable(w->m));
    w->m->scan.pass++; /* it has begun, and has seen one pin of ann's */
    user_pins_seen(ann.s, SIZE, 0, 0);
    assert_int_equal(user_pins_total(w->m), total);
    assert_int_equal(user_pins_limit(w->m, MEM_OWNER), limit);
    assert_int_equal(user_pins_limit(w->m, ANN), memory_usable(w->m));
    user_let_go(&ann);
    user_close(&ann);
}

/* Sessions of one user are neighbours in a pass, also after one between two others has gone: what
 * they all pin counts once for the user. */
static void test_counts_once_after_one_left(void **state)
{
    struct world *w = *state;
    struct user ann[3], bob;
    uint64_t one;

    user_open(&ann[0], w->m, w->x, ANN);
    user_open(&bob, w->m, w->x, BOB);
    user_open(&ann[1], w->m, w->x, ANN);
    assert_int_equal(bring(w->m, w->x, 1, ANN), 0);
    user_pin(&ann[0], 1);
    memory_tick(w->m);
    one = user_pins_total(w->m);
    assert_true(one >= SIZE);
    user_close(&ann[1]);
    user_open(&ann[2], w->m, w->x, ANN);
    user_pin(&bob, 1);
    user_pin(&ann[2], 1);
    memory_tick(w->m);
    assert_int_equal(user_pins_total(w->m), one);
    assert_int_equal(ann[0].s->user->pinned.now.bytes, one);
    assert_int_equal(bob.s->user->pinned.now.bytes, one);
    user_let_go(&ann[0]);
    user_let_go(&ann[2]);
    user_let_go(&bob);
    user_close(&ann[0]);
    user_close(&ann[2]);
    user_close(&bob);
}

/* A user comes when memory is full: the eighth is made by the next misses, none of which fails. */
static void test_comes_late(void **state)
{
    struct world *w = *state;
    struct user ann;

    for (unsigned i = 0; i < ALL - 1; i++)
        assert_int_equal(bring(w->m, w->x, i, MEM_OWNER), 0);
    assert_true(w->m->arena.used > 4 * MB - 2 * SIZE);
    user_open(&ann, w->m, w->x, ANN);
    for (unsigned i = 600; i < 700; i++)
        assert_int_equal(bring(w->m, w->x, i, ANN), 0);
    assert_true(w->m->arena.used <= memory_usable(w->m));
    user_close(&ann);
}

/* Large samples take their place by evicting, not from the eighth. */
static void test_large_samples(void **state)
{
    struct world *w = *state;
    struct user ann;
    struct mem_fill *f;

    user_open(&ann, w->m, w->x, ANN);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(memory_reserve_for(w->m, w->x, i, MB / 2, ANN, &f), 0);
        memory_publish(w->m, &f);
        assert_true(w->m->arena.used <= memory_usable(w->m));
    }
    user_close(&ann);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_eighth_is_left),
        T(test_pins_all_at_once),
        T(test_owner),
        T(test_counts_once_after_one_left),
        T(test_counts_beside_the_owner),
        T(test_counts_once),
        T(test_counts_of_the_last_pass),
        T(test_users_are_told_apart),
        T(test_comes_late),
        T(test_large_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
