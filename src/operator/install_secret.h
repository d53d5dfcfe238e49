// SPDX-License-Identifier: Apache-2.0
/*
 * The Secret of an installation, so that users need not create one: tokens of the manager, its key,
 * its certificate, the password of its Redis. Pure except for random numbers and the clock.
 *
 * The operator creates it when it starts and the Secret is absent; manager, nodes and Redis mount
 * it, and wait until it exists.
 *
 *     admin.token, node.token   the manager's files of these names
 *     manager.key               DLCACHE_MANAGER_KEY
 *     store                     DLCACHE_STORE: rediss://:PASSWORD@dlcache-redis:6379?ca=...
 *     redis.conf                the password of Redis, and that it speaks TLS and nothing else
 *     redis.crt, redis.key      its certificate
 *     redis-ca.crt              the authority that signed it and nothing else, which managers trust
 *     tls.crt, tls.key          the manager's certificate, for the names of its Services
 *     ca.crt                    the authority that signed it, which nodes and operator trust
 *     ca.key                    its key, which nobody mounts
 *
 * (INSTALL-SECRET-1) Existing members are never changed. A member that was removed is created
 *                    again.
 * (INSTALL-SECRET-2) store and redis.conf are created together; if there is a store already, its
 *                    Redis is not ours.
 * (INSTALL-SECRET-3) ca.crt, tls.crt and tls.key belong together: if one is missing, the certificate
 *                    is made anew. ca.crt and ca.key are kept if both are there and match; ca.key
 *                    alone may be removed.
 * (INSTALL-SECRET-4) redis-ca.crt, redis.crt and redis.key are made together, of an authority whose
 *                    key is not kept. ca.crt may be of an authority of the user.
 */
#ifndef DLC_OPERATOR_INSTALL_SECRET_H
#define DLC_OPERATOR_INSTALL_SECRET_H

#include <jansson.h>

#include "operator/webhook/certs.h"

#define MANAGER_SECRET "dlcache-manager"

/*
 * `have`: the Secret, or NULL. Gives NULL when it has all; otherwise the whole Secret to create
 * (have == NULL), or a merge patch with what is missing, for the version that was seen.
 */
json_t *bootstrap_secret(const char *ns, const json_t *have);

/* The text of one of its keys; gives, NULL when it is not there. Wipe it with secret_free(). */
char *bootstrap_text(const json_t *secret, const char *key);

/* The members ca.crt, ca.key, tls.crt and tls.key of a Secret (NULL: there is none). Gives;
 * certs_release(). And back, as texts. */
void bootstrap_certs(const json_t *secret, struct certs *out);
void bootstrap_put_certs(json_t *texts, const struct certs *c);

#endif
