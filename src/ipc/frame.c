// SPDX-License-Identifier: Apache-2.0
/*
 * Reader and writer of frames. The reader asks the socket for the rest of the header, then for the
 * rest of the text, and never for more. So a descriptor that arrives always belongs to the frame
 * being read, and the blocking calls can be the non-blocking ones with poll() between them.
 */
#include "ipc/frame.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/fork_fds.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

#define MSG_MAGIC DLC_TAG4('d', 'l', 'c', '1')

struct msg_header {
    uint32_t magic, length, fds, reserved;
};
static_assert(sizeof(struct msg_header) == 16, "the frame header is a format");

struct msg_frame {
    struct buf bytes;
    int fds[MSG_FDS];
    unsigned n_fds;
    bool borrowed; /* the descriptors are the caller's */
};

union fd_control {
    struct cmsghdr align;
    char space[CMSG_SPACE(MSG_FDS * sizeof(int))];
};

static void close_all(int *fds, unsigned *n)
{
    for (unsigned i = 0; i < *n; i++)
        os_close(&fds[i]);
    *n = 0;
}

void msg_release(struct msg *m)
{
    json_decref(m->body);
    m->body = NULL;
    close_all(m->fds, &m->n_fds);
}

int msg_take_fd(struct msg *m, unsigned i)
{
    int fd;

    if (i >= m->n_fds)
        return -1;
    fd = m->fds[i];
    m->fds[i] = -1;
    return fd;
}

/* ---- receiving ---- */

static void give_up_fds(struct msg_reader *r, int *fds, unsigned *n)
{
    if (r->close_fds != NULL && *n > 0)
        r->close_fds(r, fds, n);
    else
        close_all(fds, n);
}

void msg_reader_release(struct msg_reader *r)
{
    buf_release(&r->in);
    give_up_fds(r, r->fds, &r->n_fds);
}

/* Keep the descriptors of one control message; true if there was room for all of them. */
static bool keep_fds(struct msg_reader *r, const struct cmsghdr *c)
{
    unsigned n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    bool room = true;

    for (unsigned i = 0; i < n; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
        if (r->n_fds < MSG_FDS) {
            r->fds[r->n_fds++] = fd;
        } else {
            unsigned one = 1;

            give_up_fds(r, &fd, &one);
            room = false;
        }
    }
    return room;
}

/* Have children close what came: before any can be forked. */
static void note_fds(struct msghdr *h)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            fork_fds_add(fd);
        }
    }
}

static int closed(enum msg_failure *why, struct dlc_err *err, size_t partial)
{
    *why = MSG_CLOSED;
    return dlc_err_set(err, DLC_EPROTO, "the other side closed the connection%s",
                       partial > 0 ? " in the middle of a message" : "");
}

/* A call on the socket failed, and the other side has not closed it. */
static int failed(enum msg_failure *why, struct dlc_err *err, const char *what)
{
    int e = errno;

    *why = MSG_NONSENSE;
    if (e != ENOMEM && e != ENOBUFS && e != EMFILE && e != ENFILE && e != ETOOMANYREFS)
        return dlc_err_sys(err, "%s", what);
    *why = MSG_SHORTAGE;
    return dlc_err_set(err, DLC_EBUSY, "%s: %s: raise the limit on %s, or try again later", what,
                       strerror(e),
                       e == ENOMEM || e == ENOBUFS ? "memory" : "open files (ulimit -n)");
}

/* Read up to `want` bytes and whatever descriptors come along. 1: some came, 0: nothing there. */
static int receive(struct msg_reader *r, int sock, size_t want, struct dlc_err *err)
{
    union msg_control control;
    struct iovec iov;
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    bool room = true;
    ssize_t n;

    want = DLC_MIN(want, (size_t)65536);
    buf_reserve(&r->in, want);
    iov = (struct iovec){r->in.data + r->in.len, want};
    if (r->keep_from_children)
        fork_fds_lock();
    n = os_recvmsg(sock, &h, MSG_DONTWAIT);
    if (r->keep_from_children) {
        if (n > 0)
            note_fds(&h);
        fork_fds_unlock();
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return closed(&r->failure, err, r->in.len);
    if (n < 0)
        return failed(&r->failure, err, "cannot read from the socket");
    r->in.len += (size_t)n;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c != NULL; c = CMSG_NXTHDR(&h, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            room = keep_fds(r, c) && room;
    /* All that can come fits into `control`: what was cut off is for want of descriptors. */
    if ((h.msg_flags & MSG_CTRUNC) != 0 && r->n_fds < MSG_FDS)
        r->fds_lost = true;
    else if (!room || (h.msg_flags & MSG_CTRUNC) != 0)
        return dlc_err_set(err, DLC_EPROTO, "a message carries more than %d descriptors", MSG_FDS);
    return 1;
}

static int check_header(const struct msg_header *h, struct dlc_err *err)
{
    if (h->magic != MSG_MAGIC)
        return dlc_err_set(err, DLC_EPROTO, "the other side does not speak this protocol");
    if (h->length == 0 || h->length > MSG_MAX)
        return dlc_err_set(err, DLC_EPROTO, "a message of %u bytes; 1 to %u are allowed", h->length,
                           MSG_MAX);
    if (h->fds > MSG_FDS)
        return dlc_err_set(err, DLC_EPROTO, "a message promises %u descriptors; %d are allowed",
                           h->fds, MSG_FDS);
    return 0;
}

/* The whole frame is in r->in: make the message of it. */
static int finish(struct msg_reader *r, const struct msg_header *h, struct msg *out,
                  struct dlc_err *err)
{
    json_error_t je;
    json_t *body;

    if (r->fds_lost)
        give_up_fds(r, r->fds, &r->n_fds);
    else if (h->fds != r->n_fds)
        return dlc_err_set(err, DLC_EPROTO, "a message promises %u descriptors and brings %u",
                           h->fds, r->n_fds);
    body = json_loadb(r->in.data + sizeof(*h), h->length, JSON_REJECT_DUPLICATES, &je);
    if (body == NULL)
        return dlc_err_set(err, DLC_EPROTO, "a message is not JSON: %s", je.text);
    if (!json_is_object(body)) {
        json_decref(body);
        return dlc_err_set(err, DLC_EPROTO, "a message is not a JSON object");
    }
    *out = (struct msg)MSG_INIT;
    out->body = body;
    out->n_fds = r->n_fds;
    out->fds_lost = r->fds_lost;
    r->fds_lost = false;
    memcpy(out->fds, r->fds, r->n_fds * sizeof(int));
    r->n_fds = 0;
    buf_clear(&r->in);
    return 1;
}

int msg_reader_next(struct msg_reader *r, int sock, struct msg *out, struct dlc_err *err)
{
    struct msg_header h;
    int rc;

    r->failure = MSG_NONSENSE;
    for (;;) {
        size_t whole = sizeof(h);

        if (r->in.len >= sizeof(h)) {
            memcpy(&h, r->in.data, sizeof(h));
            rc = check_header(&h, err);
            if (rc < 0)
                break;
            whole += h.length;
        }
        if (r->in.len == whole) {
            rc = finish(r, &h, out, err);
            break;
        }
        rc = receive(r, sock, whole - r->in.len, err);
        if (rc <= 0)
            break;
    }
    if (rc < 0 && r->failure != MSG_SHORTAGE)
        msg_reader_release(r);
    return rc;
}

/* Wait until the socket is ready for `events`. */
static int wait_for(int sock, short events, struct dlc_dur timeout, struct dlc_err *err)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), timeout);
    struct pollfd p = {.fd = sock, .events = (short)(events | POLLRDHUP)};
    enum msg_failure why;
    char text[24];

    for (;;) {
        int64_t ns = timeout.ns < 0 ? INT64_MAX : dlc_mono_sub(end, dlc_mono_now()).ns;
        int64_t most = interrupt_may_come() ? INTERRUPT_EVERY.ns : DLC_SEC(3600).ns;
        int n = os_poll(&p, 1, (int)((DLC_CLAMP(ns, 0, most) + 999999) / 1000000));

        if (n > 0 && (events & POLLOUT) != 0 && (p.revents & (events | POLLRDHUP)) == POLLRDHUP)
            return closed(&why, err, 1); /* it reads no more, whatever room there may come */
        if (n > 0)
            return 0;
        if (interrupted())
            return interrupt_err(err);
        if (n < 0 && errno != EINTR)
            return dlc_err_sys(err, "cannot wait for the socket");
        if (n == 0 && timeout.ns >= 0 && dlc_mono_sub(end, dlc_mono_now()).ns <= 0)
            return dlc_err_set(err, DLC_ETIMEDOUT, "the other side was silent for %s",
                               str_dur(timeout, text));
    }
}

/* A shortage after which the connection cannot be used any more. */
static int beyond_repair(struct dlc_err *err, const char *what)
{
    dlc_err_prefix(err, "%s", what);
    if (err != NULL)
        err->code = DLC_EIO;
    return DLC_EIO;
}

int msg_recv(int sock, struct msg *out, struct dlc_dur timeout, struct dlc_err *err)
{
    struct msg_reader r = MSG_READER_INIT;
    int rc;

    r.keep_from_children = true;
    do
        rc = msg_reader_next(&r, sock, out, err);
    while (rc == 0 && (rc = wait_for(sock, POLLIN, timeout, err)) == 0);
    if (rc == DLC_EBUSY) /* it is still to come: who asks again would get it for an answer */
        rc = beyond_repair(err, "an answer is lost");
    msg_reader_release(&r);
    if (rc == 1 && out->fds_lost) {
        msg_release(out);
        rc = dlc_err_set(err, DLC_EBUSY,
                         "this process has no descriptor left for those that came with a message: "
                         "raise its limit on open files (ulimit -n)");
    }
    return rc < 0 ? rc : 0;
}

/* ---- sending ---- */

static void frame_release(struct msg_frame *f)
{
    buf_release(&f->bytes);
    if (!f->borrowed)
        close_all(f->fds, &f->n_fds);
    f->n_fds = 0;
}

void msg_writer_release(struct msg_writer *w)
{
    for (unsigned i = 0; i < w->n; i++)
        frame_release(&w->frames[i]);
    mem_free(&w->frames);
    *w = (struct msg_writer)MSG_WRITER_INIT;
}

static int frame_init(struct msg_frame *f, const json_t *body, const int *fds, unsigned n_fds,
                      struct dlc_err *err)
{
    struct msg_header h = {MSG_MAGIC, 0, n_fds, 0};
    size_t n = json_dumpb(body, NULL, 0, JSON_COMPACT);

    *f = (struct msg_frame){.bytes = BUF_INIT, .n_fds = n_fds, .borrowed = true};
    if (n == 0 || n > MSG_MAX)
        return dlc_err_set(err, DLC_EINVAL, "a message of %zu bytes; 1 to %u are allowed", n,
                           MSG_MAX);
    h.length = (uint32_t)n;
    buf_add(&f->bytes, &h, sizeof(h));
    buf_reserve(&f->bytes, n);
    json_dumpb(body, f->bytes.data + f->bytes.len, n, JSON_COMPACT);
    f->bytes.len += n;
    for (unsigned i = 0; i < n_fds; i++)
        f->fds[i] = fds[i];
    return 0;
}

/* Duplicate the descriptors of a frame that has to wait. */
static int keep_frame(struct msg_frame *f, enum msg_failure *why, struct dlc_err *err)
{
    unsigned n = f->n_fds;
    int given[MSG_FDS];

    memcpy(given, f->fds, sizeof(given));
    f->n_fds = 0;
    f->borrowed = false;
    while (f->n_fds < n) {
        int fd = os_dup(given[f->n_fds]);

        if (fd < 0)
            return failed(why, err, "cannot send a descriptor");
        f->fds[f->n_fds++] = fd;
    }
    return 0;
}

/* Send what the socket takes of frame f, of which *sent bytes are gone. 1: some went, 0: the socket
 * is full. */
static int transmit(struct msg_frame *f, size_t *sent, int sock, enum msg_failure *why,
                    struct dlc_err *err)
{
    struct iovec iov = {f->bytes.data + *sent, f->bytes.len - *sent};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    union fd_control control = {.space = {0}};
    ssize_t n;

    if (f->n_fds > 0) {
        struct cmsghdr *c = &control.align;

        h.msg_control = &control;
        h.msg_controllen = CMSG_SPACE(f->n_fds * sizeof(int));
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(f->n_fds * sizeof(int)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), f->fds, f->n_fds * sizeof(int));
    }
    n = os_sendmsg(sock, &h, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return closed(why, err, *sent);
    if (n < 0)
        return failed(why, err, "cannot write to the socket");
    if (!f->borrowed)
        close_all(f->fds, &f->n_fds);
    f->n_fds = 0; /* they went with the first byte */
    *sent += (size_t)n;
    return 1;
}

int msg_writer_add(struct msg_writer *w, int sock, const json_t *body, const int *fds,
                   unsigned n_fds, struct dlc_err *err)
{
    struct msg_frame f;
    size_t sent = 0;
    int rc;

    dlc_check(n_fds <= MSG_FDS && json_is_object(body));
    w->failure = MSG_NONSENSE;
    rc = frame_init(&f, body, fds, n_fds, err);
    if (rc == 0 && n_fds > 0 && w->n == 0)
        rc = transmit(&f, &sent, sock, &w->failure, err);
    if (rc >= 0)
        rc = keep_frame(&f, &w->failure, err);
    if (rc < 0 || sent == f.bytes.len) {
        frame_release(&f);
        return rc;
    }
    mem_reserve(w->frames, w->n, w->cap);
    w->frames[w->n++] = f;
    w->waiting += f.bytes.len - sent;
    if (sent > 0)
        w->sent = sent;
    return 0;
}

int msg_writer_flush(struct msg_writer *w, int sock, struct dlc_err *err)
{
    unsigned done = 0;
    int rc = 1;

    while (done < w->n && rc > 0) {
        size_t before = w->sent;

        rc = transmit(&w->frames[done], &w->sent, sock, &w->failure, err);
        w->waiting -= w->sent - before;
        if (w->sent == w->frames[done].bytes.len) {
            frame_release(&w->frames[done++]);
            w->sent = 0;
        }
    }
    w->n -= done;
    if (done > 0)
        memmove(w->frames, w->frames + done, w->n * sizeof(*w->frames));
    return rc;
}

int msg_send(int sock, const json_t *body, const int *fds, unsigned n_fds, struct dlc_err *err)
{
    struct msg_writer w = MSG_WRITER_INIT;
    int rc = msg_writer_add(&w, sock, body, fds, n_fds, err);
    bool begun = rc == 0 && w.sent > 0;

    while (rc == 0) {
        rc = msg_writer_flush(&w, sock, err);
        begun = begun || w.sent > 0;
        if (rc == 0)
            rc = wait_for(sock, POLLOUT, MSG_SEND_TIMEOUT, err);
    }
    if (rc == DLC_EBUSY && begun) /* no other can follow half a message */
        rc = beyond_repair(err, "a message is cut short");
    msg_writer_release(&w);
    return rc < 0 ? rc : 0;
}

/* ---- text ---- */

json_t *msg_string(const char *s)
{
    size_t len = strlen(s);
    struct buf b = BUF_INIT;
    json_t *j;

    for (size_t i = 0; i < len;) {
        size_t n = 1;

        while (n <= 4 && i + n <= len && !str_is_utf8(s + i, n))
            n++;
        if (n <= 4 && i + n <= len) {
            buf_add(&b, s + i, n);
            i += n;
        } else {
            buf_adds(&b, "\xef\xbf\xbd");
            i++;
        }
    }
    j = json_stringn(buf_str(&b), b.len);
    dlc_check(j != NULL);
    buf_release(&b);
    return j;
}
