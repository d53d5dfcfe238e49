// SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

#include "base/check.h"

struct counters counters;

const struct counter_info counter_table[] = {
#define COUNTER(name, unit, help) {#name, unit, help, &counters.name},
#include "base/tbl/counters.def"
#undef COUNTER
};

const unsigned counter_table_len = DLC_COUNT(counter_table);
