// SPDX-License-Identifier: Apache-2.0
/* Whoever can say which node shows a token that is not the manager's own: Kubernetes, where nodes
 * are pods (operator/kube/node_review.h). Such a token lets its node join and does nothing else. */
#ifndef DLC_MANAGER_ROUTES_NODE_REVIEWER_H
#define DLC_MANAGER_ROUTES_NODE_REVIEWER_H

#include "base/err.h"

struct node_reviewer {
    /* X: it may wait for an answer. Gives *node. DLC_EDENIED: it is no node's; other errors: nobody
     * can say now. NULL: tokens of others are not taken. */
    int (*review)(void *arg, const char *token, char **node, struct dlc_err *err);
    void *arg;
};

#endif
