// SPDX-License-Identifier: Apache-2.0
/* The manager's client: when it reads the token, headers of one request, lists of many pages. */
#include "unit.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "net/manager_client.h"
#include "net/server.h"

#define ITEMS 2500

static struct http_server *server;
static char base[64];
static struct dlc_err err;
static _Atomic unsigned pages;
static char key[64], tenant[64]; /* headers of the last request; read when it was answered */

static void on_items(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const char *after = http_query(r, "after"), *limit = http_query(r, "limit");
    unsigned from = after != NULL ? (unsigned)atoi(after) : 0, n = (unsigned)atoi(limit);
    json_t *items = json_array();

    (void)ctx;
    pages++;
    for (unsigned i = from; i < ITEMS && i < from + n; i++)
        json_array_append_new(items, json_integer(i));
    reply->body = json_pack("{s:o}", "items", items);
    if (from + n < ITEMS)
        json_object_set_new(reply->body, "next", json_sprintf("%u", from + n));
}

static void on_headers(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const char *k = http_header(r, "Idempotency-Key"), *t = http_header(r, "Dlcache-As-Tenant");

    (void)ctx;
    snprintf(key, sizeof(key), "%s", k != NULL ? k : "");
    snprintf(tenant, sizeof(tenant), "%s", t != NULL ? t : "");
    reply->body = json_object();
}

/* Only "second" is let in. */
static void on_private(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)ctx;
    if (r->token == NULL || strcmp(r->token, "second") != 0)
        http_problem(reply, 401, "Unknown token", "who are you?");
    else
        reply->body = json_object();
}

static const struct http_route routes[] = {
    {"GET", "/v1/items", 0, on_items},
    {"POST", "/v1/headers", 0, on_headers},
    {"GET", "/v1/private", 0, on_private},
    {NULL, NULL, 0, NULL},
};

static int set_up(void **state)
{
    const struct http_server_config sc = {.address = "127.0.0.1:0", .routes = routes};

    (void)state;
    memset(&err, 0, sizeof(err));
    pages = 0;
    assert_int_equal(http_server_open(&sc, &server, &err), 0);
    snprintf(base, sizeof(base), "http://%s", http_server_address(server));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_server_close(&server);
    return 0;
}

static struct manager_client *open_plain(void)
{
    const struct manager_client_config c = {.http.base = base};
    struct manager_client *m = NULL;

    assert_int_equal(manager_client_open(&c, &m, &err), 0);
    return m;
}

static void lists_are_whole(void **state)
{
    struct manager_client *m = open_plain();
    json_t *all = NULL;

    (void)state;
    assert_int_equal(manager_client_list(m, "/v1/items", &all, &err), 0);
    assert_int_equal(json_array_size(all), ITEMS);
    assert_int_equal(json_integer_value(json_array_get(all, ITEMS - 1)), ITEMS - 1);
    assert_int_equal(pages, 3);
    json_decref(all);
    assert_int_equal(manager_client_list(m, "/v1/none", &all, &err), DLC_ENOTFOUND);
    assert_null(all);
    assert_int_equal(manager_client_status(m), 404);
    manager_client_close(&m);
    assert_null(m);
}

static void headers_are_for_one_request(void **state)
{
    const struct manager_request r = {
        .method = "POST", .path = "/v1/headers", .idempotency_key = "k1", .as_tenant = "ann"};
    struct manager_client *m = open_plain();

    (void)state;
    assert_int_equal(manager_client_send(m, &r, NULL, &err), 0);
    assert_string_equal(key, "k1");
    assert_string_equal(tenant, "ann");
    assert_int_equal(manager_client_call(m, "POST", "/v1/headers", NULL, NULL, &err), 0);
    assert_string_equal(key, "");
    assert_string_equal(tenant, "");
    manager_client_close(&m);
}

static const char *token; /* NULL: not known */
static unsigned asked;

static int find_token(void *arg, char **out, struct dlc_err *e)
{
    assert_ptr_equal(arg, &asked);
    asked++;
    *out = token != NULL ? mem_str(token) : NULL;
    return token != NULL ? 0 : dlc_err_set(e, DLC_ENOTFOUND, "no token yet");
}

/* Before the first request, and after one that was answered with 401; not in between. */
static void the_token_is_found_again(void **state)
{
    const struct manager_client_config c = {
        .http.base = base, .find_token = find_token, .arg = &asked};
    struct manager_client *m = NULL;

    (void)state;
    asked = 0;
    token = NULL;
    assert_int_equal(manager_client_open(&c, &m, &err), 0);
    assert_int_equal(asked, 0);
    assert_int_equal(manager_client_call(m, "GET", "/v1/private", NULL, NULL, &err), DLC_ENOTFOUND);
    assert_int_equal(manager_client_status(m), 0);
    token = "first";
    assert_int_equal(manager_client_call(m, "GET", "/v1/private", NULL, NULL, &err), DLC_EDENIED);
    assert_int_equal(manager_client_status(m), 401);
    token = "second";
    assert_int_equal(manager_client_call(m, "GET", "/v1/private", NULL, NULL, &err), 0);
    assert_int_equal(manager_client_call(m, "GET", "/v1/private", NULL, NULL, &err), 0);
    assert_int_equal(asked, 3);
    manager_client_close(&m);
}

static void a_bad_configuration_is_refused_at_once(void **state)
{
    const struct manager_client_config c = {.http.base = "ftp://x"};
    struct manager_client *m = open_plain();

    (void)state;
    manager_client_close(&m);
    assert_int_equal(manager_client_open(&c, &m, &err), DLC_EINVAL);
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_are_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(headers_are_for_one_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_token_is_found_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bad_configuration_is_refused_at_once, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
