// SPDX-License-Identifier: Apache-2.0
/* Shares of waits, and the sentence that goes with the largest. */
#include "unit.h"

#include "base/stall.h"

static const char *advice(const struct usage *u, const struct stall_facts *f)
{
    static struct buf out = BUF_INIT;

    buf_clear(&out);
    return stall_advice(u, f, &out) ? buf_str(&out) : NULL;
}

static void test_shares(void **state)
{
    struct usage u = {0};

    (void)state;
    u.n[USAGE_stall_ns] = 3000000000;
    u.n[USAGE_stall_disk_ns] = 1000000000;
    assert_true(stall_share_all(&u, 10) == 0.3);
    assert_true(stall_share(&u, STALL_DISK, 10) == 0.1);
    assert_true(stall_share(&u, STALL_LATENCY, 10) == 0);
    assert_true(stall_share_all(&u, 2) == 1);
    assert_true(stall_share_all(&u, 0) == 0);
    assert_string_equal(stall_name(STALL_ORDER), "order");
}

static void test_nothing_to_say(void **state)
{
    struct stall_facts f = {.reader_s = 100};
    struct usage u = {0};

    (void)state;
    assert_null(advice(&u, &f));
    u.n[USAGE_stall_ns] = u.n[USAGE_stall_disk_ns] = 900000000;
    assert_null(advice(&u, &f)); /* 0.9 % */
    u.n[USAGE_stall_ns] = u.n[USAGE_stall_disk_ns] = 1000000000;
    assert_string_equal(advice(&u, &f),
                        "waits for the disk tier 1 % of the time: use a faster disk "
                        "for --dir, or a larger --memory");
    u.n[USAGE_stall_disk_ns] = 0;
    assert_null(advice(&u, &f)); /* nobody knows why */
}

static void test_figures(void **state)
{
    struct stall_facts f = {.reader_s = 100,
                            .bytes_per_s = 525e6,
                            .most_bytes_per_s = 537.5e6,
                            .dataset_bytes = 150000000000,
                            .cache_bytes = 30000000000};
    struct usage u = {0};

    (void)state;
    u.n[USAGE_stall_ns] = 40000000000;
    u.n[USAGE_stall_latency_ns] = 9000000000;
    u.n[USAGE_stall_bandwidth_ns] = 31000000000;
    assert_string_equal(advice(&u, &f),
                        "waits for the bucket's bandwidth 31 % of the time: 4.2 Gbit/s used of 4.3 "
                        "Gbit/s measured; keep more of the data near: a larger --memory, a disk "
                        "tier, or more nodes; 120.0 GB more memory or disk would hold the whole "
                        "dataset");
    f = (struct stall_facts){.reader_s = 100, .latency_s = 0.08};
    u.n[USAGE_stall_bandwidth_ns] = 0;
    assert_non_null(strstr(advice(&u, &f), "latency 9 % of the time: half of its answers take more "
                                           "than 80 ms; at the start"));
    f.reader_s = 0; /* how many readers there were is not known */
    assert_non_null(strstr(advice(&u, &f), "waits for the bucket's latency: half"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_nothing_to_say),
        cmocka_unit_test(test_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
