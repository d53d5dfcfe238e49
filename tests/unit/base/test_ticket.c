// SPDX-License-Identifier: Apache-2.0
/* Tickets: what is signed is read back, and nothing else is. */
#include "base/ticket.h"

#include <openssl/evp.h>

#include "base/str.h"
#include "unit.h"

static EVP_PKEY *pair, *other;
static struct ticket_key keys[2]; /* other's, then pair's */
static struct dlc_err err;
static const struct ticket birds = {"birds.v2", "ann", "gpu-1", 1700000000123};

static int set_up(void **state)
{
    (void)state;
    pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    other = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    ticket_key_of(other, &keys[0]);
    ticket_key_of(pair, &keys[1]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    EVP_PKEY_free(pair);
    EVP_PKEY_free(other);
    return 0;
}

static char *text_of(EVP_PKEY *by, const struct ticket *t)
{
    struct buf b = BUF_INIT;

    ticket_sign(by, t, &b);
    return buf_take(&b);
}

static void expect(const struct ticket *a, const struct ticket *b)
{
    assert_string_equal(a->dataset, b->dataset);
    assert_string_equal(a->tenant, b->tenant);
    assert_string_equal(a->node, b->node);
    assert_int_equal(a->expires_ms, b->expires_ms);
}

static void what_was_signed_is_read(void **state)
{
    struct ticket longest = {.expires_ms = INT64_MAX}, got;
    char *text = text_of(pair, &birds);

    (void)state;
    assert_int_equal(ticket_check(text, keys, 2, &got, &err), 0);
    expect(&got, &birds);
    assert_int_equal(ticket_check(text, &keys[1], 1, &got, &err), 0);
    assert_int_equal(ticket_parse(text, &got, &err), 0);
    expect(&got, &birds);
    free(text);
    memset(longest.dataset, 'd', TICKET_NAME_MAX);
    memset(longest.tenant, 't', TICKET_NAME_MAX);
    memset(longest.node, 'n', TICKET_NAME_MAX);
    text = text_of(pair, &longest);
    assert_true(strlen(text) <= TICKET_TEXT_MAX);
    assert_int_equal(ticket_check(text, keys, 2, &got, &err), 0);
    expect(&got, &longest);
    free(text);
    memset(longest.tenant, 0, sizeof(longest.tenant)); /* of nobody */
    text = text_of(pair, &longest);
    assert_int_equal(ticket_check(text, keys, 2, &got, &err), 0);
    assert_string_equal(got.tenant, "");
    free(text);
}

static void another_key_is_refused(void **state)
{
    char *text = text_of(pair, &birds);
    struct ticket got;

    (void)state;
    assert_int_equal(ticket_check(text, keys, 1, &got, &err), DLC_EDENIED);
    assert_int_equal(ticket_check(text, keys, 0, &got, &err), DLC_EDENIED);
    free(text);
}

/* Each bit of it counts. */
static void a_changed_ticket_is_refused(void **state)
{
    char *text = text_of(pair, &birds);
    struct buf raw = BUF_INIT;
    struct ticket got;

    (void)state;
    assert_true(str_unbase64(text + strlen(TICKET_PREFIX), &raw));
    for (size_t bit = 0; bit < raw.len * 8; bit++) {
        struct buf changed = BUF_INIT;

        raw.data[bit / 8] = (char)(raw.data[bit / 8] ^ 1 << bit % 8);
        buf_adds(&changed, TICKET_PREFIX);
        str_base64(raw.data, raw.len, &changed);
        assert_true(ticket_check(buf_str(&changed), keys, 2, &got, &err) < 0);
        raw.data[bit / 8] = (char)(raw.data[bit / 8] ^ 1 << bit % 8);
        buf_release(&changed);
    }
    buf_release(&raw);
    free(text);
}

static void what_is_no_ticket_is_refused(void **state)
{
    static const char *const bad[] = {"", "dlt1.", "dlt2.AAAA", "dlc_0123", "dlt1.AQ==", "dlt1.!"};
    struct ticket named = birds, got;
    char *text = text_of(pair, &birds), *more;
    char longer[TICKET_TEXT_MAX + 100];

    (void)state;
    for (size_t i = 0; i < unit_count(bad); i++)
        assert_int_equal(ticket_check(bad[i], keys, 2, &got, &err), DLC_EPROTO);
    memset(longer, 'A', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    memcpy(longer, TICKET_PREFIX, strlen(TICKET_PREFIX));
    assert_int_equal(ticket_check(longer, keys, 2, &got, &err), DLC_EPROTO);
    assert_true(asprintf(&more, "%.*sAAAA", (int)strcspn(text, "="), text) > 0);
    assert_true(ticket_check(more, keys, 2, &got, &err) < 0);
    free(more);
    free(text);
    memcpy(named.dataset, "b/../x", 7); /* signed, and not a name all the same */
    text = text_of(pair, &named);
    assert_int_equal(ticket_check(text, keys, 2, &got, &err), DLC_EPROTO);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_signed_is_read),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(a_changed_ticket_is_refused),
        cmocka_unit_test(what_is_no_ticket_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
