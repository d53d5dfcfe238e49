// SPDX-License-Identifier: Apache-2.0
/* The path of a request to a peer: the protocol is described at the top of peer_client.h. */
#ifndef DLC_CLUSTER_PEER_PEER_URL_H
#define DLC_CLUSTER_PEER_PEER_URL_H

struct buf;
struct peer_read;

void peer_url_add(const struct peer_read *r, struct buf *url);

#endif
