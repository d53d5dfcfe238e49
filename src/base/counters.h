// SPDX-License-Identifier: Apache-2.0
/* The counters of this process, from tbl/counters.def. Adding is relaxed and any thread may. */
#ifndef DLC_BASE_COUNTERS_H
#define DLC_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct counters {
#define COUNTER(name, unit, help) _Atomic uint64_t name;
#include "base/tbl/counters.def"
#undef COUNTER
};

extern struct counters counters;

/* Statistics: nothing is ordered by them. */
#define count_add(name, n)                                                                         \
    atomic_fetch_add_explicit(&counters.name, (uint64_t)(n), memory_order_relaxed)
#define count(name)      count_add(name, 1)
#define count_read(name) atomic_load_explicit(&counters.name, memory_order_relaxed)

struct counter_info {
    const char *name, *unit, *help;
    const _Atomic uint64_t *value;
};

extern const struct counter_info counter_table[];
extern const unsigned counter_table_len;

#endif
