// SPDX-License-Identifier: Apache-2.0
/* Which tickets count: keys, expiry by the manager's clock, a manager that is silent, floods. */
#include "cluster/ticket_table.h"

#include <openssl/evp.h>

#include "base/counters.h"
#include "base/mem.h"
#include "base/str.h"
#include "unit.h"

#define NOW_MS INT64_C(1700000000000)

static EVP_PKEY *pair, *other;
static struct ticket_table *t;
static struct dlc_err err;

static int set_up(void **state)
{
    (void)state;
    pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    other = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    t = ticket_table_new(DLC_SEC(3600));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ticket_table_free(&t);
    EVP_PKEY_free(pair);
    EVP_PKEY_free(other);
    return 0;
}

static json_t *key_json(EVP_PKEY *key)
{
    struct buf text = BUF_INIT;
    struct ticket_key k;
    json_t *v;

    ticket_key_of(key, &k);
    str_base64(k.bytes, sizeof(k.bytes), &text);
    v = json_string(buf_str(&text));
    buf_release(&text);
    return v;
}

/* b may be NULL. */
static void hear(EVP_PKEY *a, EVP_PKEY *b, int64_t now_ms)
{
    json_t *o = json_pack("{s:[o], s:I}", "keys", key_json(a), "now_ms", (json_int_t)now_ms);

    if (b != NULL)
        json_array_append_new(json_object_get(o, "keys"), key_json(b));
    ticket_table_heard(t, o);
    json_decref(o);
}

static char *make(EVP_PKEY *by, const char *dataset, int64_t expires_ms)
{
    struct ticket k = {.tenant = "ann", .node = "b", .expires_ms = expires_ms};
    struct buf text = BUF_INIT;

    snprintf(k.dataset, sizeof(k.dataset), "%s", dataset);
    ticket_sign(by, &k, &text);
    return buf_take(&text);
}

static int check_as(const char *text, const char *dataset, const char *tenant, const char *node)
{
    struct ticket k;

    return ticket_table_check(t, text, &(struct ticket_use){dataset, tenant, node}, &k, &err);
}

/* Whatever dataset it is for. */
static int check(const char *text)
{
    struct ticket k = {.dataset = "d"};
    int rc;

    (void)ticket_parse(text, &k, &err);
    rc = ticket_table_check(t, text, &(struct ticket_use){.dataset = k.dataset}, &k, &err);

    if (rc == 0)
        assert_string_equal(k.tenant, "ann");
    return rc;
}

static void keys_come_from_the_manager(void **state)
{
    char *of_pair = make(pair, "d", NOW_MS + 1000), *of_other = make(other, "d", NOW_MS + 1000);

    (void)state;
    assert_int_equal(check(of_pair), DLC_EBUSY); /* not heard yet */
    hear(pair, NULL, NOW_MS);
    assert_int_equal(check(of_pair), 0);
    assert_int_equal(check(of_other), DLC_EDENIED);
    hear(pair, other, NOW_MS); /* one replaces the other */
    assert_int_equal(check(of_pair), 0);
    assert_int_equal(check(of_other), 0);
    hear(other, NULL, NOW_MS); /* (TICKETS-3) */
    assert_int_equal(check(of_pair), DLC_EDENIED);
    assert_int_equal(check(of_other), 0);
    ticket_table_heard(t, NULL); /* a manager that says nothing of them */
    assert_int_equal(check(of_other), 0);
    assert_int_equal(check("dlt1.AAAA"), DLC_EPROTO);
    mem_free(&of_pair);
    mem_free(&of_other);
}

/* Also one that was verified before. */
static void only_for_what_it_names(void **state)
{
    char *text = make(pair, "d", NOW_MS + 1000); /* of ann, for node b */

    (void)state;
    hear(pair, NULL, NOW_MS);
    assert_int_equal(check_as(text, "e", NULL, NULL), DLC_EDENIED);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(check_as(text, "d", NULL, NULL), 0);
        assert_int_equal(check_as(text, "d", "ann", "b"), 0);
        assert_int_equal(check_as(text, "e", "ann", "b"), DLC_EDENIED);
        assert_int_equal(check_as(text, "d", "bob", "b"), DLC_EDENIED);
        assert_int_equal(check_as(text, "d", "", "b"), DLC_EDENIED);
        assert_int_equal(check_as(text, "d", "ann", "c"), DLC_EDENIED);
        assert_non_null(strstr(err.text, "certificate"));
    }
    mem_free(&text);
}

/* (TICKETS-1): whatever the clock of this machine says. */
static void expiry_is_the_managers(void **state)
{
    char *text = make(pair, "d", NOW_MS);

    (void)state;
    hear(pair, NULL, NOW_MS - 600000);
    assert_int_equal(check(text), 0);
    hear(pair, NULL, NOW_MS + 59000); /* within the allowance */
    assert_int_equal(check(text), 0);
    hear(pair, NULL, NOW_MS + 61000);
    assert_int_equal(check(text), DLC_EDENIED);
    assert_non_null(strstr(err.text, "expired"));
    hear(pair, NULL, NOW_MS + 30000);
    assert_int_equal(check(text), 0);
    dlc_clock_advance(DLC_SEC(31)); /* without a heartbeat */
    assert_int_equal(check(text), DLC_EDENIED);
    mem_free(&text);
}

/* (TICKETS-2) */
static void a_silent_manager_stops_the_clock(void **state)
{
    char *text = make(pair, "d", NOW_MS + 1000);

    (void)state;
    hear(pair, NULL, NOW_MS);
    dlc_clock_advance(DLC_SEC(3599));
    assert_int_equal(check(text), 0);
    dlc_clock_advance(DLC_SEC(2)); /* manager-grace is over */
    assert_int_equal(check(text), DLC_EDENIED);
    assert_non_null(strstr(err.text, "manager-grace"));
    hear(pair, NULL, NOW_MS + 3601000);
    assert_int_equal(check(text), DLC_EDENIED);
    mem_free(&text);
}

/* The table is bounded, and a ticket that it forgot is verified again. */
static void more_tickets_than_places(void **state)
{
    uint64_t before;
    char name[16];

    (void)state;
    hear(pair, NULL, NOW_MS);
    for (unsigned i = 0; i < 4500; i++) {
        char *text;

        snprintf(name, sizeof(name), "d%u", i);
        text = make(pair, name, NOW_MS + 1000);
        if (i % 200 == 0)
            dlc_clock_advance(DLC_SEC(1)); /* (TICKETS-4) */
        assert_int_equal(check(text), 0);
        before = counters.peer_tickets_checked;
        assert_int_equal(check(text), 0);
        assert_int_equal(counters.peer_tickets_checked, before);
        mem_free(&text);
    }
}

/* (TICKETS-4): what was verified is served on. */
static void floods_are_bounded(void **state)
{
    char *good = make(pair, "d", NOW_MS + 1000000), *late = make(pair, "e", NOW_MS + 1000000);
    char *forged = mem_str(good), *at = forged + strlen(forged) - 12; /* in the signature */
    struct dlc_mono begin;
    uint64_t before, seconds;

    (void)state;
    hear(pair, NULL, NOW_MS);
    assert_int_equal(check(good), 0);
    dlc_clock_advance(DLC_SEC(2));
    before = counters.peer_tickets_checked;
    begin = dlc_mono_now();
    for (unsigned i = 0; i < 20 * TICKET_CHECKS; i++) {
        char digits[8];

        snprintf(digits, sizeof(digits), "%06u", i);
        memcpy(at, digits, 6);
        assert_true(check(forged) < 0);
    }
    seconds = (uint64_t)(dlc_mono_since(begin).ns / DLC_SEC(1).ns);
    assert_true(counters.peer_tickets_checked - before <= (seconds + 2) * TICKET_CHECKS);
    assert_int_equal(check(good), 0);
    dlc_clock_advance(DLC_SEC(2));
    assert_int_equal(check(late), 0);
    mem_free(&good);
    mem_free(&late);
    mem_free(&forged);
}

/* (TICKETS-5) */
static void revoked_nodes_are_refused(void **state)
{
    char *before = make(pair, "d", NOW_MS + 1000), *after = make(pair, "d", NOW_MS + 1001);
    json_t *list = json_pack("[[s, i, I], [s, i, I], [i], [s, i, i]]", "x", 1, (json_int_t)0, "b",
                             2, (json_int_t)NOW_MS + 1000, 1, "negative", -1, 0);

    (void)state;
    hear(pair, NULL, NOW_MS);
    assert_int_equal(check(before), 0);
    assert_int_equal(ticket_table_check_node(t, "b", 1, &err), 0);
    ticket_table_revoked(t, list);
    assert_int_equal(check(before), DLC_EDENIED); /* also one that was verified before */
    assert_int_equal(check(after), 0);            /* of the node that joined again */
    assert_int_equal(ticket_table_check_node(t, "b", 1, &err), DLC_EDENIED);
    assert_int_equal(ticket_table_check_node(t, "b", 2, &err), 0);
    assert_int_equal(ticket_table_check_node(t, "c", 0, &err), 0);
    assert_int_equal(ticket_table_check_node(t, "x", 0, &err), DLC_EDENIED);
    assert_int_equal(ticket_table_check_node(t, NULL, 0, &err), 0);
    ticket_table_revoked(t, NULL); /* all has expired */
    assert_int_equal(check(before), 0);
    json_decref(list);
    mem_free(&before);
    mem_free(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(revoked_nodes_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_come_from_the_manager, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_for_what_it_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expiry_is_the_managers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_manager_stops_the_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_tickets_than_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(floods_are_bounded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
