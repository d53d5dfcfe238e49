// SPDX-License-Identifier: Apache-2.0
/*
 * Admission webhook for plain pods, without a DLTPod: an AdmissionReview (admission.k8s.io/v1) in,
 * an AdmissionReview out, with a JSON patch if the pod asks for a dataset. Pure.
 *
 *     metadata.annotations["dlcache.io/dataset"], else metadata.labels[...]: a CachedDataset's name
 *
 * Every container, init containers too, gets the directory with the node's socket (read-only) and
 * the tenant's token, and DLCACHE_SOCKET, DLCACHE_DATASET and DLCACHE_TOKEN_FILE; the pod goes to
 * nodes with LABEL_NODE.
 *
 * (WEBHOOK-1) The response always allows the pod. Unexpected parts are left unchanged, with a
 *             warning that the user of kubectl sees.
 * (WEBHOOK-2) Nothing of the pod is replaced or removed: a variable or a mount of the same name or
 *             path stays; if a volume has our name, ours gets another.
 * (WEBHOOK-3) A patched pod is left unchanged when it is reviewed again; a container that was added
 *             since gets its part.
 *
 * Not here: the route and TLS (endpoints.c), which pods are sent at all (the
 * MutatingWebhookConfiguration).
 */
#ifndef DLC_OPERATOR_WEBHOOK_WEBHOOK_H
#define DLC_OPERATOR_WEBHOOK_WEBHOOK_H

#include <jansson.h>

#define ANNOTATION_DATASET "dlcache.io/dataset" /* or a label */
#define WEBHOOK_PATH       "/mutate-pods"
#define WEBHOOK_CONTAINERS 128 /* of one pod: more is odd */

enum webhook_outcome {
    WEBHOOK_PATCHED,
    WEBHOOK_ALONE, /* it asks for nothing, or has everything */
    WEBHOOK_ODD,   /* left as it is, with a warning */
    WEBHOOK_OUTCOMES
};
extern const char *const webhook_outcomes[WEBHOOK_OUTCOMES]; /* "patched", ... */

/* Borrows the review, whatever it is (NULL too). Gives the answer; *outcome may be NULL. */
json_t *webhook_review(const json_t *review, enum webhook_outcome *outcome);

#endif
