// SPDX-License-Identifier: Apache-2.0
/* Tokens of single nodes: when credentials are due, and when they end. */
#include "manager/tables/node_token.h"

#include "manager/bare.h"
#include "manager/store/wall_time.h"

static unsigned serial;

static struct tables *start(void **state)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "tokens%u", serial++);
    return bare_lead(url_of(state), dir);
}

static int64_t field(struct tables *t, const char *id, const char *name)
{
    struct store_doc d = STORE_DOC_INIT;
    int64_t v;

    ok(store_get(t->store, STORE_MANAGER, id, &d, &err));
    v = json_integer_value(json_object_get(d.body, name));
    store_doc_release(&d);
    return v;
}

static void set(struct tables *t, const char *id, const char *name, int64_t v)
{
    struct store_doc d = STORE_DOC_INIT;

    ok(store_get(t->store, STORE_MANAGER, id, &d, &err));
    json_object_set_new(d.body, name, json_integer(v));
    ok(store_put(t->store, STORE_MANAGER, &d, d.version, &err));
    store_doc_release(&d);
}

static void test_due_at_half_and_over_at_the_end(void **state)
{
    struct tables *t = start(state);
    int64_t now = wall_ms();
    struct node_token k;

    ok(node_token_put_credential(t, "token.a", "x", DLC_SEC(1000), &err));
    ok(node_token_get(t, "token.a", &k));
    assert_string_equal(k.node, "x");
    assert_true(!k.joins && !k.due && k.life.ns == DLC_SEC(1000).ns);
    assert_in_range(field(t, "token.a", "expires_ms"), now + 1000000, now + 1060000);
    set(t, "token.a", "expires_ms", now + 499000);
    ok(node_token_get(t, "token.a", &k));
    assert_true(k.due);
    ok(node_token_replace(t, "token.a", k.life, &err));
    assert_int_equal(field(t, "token.a", "expires_ms"), now + 499000);
    ok(node_token_get(t, "token.a", &k));
    assert_false(k.due);
    set(t, "token.a", "replaced_ms", now - 61000); /* its node never heard of the other one */
    ok(node_token_get(t, "token.a", &k));
    assert_true(k.due);
    set(t, "token.a", "expires_ms", now - 1);
    assert_int_equal(node_token_get(t, "token.a", &k), DLC_EDENIED);
    bare_close(&t);
}

/* Of a release whose credentials had no end. */
static void test_one_without_an_end_gets_one(void **state)
{
    struct tables *t = start(state);
    struct store_doc d = {(char *)"token.b", (char *)"", NULL, 0};
    int64_t now = wall_ms();
    struct node_token k;

    d.body = json_pack("{s:s, s:i, s:i, s:s}", "node", "x", "generation", 0, "until_ms", 0,
                       "instance", "");
    ok(store_put(t->store, STORE_MANAGER, &d, STORE_NEW, &err));
    json_decref(d.body);
    ok(node_token_get(t, "token.b", &k));
    assert_true(k.due && k.life.ns == 0);
    ok(node_token_replace(t, "token.b", DLC_SEC(1000), &err));
    assert_in_range(field(t, "token.b", "expires_ms"), now + 1000000, now + 1060000);
    bare_close(&t);
}

static void test_join_tokens_are_never_due(void **state)
{
    struct tables *t = start(state);
    struct node_token k;

    ok(node_token_put_join(t, "token.c", "x", DLC_SEC(60), &err));
    ok(node_token_get(t, "token.c", &k));
    assert_true(k.joins && !k.due);
    set(t, "token.c", "until_ms", wall_ms() - 1);
    assert_int_equal(node_token_get(t, "token.c", &k), DLC_EDENIED);
    bare_close(&t);
}

int main(void)
{
    const struct each_case cases[] = {
        {"due at half and over at the end", test_due_at_half_and_over_at_the_end},
        {"one without an end gets one", test_one_without_an_end_gets_one},
        {"join tokens are never due", test_join_tokens_are_never_due},
    };

    return each_store(cases, unit_count(cases));
}
