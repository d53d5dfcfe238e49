// SPDX-License-Identifier: Apache-2.0
/*
 * Router: parses a request target into decoded path segments and query pairs, and matches patterns
 * of routes. No input or output.
 *
 * (ROUTER-1) A segment holds neither NUL, '/', control characters nor invalid UTF-8, and is not "."
 *            or "..": a handler can use a parameter as a name.
 * (ROUTER-2) A name is in the query at most once.
 */
#ifndef DLC_NET_ROUTER_I_H
#define DLC_NET_ROUTER_I_H

#include <stdbool.h>
#include <stddef.h>

#include "net/server.h"

#define TARGET_SEGMENTS 16
#define TARGET_PAIRS    32

struct target {
    char *text; /* the memory of all that follows */
    const char *segments[TARGET_SEGMENTS];
    size_t n_segments;
    struct {
        const char *name, *value;
    } pairs[TARGET_PAIRS];
    size_t n_pairs;
};
#define TARGET_INIT                                                                                \
    {                                                                                              \
        0                                                                                          \
    }

/* NULL, or what is wrong with it, for people. In either case release it. */
const char *target_parse(struct target *t, const char *uri);
void target_release(struct target *t);
const char *target_query(const struct target *t, const char *name); /* NULL: not there */

/* "/v1/datasets/{name}": fills params (NULL from the last on). */
bool target_fits(const struct target *t, const char *pattern, const char *params[HTTP_PARAMS]);

#endif
