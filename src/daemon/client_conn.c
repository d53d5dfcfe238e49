// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's socket: accepts connections of permitted users, and sends and receives messages
 * without ever waiting for a client.
 *
 * (CLIENT-CONN-1) A connection is served only if the kernel reports its user as ours, root, or in
 *                 allow-uid.
 * (CLIENT-CONN-2) The socket's directory is ours and no other user can write to it.
 * (CLIENT-CONN-3) A connection object may be freed inside any of its callbacks, and nowhere else.
 *                 Code that needs it later keeps its id.
 * (CLIENT-CONN-4) The daemon may end a connection at any time (invalid messages, a client that does
 *                 not read), but not the client's pins: the client may read those samples, and pin
 *                 others, until it notices. The connection becomes a zombie. It is shut down for
 *                 writing, so that the client notices, and is not served any more. Its session's
 *                 pins count until the client closes its end (the library does so when the last
 *                 view is put) or dies. A process, or a user, with too many zombies cannot open
 *                 more sessions and reads past the cache. Pins of a live client are never dropped.
 * (CLIENT-CONN-5) A shortage of descriptors or memory fails a request, or delays it until the tick.
 *                 It does not end a connection.
 * (CLIENT-CONN-6) The loop does not close descriptors that a client sent, nor the socket that they
 *                 may still lie in: closing can wait for as long as the client likes
 *                 (client_fds.h).
 */
#include "daemon/client_conn.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/socket_dir.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "daemon/client_audit.h"
#include "daemon/client_fds.h"
#include "daemon/client_quota.h"
#include "daemon/daemon.h"
#include "daemon/reserve.h"
#include "daemon/state.h"
#include "base/config.h"
#include "ipc/node_marker.h"

#define CONN_TAG        DLC_TAG4('c', 'o', 'n', 'n')
#define UNREAD_MAX      (8u << 20) /* bytes a client may leave unread before it is dropped */
#define UNREAD_MESSAGES 64u        /* and messages: each may hold descriptors */
#define TURN_MESSAGES   16u        /* taken from one client before the others have their turn */
#define PROCESS_ZOMBIES 16u        /* (CLIENT-CONN-4): that one process may have, */
#define USER_ZOMBIES    256u       /* and all of one user */

static struct conn *conn_of(struct watch *w)
{
    struct conn *c = dlc_container(w, struct conn, watch);

    dlc_check(c->tag == CONN_TAG);
    return c;
}

/* ---- out ---- */

void conn_end_soon(struct conn *c, const char *why)
{
    if (c->closing)
        return;
    c->closing = true;
    c->why = why;
    loop_timer_set(c->node->loop, &c->ender, loop_now(c->node->loop));
}

static void on_ender(struct timer *t)
{
    struct conn *c = dlc_container(t, struct conn, ender);

    dlc_check(c->tag == CONN_TAG);
    conn_end(&c, c->why);
}

/* (CLIENT-CONN-5): leave it alone until the tick. */
static void conn_pause(struct conn *c, const char *what)
{
    node_short(c->node, what);
    c->paused = c->node->pauses = true;
    loop_watch_set(c->node->loop, &c->watch, 0);
}

static void conn_flush(struct conn *c)
{
    int rc = msg_writer_flush(&c->writer, c->watch.fd, NULL);

    if (c->writer.waiting > UNREAD_MAX || c->writer.n > UNREAD_MESSAGES)
        conn_end_soon(c, "it does not read what it asked for");
    if (rc < 0 && c->writer.failure == MSG_SHORTAGE) {
        conn_pause(c, "cannot answer a client");
        return;
    }
    if (rc < 0 && c->writer.failure == MSG_CLOSED)
        msg_writer_release(&c->writer); /* the reader will see that, too, and close */
    else if (rc < 0)
        conn_end_soon(c, "it cannot be written to");
    if (loop_watch_set(c->node->loop, &c->watch, rc == 0 ? EPOLLIN | EPOLLOUT : EPOLLIN) < 0)
        conn_pause(c, "cannot wait for a client");
}

void conns_resume(struct node *n)
{
    if (!n->pauses)
        return;
    n->pauses = false;
    dlc_list_each (l, &n->conns) {
        struct conn *c = dlc_container(l, struct conn, link);

        if (c->paused) {
            c->paused = false;
            conn_flush(c);
        }
    }
}

int conn_send_fds(struct conn *c, json_t *body, const int *fds, unsigned n_fds, struct dlc_err *err)
{
    int rc = 0;

    dlc_check(body != NULL);
    if (!c->closing) {
        rc = msg_writer_add(&c->writer, c->watch.fd, body, fds, n_fds, err);
        if (rc < 0 && c->writer.failure == MSG_SHORTAGE)
            node_short(c->node, "cannot hand descriptors to a client");
        else if (rc < 0 && c->writer.failure == MSG_CLOSED)
            rc = 0; /* the reader will see that */
        if (rc == 0 && !c->paused)
            conn_flush(c);
    }
    json_decref(body);
    return rc;
}

void conn_send(struct conn *c, json_t *body, const int *fds, unsigned n_fds)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (conn_send_fds(c, body, fds, n_fds, &err) == 0)
        return;
    dlc_err_prefix(&err, "the daemon");
    if (n_fds > 0)
        conn_fail_err(c, &err);
    else
        conn_end_soon(c, "an answer cannot be sent"); /* too large: a bug of ours */
}

void conn_progress(struct conn *c, json_t *progress)
{
    if (c->writer.n == 0)
        conn_send(c, json_pack("{s:o}", "progress", progress), NULL, 0);
    else
        json_decref(progress);
}

void conn_fail(struct conn *c, int code, const char *text)
{
    json_t *body = json_pack("{s:b, s:i}", "ok", 0, "code", code);

    json_object_set_new(body, "error", msg_string(text));
    conn_send(c, body, NULL, 0);
}

void conn_fail_err(struct conn *c, const struct dlc_err *err)
{
    conn_fail(c, err->code, err->text);
}

/* ---- in ---- */

static void greet(struct conn *c, const struct msg *m)
{
    const char *op = json_string_value(json_object_get(m->body, "op"));
    json_int_t version = json_integer_value(json_object_get(m->body, "version"));

    if (m->n_fds > 0) {
        count(sessions_refused);
        conn_fail(c, DLC_EPROTO,
                  "hello takes no descriptors: send them with the order they are of");
        conn_end_soon(c, "it sent descriptors before hello");
        return;
    }
    if (op == NULL || strcmp(op, "hello") != 0 || version != PROTOCOL_VERSION) {
        count(sessions_refused);
        conn_fail(c, DLC_EPROTO,
                  "the client speaks another version of the protocol: use the same version of "
                  "dlcache for library and daemon (restart the daemon after an upgrade)");
        conn_end_soon(c, "it speaks another version of the protocol");
        return;
    }
    c->greeted = true;
    conn_send(c,
              json_pack("{s:b, s:i, s:i, s:s}", "ok", 1, "version", PROTOCOL_VERSION, "pid",
                        (int)getpid(), "program", dlc_version()),
              NULL, 0);
}

/* A message without the descriptors that it came with cannot be what it was meant to be. */
static void refuse_without_fds(struct conn *c)
{
    node_short(c->node, "descriptors of a client's request were lost");
    conn_fail(c, DLC_EBUSY,
              "the daemon has no descriptor left for what the request brings along: ask again, or "
              "raise its limit on open files (ulimit -n, LimitNOFILE=)");
}

/* (CLIENT-CONN-6) */
static void close_fds(struct msg_reader *r, int *fds, unsigned *n)
{
    client_fds_close(dlc_container(r, struct conn, reader)->node, fds, n);
}

static void handle(struct conn *c, struct msg *m)
{
    if (m->fds_lost)
        refuse_without_fds(c);
    else if (!c->greeted)
        greet(c, m);
    else
        c->node->client_ops->message(c, m);
}

/* (CLIENT-CONN-4): wait until the client lets go. A call that fails here is made again by the next
 * event. */
static void on_zombie(struct conn *c, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR))
        conn_close(&c);
    else
        loop_watch_set(c->node->loop, &c->watch, 0);
}

static void on_conn(struct watch *w, uint32_t events)
{
    struct conn *c = conn_of(w);
    struct dlc_err err = DLC_ERR_INIT;
    int rc = 1;

    if (c->zombie) {
        on_zombie(c, events);
        return;
    }
    if (events & EPOLLOUT)
        conn_flush(c);
    if (client_fds_wait(c->node, w->fd)) {
        conn_pause(c, "descriptors of clients cannot be closed");
        return;
    }
    for (unsigned i = 0; i < TURN_MESSAGES && rc == 1 && !c->closing; i++) {
        struct msg m = MSG_INIT;

        rc = msg_reader_next(&c->reader, w->fd, &m, &err);
        if (rc == 1)
            handle(c, &m);
        client_fds_close(c->node, m.fds, &m.n_fds);
        msg_release(&m);
    }
    if (rc < 0 && c->reader.failure == MSG_SHORTAGE)
        conn_pause(c, "cannot read a client's request");
    else if (rc < 0 && c->reader.failure == MSG_CLOSED)
        conn_close(&c);
    else if (rc < 0)
        conn_end(&c, "it sent what is not a message");
    else if (c->closing)
        conn_end(&c, c->why);
}

/* ---- who may ---- */

/* Say so, and close. */
static void refuse_client(struct node *n, int *fd, int code, const char *text)
{
    struct msg_writer w = MSG_WRITER_INIT;
    struct dlc_err err;
    json_t *body = json_pack("{s:b, s:i, s:s}", "ok", 0, "code", code, "error", text);

    if (msg_writer_add(&w, *fd, body, NULL, 0, &err) == 0)
        msg_writer_flush(&w, *fd, &err); /* small, and the buffer is empty */
    msg_writer_release(&w);
    json_decref(body);
    count(sessions_refused);
    client_sock_close(n, fd);
}

/* Out of descriptors: tell the next client so, by means of the reserve. False: it cannot be. */
static bool turn_away(struct node *n, int listener)
{
    bool away;
    int fd;

    reserve_lend(n);
    fd = os_accept(listener);
    away = fd >= 0;
    if (away)
        refuse_client(n, &fd, DLC_EBUSY,
                      "the daemon has no descriptor left for another client: raise its limit on "
                      "open files (ulimit -n, LimitNOFILE=), or try again later");
    node_short(n, "a client was turned away");
    reserve_fill(n);
    return away;
}

/* Programs of a node show tokens; those of a stand-alone daemon do not. */
static bool lets_all_in(const struct node *n)
{
    return n->membership != NULL && !n->membership->inside && config_allows_all(n->config);
}

char *conn_server(const struct node *n)
{
    const struct node_cluster *m = n->membership;

    if (m == NULL || m->inside)
        return mem_str("stand-alone");
    return mem_fmt("node %s%sof %s", m->name != NULL ? m->name : "", m->name != NULL ? " " : "",
                   m->manager);
}

static void refuse_stranger(struct node *n, int *fd, const struct ucred *cred)
{
    static struct log_limit limit; /* L */
    struct dlc_err err = DLC_ERR_INIT;
    char *who = conn_server(n);

    client_audit_stranger(n, cred->uid, cred->pid, "not in allow-uid");
    if (log_limit_allows(&limit))
        log_warn("refused user %d: allow it with --allow-uid %d", (int)cred->uid, (int)cred->uid);
    dlc_err_set(&err, DLC_EDENIED,
                "the daemon at %s (%.300s, process %d of user %d) does not serve user %d: "
                "whoever runs it allows that with --allow-uid %d",
                n->config->socket, who, (int)getpid(), (int)geteuid(), (int)cred->uid,
                (int)cred->uid);
    refuse_client(n, fd, err.code, err.text);
    mem_free(&who);
}

static void on_listener(struct watch *w, uint32_t events)
{
    struct node *n = dlc_container(w, struct node, listener);
    int fd = os_accept(w->fd);
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t len = sizeof(cred);
    struct dlc_err err = DLC_ERR_INIT;
    struct conn *c;

    (void)events;
    if (fd < 0) {
        if (is_shortage(errno) && !turn_away(n, w->fd))
            loop_watch_del(n->loop, &n->listener); /* the tick listens again */
        return;
    }
    if (os_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
        !(config_trusts(n->config, cred.uid) || lets_all_in(n))) {
        refuse_stranger(n, &fd, &cred);
        return;
    }
    if (quota_connection(n, cred.uid, &err) < 0) {
        refuse_client(n, &fd, err.code, err.text);
        return;
    }
    client_sock_open(fd);
    c = mem_new(struct conn);
    c->tag = CONN_TAG;
    c->node = n;
    c->id = ++n->next_id;
    c->uid = cred.uid;
    c->pid = cred.pid;
    c->watch.fd = fd;
    c->watch.ready = on_conn;
    c->ender.fire = on_ender;
    c->reader = (struct msg_reader)MSG_READER_INIT;
    c->reader.close_fds = close_fds;
    c->writer = (struct msg_writer)MSG_WRITER_INIT;
    dlc_list_init(&c->waiting);
    dlc_list_push_tail(&n->conns, &c->link);
    map_set(&n->conn_ids, c->id, c);
    n->n_conns++;
    if (loop_watch_set(n->loop, &c->watch, EPOLLIN) < 0)
        conn_pause(c, "cannot wait for a client");
}

/* It is not among those that are served any more. */
static void conn_leaves(struct conn *c)
{
    struct node *n = c->node;

    dlc_list_remove(&c->link);
    map_remove(&n->conn_ids, c->id);
    if (--n->n_conns == 0)
        map_release(&n->conn_ids);
}

void conn_end(struct conn **cp, const char *why)
{
    static struct log_limit limit; /* L */
    struct conn *c = *cp;
    struct node *n = c->node;
    uint64_t pins;

    if (c->session == NULL) {
        log_debug("client %d is disconnected: %s", (int)c->pid, why);
        conn_close(cp);
        return;
    }
    *cp = NULL;
    pins = n->client_ops->ended(c);
    c->zombie = c->closing = true;
    loop_timer_del(n->loop, &c->ender);
    msg_writer_release(&c->writer);
    msg_reader_release(&c->reader);
    os_shutdown(c->watch.fd, SHUT_WR);
    loop_watch_set(n->loop, &c->watch, 0); /* EPOLLHUP comes unasked */
    conn_leaves(c);
    dlc_list_push_tail(&n->zombies, &c->link);
    n->n_zombies++;
    count(sessions_ended);
    if (log_limit_allows(&limit))
        log_warn("client %d (user %d) is disconnected: %s; %llu samples that it holds stay in "
                 "memory until it lets go of them (%u such warnings were left out before)",
                 (int)c->pid, (int)c->uid, why, (unsigned long long)pins,
                 log_limit_left_out(&limit));
}

int conn_may_open(const struct conn *c, struct dlc_err *err)
{
    unsigned of_process = 0, of_user = 0;

    dlc_list_each (l, &c->node->zombies) {
        const struct conn *z = dlc_container(l, struct conn, link);

        of_user += z->uid == c->uid;
        of_process += z->pid == c->pid && c->pid > 0; /* 0: of another pid namespace */
    }
    if (of_process < PROCESS_ZOMBIES && of_user < USER_ZOMBIES)
        return 0;
    count(sessions_refused);
    return dlc_err_set(err, DLC_EBUSY,
                       "the daemon had to end %u sessions of this process and %u of its user, and "
                       "their samples are still held: put those views or end those processes, and "
                       "see the daemon's log for what they did",
                       of_process, of_user);
}

void conn_close(struct conn **cp)
{
    struct conn *c = *cp;

    *cp = NULL;
    dlc_check(c->tag == CONN_TAG);
    c->node->client_ops->closed(c);
    loop_timer_del(c->node->loop, &c->ender);
    mem_free(&c->job);
    mem_free(&c->tenant);
    msg_writer_release(&c->writer);
    msg_reader_release(&c->reader);
    loop_watch_del(c->node->loop, &c->watch);
    client_sock_close(c->node, &c->watch.fd);
    if (c->zombie) {
        dlc_list_remove(&c->link);
        c->node->n_zombies--;
    } else {
        conn_leaves(c);
    }
    c->node->last_client = dlc_mono_now();
    c->tag = 0;
    mem_free(&c);
}

struct conn *conn_by_id(struct node *n, uint64_t id)
{
    return map_get(&n->conn_ids, id);
}

/* ---- the socket ---- */

static int socket_dir(const char *path, bool shared, struct dlc_err *err)
{
    char *copy = mem_str(path);
    const char *dir = dirname(copy);
    struct stat st, link;
    int rc = 0;

    if (socket_dir_make(path, shared) < 0 || os_stat(dir, &st) < 0 || os_lstat(dir, &link) < 0)
        rc = dlc_err_sys(err, "cannot make %s for the daemon's socket", dir);
    else if (S_ISLNK(link.st_mode) && link.st_uid != geteuid() && link.st_uid != 0)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "%s is a link of user %d: choose another place with --socket", dir,
                         (int)link.st_uid);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        rc = dlc_err_set(
            err, DLC_EDENIED,
            "%s belongs to user %d, not to you (%d): choose another place with --socket", dir,
            (int)st.st_uid, (int)geteuid());
    else if ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "anybody may write to %s: choose a private directory with --socket", dir);
    else if ((st.st_mode & S_IWGRP) != 0 && (st.st_mode & S_ISVTX) == 0)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "group %d may write to %s, and could put a socket of its own there: "
                         "`chmod g-w` it, or choose a private directory with --socket",
                         (int)st.st_gid, dir);
    mem_free(&copy);
    return rc;
}

/* Is somebody listening there? Removes a socket file that nobody answers at. */
static int socket_clear(const struct sockaddr_un *addr, struct dlc_err *err)
{
    int fd = os_socket(AF_UNIX, SOCK_STREAM), rc = 0;
    struct stat st;

    if (fd < 0)
        return dlc_err_sys(err, "cannot make a socket");
    if (os_connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
        rc = dlc_err_set(err, DLC_EBUSY,
                         "a daemon already answers at %s: use it, or end it with `dlcache stop`",
                         addr->sun_path);
    else if (os_lstat(addr->sun_path, &st) == 0 && !S_ISSOCK(st.st_mode))
        rc = dlc_err_set(err, DLC_EINVAL, "%s exists and is not a socket: choose another --socket",
                         addr->sun_path);
    else if (os_unlink(addr->sun_path) < 0 && errno != ENOENT)
        rc = dlc_err_sys(err, "cannot remove the old socket %s", addr->sun_path);
    os_close(&fd);
    return rc;
}

static void warn_if_closed(const char *path)
{
    char *closed = socket_dir_closed(path);

    if (closed != NULL)
        log_warn("other users cannot reach %s, since they may not search %s: `chmod o+x` it, or "
                 "choose another place with --socket",
                 path, closed);
    mem_free(&closed);
}

int server_open(struct node *n, const struct client_ops *ops, struct dlc_err *err)
{
    const char *path = n->config->socket;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    /* Root may attach too, also one without capabilities, to whom a file of another user is closed.
     * Who it is, is checked when it connects. */
    bool node = n->membership != NULL && !n->membership->inside;
    bool shared = n->config->allow_uid[0] != '\0' || node;
    int rc;

    if (!node && config_allows_all(n->config))
        return dlc_err_set(err, DLC_EINVAL,
                           "--allow-uid all is for nodes of a cluster, where each user shows a "
                           "token: name the users here");
    if (strlen(path) >= sizeof(addr.sun_path))
        return dlc_err_set(err, DLC_EINVAL,
                           "socket path %s is longer than %zu bytes: choose a shorter --socket",
                           path, sizeof(addr.sun_path) - 1);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    rc = node ? 0 : node_marker_refuse(path, DLC_EBUSY, err);
    if (rc == 0)
        rc = socket_dir(path, shared, err);
    if (rc == 0)
        rc = socket_clear(&addr, err);
    if (rc < 0)
        return rc;
    n->client_ops = ops;
    n->listener.fd = os_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
    n->listener.ready = on_listener;
    if (n->listener.fd < 0 ||
        os_bind(n->listener.fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        rc = dlc_err_sys(err, "cannot make the socket %s", path);
        os_close(&n->listener.fd); /* what lies at the path is not ours to remove */
        return rc;
    }
    if (shared)
        warn_if_closed(path);
    if (os_chmod(path, shared ? 0666 : 0600) < 0 || os_listen(n->listener.fd, 128) < 0 ||
        server_listen(n) < 0)
        return dlc_err_sys(err, "cannot listen at %s", path);
    return 0;
}

int server_listen(struct node *n)
{
    return loop_watch_set(n->loop, &n->listener, EPOLLIN);
}

void server_close(struct node *n)
{
    if (n->listener.fd < 0)
        return;
    os_unlink(n->config->socket); /* first: once closed, the path may be another daemon's */
    loop_watch_del(n->loop, &n->listener);
    os_close(&n->listener.fd);
}
