// SPDX-License-Identifier: Apache-2.0
/* The credential of this node, which the manager gave it when it joined with a join token:
 * DIR/node.credential, readable by its owner alone. */
#ifndef DLC_CLUSTER_NODE_CREDENTIAL_H
#define DLC_CLUSTER_NODE_CREDENTIAL_H

#include "base/err.h"

/* Gives, NULL: there is none, or it cannot be used (the log says why). Return it with
 * secret_free(). */
char *node_credential_load(const char *dir);
int node_credential_save(const char *dir, const char *credential, struct dlc_err *err);

#endif
