// SPDX-License-Identifier: Apache-2.0
/*
 * gRPC over a unix socket, for the kubelet: unary calls, no compression, HTTP/2 by libnghttp2.
 *
 * (GRPC-1) A thread per connection, GRPC_CONNECTIONS at most; calls of one connection run one after
 *          the other. The socket is its owner's alone (0600).
 * (GRPC-2) A message is at most GRPC_MESSAGE_MAX bytes, GRPC_STREAMS calls are open at a time.
 * (GRPC-3) grpc_server_stop() waits for calls that run; no call begins after it.
 */
#ifndef DLC_OPERATOR_CSI_GRPC_SERVER_H
#define DLC_OPERATOR_CSI_GRPC_SERVER_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define GRPC_MESSAGE_MAX (1u << 20)
#define GRPC_STREAMS     64
#define GRPC_CONNECTIONS 16

/* Status codes of gRPC that a handler returns; others are the server's own. */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

/* Any thread, several at once. Adds the answer to `out`, or fails with the text of err. */
typedef enum grpc_status grpc_call_f(void *ctx, const void *request, size_t len, struct buf *out,
                                     struct dlc_err *err);

struct grpc_method {
    const char *path; /* "/csi.v1.Identity/Probe"; the last one has NULL */
    grpc_call_f *call;
};

struct grpc_server;

/* tables (which ends with NULL), methods and ctx are borrowed. A socket that nobody answers at is replaced. */
int grpc_server_start(const char *path, const struct grpc_method *const *tables, void *ctx,
                      struct grpc_server **out, struct dlc_err *err);
void grpc_server_stop(struct grpc_server **sp); /* removes the socket */

#endif
