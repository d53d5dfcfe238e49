// SPDX-License-Identifier: Apache-2.0
/* Exchange of importance weights between nodes, without HTTP. */
#include "manager/bare.h"
#include "importance/wire.h"
#include "manager/tables/weight_posts.h"

#define A       "aaaaaaaaaaaaaaaa"
#define B       "bbbbbbbbbbbbbbbb"
#define PER_ONE 64 /* posts of one sender that are kept */

static unsigned serial; /* directories differ from store to store */
static char cursor[WEIGHTS_SUFFIX_LEN + 1];

static struct tables *start(void **state)
{
    char dir[64];
    struct tables *t;

    snprintf(dir, sizeof(dir), "posts%u", serial++);
    cursor[0] = '\0';
    t = bare_lead(url_of(state), dir);
    bare_put(t, STORE_DATASET, "d", "ann",
             json_pack("{s:s, s:i}", "url", "s3://b/", "created_ms", 1));
    return t;
}

/* The sender posts `pairs` (NULL: it only asks) and gets the items after `after`. */
static json_t *exchange(struct tables *t, const char *sender, const char *after, const char *pairs,
                        size_t count)
{
    struct weight_post p = {.job = "train",
                            .dataset = "d",
                            .tenant = "ann",
                            .snapshot = "1111111111111111",
                            .owner = "2222222222222222",
                            .sender = sender,
                            .after = after,
                            .pairs = pairs,
                            .count = count};
    json_t *answer = NULL;

    ok(weights_exchange(t, &p, &answer, &err));
    return answer;
}

/* How many items an answer has; the cursor that it gives goes to `cursor`. Takes. */
static size_t taken(json_t *answer)
{
    size_t n = json_array_size(json_object_get(answer, "items"));

    snprintf(cursor, sizeof(cursor), "%s", json_string_value(json_object_get(answer, "after")));
    json_decref(answer);
    return n;
}

static size_t kept(struct tables *t)
{
    uint64_t n = 0;

    ok(store_count(t->store, STORE_WEIGHTS, "ann", &n, &err));
    return (size_t)n;
}

/* A sender gets what others have posted, once, and nothing of its own. */
static void test_others_get_it_once(void **state)
{
    struct tables *t = start(state);
    json_t *answer;

    assert_int_equal(taken(exchange(t, A, "", "one", 1)), 0);
    answer = exchange(t, B, "", NULL, 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(answer, "items"), 0)),
                        "one");
    assert_true(json_is_false(json_object_get(answer, "more")));
    assert_int_equal(taken(answer), 1);
    assert_true(weights_is_cursor(cursor));
    assert_int_equal(taken(exchange(t, B, cursor, NULL, 0)), 0);
    bare_close(&t);
}

/* (POST-3) Numbers grow also within a millisecond: no post hides behind a cursor. */
static void test_no_post_is_missed(void **state)
{
    struct tables *t = start(state);
    size_t n = 0;

    for (int i = 0; i < 20; i++) {
        json_decref(exchange(t, A, "", "x", 1));
        n += taken(exchange(t, B, cursor, NULL, 0));
    }
    assert_int_equal(n, 20);
    bare_close(&t);
}

/* (POST-2) */
static void test_the_oldest_of_a_sender_go(void **state)
{
    struct tables *t = start(state);

    for (int i = 0; i < PER_ONE + 10; i++)
        json_decref(exchange(t, A, "", "x", 1));
    assert_int_equal(kept(t), PER_ONE);
    json_decref(exchange(t, B, "", "y", 1)); /* another one has its own share */
    assert_int_equal(kept(t), PER_ONE + 1);
    bare_close(&t);
}

/* An answer ends with the post that fills it, and says that there are more. */
static void test_a_long_answer_comes_in_parts(void **state)
{
    struct tables *t = start(state);
    json_t *answer;

    for (int i = 0; i < 3; i++)
        json_decref(exchange(t, A, "", "x", PAIRS_MAX));
    for (int i = 0; i < 3; i++) {
        answer = exchange(t, B, cursor, NULL, 0);
        assert_int_equal(json_is_true(json_object_get(answer, "more")), i < 2);
        assert_int_equal(taken(answer), 1);
    }
    bare_close(&t);
}

/* A cursor that is newer than every post: the store has lost some. All is given again, the sender's
 * own too. */
static void test_a_store_that_lost_posts(void **state)
{
    struct tables *t = start(state);

    json_decref(exchange(t, A, "", "x", 1));
    json_decref(exchange(t, B, "", "y", 1));
    assert_int_equal(taken(exchange(t, A, "ffffffffffff/" B "/00001", NULL, 0)), 2);
    bare_close(&t);
}

static void test_jobs(void **state)
{
    struct tables *t = start(state);

    assert_true(weights_job_fits(t, "train", "d")); /* any name that ranks call their job */
    assert_false(weights_job_fits(t, "j-0123456789abcdef", "d")); /* registered, and unknown */
    assert_false(weights_is_cursor(""));
    assert_false(weights_is_cursor("000000000000-" A "/00001"));
    bare_close(&t);
}

/* (POST-2) Posts of a dataset that is gone go with the next sweep; those of a tenant at once. */
static void test_what_is_of_no_use_goes(void **state)
{
    struct tables *t = start(state);
    struct dlc_mono later = dlc_mono_add(dlc_mono_now(), DLC_SEC(1000));

    json_decref(exchange(t, A, "", "x", 1));
    weights_tick(t, later);
    assert_int_equal(kept(t), 1);
    ok(store_delete(t->store, STORE_DATASET, "d", STORE_ANY, &err));
    weights_tick(t, dlc_mono_add(later, DLC_SEC(1)));
    assert_int_equal(kept(t), 1); /* it is not time yet */
    weights_tick(t, dlc_mono_add(later, DLC_SEC(100)));
    assert_int_equal(kept(t), 0);
    for (int i = 0; i < 20; i++)
        json_decref(exchange(t, A, "", "x", 1));
    weights_forget(t, "bob");
    assert_int_equal(kept(t), 20);
    weights_forget(t, "ann");
    assert_int_equal(kept(t), 0);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"others get it once", test_others_get_it_once},
        {"no post is missed", test_no_post_is_missed},
        {"the oldest of a sender go", test_the_oldest_of_a_sender_go},
        {"a long answer comes in parts", test_a_long_answer_comes_in_parts},
        {"a store that lost posts", test_a_store_that_lost_posts},
        {"jobs", test_jobs},
        {"what is of no use goes", test_what_is_of_no_use_goes},
    };

    return each_store(cases, unit_count(cases));
}
