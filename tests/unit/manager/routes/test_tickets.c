// SPDX-License-Identifier: Apache-2.0
/* Tickets of managers that share a store: one key, also after the store has lost it. */
#include "manager/bare.h"

#include "base/str.h"
#include "base/ticket.h"
#include "manager/routes/tickets.h"
#include "manager/store/seal.h"

static struct tables *t;
static struct api *api;

static int set_up(void **state)
{
    char url[512], path[256];
    static unsigned runs;

    (void)state;
    snprintf(url, sizeof(url), "sqlite:%s%u", unit_path("tickets.db", path), runs++);
    t = bare_open(url, "tickets", DLC_SEC(600));
    api = bare_api(t);
    ok(seal_open(bare_of(t)->dir, &api->seal, &err));
    ok(tickets_open(api, DLC_SEC(600), &err));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tickets_close(api);
    seal_close(&api->seal);
    bare_close(&t);
    return 0;
}

/* The first of the keys that this manager says. */
static struct ticket_key key_of(struct api *of)
{
    json_t *o = ticket_keys_json(of);
    struct buf b = BUF_INIT;
    struct ticket_key k;

    assert_int_equal(json_array_size(json_object_get(o, "keys")), 1);
    assert_true(str_unbase64(json_string_value(json_array_get(json_object_get(o, "keys"), 0)), &b));
    assert_int_equal(b.len, sizeof(k.bytes));
    memcpy(k.bytes, b.data, sizeof(k.bytes));
    buf_release(&b);
    json_decref(o);
    return k;
}

static int check(const struct ticket_key *k)
{
    json_t *answer = json_object();
    struct ticket got;
    int rc;

    ticket_add(api, "birds", "ann", "gpu1", answer);
    rc = ticket_check(json_string_value(json_object_get(answer, "ticket")), k, 1, &got, &err);
    if (rc == 0) {
        assert_string_equal(got.dataset, "birds");
        assert_string_equal(got.tenant, "ann");
        assert_string_equal(got.node, "gpu1");
    }
    assert_int_equal(json_integer_value(json_object_get(answer, "ticket_life_ms")), 600000);
    json_decref(answer);
    return rc;
}

/* (SIGNER-1) */
static void keys_are_read_again(void **state)
{
    struct ticket_key first = key_of(api), second;

    (void)state;
    ok(check(&first));
    ok(store_delete(t->store, STORE_MANAGER, "cluster_key.tickets", STORE_ANY, &err));
    second = key_of(api);
    assert_memory_equal(&first, &second, sizeof(first)); /* not yet */
    dlc_clock_advance(TICKET_KEYS_AGE);
    second = key_of(api);
    assert_memory_not_equal(&first, &second, sizeof(first));
    ok(check(&second));
    assert_int_equal(check(&first), DLC_EDENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_read_again, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
