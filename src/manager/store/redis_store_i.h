// SPDX-License-Identifier: Apache-2.0
/* The Redis store: documents, locks and events by the scripts of redis_lua.def. */
#ifndef DLC_MANAGER_STORE_REDIS_STORE_I_H
#define DLC_MANAGER_STORE_REDIS_STORE_I_H

#include "manager/store/store_i.h"
#include "net/redis/redis.h"

enum redis_script_id {
#define SCRIPT(name, lua) LUA_##name,
#include "manager/store/redis_lua.def"
#undef SCRIPT
    LUA_COUNT
};

struct redis_store {
    struct store m;
    struct redis *r;
    char *prefix;
    struct redis_script scripts[LUA_COUNT];
};

struct redis_store *redis_store_of(struct store *m);

/* The error for a reply that our own scripts never give. */
int redis_store_odd(struct dlc_err *err);

#endif
