// SPDX-License-Identifier: Apache-2.0
#include "base/dataset_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/short_name.h"
#include "base/str.h"

static char *repeat(char *out, char c, size_t n)
{
    memset(out, c, n);
    out[n] = '\0';
    return out;
}

static void test_short_names(void **state)
{
    char tenant[64], brief[SHORT_NAME_LEN], name[64];

    (void)state;
    assert_string_equal("birds", dataset_short_name("ann.birds", "ann"));
    assert_string_equal("birds", dataset_short_name("birds", "ann"));
    assert_string_equal("ann.birds", dataset_short_name("ann.birds", ""));
    assert_string_equal("ann.birds", dataset_short_name("ann.birds", "an"));
    assert_string_equal("ann.birds", dataset_short_name("ann.birds", "bob"));
    assert_string_equal("a.b", dataset_short_name("ann.a.b", "ann"));
    assert_string_equal("b", dataset_short_name("ann.a.b", "ann.a"));
    assert_string_equal("ann", dataset_short_name("ann", "ann"));
    assert_string_equal("ann.", dataset_short_name("ann.", "ann")); /* what is left is not a name */
    assert_string_equal("ann.-x", dataset_short_name("ann.-x", "ann"));
    repeat(tenant, 's', 63);
    snprintf(name, sizeof(name), "%s.birds", short_tenant(tenant, brief));
    assert_string_equal("birds", dataset_short_name(name, tenant));
    assert_string_equal(name, dataset_short_name(name, "ann"));
}

static void test_ids(void **state)
{
    struct dataset_ids ids;
    char tenant[64], brief[SHORT_NAME_LEN], expected[128];

    (void)state;
    dataset_ids("", "birds", &ids);
    assert_int_equal(1, ids.n);
    assert_int_equal(1, ids.n_new);
    assert_string_equal("birds", ids.v[0]);

    dataset_ids("ann", "birds", &ids);
    assert_int_equal(2, ids.n_new);
    assert_int_equal(3, ids.n);
    assert_string_equal("ann.birds", ids.v[0]);
    assert_true(dataset_id_is_hashed(ids.v[1]));
    assert_string_equal("birds", ids.v[2]); /* from before names were tenants' */

    repeat(tenant, 's', 50); /* as the operator names datasets of long namespaces */
    dataset_ids(tenant, "twelve-chars", &ids);
    assert_int_equal(63, strlen(ids.v[0]));
    assert_string_equal("twelve-chars", dataset_short_name(ids.v[0], tenant));
    dataset_ids(tenant, "thirteen-char", &ids);
    snprintf(expected, sizeof(expected), "%s.thirteen-char", short_tenant(tenant, brief));
    assert_string_equal(expected, ids.v[0]);
    dataset_ids(tenant, "more-than-there-is-room-for", &ids);
    assert_int_equal(1, ids.n_new);
    assert_true(dataset_id_is_hashed(ids.v[0]));

    dataset_ids("ann.labs", "birds", &ids); /* "ann" may have "labs.birds" */
    assert_int_equal(1, ids.n_new);
    assert_true(dataset_id_is_hashed(ids.v[0]));
    assert_string_equal("ann.labs.birds", ids.v[1]);
    assert_string_equal("birds", ids.v[2]);
    assert_int_equal(3, ids.n);
}

/* Whatever tenants and names are like, no two of them get one id. */
static void test_ids_differ(void **state)
{
    static const char *const pairs[][2] = {
        {"a", "b"},     {"a", "b.c"},   {"a.b", "c"},   {"a-b", "c"},   {"a", "b-c"},
        {"a", "b_c"},   {"a_b", "c"},   {"a.b.c", "d"}, {"a.b", "c.d"}, {"a", "b.c.d"},
        {"a-b.c", "d"}, {"a.b-c", "d"}, {"aa", "b"},    {"a", "ab"},    {"b", "a"},
        {"a", "a.b"},   {"a.a", "b"},   {"a.a.a", "b"}, {"a", "a.a.b"}, {"x", "x"},
    };
    struct dataset_ids all[DLC_COUNT(pairs)];

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(pairs); i++) {
        dataset_ids(pairs[i][0], pairs[i][1], &all[i]);
        for (size_t k = 0; k < i; k++)
            for (size_t x = 0; x < all[i].n_new; x++)
                for (size_t y = 0; y < all[k].n_new; y++)
                    assert_string_not_equal(all[i].v[x], all[k].v[y]);
    }
}

static void test_ids_are_names(void **state)
{
    static const size_t lengths[] = {1, 2, 22, 23, 39, 40, 41, 62, 63};
    struct dataset_ids ids;
    char tenant[64], name[64];

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(lengths); i++)
        for (size_t k = 0; k < DLC_COUNT(lengths); k++)
            for (int dot = 0; dot < 2; dot++) {
                repeat(tenant, 't', lengths[i]);
                repeat(name, 'n', lengths[k]);
                if (dot && lengths[i] > 2)
                    tenant[1] = '.';
                dataset_ids(tenant, name, &ids);
                assert_true(ids.n_new >= 1 && ids.n_new <= ids.n && ids.n <= DATASET_IDS);
                for (size_t x = 0; x < ids.n; x++) {
                    assert_true(str_is_name(ids.v[x]));
                    if (!dataset_id_is_hashed(ids.v[x])) /* (DATASET-NAME-2) */
                        assert_string_equal(name, dataset_short_name(ids.v[x], tenant));
                }
            }
}

static void test_hashed(void **state)
{
    (void)state;
    assert_true(dataset_id_is_hashed("a-b_00112233445566778899aabbccddeeff"));
    assert_false(dataset_id_is_hashed("a.b_00112233445566778899aabbccddeeff"));
    assert_false(dataset_id_is_hashed("a-b_00112233445566778899aabbccddeefg"));
    assert_false(dataset_id_is_hashed("a-b-00112233445566778899aabbccddeeff"));
    assert_false(dataset_id_is_hashed("_00112233445566778899aabbccddeeff"));
    assert_false(dataset_id_is_hashed("birds"));
    assert_false(dataset_id_is_hashed(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_names), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_ids_differ),  cmocka_unit_test(test_ids_are_names),
        cmocka_unit_test(test_hashed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
