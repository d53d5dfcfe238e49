// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the manager which dataset a name or URL stands for, whether the holder of a token may read
 * it, and whose a token is.
 */
#ifndef DLC_CLUSTER_ACCESS_H
#define DLC_CLUSTER_ACCESS_H

#include "base/clock.h"
#include "daemon/cluster_ops.h"

struct dataset;
struct node;

/* As cluster_ops.h says; that is how the daemon calls them. */
void resolve(struct node *n, const char *token, const char *what, const char *endpoint,
             struct dlc_dur life, resolve_f *done, void *arg);
/*
 * As resolve(), for a client of the peer server: anybody who reaches its port. Its questions are
 * few at a time and asked last, so that strangers do not keep programs waiting; a token that the
 * manager has refused is not asked about again for a while.
 */
void resolve_for_stranger(struct node *n, const char *token, const char *what, struct dlc_dur life,
                          resolve_f *done, void *arg);
void identify(struct node *n, const char *token, identify_f *done, void *arg);
void resolve_again(struct dataset *ds, struct credential_retry *a);

#endif
