// SPDX-License-Identifier: Apache-2.0
/*
 * Messages over the daemon's Unix socket: a JSON object and up to MSG_FDS descriptors, in a frame
 * of magic:4  length:4  fds:4  reserved:4  JSON text The first descriptor travels with the first
 * byte of the frame. Used for what is rare (attach, control); samples go through shared memory.
 * Both sides treat what they receive as hostile: length is bounded, and descriptors that nobody
 * asked for are closed.
 */
#ifndef DLC_BASE_MSG_H
#define DLC_BASE_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#define MSG_MAX (4u << 20)
#define MSG_FDS 8

struct msg {
    json_t *body;
    int fds[MSG_FDS];
    unsigned n_fds;
};

#define MSG_INIT                                                                                   \
    {                                                                                              \
        NULL, {-1, -1, -1, -1, -1, -1, -1, -1}, 0                                                  \
    }

void msg_release(struct msg *m); /* drops the body and closes the descriptors */

/* Descriptor i, which the caller now owns; -1 when there is none. */
int msg_take_fd(struct msg *m, unsigned i);

/* Blocking, for clients. Both give up after `timeout` without progress. DLC_EPROTO: nonsense or
 * closed. */
int msg_send(int sock, const json_t *body, const int *fds, unsigned n_fds, struct dlc_err *err);
int msg_recv(int sock, struct msg *out, struct dlc_dur timeout, struct dlc_err *err);

/* Non-blocking, for the daemon: bytes come in pieces. */
struct msg_reader {
    struct buf in;
    int fds[MSG_FDS];
    unsigned n_fds;
};
#define MSG_READER_INIT                                                                            \
    {                                                                                              \
        BUF_INIT, {-1, -1, -1, -1, -1, -1, -1, -1}, 0                                              \
    }
/* Read what is there. 1: *out is a whole message; 0: not yet; negative: closed or nonsense. */
int msg_reader_next(struct msg_reader *r, int sock, struct msg *out, struct dlc_err *err);
void msg_reader_release(struct msg_reader *r);

/* A text that JSON can carry: invalid UTF-8 is replaced. Gives. */
json_t *msg_string(const char *s);

#endif
