// SPDX-License-Identifier: Apache-2.0
/* Fields of the API become what users typed. */
#include "unit.h"

#include "cli/request_fields.h"

static void expect(const char *path, const char *said, const char *shown)
{
    struct dlc_err err = DLC_ERR_INIT;

    dlc_err_set(&err, DLC_EINVAL, "%s", said);
    request_fields_show(path, &err);
    assert_string_equal(err.text, shown);
    assert_int_equal(err.code, DLC_EINVAL);
}

static void test_fields(void **state)
{
    (void)state;
    expect("/v1/jobs", "qos.memory_limit: must be", "--memory-limit: must be");
    expect("/v1/jobs", "qos.mode: must be", "--mode: must be");
    expect("/v1/jobs", "splits: none", "--split: none");
    expect("/v1/datasets/d/warm", "split: none", "--split: none");
    expect("/v1/datasets", "node_count: x", "--node-count: x");
    expect("/v1/datasets", "nodes: x", "--nodes: x");
    expect("/v1/accounting?since=x", "since: x", "--since: x");
}

static void test_the_same_field_of_another_command(void **state)
{
    (void)state;
    expect("/v1/datasets/d/move", "node_count: x", "--count: x");
    expect("/v1/datasets/d/move?a=b", "nodes: x", "NODE: x");
    expect("/v1/tenants", "name: x", "TENANT: x");
    expect("/v1/datasets", "name: x", "NAME: x");
    expect("/move", "node_count: x", "--count: x");
    expect("move", "node_count: x", "--node-count: x"); /* shorter than what it is compared with */
}

static void test_other_texts_stay(void **state)
{
    (void)state;
    expect("/v1/jobs", "figures.loss: x", "figures.loss: x");
    expect("/v1/jobs", "nodes are away", "nodes are away");
    expect("/v1/jobs", "nodesmore: x", "nodesmore: x");
    expect("/v1/jobs", "", "");
    expect("/v1/jobs", "nodes:", "nodes:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_the_same_field_of_another_command),
        cmocka_unit_test(test_other_texts_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
