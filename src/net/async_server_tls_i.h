// SPDX-License-Identifier: Apache-2.0
/*
 * TLS of one connection of the asynchronous server: OpenSSL between the connection and its socket.
 * Nothing blocks. Both sides show a certificate; TLS 1.3 only.
 *
 * What is encrypted goes to a buffer first and from there to the socket, so that a turn costs one
 * system call and not one per record. A caller is done when async_tls_unsent() is 0.
 *
 * (TLS-SERVER-1) No byte comes from async_tls_receive() before the client has shown a certificate
 *                of a trusted authority.
 * (TLS-SERVER-2) A connection holds at most OUT_MAX bytes of encrypted text, and a record.
 */
#ifndef DLC_NET_ASYNC_SERVER_TLS_I_H
#define DLC_NET_ASYNC_SERVER_TLS_I_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"
#include "net/tls_identity.h"

struct async_tls;
struct ssl_ctx_st;

/* What connections begin with. Gives *out: async_tls_context_put(). */
int async_tls_context_new(const struct tls_identity *id, struct ssl_ctx_st **out,
                          struct dlc_err *err);
void async_tls_context_put(struct ssl_ctx_st **cp);

/* fd stays the caller's. NULL: no memory. */
struct async_tls *async_tls_new(struct ssl_ctx_st *context, int fd);
void async_tls_free(struct async_tls **tp);

/* As recv() and sendmsg() without waiting: bytes, 0 at the end of input, or -1 and errno. What was
 * sent was accepted; it may still be in the buffer. Without anything to send it empties the buffer.
 */
ssize_t async_tls_receive(struct async_tls *t, void *to, size_t most);
ssize_t async_tls_send(struct async_tls *t, const struct iovec *iov, size_t n);
size_t async_tls_unsent(const struct async_tls *t);    /* bytes in the buffer */
uint64_t async_tls_written(const struct async_tls *t); /* bytes that the socket took so far */
/* There may be input that the socket does not report: receive again before waiting for it. */
bool async_tls_has_input(const struct async_tls *t);
bool async_tls_is_open(const struct async_tls *t); /* the client has shown its certificate */
bool async_tls_began(const struct async_tls *t);   /* the client has sent something */
void async_tls_end(struct async_tls *t);           /* tell the client that no more comes */

const char *async_tls_node(const struct async_tls *t);    /* the client's name; "": not known */
uint32_t async_tls_generation(const struct async_tls *t); /* of its certificate */
/* The client's certificate has expired since. */
bool async_tls_is_expired(const struct async_tls *t);

#endif
