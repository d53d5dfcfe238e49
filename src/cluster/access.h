// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the manager which dataset a name or URL stands for, and whether the holder of a token may
 * read it.
 */
#ifndef DLC_CLUSTER_ACCESS_H
#define DLC_CLUSTER_ACCESS_H

#include <stdbool.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/list.h"

struct conn;
struct dataset;
struct dlc_err;
struct grant;
struct node;

typedef void resolve_f(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg);
/* Which dataset is it, and may the holder of the token (NULL: we ourselves) read it? `what`: its
 * URL (dlcache://NAME, or that of its bucket). An answer younger than `life` will do. done() may be
 * called before this returns. */
void resolve(struct node *n, const char *token, const char *what, const char *endpoint,
             struct dlc_dur life, resolve_f *done, void *arg);
/* The bucket refuses what the dataset is read with: perhaps the manager has other credentials by
 * now. done() is called with whether it has, perhaps before this returns. */
struct credential_retry {
    struct dlc_list link;
    void (*done)(struct credential_retry *a, bool changed);
};
void resolve_again(struct dataset *ds, struct credential_retry *a);
/* A client wants to open something: asks the manager where that is needed. */
void resolve_open(struct conn *c, const json_t *body);

#endif
