// SPDX-License-Identifier: Apache-2.0
#include "manager/bare.h"
#include "manager/routes/route_util.h"

#define TTL DLC_MS(600)

static unsigned serial; /* directories differ from store to store */

static struct tables *start(void **state, const char *name)
{
    struct tables *c;
    char dir[64];

    snprintf(dir, sizeof(dir), "%s%u", name, serial);
    c = bare_open(url_of(state), dir, TTL);
    ok(leader_lock_dir(c, &err));
    ok(leader_open(c, &err));
    return c;
}

/* One look at the lock, whether it is time for it or not. */
static bool step(struct tables *c)
{
    c->leader.renew_at = (struct dlc_mono){0};
    leader_tick(c, dlc_mono_now());
    return leader_leads(c);
}

static int write_to(struct tables *c, const char *id)
{
    struct store_doc d = {(char *)id, (char *)"", json_object(), 0};
    int rc = store_put(c->store, STORE_TENANT, &d, STORE_ANY, NULL);

    json_decref(d.body);
    return rc;
}

static void test_who_is_alone_leads(void **state)
{
    struct tables *a = start(state, "a");

    assert_false(leader_leads(a));
    assert_true(step(a));
    assert_true(a->leader.fence > 0);
    assert_int_equal(write_to(a, "x"), 0);
    bare_close(&a);
    serial++;
}

static void test_the_second_waits_and_knows_the_first(void **state)
{
    struct tables *a = start(state, "a"), *b = start(state, "b");
    struct http_reply reply = {0};
    char want[80];

    assert_true(step(a));
    assert_false(step(b));
    reply_not_leading(bare_api(b), &reply);
    snprintf(want, sizeof(want), "http://a%u", serial);
    assert_int_equal(reply.status, 503);
    assert_string_equal(json_string_value(json_object_get(reply.body, "leader")), want);
    json_decref(reply.body);
    mem_free(&reply.retry_after);
    bare_close(&a);
    bare_close(&b);
    serial++;
}

static void test_renewing_keeps_it(void **state)
{
    struct tables *a = start(state, "a"), *b = start(state, "b");
    struct dlc_mono end;
    uint64_t fence;

    assert_true(step(a));
    fence = a->leader.fence;
    end = dlc_mono_add(dlc_mono_now(), DLC_MS(1500));
    while (dlc_mono_now().ns < end.ns) {
        leader_tick(a, dlc_mono_now()); /* when it thinks it is time */
        assert_true(leader_leads(a));
        assert_false(step(b));
        poll(NULL, 0, 20);
    }
    assert_int_equal(a->leader.fence, fence);
    bare_close(&a);
    bare_close(&b);
    serial++;
}

static void test_a_silent_one_is_replaced_and_fenced(void **state)
{
    struct tables *a = start(state, "a"), *b = start(state, "b");
    struct dlc_mono from;

    assert_true(step(a));
    from = dlc_mono_now();
    bare_wait(step(b));
    assert_true(dlc_mono_since(from).ns > DLC_MS(400).ns); /* not before its time */
    assert_false(leader_leads(a));                         /* it knows by its own clock */
    assert_true(b->leader.fence > a->leader.fence);
    assert_int_equal(write_to(b, "y"), 0);
    assert_int_equal(write_to(a, "y"), DLC_EBUSY); /* had it not looked at its clock */
    assert_int_equal(write_to(a, "z"), DLC_EBUSY);
    assert_int_equal(value_of(b->store, STORE_TENANT, "z", NULL), -1);
    assert_false(step(a));
    assert_true(step(b));
    bare_close(&a);
    bare_close(&b);
    serial++;
}

static void test_who_ends_hands_over(void **state)
{
    struct tables *a = start(state, "a"), *b = start(state, "b");
    uint64_t fence;

    assert_true(step(a));
    fence = a->leader.fence;
    assert_false(step(b));
    bare_close(&a);
    assert_true(step(b));
    assert_true(b->leader.fence > fence);
    bare_close(&b);
    serial++;
}

/* Killed: the lock is still held when it starts again in its directory. */
static void test_who_was_killed_need_not_wait(void **state)
{
    struct tables *a = start(state, "a"), *again;
    uint64_t fence;

    assert_true(step(a));
    fence = a->leader.fence;
    dlc_mtx_lock(&a->mtx);
    a->leader.leads = false; /* so that it does not give up the lock */
    dlc_mtx_unlock(&a->mtx);
    bare_close(&a);
    again = start(state, "a");
    assert_true(step(again));
    assert_true(again->leader.fence > fence);
    bare_close(&again);
    serial++;
}

static void test_one_per_directory(void **state)
{
    struct tables *a = start(state, "a"), *b;
    char dir[64];

    snprintf(dir, sizeof(dir), "a%u", serial);
    b = bare_open(url_of(state), dir, TTL);
    assert_int_equal(leader_lock_dir(b, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "another manager"));
    bare_close(&b);
    bare_close(&a);
    serial++;
}

int main(void)
{
    const struct each_case cases[] = {
        {"who is alone leads", test_who_is_alone_leads},
        {"the second waits and knows the first", test_the_second_waits_and_knows_the_first},
        {"renewing keeps it", test_renewing_keeps_it},
        {"a silent one is replaced and fenced", test_a_silent_one_is_replaced_and_fenced},
        {"who ends hands over", test_who_ends_hands_over},
        {"who was killed need not wait", test_who_was_killed_need_not_wait},
        {"one per directory", test_one_per_directory},
    };

    return each_store(cases, unit_count(cases));
}
