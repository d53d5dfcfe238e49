// SPDX-License-Identifier: Apache-2.0
/*
 * Which datasets a node may open in its own name, that is without the token of a program. The token
 * of nodes alone opens nothing: it is on every machine.
 *
 * (NODE-ACCESS-1) The asker is a process that has joined: it shows its node's name and the number
 *                 of its run (`instance`), which only it and the manager know. Its certificate, if
 *                 the connection has one, names the same node.
 * (NODE-ACCESS-2) It may open a dataset that
 *                   - belongs to no tenant (any token may), or
 *                   - is placed on it; a dataset that names no nodes is placed on all, and one
 *                     whose nodes are all away is owned by all until they are back (PLACE-2), or
 *                   - it was sent a command to fetch or list, which is not done yet, or
 *                   - a program on it has open: it shows the SHA-256 of that program's token, which
 *                     must still open the dataset. So credentials are renewed on a node that only
 *                     reads.
 */
#ifndef DLC_MANAGER_ROUTES_NODE_ACCESS_H
#define DLC_MANAGER_ROUTES_NODE_ACCESS_H

#include "base/err.h"
#include "manager/store/store.h"

struct api;

struct node_asker {
    const char *name, *instance; /* NULL: not said */
    const char *certificate;     /* the node that its certificate or token names; NULL: none does */
    const char *session;         /* SHA-256 of a program's token, in hexadecimal; or NULL */
};

/* 0: the process is that node. DLC_EDENIED: it is not; DLC_EBUSY: it has yet to join; or the
 * store's error. Gives *node on success. */
int node_access_identify(struct api *api, const struct node_asker *who, struct store_doc *node,
                         struct dlc_err *err);
/* 0: the node may open the dataset in its own name. DLC_EDENIED: it may not; or as above. */
int node_access_check(struct api *api, const struct node_asker *who,
                      const struct store_doc *dataset, struct dlc_err *err);

#endif
