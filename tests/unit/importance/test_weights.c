// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "importance/weights.h"

static void *memory(uint64_t n)
{
    void *at = aligned_alloc(4096, weights_size(n));

    assert_non_null(at);
    memset(at, 0, weights_size(n));
    weights_format(at, n, 77);
    return at;
}

static struct weights opened(uint64_t n)
{
    struct weights w;

    assert_int_equal(weights_open(&w, memory(n), weights_size(n), n, NULL), 0);
    return w;
}

static bool take(struct weights *w, enum weights_who who, uint64_t *place, uint64_t *sample)
{
    uint64_t steps = UINT64_MAX;

    return weights_take(w, who, place, &steps, sample);
}

static void test_layout(void **state)
{
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 262144, 300001};

    (void)state;
    for (unsigned k = 0; k < unit_count(sizes); k++) {
        uint64_t n = sizes[k], place = 0, s = 0;
        struct weights w = opened(n);
        char *at = (char *)w.hdr;

        assert_int_equal(weights_size(n) % 4096, 0);
        assert_ptr_equal(w.bits, at + 4096);
        assert_true((char *)(w.bits + n) <= (char *)w.marks[0]);
        assert_true(w.marks[0] < w.words[0] && w.words[0] < w.marks[1]);
        assert_true((char *)(w.words[1] + (n + 4095) / 4096) <= at + weights_size(n));
        weights_set(&w, 0, 1);
        weights_set(&w, n - 1, 2);
        assert_true(weights_get(&w, n - 1) == 2);
        assert_true(weights_get(&w, 0) == (n == 1 ? 2 : 1));
        while (take(&w, WEIGHTS_SENDER, &place, &s))
            assert_true(s == 0 || s == n - 1);
        assert_int_equal(s, n - 1);
        free(at);
    }
}

static void test_open_refuses(void **state)
{
    uint64_t size = weights_size(1000);
    char *at = memory(1000);
    struct weights_hdr *hdr = (void *)at;
    struct dlc_err err = DLC_ERR_INIT;
    struct weights w;

    (void)state;
    assert_int_equal(weights_open(&w, at, size, 1000, &err), 0);
    assert_int_equal(w.hdr->snapshot, 77);
    assert_int_equal(weights_open(&w, at, size - 1, 1000, &err), DLC_EINVAL);
    assert_null(w.hdr);
    assert_int_equal(weights_open(&w, at, size, 999, &err), DLC_EINVAL);
    assert_non_null(strstr(err.text, "not the weights of 999"));
    assert_int_equal(weights_open(&w, at, size, 0, &err), DLC_EINVAL);
    assert_int_equal(weights_open(&w, at, SIZE_MAX, UINT64_MAX, &err), DLC_EINVAL);
    assert_int_equal(weights_open(&w, at, SIZE_MAX, WEIGHTS_MAX + 1, &err), DLC_EINVAL);
    hdr->version++;
    assert_int_equal(weights_open(&w, at, size, 1000, &err), DLC_EINVAL);
    hdr->version--;
    hdr->magic = 0;
    assert_int_equal(weights_open(&w, at, size, 1000, &err), DLC_EINVAL);
    free(at);
}

static void test_odd_numbers_read_as_never_learnt(void **state)
{
    static const float odd[] = {0, -0.0f, -1, NAN, -NAN, INFINITY, -INFINITY, -FLT_MIN};
    static const float fine[] = {1, FLT_MIN, FLT_MAX, FLT_TRUE_MIN, 1e-30f};
    struct weights w = opened(3);

    (void)state;
    for (unsigned k = 0; k < unit_count(odd); k++) {
        weights_set(&w, 1, odd[k]);
        assert_true(weights_get(&w, 1) == 0 && !signbit(weights_get(&w, 1)));
    }
    for (unsigned k = 0; k < unit_count(fine); k++) {
        weights_set(&w, 1, fine[k]);
        assert_true(weights_get(&w, 1) == fine[k]);
    }
    assert_true(weights_get(&w, 0) == 0 && weights_get(&w, 2) == 0);
    free(w.hdr);
}

static void test_marks_are_taken_once_and_in_order(void **state)
{
    static const uint64_t set[] = {9999, 0, 63, 64, 4095, 4096, 5000, 5000, 8191};
    static const uint64_t sorted[] = {0, 63, 64, 4095, 4096, 5000, 8191, 9999};
    struct weights w = opened(10000);
    uint64_t s, place = 0;

    (void)state;
    assert_false(take(&w, WEIGHTS_KEEPER, &place, &s));
    for (unsigned k = 0; k < unit_count(set); k++)
        weights_set(&w, set[k], 1);
    weights_receive(&w, 70, 1);
    assert_int_equal(weights_stored(&w, WEIGHTS_KEEPER), unit_count(set) + 1);
    assert_int_equal(weights_stored(&w, WEIGHTS_SENDER), unit_count(set));
    place = 0;
    for (unsigned k = 0; k < unit_count(sorted); k++) {
        assert_true(weights_is_marked(&w, WEIGHTS_SENDER, sorted[k]));
        assert_true(take(&w, WEIGHTS_SENDER, &place, &s));
        assert_false(weights_is_marked(&w, WEIGHTS_SENDER, sorted[k]));
        assert_int_equal(s, sorted[k]);
    }
    assert_false(take(&w, WEIGHTS_SENDER, &place, &s));
    place = 0;
    assert_false(take(&w, WEIGHTS_SENDER, &place, &s));
    for (place = 0, s = 0; s != 70;) /* what was received is the keeper's alone */
        assert_true(take(&w, WEIGHTS_KEEPER, &place, &s));
    free(w.hdr);
}

/* (WEIGHT-STORE-3) A look that stops in the middle of a word loses nothing. */
static void test_a_look_may_stop_anywhere(void **state)
{
    struct weights w = opened(20000);
    uint64_t total = 0;
    struct rng r = {3};

    (void)state;
    for (unsigned k = 0; k < 3000; k++)
        weights_set(&w, rng_below(&r, w.n), 1);
    for (bool more = true; more;) {
        uint64_t place = 0, s;

        more = false;
        for (uint64_t some = 1 + rng_below(&r, 7); some > 0; some--) {
            if (!take(&w, WEIGHTS_KEEPER, &place, &s))
                break;
            more = true;
            total++;
        }
    }
    for (uint64_t s = 0; s < w.n; s++)
        total -= weights_get(&w, s) > 0;
    assert_int_equal(total, 0);
    free(w.hdr);
}

static void test_hostile_marks(void **state)
{
    struct weights w = opened(100);
    uint64_t place = 0, s, count = 0;

    (void)state;
    memset((void *)w.marks[0], 0xff, weights_size(100) - 4096 - 448);
    for (; take(&w, WEIGHTS_KEEPER, &place, &s); count++)
        assert_int_equal(s, count);
    assert_int_equal(count, 100);
    free(w.hdr);
}

/* Bits that promise marks where there are none cost one look each, and no look costs more than it
 * may, whatever they say. */
static void test_a_look_is_bounded(void **state)
{
    struct weights w = opened(1000000);
    uint64_t words = (w.n + 63) / 64, over = (words + 63) / 64;

    (void)state;
    for (unsigned refill = 0; refill < 2; refill++) {
        uint64_t place = 0, s, calls = 0, steps;

        memset((void *)w.words[WEIGHTS_KEEPER], 0xff, over * 8);
        do {
            uint64_t from = place;

            steps = 100;
            assert_false(weights_take(&w, WEIGHTS_KEEPER, &place, &steps, &s));
            assert_true(place > from && place <= from + (uint64_t)100 * 4096);
            calls++;
        } while (place < w.n);
        assert_true(calls >= words / 100);
        for (uint64_t k = 0; k + 1 < over; k++)
            assert_int_equal(w.words[WEIGHTS_KEEPER][k], 0);
    }
    weights_set(&w, 999999, 1);
    for (uint64_t place = 0, s = 0, steps = 2 + over; s != 999999;)
        assert_true(weights_take(&w, WEIGHTS_KEEPER, &place, &steps, &s));
    free(w.hdr);
}

/* ---- threads ---- */

#define STORERS 3
#define SAMPLES 600 /* of each: neighbours share words with those of others */
#define ROUNDS  200

struct storer {
    struct weights *w;
    unsigned number;
    _Atomic int *running;
};

static void *store(void *arg)
{
    struct storer *st = arg;

    for (unsigned round = 1; round <= ROUNDS; round++)
        for (unsigned k = 0; k < SAMPLES; k++)
            weights_set(st->w, (uint64_t)k * STORERS + st->number, (float)round);
    atomic_fetch_sub(st->running, 1);
    return NULL;
}

/* (WEIGHT-STORE-1) Who takes all marks while others store has seen the last value of each in the
 * end. */
static void test_no_store_is_missed(void **state)
{
    struct weights w = opened(STORERS * SAMPLES);
    struct storer storers[STORERS];
    pthread_t threads[STORERS];
    float seen[STORERS * SAMPLES] = {0};
    _Atomic int running = STORERS;
    bool last = false;

    (void)state;
    for (unsigned k = 0; k < STORERS; k++) {
        storers[k] = (struct storer){&w, k, &running};
        assert_int_equal(pthread_create(&threads[k], NULL, store, &storers[k]), 0);
    }
    while (!last) {
        uint64_t place = 0, s;

        last = atomic_load(&running) == 0;
        while (take(&w, WEIGHTS_KEEPER, &place, &s)) {
            float weight = weights_get(&w, s);

            assert_true(weight >= seen[s]);
            seen[s] = weight;
        }
    }
    for (unsigned k = 0; k < STORERS; k++)
        pthread_join(threads[k], NULL);
    for (unsigned s = 0; s < STORERS * SAMPLES; s++)
        assert_true(seen[s] == ROUNDS);
    assert_int_equal(weights_stored(&w, WEIGHTS_KEEPER), STORERS * SAMPLES * ROUNDS);
    free(w.hdr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_open_refuses),
        cmocka_unit_test(test_odd_numbers_read_as_never_learnt),
        cmocka_unit_test(test_marks_are_taken_once_and_in_order),
        cmocka_unit_test(test_a_look_may_stop_anywhere),
        cmocka_unit_test(test_hostile_marks),
        cmocka_unit_test(test_a_look_is_bounded),
        cmocka_unit_test(test_no_store_is_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
