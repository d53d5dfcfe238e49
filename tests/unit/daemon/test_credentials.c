// SPDX-License-Identifier: Apache-2.0
/* What a tenant's dataset is read with, from grant to grant. */
#include "daemon/parts.h"

#include "base/config.h"
#include "cluster/peer/view.h"
#include "daemon/credentials.h"

#define TEXT(s) ((char *)(uintptr_t)(s))

static void a_version_for_each_change(void **state)
{
    struct grant g = {.access_key = TEXT("a"), .secret_key = TEXT("s")};
    struct dataset_credentials c = {0};

    (void)state;
    dataset_credentials_init(&c, &g);
    assert_non_null(c.keys);
    assert_true(dataset_credentials_take(&c, &g));
    assert_int_equal(c.version, 1);
    assert_false(dataset_credentials_take(&c, &g)); /* the same */
    g.secret_key = TEXT("t");
    assert_true(dataset_credentials_take(&c, &g));
    assert_int_equal(c.version, 2);
    g.access_key = NULL; /* the tenant has none any more: those it had are tried */
    assert_false(dataset_credentials_take(&c, &g));
    assert_int_equal(c.version, 2);
    dataset_credentials_release(&c);
    assert_null(c.keys);
}

/* Else one that was opened without keys would be read with others' bytes already in memory. */
static void without_keys_it_stays_without(void **state)
{
    struct grant g = {.access_key = TEXT("a"), .secret_key = TEXT("s")};
    struct dataset_credentials c = {0};

    (void)state;
    dataset_credentials_init(&c, NULL);
    assert_null(c.keys);
    assert_false(dataset_credentials_take(&c, &g));
    assert_null(c.keys);
    assert_true(dlc_list_empty(&c.retries));
}

static void who_lacks_credentials(void **state)
{
    struct config config = {.lend_credentials = false};
    struct grant g = {.access_key = TEXT("a"), .secret_key = TEXT("s")};
    struct node n;
    struct dataset *ds;

    (void)state;
    parts_node(&n);
    n.config = &config;
    ds = parts_dataset(&n, "x", NULL);
    assert_false(dataset_lacks_credentials(ds)); /* the daemon's own user's */
    parts_belongs(ds, "train", "");
    assert_false(dataset_lacks_credentials(ds)); /* an admin has registered it */
    mem_free(&ds->tenant);
    ds->tenant = mem_str("ann");
    assert_true(dataset_lacks_credentials(ds));
    ds->asked.anonymous = true;
    assert_false(dataset_lacks_credentials(ds));
    ds->asked.anonymous = false;
    config.lend_credentials = true;
    assert_false(dataset_lacks_credentials(ds));
    config.lend_credentials = false;
    dataset_credentials_init(&ds->credentials, &g);
    assert_false(dataset_lacks_credentials(ds));
    dataset_credentials_release(&ds->credentials);
    parts_free(ds);
}

/* The node asks again by id. Where the dataset was deleted since, the answer may be about another
 * one, whose keys and ticket are not for this one. */
static void only_its_own_grant_counts(void **state)
{
    struct grant g = {.dataset = TEXT("train"),
                      .tenant = TEXT("bob"),
                      .access_key = TEXT("a"),
                      .secret_key = TEXT("s"),
                      .ticket = TEXT("dlt1.of-bob"),
                      .ticket_renew = {1000}};
    struct node n;
    struct dataset *ds;

    (void)state;
    parts_node(&n);
    ds = parts_dataset(&n, "x", NULL);
    parts_belongs(ds, "train", "ann");
    dataset_credentials_init(&ds->credentials, &g);
    dataset_take_grant(ds, &g);
    assert_int_equal(ds->credentials.version, 0);
    g.tenant = TEXT("ann");
    g.dataset = TEXT("ann.train");
    dataset_take_grant(ds, &g);
    assert_int_equal(ds->credentials.version, 0);
    assert_string_equal(ds->ticket.text, "dlt1.of-the-test");
    g.dataset = TEXT("train");
    dataset_take_grant(ds, &g);
    assert_int_equal(ds->credentials.version, 1);
    assert_string_equal(ds->ticket.text, "dlt1.of-bob");
    dataset_credentials_release(&ds->credentials);
    parts_free(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_for_each_change),
        cmocka_unit_test(without_keys_it_stays_without),
        cmocka_unit_test(who_lacks_credentials),
        cmocka_unit_test(only_its_own_grant_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
