// SPDX-License-Identifier: Apache-2.0
#include "cache/policy/lifecycle.h"

#include "base/check.h"

static void enter(struct life *l, enum life_state state, double now)
{
    l->state = state;
    l->since = now;
}

void life_init(struct life *l, double now)
{
    *l = (struct life){.state = LIFE_PREPARE, .since = now};
}

void life_join(struct life *l, double now)
{
    dlc_check(l->jobs < UINT32_MAX);
    l->jobs++;
    if (l->state == LIFE_COOL_DOWN || l->state == LIFE_INACTIVE)
        enter(l, LIFE_ACTIVE, now);
}

void life_leave(struct life *l, double now)
{
    dlc_check(l->jobs > 0);
    l->jobs--;
    if (l->jobs == 0 && l->state == LIFE_ACTIVE)
        enter(l, LIFE_COOL_DOWN, now);
}

void life_ready(struct life *l, double now)
{
    dlc_check(l->state == LIFE_PREPARE);
    enter(l, l->jobs > 0 ? LIFE_ACTIVE : LIFE_COOL_DOWN, now);
}

bool life_tick(struct life *l, double now, double cool_down)
{
    if (l->state != LIFE_COOL_DOWN || now - l->since < cool_down)
        return false;
    enter(l, LIFE_INACTIVE, now);
    return true;
}

enum life_state life_of_chunk(const struct life *dataset, bool read)
{
    return dataset->state == LIFE_ACTIVE && !read ? LIFE_PENDING : dataset->state;
}

bool life_evictable(const struct life *l, enum life_pressure pressure)
{
    switch (l->state) {
    case LIFE_PREPARE: break;
    case LIFE_PENDING:
    case LIFE_ACTIVE: return pressure == LIFE_DIRE;
    case LIFE_COOL_DOWN: return pressure != LIFE_CALM;
    case LIFE_INACTIVE: return true;
    }
    return false;
}

const char *life_name(enum life_state state)
{
    static const char *const names[] = {"PREPARE", "ACTIVE", "COOL_DOWN", "INACTIVE", "PENDING"};

    return names[state];
}
