// SPDX-License-Identifier: Apache-2.0
/* The division of memory between tenants: (TENANT-SHARES-1) to (TENANT-SHARES-5) over random and
 * hostile numbers, and the cases that people ask about. */
#include "cache/memory/tenant_shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/rng.h"

#define MB ((uint64_t)1 << 20)
#define GB ((uint64_t)1 << 30)

#define MOST 40

static uint64_t wants_of(const struct tenant_share *s, uint64_t least)
{
    return s->open ? DLC_MAX(s->demand, least) : least;
}

static unsigned __int128 sum_of(const struct tenant_share *s, size_t n)
{
    unsigned __int128 sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += s[i].ceiling;
    return sum;
}

/* (TENANT-SHARES-2) */
static void check_guarantee(uint64_t total, uint64_t least, const struct tenant_share *s, size_t n)
{
    size_t open = 0;
    uint64_t share;

    for (size_t i = 0; i < n; i++)
        open += s[i].open;
    if (open == 0 || total / n < least)
        return;
    share = (total - least * (n - open)) / open;
    for (size_t i = 0; i < n; i++)
        if (s[i].open)
            assert_true(s[i].ceiling >= DLC_MIN(wants_of(&s[i], least), share));
    assert_true(total - sum_of(s, n) < n); /* (TENANT-SHARES-4) */
}

static void check(uint64_t total, uint64_t least, const struct tenant_share *s, size_t n)
{
    assert_true(sum_of(s, n) <= total); /* (TENANT-SHARES-1) */
    check_guarantee(total, least, s, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(s[i].ceiling >= DLC_MIN(least, total / n)); /* (TENANT-SHARES-1) */
        if (!s[i].open)
            assert_true(s[i].ceiling <= least);
        for (size_t k = 0; k < n; k++) {
            bool hungry = s[k].open && s[k].ceiling < wants_of(&s[k], least);

            if (hungry && s[i].open)
                assert_true(s[i].ceiling <= s[k].ceiling); /* (TENANT-SHARES-3) */
            if (s[i].open == s[k].open && s[i].demand == s[k].demand && s[i].now == s[k].now)
                assert_int_equal(s[i].ceiling, s[k].ceiling); /* (TENANT-SHARES-5) */
        }
    }
}

/* ---- random and hostile ---- */

/* Small, large, absurd; often the same as others'. */
static uint64_t number(struct rng *r)
{
    switch (rng_below(r, 6)) {
    case 0: return 0;
    case 1: return rng_below(r, 100);
    case 2: return GB;
    case 3: return UINT64_MAX - rng_below(r, 3);
    case 4: return rng_next(r) >> rng_below(r, 64);
    default: return rng_below(r, 64 * GB);
    }
}

static void keeps_its_promises(void **state)
{
    struct rng r = {17};

    (void)state;
    for (unsigned round = 0; round < 100000; round++) {
        struct tenant_share s[MOST], turned[MOST];
        size_t n = 1 + rng_below(&r, MOST);
        uint64_t total = number(&r), least = rng_below(&r, 4) == 0 ? number(&r) : 8192;

        for (size_t i = 0; i < n; i++)
            s[i] = (struct tenant_share){
                .open = rng_below(&r, 4) > 0, .demand = number(&r), .now = number(&r)};
        tenant_shares_divide(total, least, s, n);
        check(total, least, s, n);
        for (size_t i = 0; i < n; i++)
            turned[i] = s[n - 1 - i];
        tenant_shares_divide(total, least, turned, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(turned[i].ceiling, s[n - 1 - i].ceiling); /* (TENANT-SHARES-5) */
    }
}

/* ---- cases ---- */

static void one_alone_has_everything(void **state)
{
    static const uint64_t numbers[] = {0, 1, 8192, 5 * GB, 64 * GB, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(numbers); i++) {
        struct tenant_share s[2] = {{.open = true, .demand = numbers[i], .now = 3}};

        tenant_shares_divide(64 * GB, 8192, s, 1);
        assert_int_equal(s[0].ceiling, 64 * GB);
        tenant_shares_divide(64 * GB, 8192, s, 2); /* beside one that has no dataset open */
        assert_int_equal(s[0].ceiling, 64 * GB - 8192);
        assert_int_equal(s[1].ceiling, 8192);
    }
    tenant_shares_divide(GB, 8192, NULL, 0);
}

/* As ticks would see it: one that has all memory, and one that begins to read. */
static void what_was_borrowed_comes_back(void **state)
{
    struct tenant_share s[2] = {{.open = true, .demand = 200 * GB, .now = 64 * GB}, {.open = true}};
    uint64_t used = 0;
    unsigned ticks = 0;

    (void)state;
    for (; s[1].now < 32 * GB; ticks++) {
        s[1].demand = tenant_demand(used, 0, s[1].now, 64 * GB);
        tenant_shares_divide(64 * GB, 8192, s, 2);
        assert_int_equal(s[0].ceiling + s[1].ceiling, 64 * GB);
        assert_true(s[1].ceiling >= DLC_MIN(2 * used, 32 * GB));
        s[0].now = s[0].ceiling;
        used = s[1].now = s[1].ceiling; /* it fills what it gets */
    }
    assert_in_range(ticks, 2, 12);
    assert_int_equal(s[0].now, 32 * GB); /* and never less, whatever the other one asks for */
    s[1].demand = UINT64_MAX;
    tenant_shares_divide(64 * GB, 8192, s, 2);
    assert_int_equal(s[0].ceiling, 32 * GB);
}

/* No sample is evicted for a tenant that wants no more. */
static void nothing_moves_without_need(void **state)
{
    struct tenant_share s[3] = {{.open = true, .demand = 10 * GB, .now = 50 * GB},
                                {.open = true, .demand = GB, .now = 2 * GB},
                                {.open = true, .demand = 3 * GB, .now = 12 * GB}};

    (void)state;
    tenant_shares_divide(64 * GB, 8192, s, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(s[i].ceiling, s[i].now);
}

/* Of many, one asks for everything. */
static void the_greedy_get_what_is_left(void **state)
{
    struct tenant_share s[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++)
        s[i] = (struct tenant_share){.open = true, .demand = GB + i * MB};
    s[3].demand = UINT64_MAX;
    tenant_shares_divide(64 * GB, 8192, s, 8);
    for (unsigned i = 0; i < 8; i++)
        if (i != 3)
            assert_int_equal(s[i].ceiling, GB + i * MB);
    assert_true(s[3].ceiling >= 56 * GB);
}

static void the_full_ask_for_more(void **state)
{
    (void)state;
    assert_int_equal(tenant_demand(0, 0, 0, 64 * GB), 64 * MB);
    assert_int_equal(tenant_demand(0, 0, 0, 32 * MB), 2 * MB); /* a small node can be shared too */
    assert_int_equal(tenant_demand(8 * GB, 0, 64 * GB, 64 * GB), 9 * GB + 64 * MB);
    assert_int_equal(tenant_demand(8 * GB, 16 * GB, 64 * GB, 64 * GB), 27 * GB + 64 * MB);
    assert_int_equal(tenant_demand(8 * GB, 0, 8 * GB, 64 * GB), 18 * GB + 64 * MB);
    assert_int_equal(tenant_demand(8 * GB, 4 * GB, 8 * GB, 64 * GB), 18 * GB + 64 * MB);
    assert_int_equal(tenant_demand(16 * GB, 0, 8 * GB, 64 * GB), 36 * GB + 64 * MB); /* pinned */
    assert_int_equal(tenant_demand(UINT64_MAX, 0, 1, UINT64_MAX), UINT64_MAX);
    assert_int_equal(tenant_demand(UINT64_MAX / 2, 0, UINT64_MAX / 2, UINT64_MAX), UINT64_MAX);
    assert_int_equal(tenant_demand(1, UINT64_MAX, UINT64_MAX, 0), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_its_promises),
        cmocka_unit_test(one_alone_has_everything),
        cmocka_unit_test(what_was_borrowed_comes_back),
        cmocka_unit_test(nothing_moves_without_need),
        cmocka_unit_test(the_greedy_get_what_is_left),
        cmocka_unit_test(the_full_ask_for_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
