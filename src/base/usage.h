// SPDX-License-Identifier: Apache-2.0
/*
 * The counters of accounting (tbl/usage.def): what was used of a dataset, by a job or by nobody's.
 * As JSON an object of those that are not 0. Pure.
 */
#ifndef DLC_BASE_USAGE_H
#define DLC_BASE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

enum usage_counter {
#define USAGE(name, help) USAGE_##name,
#include "base/tbl/usage.def"
#undef USAGE
    USAGE_COUNTERS
};

struct usage {
    uint64_t n[USAGE_COUNTERS];
};

const char *usage_name(enum usage_counter c);
/* Sums end at 2^53, which every JSON parser can represent. */
void usage_add(struct usage *sum, const struct usage *more);
bool usage_is_zero(const struct usage *u);
json_t *usage_json(const struct usage *u);
/* Unknown members, and those that are not whole numbers from 0 on, are left out. */
void usage_of_json(struct usage *u, const json_t *o);

#endif
