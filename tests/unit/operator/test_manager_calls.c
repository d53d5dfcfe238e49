// SPDX-License-Identifier: Apache-2.0
/* The manager's client: what it makes of answers, and what it sends. Real ones: tests/k8s. */
#include "operator/manager_calls.h"

#include "base/mem.h"
#include "base/api_token.h"
#include "base/secret.h"
#include "play.h"
#include "unit.h"

static struct dlc_err err;
static struct play server;
static struct manager_client *m;
static const char *token; /* who we are; NULL: nobody knows */
static int tokens;        /* how often that was asked */

static int who(void *arg, char **out, struct dlc_err *e)
{
    assert_ptr_equal(arg, &tokens);
    tokens++;
    *out = token != NULL ? mem_str(token) : NULL;
    return token != NULL ? 0 : dlc_err_set(e, DLC_ENOTFOUND, "no token yet");
}

static int fresh(void **state)
{
    struct manager_client_config c = {.http.base = server.base, .find_token = who, .arg = &tokens};

    (void)state;
    memset(&err, 0, sizeof(err));
    token = "first";
    tokens = 0;
    play_open(&server);
    assert_int_equal(manager_client_open(&c, &m, &err), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    manager_client_close(&m);
    assert_null(m);
    play_close(&server);
    return 0;
}

static void test_four_answers(void **state)
{
    static const struct {
        int status;
        enum manager_said said;
    } cases[] = {
        {200, MANAGER_OK},      {404, MANAGER_ABSENT},  {400, MANAGER_REFUSED},
        {409, MANAGER_REFUSED}, {413, MANAGER_REFUSED}, {422, MANAGER_REFUSED},
        {507, MANAGER_REFUSED}, {401, MANAGER_AWAY},    {403, MANAGER_AWAY},
        {429, MANAGER_REFUSED}, {500, MANAGER_AWAY},    {503, MANAGER_AWAY},
        {0, MANAGER_AWAY},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        bool ok = cases[i].said == MANAGER_OK;
        json_t *out = NULL;

        memset(&err, 0, sizeof(err));
        play_says(&server, "GET /v1/datasets/d", cases[i].status,
                  "{\"name\": \"d\", \"detail\": \"words\"}", 1);
        assert_int_equal(manager_dataset(m, "d", &out, &err), cases[i].said);
        assert_int_equal(manager_client_status(m), cases[i].status);
        assert_true(ok == (out != NULL));
        if (!ok)
            assert_true(err.code < 0 && err.text[0] != '\0');
        if (!ok && cases[i].status != 0)
            assert_non_null(strstr(err.text, "words"));
        json_decref(out);
    }
    play_says(&server, "DELETE /v1/jobs/j", 204, NULL, 1);
    assert_int_equal(manager_end_job(m, "j", &err), MANAGER_OK); /* no body is well */
}

static void test_nobody(void **state)
{
    struct manager_client_config c = {
        .http.base = "http://127.0.0.1:1", .find_token = who, .arg = &tokens};
    struct manager_client *dead = NULL;
    json_t *out = NULL;

    (void)state;
    assert_int_equal(manager_client_open(&c, &dead, &err), 0);
    assert_int_equal(manager_job(dead, "j", &out, &err), MANAGER_AWAY);
    assert_int_equal(manager_client_status(dead), 0);
    assert_true(err.code < 0);
    manager_client_close(&dead);
    token = NULL;
    assert_int_equal(manager_job(m, "j", &out, &err), MANAGER_AWAY);
    assert_string_equal(err.text, "no token yet");
    assert_int_equal(play_count(&server, ""), 0);
}

static void test_the_token_is_asked_again(void **state)
{
    (void)state;
    assert_int_equal(tokens, 0); /* not before it is needed */
    play_says(&server, "DELETE /v1/jobs/j", 204, NULL, 2);
    play_says(&server, "DELETE /v1/jobs/j", 401, NULL, 1);
    play_says(&server, "DELETE /v1/jobs/j", 403, NULL, 1);
    play_says(&server, "DELETE /v1/jobs/j", 204, NULL, 0);
    assert_int_equal(manager_end_job(m, "j", &err), MANAGER_OK);
    assert_string_equal(server.token, "first");
    token = "second";
    assert_int_equal(manager_end_job(m, "j", &err), MANAGER_OK);
    assert_int_equal(tokens, 1);
    assert_int_equal(manager_end_job(m, "j", &err), MANAGER_AWAY); /* turned away */
    assert_string_equal(server.token, "first");
    assert_int_equal(manager_end_job(m, "j", &err), MANAGER_AWAY); /* known, but may not */
    assert_string_equal(server.token, "second");
    assert_int_equal(manager_end_job(m, "j", &err), MANAGER_OK);
    assert_int_equal(tokens, 2);
}

static void test_a_job_is_made_once(void **state)
{
    json_t *body = json_pack("{s:s}", "dataset", "d"), *out = NULL;

    (void)state;
    play_says(&server, "POST /v1/jobs", 201, "{\"id\": \"j-1\"}", 1);
    play_says(&server, "POST /v1/jobs", 409, "{\"detail\": \"no\"}", 1);
    assert_int_equal(manager_make_job(m, "key.1", body, &out, &err), MANAGER_OK);
    assert_string_equal(json_string_value(json_object_get(out, "id")), "j-1");
    json_decref(out);
    assert_string_equal(server.idempotent, "key.1");
    assert_true(json_equal(play_body(&server, "POST /v1/jobs"), body));
    manager_end_job(m, "j-1", &err);
    assert_string_equal(server.idempotent, ""); /* of that request alone */
    assert_int_equal(manager_make_job(m, "key.2", body, &out, &err), MANAGER_REFUSED);
    assert_null(out);
    assert_string_equal(server.idempotent, "key.2");
    play_expect(&server, "POST /v1/jobs, DELETE /v1/jobs/j-1, POST /v1/jobs");
    json_decref(body);
}

static void test_a_dataset_that_is_there(void **state)
{
    json_t *body = json_pack("{s:s, s:s}", "name", "ns.d", "url", "s3://b/"), *out = NULL;

    (void)state;
    assert_int_equal(manager_make_dataset(m, body, &out, &err), MANAGER_OK);
    json_decref(out);
    play_expect(&server, "POST /v1/datasets");
    assert_int_equal(manager_make_dataset(m, body, &out, &err), MANAGER_OK);
    assert_true(json_equal(out, body)); /* the one that is there */
    json_decref(out);
    play_expect(&server, "POST /v1/datasets, GET /v1/datasets/ns.d");
    play_says(&server, "GET /v1/datasets/ns.d", 404, NULL, 1); /* gone in between */
    assert_int_equal(manager_make_dataset(m, body, &out, &err), MANAGER_ABSENT);
    assert_null(out);
    play_says(&server, "POST /v1/datasets", 422, "{\"detail\": \"bad url\"}", 1);
    play_expect(&server, "POST /v1/datasets, GET /v1/datasets/ns.d");
    assert_int_equal(manager_make_dataset(m, body, &out, &err), MANAGER_REFUSED);
    assert_int_equal(manager_client_status(m), 422);
    play_expect(&server, "POST /v1/datasets"); /* other refusals are refusals */
    json_decref(body);
}

/* What users of a namespace wrote has the rights of their tenant, not ours. */
static void test_datasets_and_credentials_are_sent_for_the_tenant(void **state)
{
    json_t *body = json_pack("{s:s, s:s, s:s}", "name", "ns.d", "url", "file:///etc/dlcache/",
                             "tenant", "ns"),
           *out = NULL;

    (void)state;
    play_says(&server, "POST /v1/datasets", 403, "{\"detail\": \"file:// is a path\"}", 1);
    assert_int_equal(manager_make_dataset(m, body, &out, &err), MANAGER_REFUSED);
    assert_string_equal(server.as_tenant, "ns");
    play_says(&server, "PUT /v1/tenants/ns/credentials", 204, NULL, 1);
    assert_int_equal(manager_credentials(m, "ns", body, &err), MANAGER_OK);
    assert_string_equal(server.as_tenant, "ns");
    manager_end_job(m, "j-1", &err);
    assert_string_equal(server.as_tenant, ""); /* of those requests alone */
    json_decref(body);
}

static void test_tenants(void **state)
{
    char *t = NULL;

    (void)state;
    play_says(&server, "POST /v1/tenants", 201, "{\"name\": \"ns\", \"token\": \"t1\"}", 1);
    play_says(&server, "POST /v1/tenants", 409, "{}", 2);
    play_says(&server, "POST /v1/tenants", 201, "{\"name\": \"ns\"}", 1);
    play_says(&server, "POST /v1/tenants", 500, "{}", 1);
    play_says(&server, "POST /v1/tenants", 409, "{}", 1);
    play_says(&server, "DELETE /v1/tenants/ns/credentials", 204, NULL, 1);
    play_says(&server, "POST /v1/tenants/ns/token", 200, "{\"token\": \"t2\"}", 1);
    play_says(&server, "POST /v1/tenants/ns/token", 503, "{}", 1);
    assert_int_equal(manager_tenant(m, "ns", &t, &err), MANAGER_OK);
    assert_string_equal(t, "t1");
    secret_free(&t);
    assert_int_equal(manager_tenant(m, "ns", &t, &err), MANAGER_OK); /* it was there */
    assert_string_equal(t, "t2");
    secret_free(&t);
    assert_int_equal(manager_tenant(m, "ns", &t, &err), MANAGER_AWAY);
    assert_null(t);
    assert_int_equal(manager_tenant(m, "ns", &t, &err), MANAGER_AWAY); /* an answer without one */
    assert_null(t);
    assert_non_null(strstr(err.text, "no token"));
    assert_int_equal(manager_tenant(m, "ns", &t, &err), MANAGER_AWAY);
    play_expect(&server, "POST /v1/tenants, "
                         "POST /v1/tenants, DELETE /v1/tenants/ns/credentials, "
                         "POST /v1/tenants/ns/token, "
                         "POST /v1/tenants, DELETE /v1/tenants/ns/credentials, "
                         "POST /v1/tenants/ns/token, POST /v1/tenants, POST /v1/tenants");
    play_says(&server, "DELETE /v1/tenants/ns/credentials", 500, "{}", 1);
    assert_int_equal(manager_tenant(m, "ns", &t, &err), MANAGER_AWAY); /* no token beside them */
    assert_null(t);
    play_expect(&server, "POST /v1/tenants, DELETE /v1/tenants/ns/credentials");
}

static void test_routes(void **state)
{
    json_t *body = json_pack("{s:s}", "access_key", "k"), *out = NULL;

    (void)state;
    play_says(&server, "POST /v1/jobs/a%2Fb/heartbeat", 204, NULL, 0); /* nothing gets out of it */
    play_says(&server, "POST /v1/datasets/d/warm", 202, NULL, 0);
    play_says(&server, "PUT /v1/tenants/ns/credentials", 204, NULL, 0);
    assert_int_equal(manager_heartbeat(m, "a/b", &err), MANAGER_OK);
    assert_int_equal(manager_order(m, "d", "warm", NULL, &err), MANAGER_OK);
    assert_int_equal(json_object_size(play_body(&server, "POST /v1/datasets/d/warm")), 0);
    assert_int_equal(manager_order(m, "d", "warm", body, &err), MANAGER_OK);
    assert_true(json_equal(play_body(&server, "POST /v1/datasets/d/warm"), body));
    assert_int_equal(manager_credentials(m, "ns", body, &err), MANAGER_OK);
    assert_true(json_equal(play_body(&server, "PUT /v1/tenants/ns/credentials"), body));
    assert_int_equal(manager_end_dataset(m, "d", &err), MANAGER_ABSENT);
    assert_int_equal(manager_nodes(m, &out, &err), MANAGER_ABSENT);
    assert_null(out);
    play_says(&server, "GET /v1/nodes", 200, "{}", 1);
    play_says(&server, "GET /v1/nodes", 200, "{\"items\": [{\"name\": \"n\"}]}", 1);
    assert_int_equal(manager_nodes(m, &out, &err), MANAGER_AWAY); /* no list */
    assert_null(out);
    assert_int_equal(manager_nodes(m, &out, &err), MANAGER_OK);
    assert_int_equal(json_array_size(out), 1);
    json_decref(out);
    play_says(&server, "GET /v1/nodes", 200, "{\"items\": [{}, {}], \"next\": \"b\"}", 1);
    play_says(&server, "GET /v1/nodes", 200, "{\"items\": [{}], \"next\": null}", 1);
    assert_int_equal(manager_nodes(m, &out, &err), MANAGER_OK); /* page after page */
    assert_int_equal(json_array_size(out), 3);
    json_decref(out);
    play_says(&server, "GET /v1/nodes", 200, "{\"items\": [{}, {}], \"next\": \"b\"}", 1);
    play_says(&server, "GET /v1/nodes", 503, "{}", 1); /* half a list is none */
    assert_int_equal(manager_nodes(m, &out, &err), MANAGER_AWAY);
    assert_null(out);
    play_says(&server, "GET /v1/nodes", 200, "{\"items\": [{\"name\": \"n\"}]}", 1);
    assert_int_equal(manager_nodes(m, &out, &err), MANAGER_OK);
    assert_int_equal(json_array_size(out), 1);
    json_decref(out);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_four_answers, fresh, end),
        cmocka_unit_test_setup_teardown(test_nobody, fresh, end),
        cmocka_unit_test_setup_teardown(test_the_token_is_asked_again, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_job_is_made_once, fresh, end),
        cmocka_unit_test_setup_teardown(test_a_dataset_that_is_there, fresh, end),
        cmocka_unit_test_setup_teardown(test_datasets_and_credentials_are_sent_for_the_tenant,
                                        fresh, end),
        cmocka_unit_test_setup_teardown(test_tenants, fresh, end),
        cmocka_unit_test_setup_teardown(test_routes, fresh, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
