// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP server of a daemon for programs that are not ours: Prometheus and browsers
 * (docs/design/0025).
 *
 *     GET /metrics       OpenMetrics, or Prometheus text: gateway/metrics.h
 *     GET /v1/figures    the same snapshot as JSON: gateway/figures_json.h
 *     GET /v1/stream     the same each second, as server-sent events
 *     GET /              the page: gateway/page.h
 *
 *     cli --> gateway --> daemon/figures (the loop takes a snapshot)
 *
 * (GATEWAY-4) The loop is asked for a snapshot and for the owner of a token, nothing else. It never
 *             waits for a client: rendering and sending are on the server's threads.
 * (GATEWAY-5) Figures go to the daemon's own user and root, through the Unix socket or from this
 *             machine's loopback address, and to who shows a token; on a node of a cluster only to
 *             a token. A token of a tenant shows what is the tenant's. The page itself has no
 *             figures: anybody may load it.
 * (GATEWAY-6) Who is known by the address alone names this machine in the Host header, so that no
 *             other web site can read figures through a browser here (DNS rebinding).
 * (GATEWAY-7) Connections, streams and the life of a stream have bounds. A scraper that does not
 *             read costs a thread for a while, and nobody else anything.
 */
#ifndef DLC_GATEWAY_GATEWAY_H
#define DLC_GATEWAY_GATEWAY_H

struct node_gateway;

extern const struct node_gateway gateway_ops; /* for node_start.gateway */

#endif
