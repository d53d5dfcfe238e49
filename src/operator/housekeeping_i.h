// SPDX-License-Identifier: Apache-2.0
/* Shared by housekeeping.c, which has the thread, and webhook_cert.c, which has the certificate. */
#ifndef DLC_OPERATOR_HOUSEKEEPING_I_H
#define DLC_OPERATOR_HOUSEKEEPING_I_H

#include "operator/webhook/certs.h"
#include "operator/housekeeping.h"

/*
 * One look at the webhook's certificate: read from its Secret; with `leads` made, renewed and told
 * to the API server; shown by `serve`. Gives *end, when it ends (Unix time).
 */
int housekeeping_tls(struct kube *k, const struct housekeeping_config *c, bool leads, int64_t *end,
                     struct dlc_err *err);

/* The Secret to create, or a merge patch for the one that was. Gives. */
json_t *housekeeping_certs_secret(const char *ns, const struct certs *c, const json_t *was);
/* What is to be applied to a MutatingWebhookConfiguration so that every webhook has this bundle.
 * Gives; NULL: they have it. */
json_t *housekeeping_bundle_patch(const json_t *config, const char *bundle);

#endif
