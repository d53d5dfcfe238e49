// SPDX-License-Identifier: Apache-2.0
#ifndef DLC_SIM_WORKLOAD_MIX_I_H
#define DLC_SIM_WORKLOAD_MIX_I_H

#include "sim/workload_mix.h"

void mix_add(struct mix *m, enum mix_habit habit, uint64_t size, double cost);

#endif
