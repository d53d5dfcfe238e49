// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "base/str.h"
#include "manager/bare.h"
#include "manager/store/wall_time.h"

static unsigned serial;

static struct tables *start(void **state)
{
    struct tables *c;
    char dir[64];

    snprintf(dir, sizeof(dir), "d%u", serial++);
    c = bare_open(url_of(state), dir, DLC_SEC(10));
    ok(auth_open(&bare_api(c)->auth, c->leader.dir, &err));
    return c;
}

static void put_doc(struct tables *c, enum store_kind kind, const char *id, json_t *body)
{
    struct store_doc d = {(char *)id, (char *)"", body, 0};

    assert_non_null(body);
    ok(store_put(c->store, kind, &d, STORE_ANY, &err));
    json_decref(body);
}

/* The store says that the token is of `tenant`, until then. */
static void give(struct tables *c, const char *token, const char *tenant, int64_t until_ms)
{
    unsigned char hash[SHA256_LEN];
    char id[TOKEN_ID_LEN + 1];

    token_hash(token, hash);
    token_doc_id(hash, id);
    put_doc(c, STORE_MANAGER, id, json_pack("{s:s}", "tenant", tenant));
    put_doc(c, STORE_TENANT, tenant,
            json_pack("{s:[{s:s, s:I}, {s:s, s:I}]}", "tokens", "hash", "00", "until_ms",
                      (json_int_t)0, "hash", id + 6, "until_ms", (json_int_t)until_ms));
}

static void read_file(struct tables *c, const char *name, char out[static TOKEN_LEN + 1])
{
    char *path = mem_fmt("%s/%s", c->leader.dir, name);
    struct buf b = BUF_INIT;
    struct stat st;

    ok(os_read_file(path, 100, &b, &err));
    assert_int_equal(b.len, TOKEN_LEN + 1);
    assert_int_equal(b.data[TOKEN_LEN], '\n');
    memcpy(out, b.data, TOKEN_LEN);
    out[TOKEN_LEN] = '\0';
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    buf_release(&b);
    mem_free(&path);
}

static void test_tokens_are_random(void **state)
{
    char a[TOKEN_LEN + 1], b[TOKEN_LEN + 1];

    (void)state;
    for (int i = 0; i < 200; i++) {
        token_new(a);
        token_new(b);
        assert_int_equal(strlen(a), TOKEN_LEN);
        assert_true(str_starts(a, "dlc_"));
        assert_null(strpbrk(a, "+/="));
        assert_string_not_equal(a, b);
    }
}

static void test_files_are_made_once(void **state)
{
    struct tables *c = start(state), *again;
    char admin[TOKEN_LEN + 1], node[TOKEN_LEN + 1], same[TOKEN_LEN + 1], *path;
    struct caller who;

    read_file(c, "admin.token", admin);
    read_file(c, "node.token", node);
    ok(token_caller(bare_api(c), admin, &who, &err));
    assert_int_equal(who.role, ROLE_ADMIN);
    ok(token_caller(bare_api(c), node, &who, &err));
    assert_int_equal(who.role, ROLE_NODE);
    serial--;
    again = start(state);
    read_file(again, "admin.token", same);
    assert_string_equal(same, admin);
    bare_close(&again);

    path = mem_fmt("%s/node.token", c->leader.dir); /* an admin's token may not be a node's */
    ok(os_write_file(path, admin, TOKEN_LEN, 0600, &err));
    assert_int_equal(auth_open(&bare_api(c)->auth, c->leader.dir, &err), DLC_EINVAL);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(auth_open(&bare_api(c)->auth, c->leader.dir, &err), DLC_EDENIED);
    ok(os_write_file(path, "dlc_short", 9, 0600, &err));
    assert_int_equal(auth_open(&bare_api(c)->auth, c->leader.dir, &err), DLC_EINVAL);
    assert_null(strstr(err.text, "dlc_short"));
    mem_free(&path);
    bare_close(&c);
}

/* As a manager leaves its store: one without the mark was emptied, and nothing is known of tokens. */
static struct tables *start_marked(void **state)
{
    struct tables *c = start(state);
    char token[TOKEN_LEN + 1];
    struct caller who;

    token_new(token);
    assert_int_equal(token_caller(bare_api(c), token, &who, &err), DLC_ECHANGED);
    put_doc(c, STORE_MANAGER, STORE_MARK, json_object());
    assert_int_equal(token_caller(bare_api(c), token, &who, &err), DLC_EDENIED);
    return c;
}

/* A file may hold the new token and the one before; it is read again when it changes. */
static void test_two_tokens_in_a_file(void **state)
{
    struct tables *c = start_marked(state);
    struct auth *auth = &bare_api(c)->auth;
    char old[TOKEN_LEN + 1], new[TOKEN_LEN + 1], *path, *text;
    struct caller who;

    read_file(c, "node.token", old);
    token_new(new);
    path = mem_fmt("%s/node.token", c->leader.dir);
    text = mem_fmt("%s\n%s\n", new, old);
    assert_int_equal(auth_reload(auth, &err), 0);
    assert_int_equal(token_caller(bare_api(c), new, &who, &err), DLC_EDENIED);
    ok(os_write_file(path, text, strlen(text), 0600, &err));
    assert_int_equal(auth_reload(auth, &err), 1);
    ok(token_caller(bare_api(c), new, &who, &err));
    assert_int_equal(who.role, ROLE_NODE);
    ok(token_caller(bare_api(c), old, &who, &err));
    assert_int_equal(who.role, ROLE_NODE);
    ok(os_write_file(path, new, TOKEN_LEN, 0600, &err));
    assert_int_equal(auth_reload(auth, &err), 1);
    ok(token_caller(bare_api(c), new, &who, &err));
    assert_int_equal(token_caller(bare_api(c), old, &who, &err), DLC_EDENIED);

    /* What is wrong leaves the tokens as they are. */
    ok(os_write_file(path, "dlc_short", 9, 0600, &err));
    assert_int_equal(auth_reload(auth, &err), DLC_EINVAL);
    ok(token_caller(bare_api(c), new, &who, &err));
    mem_free(&text);
    text = mem_fmt("%s\n%s\n%s\n", new, old, old);
    ok(os_write_file(path, text, strlen(text), 0600, &err));
    assert_int_equal(auth_reload(auth, &err), DLC_EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(auth_reload(auth, &err), 0);
    ok(token_caller(bare_api(c), new, &who, &err));
    mem_free(&text);
    mem_free(&path);
    bare_close(&c);
}

static void test_tenants_tokens(void **state)
{
    struct tables *c = start_marked(state);
    char token[TOKEN_LEN + 1], other[TOKEN_LEN + 1];
    unsigned char hash[SHA256_LEN];
    char id[TOKEN_ID_LEN + 1];
    struct caller who;
    int64_t now = wall_ms();

    token_new(token);
    token_new(other);
    assert_int_equal(token_caller(bare_api(c), token, &who, &err), DLC_EDENIED);
    give(c, token, "ann", 0);
    ok(token_caller(bare_api(c), token, &who, &err));
    assert_int_equal(who.role, ROLE_TENANT);
    assert_string_equal(who.tenant, "ann");
    assert_int_equal(token_caller(bare_api(c), other, &who, &err), DLC_EDENIED);
    assert_int_equal(who.role, 0);
    assert_string_equal(who.tenant, "");
    give(c, token, "ann", now + 60000); /* in its grace */
    ok(token_caller(bare_api(c), token, &who, &err));
    give(c, token, "ann", now - 1); /* past it */
    assert_int_equal(token_caller(bare_api(c), token, &who, &err), DLC_EDENIED);

    /* the tenant's document decides, whatever points to it */
    give(c, token, "ann", 0);
    token_hash(other, hash);
    token_doc_id(hash, id);
    put_doc(c, STORE_MANAGER, id, json_pack("{s:s}", "tenant", "ann"));
    assert_int_equal(token_caller(bare_api(c), other, &who, &err), DLC_EDENIED);
    put_doc(c, STORE_MANAGER, id, json_pack("{s:i}", "tenant", 1));
    assert_int_equal(token_caller(bare_api(c), other, &who, &err), DLC_EDENIED);
    put_doc(c, STORE_MANAGER, id, json_pack("{s:s}", "tenant", "../ann"));
    assert_int_equal(token_caller(bare_api(c), other, &who, &err), DLC_EDENIED);
    ok(store_delete(c->store, STORE_TENANT, "ann", STORE_ANY, &err));
    assert_int_equal(token_caller(bare_api(c), token, &who, &err), DLC_EDENIED);
    bare_close(&c);
}

static int check(struct tables *c, const char *method, uint32_t roles, const char *token,
                 bool local)
{
    struct http_request r = {.method = method, .path = "/v1/x", .token = token, .local = local};
    const struct http_route route = {method, "/v1/x", roles, NULL};
    struct http_reply reply = {0};
    bool passes = auth_check(&r, &route, &reply, bare_api(c));

    assert_true(passes == (reply.status == 0));
    if (passes && roles != 0)
        assert_true((caller_of(&r)->role & roles) != 0);
    json_decref(reply.body);
    mem_free(&reply.retry_after);
    return reply.status;
}

static void test_the_check(void **state)
{
    struct tables *c = start(state);
    char admin[TOKEN_LEN + 1], node[TOKEN_LEN + 1], ann[TOKEN_LEN + 1];
    const char *tokens[] = {admin, ann, node};

    read_file(c, "admin.token", admin);
    read_file(c, "node.token", node);
    token_new(ann);
    give(c, ann, "ann", 0);
    for (uint32_t roles = 1; roles <= ROLE_ANY; roles++)
        for (unsigned i = 0; i < unit_count(tokens); i++)
            assert_int_equal(check(c, "GET", roles, tokens[i], false), roles >> i & 1 ? 0 : 403);
    assert_int_equal(check(c, "GET", 0, NULL, false), 0);
    assert_int_equal(check(c, "GET", ROLE_ANY, NULL, false), 401);
    assert_int_equal(check(c, "GET", ROLE_ANY, "dlc_", false), 401);
    assert_int_equal(check(c, "GET", ROLE_ADMIN, NULL, true), 0); /* who opened the socket */
    assert_int_equal(check(c, "GET", ROLE_NODE, NULL, true), 403);
    assert_int_equal(check(c, "GET", ROLE_ADMIN, ann, true), 403); /* a token goes before it */

    /* not leading: reads go on */
    assert_int_equal(check(c, "POST", ROLE_ADMIN, admin, false), 503);
    assert_int_equal(check(c, "DELETE", ROLE_ADMIN, admin, false), 503);
    assert_int_equal(check(c, "POST", ROLE_ADMIN | ROUTE_READS, admin, false), 0);
    assert_int_equal(check(c, "POST", ROLE_ADMIN, ann, false), 403); /* who may not, is told that */
    ok(leader_lock_dir(c, &err));
    ok(leader_open(c, &err));
    leader_tick(c, dlc_mono_now());
    assert_int_equal(check(c, "POST", ROLE_ADMIN, admin, false), 0);
    bare_close(&c);
}

static void test_who_sees_what(void **state)
{
    const struct caller admin = {ROLE_ADMIN, ""}, ann = {ROLE_TENANT, "ann"},
                        node = {ROLE_NODE, ""};

    (void)state;
    assert_true(caller_sees(&admin, "ann"));
    assert_true(caller_sees(&admin, ""));
    assert_true(caller_sees(&ann, "ann"));
    assert_false(caller_sees(&ann, "bob"));
    assert_false(caller_sees(&ann, "an"));
    assert_false(caller_sees(&ann, ""));
    assert_false(caller_sees(&ann, NULL));
    assert_false(caller_sees(&node, "ann"));
    assert_false(caller_sees(&node, ""));
}

int main(void)
{
    const struct each_case cases[] = {
        {"tokens are random", test_tokens_are_random},
        {"files are made once", test_files_are_made_once},
        {"two tokens in a file", test_two_tokens_in_a_file},
        {"tenants' tokens", test_tenants_tokens},
        {"the check", test_the_check},
        {"who sees what", test_who_sees_what},
    };

    return each_store(cases, unit_count(cases));
}
