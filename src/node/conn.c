// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon's socket: who may connect, and messages in and out without ever waiting for a client.
 *
 * (C1) A connection is served only if the kernel says that its user is ours, root, or in allow-uid.
 * (C2) The socket's directory is ours and nobody else can write to it.
 * (C3) A connection object may go away inside any of its callbacks, and nowhere else: who needs it
 * later keeps its id.
 */
#include "node/node_i.h"

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
#include "base/os.h"
#include "base/str.h"

#define CONN_TAG        DLC_TAG4('c', 'o', 'n', 'n')
#define UNREAD_MAX      (8u << 20) /* bytes a client may leave unread before it is dropped */
#define UNREAD_MESSAGES 64u        /* and messages: each may hold descriptors */
#define TURN_MESSAGES   16u        /* taken from one client before the others have their turn */

static struct conn *conn_of(struct watch *w)
{
    struct conn *c = dlc_container(w, struct conn, watch);

    dlc_check(c->tag == CONN_TAG);
    return c;
}

/* ---- out ---- */

/* To be closed by its next event (C3), which this makes happen. */
static void conn_doom(struct conn *c)
{
    c->closing = true;
    shutdown(c->watch.fd, SHUT_RDWR);
}

static void conn_flush(struct conn *c)
{
    int rc = msg_writer_flush(&c->writer, c->watch.fd, NULL);

    if (rc < 0 || c->writer.waiting > UNREAD_MAX || c->writer.n > UNREAD_MESSAGES)
        conn_doom(c);
    loop_watch_set(c->node->loop, &c->watch, rc == 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void conn_send(struct conn *c, json_t *body, const int *fds, unsigned n_fds)
{
    struct dlc_err err;

    dlc_check(body != NULL);
    if (c->closing) {
        json_decref(body);
        return;
    }
    if (msg_writer_add(&c->writer, c->watch.fd, body, fds, n_fds, &err) < 0) {
        log_warn("client %d: %s", (int)c->pid, err.text);
        if (n_fds > 0)
            conn_fail_err(c, &err); /* most likely out of descriptors: say so, without any */
        conn_doom(c);
    }
    json_decref(body);
    conn_flush(c);
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

    if (op == NULL || strcmp(op, "hello") != 0 || version != PROTOCOL_VERSION) {
        count(sessions_refused);
        conn_fail(c, DLC_EPROTO,
                  "the client speaks another version of the protocol: use the same version of "
                  "dlcache for library and daemon (restart the daemon after an upgrade)");
        c->closing = true;
        return;
    }
    c->greeted = true;
    conn_send(c,
              json_pack("{s:b, s:i, s:i, s:s}", "ok", 1, "version", PROTOCOL_VERSION, "pid",
                        (int)getpid(), "program", dlc_version()),
              NULL, 0);
}

static void on_conn(struct watch *w, uint32_t events)
{
    struct conn *c = conn_of(w);
    struct dlc_err err = DLC_ERR_INIT;
    int rc = 1;

    if (events & EPOLLOUT)
        conn_flush(c);
    for (unsigned i = 0; i < TURN_MESSAGES && rc == 1 && !c->closing; i++) {
        struct msg m = MSG_INIT;

        rc = msg_reader_next(&c->reader, w->fd, &m, &err);
        if (rc == 1 && !c->greeted)
            greet(c, &m);
        else if (rc == 1)
            control_handle(c, &m);
        msg_release(&m);
    }
    if (rc == DLC_EPROTO && err.text[0] != '\0')
        log_debug("client %d: %s", (int)c->pid, err.text);
    if (rc < 0 || c->closing)
        conn_close(&c);
}

/* ---- who may ---- */

static void on_listener(struct watch *w, uint32_t events)
{
    struct node *n = dlc_container(w, struct node, listener);
    int fd = os_accept(w->fd);
    struct ucred cred;
    socklen_t len = sizeof(cred);
    struct conn *c;

    (void)events;
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) {
            log_warn("no descriptor left for a client: raise the limit on open files (ulimit -n)");
            loop_watch_del(n->loop, &n->listener); /* the tick listens again */
        }
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
        !config_trusts(n->config, cred.uid)) {
        count(sessions_refused);
        log_warn("refused user %d: allow it with --allow-uid %d", (int)cred.uid, (int)cred.uid);
        os_close(&fd);
        return;
    }
    c = mem_new(struct conn);
    c->tag = CONN_TAG;
    c->node = n;
    c->id = ++n->next_id;
    c->uid = cred.uid;
    c->pid = cred.pid;
    c->watch.fd = fd;
    c->watch.ready = on_conn;
    c->reader = (struct msg_reader)MSG_READER_INIT;
    c->writer = (struct msg_writer)MSG_WRITER_INIT;
    dlc_list_init(&c->waiting);
    dlc_list_push_tail(&n->conns, &c->link);
    n->n_conns++;
    if (loop_watch_set(n->loop, &c->watch, EPOLLIN) < 0)
        conn_close(&c);
}

void conn_close(struct conn **cp)
{
    struct conn *c = *cp;

    *cp = NULL;
    dlc_check(c->tag == CONN_TAG);
    if (c->session != NULL)
        session_free(&c->session);
    dlc_list_remove(&c->waiting);
    if (c->opening != NULL)
        dataset_put(&c->opening);
    mem_free(&c->job);
    msg_writer_release(&c->writer);
    msg_reader_release(&c->reader);
    loop_watch_del(c->node->loop, &c->watch);
    os_close(&c->watch.fd);
    dlc_list_remove(&c->link);
    c->node->n_conns--;
    c->node->last_client = dlc_mono_now();
    c->tag = 0;
    mem_free(&c);
}

struct conn *conn_by_id(struct node *n, uint64_t id)
{
    dlc_list_each (l, &n->conns) {
        struct conn *c = dlc_container(l, struct conn, link);

        if (c->id == id)
            return c;
    }
    return NULL;
}

/* ---- the socket ---- */

static int socket_dir(const char *path, struct dlc_err *err)
{
    char *copy = mem_str(path);
    const char *dir = dirname(copy);
    struct stat st;
    int rc = 0;

    if (os_mkdirs(dir, 0700) < 0 || stat(dir, &st) < 0)
        rc = dlc_err_sys(err, "cannot make %s for the daemon's socket", dir);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        rc = dlc_err_set(
            err, DLC_EDENIED,
            "%s belongs to user %d, not to you (%d): choose another place with --socket", dir,
            (int)st.st_uid, (int)geteuid());
    else if ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "anybody may write to %s: choose a private directory with --socket", dir);
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
    else if (lstat(addr->sun_path, &st) == 0 && !S_ISSOCK(st.st_mode))
        rc = dlc_err_set(err, DLC_EINVAL, "%s exists and is no socket: choose another --socket",
                         addr->sun_path);
    else if (unlink(addr->sun_path) < 0 && errno != ENOENT)
        rc = dlc_err_sys(err, "cannot remove the old socket %s", addr->sun_path);
    os_close(&fd);
    return rc;
}

int server_open(struct node *n, struct dlc_err *err)
{
    const char *path = n->config->socket;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    bool shared = n->config->allow_uid[0] != '\0';
    int rc;

    if (strlen(path) >= sizeof(addr.sun_path))
        return dlc_err_set(err, DLC_EINVAL,
                           "socket path %s is longer than %zu bytes: choose a shorter --socket",
                           path, sizeof(addr.sun_path) - 1);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    rc = socket_dir(path, err);
    if (rc == 0)
        rc = socket_clear(&addr, err);
    if (rc < 0)
        return rc;
    n->listener.fd = os_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
    n->listener.ready = on_listener;
    if (n->listener.fd < 0 ||
        bind(n->listener.fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        rc = dlc_err_sys(err, "cannot make the socket %s", path);
        os_close(&n->listener.fd); /* what lies at the path is not ours to remove */
        return rc;
    }
    if (chmod(path, shared ? 0666 : 0600) < 0 || listen(n->listener.fd, 128) < 0 ||
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
    unlink(n->config->socket); /* first: once closed, the path may be another daemon's */
    loop_watch_del(n->loop, &n->listener);
    os_close(&n->listener.fd);
}
