// SPDX-License-Identifier: Apache-2.0
/*
 * When will a sample be read that is in no known list, but is drawn by weight (docs/design/0008)?
 * An answer in the unit of known uses, positions from here, so that both stand in one order. Pure.
 */
#ifndef DLC_CACHE_POLICY_EXPECTED_USE_H
#define DLC_CACHE_POLICY_EXPECTED_USE_H

#include <stdint.h>

/*
 * left: positions to the end of what is known. length: of an epoch. mean: of the weights that are
 * known; 0: none is, and then it is 1. weight: what the sample counts as in the next draw; 0: as
 * the mean. uses: how often it was read; that decides between equal weights only.
 * Never less than left.
 */
double policy_expected_use(double left, double length, double weight, double mean, uint32_t uses);

#endif
