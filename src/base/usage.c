// SPDX-License-Identifier: Apache-2.0
#include "base/usage.h"

#include <string.h>

#include "base/check.h"

#define MOST (UINT64_C(1) << 53)

const char *usage_name(enum usage_counter c)
{
    static const char *const names[USAGE_COUNTERS] = {
#define USAGE(name, help) #name,
#include "base/tbl/usage.def"
#undef USAGE
    };

    return names[c];
}

void usage_add(struct usage *sum, const struct usage *more)
{
    for (int i = 0; i < USAGE_COUNTERS; i++)
        sum->n[i] = DLC_MIN(sum->n[i] + DLC_MIN(more->n[i], MOST), MOST);
}

bool usage_is_zero(const struct usage *u)
{
    for (int i = 0; i < USAGE_COUNTERS; i++)
        if (u->n[i] != 0)
            return false;
    return true;
}

json_t *usage_json(const struct usage *u)
{
    json_t *o = json_object();

    for (int i = 0; i < USAGE_COUNTERS; i++)
        if (u->n[i] != 0)
            json_object_set_new(o, usage_name(i), json_integer((json_int_t)u->n[i]));
    return o;
}

void usage_of_json(struct usage *u, const json_t *o)
{
    memset(u, 0, sizeof(*u));
    for (int i = 0; i < USAGE_COUNTERS; i++) {
        json_int_t v = json_integer_value(json_object_get(o, usage_name(i)));

        u->n[i] = v > 0 ? DLC_MIN((uint64_t)v, MOST) : 0;
    }
}
