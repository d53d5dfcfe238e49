// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "sim/training_cost.h"

static const struct cost_data data = {.samples = 1000,
                                      .bytes = 1000000,
                                      .gets = 1000,
                                      .memory_bytes = 1024000,
                                      .disk_bytes = 4096000,
                                      .list_requests = 2,
                                      .list_money = 0.5,
                                      .list_s = 3};
static const struct cost_bucket bucket = {.latency_s = 0.1,
                                          .p99_s = 0.2,
                                          .bytes_per_s = 1e6,
                                          .price_get = 0.01,
                                          .price_byte = 0.001,
                                          .max_requests = 100};

static struct cost_setup setup(void)
{
    return (struct cost_setup){.epochs = 3,
                               .nodes = 1,
                               .memory = 512000,
                               .samples_per_s = 100,
                               .batch = 16,
                               .workers = 4,
                               .gpus = 2,
                               .price_gpu = 36};
}

static void near(double found, double expected)
{
    assert_true(found > expected - 1e-6 && found < expected + 1e-6);
}

static void test_memory_keeps_what_the_window_leaves(void **state)
{
    struct cost_setup s = setup();
    struct cost_forecast f;
    double window = (100 * 0.2 * 1.3 + 16 + 8) * 1024, reuse;

    (void)state;
    near(cost_window(&data, &bucket, &s), window);
    cost_forecast(&data, &bucket, &s, &f);
    reuse = (512000 * 63.0 / 64 - window) / (1024000 - window);
    near(f.later.reuse, reuse);
    near(f.later.bucket, 1 - reuse);
    near(f.first.requests, 1002);
    near(f.cached.requests, 1002 + 2 * 1000 * (1 - reuse));
    near(f.cached.money, 0.5 + (1000 * 0.01 + 1000000 * 0.001) * (1 + 2 * (1 - reuse)));
    s.samples_per_s = 0; /* half of memory is window */
    near(cost_window(&data, &bucket, &s), 256000);
    s.memory = 2000000;
    cost_forecast(&data, &bucket, &s, &f);
    near(f.later.requests, 0);
}

static void test_disk_and_nodes(void **state)
{
    struct cost_setup s = setup();
    struct cost_forecast f;

    (void)state;
    s.disk = 1024000; /* a quarter */
    cost_forecast(&data, &bucket, &s, &f);
    near(f.later.disk, (1 - f.later.reuse) / 4);
    near(f.later.bucket, (1 - f.later.reuse) * 3 / 4);
    s.nodes = 4; /* together all of it */
    cost_forecast(&data, &bucket, &s, &f);
    near(f.later.bucket, 0);
    near(f.first.requests, 1002); /* once for all nodes */
    near(f.ssd.requests, 4002);
}

static void test_the_slowest_part_decides(void **state)
{
    struct cost_setup s = setup();
    struct cost_bucket b = bucket;
    struct cost_forecast f;

    (void)state;
    cost_forecast(&data, &b, &s, &f); /* training: 10 s; 0.1 s of latency and 3 of listing */
    near(f.first.seconds, 13.1);
    near(f.first.waiting_s, 3.1);
    near(f.later.waiting_s, 0);
    near(f.cached.waiting_money, 3.1 / 3600 * 2 * 36);
    near(f.direct.seconds, 3 * 25 + 1.6 + 3); /* 1,000 x 0.1 s, by four */
    near(f.direct.waiting_s, 3 * 15 + 1.6 + 3);
    near(f.ssd.waiting_s, 1 + 3); /* 1,000 requests, 100 at once; a second by bytes */
    b.bytes_per_s = 50000;
    cost_forecast(&data, &b, &s, &f);
    near(f.first.seconds, 23.1);
    near(f.direct.seconds, 3 * 25 + 4.6);
    near(f.ssd.seconds, 20 + 3 + 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_keeps_what_the_window_leaves),
        cmocka_unit_test(test_disk_and_nodes),
        cmocka_unit_test(test_the_slowest_part_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
