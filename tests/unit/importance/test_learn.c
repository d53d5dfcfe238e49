// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <float.h>
#include <math.h>

#include "base/fault.h"
#include "base/rng.h"
#include "importance/weights.h"

#define N 5000

static struct weights opened(void)
{
    void *at = aligned_alloc(4096, weights_size(N));
    struct weights w;

    assert_non_null(at);
    memset(at, 0, weights_size(N));
    weights_format(at, N, 1);
    assert_int_equal(weights_open(&w, at, weights_size(N), N, NULL), 0);
    return w;
}

static float weight_of_rank(double rank)
{
    return (float)log(rank + 10);
}

static void test_ranks(void **state)
{
    static const uint64_t samples[] = {7, 3, 9, 1, 4, 5};
    static const float losses[] = {0.5f, -2, INFINITY, 1e-30f, -INFINITY, NAN};
    struct weights w = opened();
    struct weights_scale scale = {0};
    struct weights_learnt out;
    uint64_t place = 0, steps = UINT64_MAX, s, taken = 0;

    (void)state;
    assert_int_equal(weights_learn(&w, WEIGHTS_RANK, &scale, 0, samples, losses, 6, &out, NULL), 0);
    assert_true(weights_get(&w, 4) == weight_of_rank(0));
    assert_true(weights_get(&w, 3) == weight_of_rank(1));
    assert_true(weights_get(&w, 1) == weight_of_rank(2));
    assert_true(weights_get(&w, 7) == weight_of_rank(3));
    assert_true(weights_get(&w, 9) == weight_of_rank(4));
    assert_true(weights_get(&w, 5) == 0); /* not a number: as if it was not there */
    assert_int_equal(out.used, 5);
    assert_int_equal(out.ignored, 1);
    assert_float_equal(out.mean, -0.5, 1e-6); /* of what is finite */
    for (; weights_take(&w, WEIGHTS_SENDER, &place, &steps, &s); taken++)
        assert_true(s != 5);
    assert_int_equal(taken, 5);
    assert_int_equal(weights_stored(&w, WEIGHTS_KEEPER), 5);
    free(w.hdr);
}

static void test_equal_losses_and_samples_that_are_twice_there(void **state)
{
    static const uint64_t samples[] = {0, 1, 2, 3, 4, 0};
    static const float losses[] = {2, 1, 1, 0.0f, -0.0f, 0.5f};
    struct weights w = opened();

    (void)state;
    assert_int_equal(weights_learn(&w, WEIGHTS_RANK, NULL, 0, samples, losses, 6, NULL, NULL), 0);
    assert_true(weights_get(&w, 3) == weight_of_rank(0.5));
    assert_true(weights_get(&w, 4) == weight_of_rank(0.5));
    assert_true(weights_get(&w, 1) == weight_of_rank(3.5));
    assert_true(weights_get(&w, 2) == weight_of_rank(3.5));
    assert_true(weights_get(&w, 0) == weight_of_rank(5)); /* the larger of its two */
    assert_int_equal(weights_learn(&w, WEIGHTS_PLAIN, NULL, 0, samples, losses, 6, NULL, NULL), 0);
    assert_true(weights_get(&w, 0) == 2);
    assert_true(weights_get(&w, 2) == 1);
    free(w.hdr);
}

static void test_plain(void **state)
{
    static const uint64_t samples[] = {0, 1, 2, 3, 4};
    static const float losses[] = {0, INFINITY, 3.25f, NAN, FLT_TRUE_MIN};
    static const float negative[] = {1, 2, -1e-30f, 3, 4};
    struct dlc_err err = DLC_ERR_INIT;
    struct weights w = opened();
    struct weights_learnt out;

    (void)state;
    assert_int_equal(weights_learn(&w, WEIGHTS_PLAIN, NULL, 0, samples, losses, 5, &out, NULL), 0);
    assert_true(weights_get(&w, 0) == FLT_MIN); /* it was learnt: not 0 */
    assert_true(weights_get(&w, 1) == FLT_MAX);
    assert_true(weights_get(&w, 2) == 3.25f);
    assert_true(weights_get(&w, 3) == 0);
    assert_int_equal(out.ignored, 1);
    assert_int_equal(weights_learn(&w, WEIGHTS_PLAIN, NULL, 0, samples, negative, 5, NULL, &err),
                     DLC_EINVAL);
    assert_non_null(strstr(err.text, "loss 2, of sample 2"));
    assert_true(weights_get(&w, 0) == FLT_MIN); /* nothing has changed */
    assert_int_equal(weights_stored(&w, WEIGHTS_SENDER), 4);
    free(w.hdr);
}

static void test_bad_samples_change_nothing(void **state)
{
    static const uint64_t samples[] = {0, 1, N};
    static const float losses[] = {1, 2, 3};
    struct dlc_err err = DLC_ERR_INIT;
    struct weights w = opened();
    struct weights_scale scale = {0};
    struct weights_learnt out;

    (void)state;
    assert_int_equal(weights_learn(&w, WEIGHTS_RANK, &scale, 3, samples, losses, 3, NULL, &err),
                     DLC_EINVAL);
    assert_non_null(strstr(err.text, "sample 5000"));
    assert_true(weights_get(&w, 0) == 0 && weights_get(&w, 1) == 0);
    assert_int_equal(scale.count, 0);
    assert_int_equal(weights_stored(&w, WEIGHTS_KEEPER), 0);
    assert_int_equal(weights_learn(&w, WEIGHTS_RANK, &scale, 3, samples, losses, 0, &out, NULL), 0);
    assert_int_equal(out.used, 0); /* an empty batch is fine */
    free(w.hdr);
}

/* A large batch against counting how many are smaller. */
static void test_large_batches(void **state)
{
    static uint64_t samples[N];
    static float losses[N];
    struct weights w = opened();
    struct rng r = {5};

    (void)state;
    for (unsigned k = 0; k < N; k++) {
        samples[k] = (k * 7 + 3) % N;
        losses[k] = (float)((rng_unit(&r) - 0.3) * exp(20 * (rng_unit(&r) - 0.5)));
    }
    assert_int_equal(weights_learn(&w, WEIGHTS_RANK, NULL, 0, samples, losses, N, NULL, NULL), 0);
    for (unsigned k = 0; k < N; k += 11) {
        unsigned smaller = 0, equal = 0;

        for (unsigned i = 0; i < N; i++) {
            smaller += losses[i] < losses[k];
            equal += losses[i] == losses[k];
        }
        assert_true(weights_get(&w, samples[k]) == weight_of_rank(smaller + (equal - 1) / 2.0));
    }
    fault_arm(FAULT_ALLOC, 1);
    assert_int_equal(weights_learn(&w, WEIGHTS_RANK, NULL, 0, samples, losses, N, NULL, NULL),
                     DLC_ENOMEM);
    assert_true(fault_disarm());
    free(w.hdr);
}

/* ---- the scale ---- */

/* Of a sample of the mean rank of a batch of 100. */
static double scale_of(float weight)
{
    return (exp((double)weight) - 10) / 49.5;
}

/* One epoch whose losses are all `loss`, in batches of 100. Gives the scale of the last batch. */
static double epoch_of(struct weights *w, struct weights_scale *scale, uint64_t epoch, float loss)
{
    uint64_t samples[100];
    float losses[100];

    for (unsigned from = 0; from < N; from += 100) {
        for (unsigned k = 0; k < 100; k++) {
            samples[k] = from + k;
            losses[k] = loss;
        }
        assert_int_equal(
            weights_learn(w, WEIGHTS_RANK, scale, epoch, samples, losses, 100, NULL, NULL), 0);
    }
    return scale_of(weights_get(w, N - 1));
}

static void test_the_scale_follows_the_loss(void **state)
{
    struct weights w = opened();
    struct weights_scale scale = {0}, saved;
    double before, after;

    (void)state;
    assert_float_equal(epoch_of(&w, &scale, 4, 2), 1, 1e-5); /* the first epoch, whichever it is */
    before = epoch_of(&w, &scale, 5, 1.6f);
    assert_true(before > 0.8 && before < 0.95); /* on its way from 1 to 0.8 */
    after = scale_of(weights_get(&w, 0));
    assert_true(after > 0.95 && after < 1); /* the first batch of that epoch: hardly */
    saved = scale;
    before = epoch_of(&w, &scale, 6, 1.6f);
    assert_true(epoch_of(&w, &saved, 6, 1.6f) == before); /* resumed: the same */
    for (uint64_t epoch = 7; epoch < 20; epoch++)
        after = epoch_of(&w, &scale, epoch, 1.6f);
    assert_true(after < before);
    assert_float_equal(after, 0.8, 1e-3);
    assert_float_equal(scale.first, 2, 1e-12);
    free(w.hdr);
}

static void test_the_scale_has_bounds(void **state)
{
    struct weights w = opened();
    struct weights_scale scale = {0}, below = {0}, negative = {0};

    (void)state;
    epoch_of(&w, &scale, 0, 1e-6f);
    assert_float_equal(epoch_of(&w, &scale, 1, 1e6f), 4 / 3.0, 1e-5);
    epoch_of(&w, &below, 0, 1);
    for (uint64_t epoch = 1; epoch < 30; epoch++)
        epoch_of(&w, &below, epoch, 0);
    assert_float_equal(epoch_of(&w, &below, 30, 0), 0.75, 1e-5);
    epoch_of(&w, &negative, 0, -3);
    assert_float_equal(epoch_of(&w, &negative, 1, -6), 1, 1e-5); /* has no ratio */
    assert_float_equal(epoch_of(&w, &negative, 2, NAN), 1, 1e-5);
    free(w.hdr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_equal_losses_and_samples_that_are_twice_there),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_bad_samples_change_nothing),
        cmocka_unit_test(test_large_batches),
        cmocka_unit_test(test_the_scale_follows_the_loss),
        cmocka_unit_test(test_the_scale_has_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
