// SPDX-License-Identifier: Apache-2.0
/*
 * Who asks the gateway, and what they may see: (GATEWAY-5), (GATEWAY-6).
 *
 * What the manager said of a token counts for TOKEN_LIFE; while the manager does not answer, for
 * --manager-grace: figures are needed most when something is away.
 */
#ifndef DLC_GATEWAY_ACCESS_H
#define DLC_GATEWAY_ACCESS_H

#include <stdbool.h>

#include "net/server.h"

struct access;
struct node;

#define ACCESS_TENANT_MAX 256

struct viewer {
    bool all;                       /* everything */
    char tenant[ACCESS_TENANT_MAX]; /* else only of this tenant */
};

struct access *access_new(struct node *n);
/* Our TCP address, in numbers: users of this machine are known by it. Before the first check. */
void access_set_address(struct access *a, const char *address);
void access_end(struct access *a);    /* X: nobody waits any more */
void access_free(struct access **ap); /* no request is under way, and the loop does not run */
/* X: false: *reply says why not. Waits for the manager, a few seconds at most. */
bool access_check(struct access *a, const struct http_request *r, struct viewer *out,
                  struct http_reply *reply);

/* Pure. Does a Host header (NULL: none) name this machine: an address, or localhost? */
bool access_host_is_local(const char *host);

#endif
