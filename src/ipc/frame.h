// SPDX-License-Identifier: Apache-2.0
/*
 * Messages over the daemon's Unix socket: a JSON object and up to MSG_FDS descriptors, in a frame
 *
 *     magic:4  length:4  fds:4  reserved:4  JSON text of `length` bytes
 *
 * with numbers in the machine's own order. All descriptors travel with the first byte of the frame.
 * Used for rare messages (attach, commands); samples go through shared memory.
 * docs/format/protocol.md lists the messages.
 *
 * Both sides treat received bytes as hostile: length and nesting are bounded, memory grows with the
 * bytes that arrived and not with the announced length, and unexpected descriptors are closed: by
 * the reader, or where that may not wait (the daemon's loop) by msg_reader.close_fds.
 */
#ifndef DLC_IPC_FRAME_H
#define DLC_IPC_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#define MSG_MAX (4u << 20)
#define MSG_FDS 8

/* Room for all descriptors that one message can carry (the kernel's SCM_MAX_FD): what does not fit
 * the kernel closes on the thread that receives, and that may wait. */
#define MSG_FDS_RECEIVED 253
union msg_control {
    struct cmsghdr align;
    char space[CMSG_SPACE(MSG_FDS_RECEIVED * sizeof(int))];
};

struct msg {
    json_t *body;
    int fds[MSG_FDS];
    unsigned n_fds;
    bool fds_lost; /* this process had no descriptor left for those that came along: it has none */
};

#define MSG_INIT                                                                                   \
    {                                                                                              \
        NULL, {-1, -1, -1, -1, -1, -1, -1, -1}, 0, false                                           \
    }

/* Why a reader or a writer failed. */
enum msg_failure {
    MSG_NONSENSE, /* the other side breaks the rules */
    MSG_CLOSED,   /* it has closed the connection */
    MSG_SHORTAGE, /* memory or descriptors ran out: nothing was lost, try again later */
};

void msg_release(struct msg *m); /* drops the body and closes the descriptors */

/* Descriptor i, which the caller now owns; -1 when there is none. */
int msg_take_fd(struct msg *m, unsigned i);

/*
 * Blocking, for clients. msg_recv gives up (DLC_ETIMEDOUT) after `timeout` in which no byte came;
 * a negative timeout waits for ever. msg_send gives up after MSG_SEND_TIMEOUT in which no byte
 * went. DLC_EPROTO: nonsense or closed. DLC_EBUSY: memory or descriptors ran out; msg_send has sent
 * nothing then, and msg_recv has taken the message, so that the next one can be sent. msg_recv
 * never reads past the message it gives. Borrows: fds.   Gives: *out, which was MSG_INIT; return it
 * with msg_release(); its descriptors are not inherited by children (base/fork_fds.h).
 */
#define MSG_SEND_TIMEOUT DLC_SEC(30)
int msg_send(int sock, const json_t *body, const int *fds, unsigned n_fds, struct dlc_err *err);
int msg_recv(int sock, struct msg *out, struct dlc_dur timeout, struct dlc_err *err);

/* Non-blocking, for the daemon: bytes come in pieces. */
struct msg_reader {
    struct buf in;
    int fds[MSG_FDS];
    unsigned n_fds;
    bool fds_lost;
    enum msg_failure failure;
    bool keep_from_children; /* descriptors are those of base/fork_fds.h */
    /* Closes descriptors that nobody will have, and sets *n to 0; NULL: they are closed at once. */
    void (*close_fds)(struct msg_reader *r, int *fds, unsigned *n);
};
#define MSG_READER_INIT                                                                            \
    {                                                                                              \
        BUF_INIT, {-1, -1, -1, -1, -1, -1, -1, -1}, 0, false, MSG_NONSENSE, false, NULL            \
    }
/* Read the available bytes. 1: *out is a whole message; 0: not yet; negative: `failure` says why.
 */
int msg_reader_next(struct msg_reader *r, int sock, struct msg *out, struct dlc_err *err);
void msg_reader_release(struct msg_reader *r);

/*
 * Non-blocking, for the daemon: messages wait here until the socket takes them. msg_writer_add
 * borrows fds: it sends them at once if it can and keeps duplicates otherwise. When it fails, the
 * message will not be sent, and those before it will. msg_writer_flush: 1 when nothing waits any
 * more, 0 when the socket is full (try again when it is writable), negative: `failure` says why.
 */
struct msg_writer {
    struct msg_frame *frames;
    unsigned n, cap;
    size_t sent;    /* bytes of frames[0] that are gone */
    size_t waiting; /* bytes of all frames: a peer that does not read can be dropped */
    enum msg_failure failure;
};
#define MSG_WRITER_INIT                                                                            \
    {                                                                                              \
        NULL, 0, 0, 0, 0, MSG_NONSENSE                                                             \
    }
int msg_writer_add(struct msg_writer *w, int sock, const json_t *body, const int *fds,
                   unsigned n_fds, struct dlc_err *err);
int msg_writer_flush(struct msg_writer *w, int sock, struct dlc_err *err);
void msg_writer_release(struct msg_writer *w);

/* A text that JSON can carry: bytes that are not UTF-8 become U+FFFD. Gives. */
json_t *msg_string(const char *s);

#endif
