// SPDX-License-Identifier: Apache-2.0
/* The socket and its owner: what a client says, and that it goes, is told to who owns it. */
#include "daemon/parts.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "base/config.h"
#include "base/syscalls.h"
#include "daemon/client_conn.h"
#include "daemon/session.h"
#include "daemon/work.h"
#include "ipc/frame.h"

static struct node n;
static struct config config;
static struct session session; /* only that there is one matters here */
static unsigned messages, ended, closed;

static void on_message(struct conn *c, struct msg *m)
{
    const char *op = json_string_value(json_object_get(m->body, "op"));

    messages++;
    if (strcmp(op, "open") == 0)
        c->session = &session;
    conn_send(c, json_pack("{s:s}", "you said", op), NULL, 0);
    loop_stop(n.loop);
}

static uint64_t on_ended(struct conn *c)
{
    assert_non_null(c->session);
    ended++;
    return 7;
}

static void on_closed(struct conn *c)
{
    c->session = NULL;
    closed++;
    loop_stop(n.loop);
}

static const struct client_ops ops = {on_message, on_ended, on_closed};

static int set_up(void **state)
{
    static char path[256];
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    messages = ended = closed = 0;
    parts_node(&n);
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_load(&config, "/dev/null", &err), 0);
    assert_int_equal(config_set(&config, "socket", unit_path("s.sock", path), &err), 0);
    n.config = &config;
    n.listener.fd = -1;
    reserve_init(&n);
    n.loop = loop_new(NULL);
    n.work = work_new(&err);
    assert_non_null(n.work);
    assert_int_equal(server_open(&n, &ops, &err), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (!dlc_list_empty(&n.conns)) {
        struct conn *c = dlc_container(n.conns.next, struct conn, link);

        conn_close(&c);
    }
    server_close(&n);
    work_free(&n.work);
    reserve_release(&n);
    loop_free(&n.loop);
    config_release(&config);
    return 0;
}

static int dial(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = os_socket(AF_UNIX, SOCK_STREAM);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", config.socket);
    assert_int_equal(os_connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static void say(int fd, json_t *body)
{
    assert_int_equal(msg_send(fd, body, NULL, 0, NULL), 0);
    json_decref(body);
}

static void hello(int fd)
{
    say(fd, json_pack("{s:s, s:i}", "op", "hello", "version", PROTOCOL_VERSION));
}

static void hear(int fd, const char *name, const char *text)
{
    struct msg m = MSG_INIT;

    assert_int_equal(msg_recv(fd, &m, DLC_SEC(10), NULL), 0);
    if (text != NULL)
        assert_string_equal(json_string_value(json_object_get(m.body, name)), text);
    msg_release(&m);
}

static struct conn *the_one(void)
{
    assert_int_equal(n.n_conns, 1);
    return dlc_container(n.conns.next, struct conn, link);
}

/* The owner hears what comes after the greeting, and that the client has gone. */
static void messages_reach_the_owner(void **state)
{
    int fd = dial();

    (void)state;
    hello(fd);
    say(fd, json_pack("{s:s}", "op", "stat"));
    loop_run(n.loop);
    assert_int_equal(messages, 1);
    assert_ptr_equal(conn_by_id(&n, the_one()->id), the_one());
    hear(fd, NULL, NULL);
    hear(fd, "you said", "stat");
    os_close(&fd);
    loop_run(n.loop);
    assert_int_equal(closed, 1);
    assert_int_equal(ended, 0);
    assert_int_equal(n.n_conns, 0);
}

/* (CLIENT-CONN-4): what a client pins outlives the connection that the daemon ended. */
static void an_ended_connection_stays_until_the_client_lets_go(void **state)
{
    struct dlc_err err;
    struct conn *c;
    uint64_t id;
    int fd = dial();

    (void)state;
    hello(fd);
    say(fd, json_pack("{s:s}", "op", "open"));
    loop_run(n.loop);
    c = the_one();
    assert_int_equal(conn_may_open(c, &err), 0);
    id = c->id;
    conn_end(&c, "a test");
    assert_null(c);
    assert_null(conn_by_id(&n, id)); /* who answers a command finds nobody */
    assert_int_equal(ended, 1);
    assert_int_equal(closed, 0);
    assert_int_equal(n.n_conns, 0);
    assert_int_equal(n.n_zombies, 1);
    os_close(&fd);
    loop_run(n.loop);
    assert_int_equal(closed, 1);
    assert_int_equal(n.n_zombies, 0);
}

/* By their numbers, whichever have gone. */
static void connections_are_found_by_number(void **state)
{
    int fds[8];
    uint64_t first;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        fds[i] = dial();
        hello(fds[i]);
        say(fds[i], json_pack("{s:s}", "op", "stat"));
        loop_run(n.loop);
    }
    first = dlc_container(n.conns.next, struct conn, link)->id;
    for (unsigned i = 0; i < 8; i += 2) {
        os_close(&fds[i]);
        loop_run(n.loop);
    }
    for (unsigned i = 0; i < 8; i++) {
        struct conn *c = conn_by_id(&n, first + i);

        assert_int_equal(c != NULL, i % 2);
        assert_true(c == NULL || c->id == first + i);
    }
    for (unsigned i = 1; i < 8; i += 2) {
        os_close(&fds[i]);
        loop_run(n.loop);
    }
    assert_null(n.conn_ids.entries); /* nor is the table kept */
}

/* Without a session there is nothing to keep. */
static void a_connection_without_a_session_goes_at_once(void **state)
{
    struct conn *c;
    int fd = dial();

    (void)state;
    hello(fd);
    say(fd, json_pack("{s:s}", "op", "stat"));
    loop_run(n.loop);
    c = the_one();
    conn_end(&c, "a test");
    assert_int_equal(ended, 0);
    assert_int_equal(closed, 1);
    assert_int_equal(n.n_zombies, 0);
    os_close(&fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_reach_the_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_ended_connection_stays_until_the_client_lets_go, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(connections_are_found_by_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_without_a_session_goes_at_once, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
