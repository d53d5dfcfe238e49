// SPDX-License-Identifier: Apache-2.0
#include "cache/policy/policy.h"

double policy_money(const struct policy_prices *prices, uint64_t bytes)
{
    return prices->request + prices->transfer * (double)bytes;
}

double policy_cost(const struct policy_prices *prices, double seconds, uint64_t bytes)
{
    return prices->share * seconds + (1 - prices->share) * policy_money(prices, bytes);
}
