// SPDX-License-Identifier: Apache-2.0
/* Certificates of a cluster for tests: the real authority, on a store of its own. */
#ifndef DLC_TEST_CLUSTER_CERTS_H
#define DLC_TEST_CLUSTER_CERTS_H

#include "base/clock.h"
#include "net/tls_identity.h"

/* The identity of a node, as the authority of this cluster signs it. Fails the test if it cannot.
 */
struct tls_identity *cluster_cert(const char *cluster, const char *node, struct dlc_dur life);

#endif
