// SPDX-License-Identifier: Apache-2.0
/*
 * Which node of Kubernetes is somebody who shows a token of its pod's service account?
 *
 * The kubelet gives each pod of the DaemonSet a token of its own (a projected volume, audience
 * NODE_REVIEW_AUDIENCE), which names the pod. The API server says whether it is genuine
 * (TokenReview), and on which node that pod runs. Nobody but the API server's scheduler chooses
 * that node, so a pod, or whoever took its token, can join under no other name.
 *
 * (NODE-REVIEW-1) A node is named only if the API server has said all of: the token is genuine and
 *                 for our audience; it is of the one service account; the pod of the name and uid
 *                 in it exists, is of that account, is not being deleted, and is bound to that node.
 * (NODE-REVIEW-2) Strangers can send any text as a token: one question is under way at a time, and
 *                 at most NODE_REVIEW_WAITING callers wait. Others get DLC_EBUSY.
 */
#ifndef DLC_OPERATOR_KUBE_NODE_REVIEW_H
#define DLC_OPERATOR_KUBE_NODE_REVIEW_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "operator/kube/kube_config.h"

#define NODE_REVIEW_AUDIENCE "dlcache"
#define NODE_REVIEW_WAITING  16

struct node_review;

/* account: "NAMESPACE/NAME". Borrows config until node_review_free(). Gives *out, NULL on failure. */
int node_review_new(const struct kube_config *config, const char *account, struct node_review **out,
                    struct dlc_err *err);
void node_review_free(struct node_review **rp);

/* X. Gives *node. DLC_EDENIED: it is not such a token. DLC_EBUSY, DLC_EBUCKET: nobody can say now. */
int node_review_ask(struct node_review *r, const char *token, char **node, struct dlc_err *err);

/* The pod that the answer to a TokenReview names, with its uid; both borrowed from `review`. Pure. */
int node_review_pod(const json_t *review, const char *ns, const char *account, const char **pod,
                    const char **uid, struct dlc_err *err);
/* The node of that pod, borrowed from it. Pure. */
int node_review_node(const json_t *pod, const char *account, const char *uid, const char **node,
                     struct dlc_err *err);

#endif
