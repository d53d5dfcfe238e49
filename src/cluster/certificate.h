// SPDX-License-Identifier: Apache-2.0
/*
 * The certificate of this node (docs/design/0016): asked for with the join, and again at half of
 * its life. The agent's thread asks; any thread uses it.
 *
 *     none --join--> current --half of its life--> due --renewed--> current
 *
 * (CERTIFICATE-1) The private key exists in this process alone, and each certificate has a new one.
 * (CERTIFICATE-2) A node that is to speak TLS never speaks plain HTTP with a peer: before the first
 *                 certificate, and after one has expired, peers do not serve each other.
 */
#ifndef DLC_CLUSTER_CERTIFICATE_H
#define DLC_CLUSTER_CERTIFICATE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/tls_identity.h"

struct certificate;
struct config;
struct manager_client;
struct node_cluster;

/* Gives *out: NULL if the manager is not at https://, which needs no certificate. DLC_EINVAL: the
 * settings contradict each other, or libcurl cannot do it. */
int certificate_new(const struct config *c, const struct node_cluster *m, struct certificate **out,
                    struct dlc_err *err);
void certificate_free(struct certificate **cp);
/* Do peers speak TLS? If not, the log has a warning. c may be NULL. */
bool certificate_for_peers(const struct certificate *c);

/* The agent's thread: adds a request to what the manager is told, with a new key that is kept until
 * its answer. */
int certificate_ask(struct certificate *c, const char *name, json_t *body, struct dlc_err *err);
/* The agent's thread: what the manager answered. Gives *out, one reference. */
int certificate_take(struct certificate *c, const char *name, const json_t *joined,
                     struct tls_identity **out, struct dlc_err *err);
/* The agent's thread: both, for a node that has joined. path: /v1/nodes/NAME. */
int certificate_renew(struct certificate *c, struct manager_client *client, const char *name,
                      const char *path, const char *instance, struct tls_identity **out,
                      struct dlc_err *err);
bool certificate_is_due(const struct certificate *c, struct dlc_mono now);

/* X: gives a reference; NULL: there is none yet. c may be NULL. */
struct tls_identity *certificate_get(struct certificate *c);
json_t *certificate_json(struct certificate *c); /* X: for display. Gives */

#endif
