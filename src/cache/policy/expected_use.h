// SPDX-License-Identifier: Apache-2.0
/*
 * Expected use: when a sample that is in no known list, but is drawn by weight, will be read
 * (docs/design/0008). In the unit of known uses, positions from here, so that both can be compared.
 * Pure.
 */
#ifndef DLC_CACHE_POLICY_EXPECTED_USE_H
#define DLC_CACHE_POLICY_EXPECTED_USE_H

#include <stdint.h>

/*
 * left: positions to the end of the known lists. length: of an epoch. mean: of the known weights;
 * 0: none is known, and 1 is used. weight: of the sample in the next draw; 0: use the mean. uses:
 * how often it was read; decides between equal weights only. Never less than left.
 */
double policy_expected_use(double left, double length, double weight, double mean, uint32_t uses);

#endif
