// SPDX-License-Identifier: Apache-2.0
/*
 * The Secret of an installation, so that nobody has to make one by hand: tokens of the control
 * plane, its key, the password of its Redis. Pure but for random numbers.
 *
 * The operator makes it when it starts and it is absent; manager, nodes and Redis mount it, and
 * wait until it is there.
 *
 *     admin.token, node.token   the manager's files of these names
 *     manager.key               DLCACHE_MANAGER_KEY
 *     store                     DLCACHE_STORE: redis://:PASSWORD@dlcache-redis:6379
 *     redis.conf                "requirepass PASSWORD"
 *
 * (T1) What is there is never changed. A key that was taken out is made anew. (T2) store and
 *      redis.conf are made together; where there is a store already, its Redis is somebody else's.
 */
#ifndef DLC_OPERATOR_INSTALL_SECRET_H
#define DLC_OPERATOR_INSTALL_SECRET_H

#include <jansson.h>

#define MANAGER_SECRET "dlcache-manager"

/*
 * `have`: the Secret, or NULL. Gives NULL when it has all; otherwise the whole Secret to create
 * (have == NULL), or a merge patch with what is missing, for the version that was seen.
 */
json_t *bootstrap_secret(const char *ns, const json_t *have);

/* The text of one of its keys; gives, NULL when it is not there. Wipe it with token_free(). */
char *bootstrap_text(const json_t *secret, const char *key);

#endif
