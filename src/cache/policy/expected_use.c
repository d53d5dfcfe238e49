// SPDX-License-Identifier: Apache-2.0
#include "cache/policy/expected_use.h"

#include "base/check.h"

#define USES_MAX  1000
#define USES_PART 1e-4 /* of the way beyond what is known, at most */

double policy_expected_use(double left, double length, double weight, double mean, uint32_t uses)
{
    double sooner = 1 - USES_PART * DLC_MIN(uses, USES_MAX) / USES_MAX;

    mean = mean > 0 ? mean : 1;
    weight = weight > 0 ? weight : mean;
    return left + length / 2 * (mean / weight) * sooner;
}
