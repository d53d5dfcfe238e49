// SPDX-License-Identifier: Apache-2.0
/*
 * One connection of the gRPC server without its socket: bytes of HTTP/2 in, calls of methods, bytes
 * out. One thread at a time.
 */
#ifndef DLC_OPERATOR_CSI_GRPC_SESSION_I_H
#define DLC_OPERATOR_CSI_GRPC_SESSION_I_H

#include <stdbool.h>
#include <sys/types.h>

#include "operator/csi/grpc_server.h"

struct grpc_session;

struct grpc_session *grpc_session_new(const struct grpc_method *const *tables, void *ctx);
void grpc_session_free(struct grpc_session **sp);
/* Calls the methods whose requests are complete with these bytes. False: this is not HTTP/2. */
bool grpc_session_receive(struct grpc_session *s, const void *data, size_t len);
/* What goes out next, until the next call; its length, 0: nothing, negative: the session failed. */
ssize_t grpc_session_send(struct grpc_session *s, const void **data);
bool grpc_session_is_open(const struct grpc_session *s);

#endif
