// SPDX-License-Identifier: Apache-2.0
/* A client of sockets alone, for requests that no library would send. */
#ifndef DLC_TEST_RAW_H
#define DLC_TEST_RAW_H

#include <stddef.h>

#include "base/buf.h"

int raw_connect(const char *address); /* "127.0.0.1:PORT" or a path */
void raw_send(int fd, const void *data, size_t len);
/* Until the other end closes or one answer with Content-Length is whole; its status, or 0 for none.
 * The bytes are in *out (may be NULL). Fails the test after ten seconds of silence. */
int raw_answer(int fd, struct buf *out);
/* Connect, send, answer, close. */
int raw_ask(const char *address, const char *text, struct buf *out);
int raw_ask_n(const char *address, const void *data, size_t len, struct buf *out);
/* All that comes until the other end closes; fails the test after ten seconds of silence. */
void raw_rest(int fd, struct buf *out); /* out may be NULL */

#endif
