// SPDX-License-Identifier: Apache-2.0
#include "redis_servers.h"

#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

enum { BUS = 10000 }; /* a Cluster's servers talk at port + this */

static void breathe(void)
{
    (void)poll(NULL, 0, 10);
}

bool redis_servers_exist(void)
{
    return system("command -v redis-server >/dev/null 2>&1") == 0;
}

static bool port_is_free(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    good = bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    close(fd);
    return good;
}

/* Below the range that the kernel gives to clients, with the bus. */
static int free_port(void)
{
    struct rng r = {rng_seed()};

    for (int i = 0; i < 1000; i++) {
        int port = 12000 + (int)rng_below(&r, 8000);

        if (port_is_free(port) && port_is_free(port + BUS))
            return port;
    }
    fail_msg("no free port");
    return 0;
}

static redisContext *connect_to(struct redis_servers *r, unsigned i)
{
    struct timeval limit = {5, 0};
    redisContext *c = redisConnectWithTimeout("127.0.0.1", r->s[i].port, limit);

    if (c != NULL && c->err != 0) {
        redisFree(c);
        return NULL;
    }
    if (c != NULL) {
        (void)redisSetTimeout(c, limit);
        if (r->password[0] != '\0')
            freeReplyObject(redisCommand(c, "AUTH %s", r->password));
    }
    return c;
}

static void show(const redisReply *reply, struct buf *out)
{
    if (reply == NULL)
        buf_adds(out, "(lost)");
    else if (reply->type == REDIS_REPLY_INTEGER)
        buf_addf(out, "%lld", reply->integer);
    else if (reply->type == REDIS_REPLY_NIL)
        buf_adds(out, "(nil)");
    else if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < reply->elements; i++) {
            show(reply->element[i], out);
            buf_addc(out, '\n');
        }
    else
        buf_adds(out, reply->str);
}

char *redis_server_ask(struct redis_servers *r, unsigned i, const char *command)
{
    redisContext *c = connect_to(r, i);
    redisReply *reply = c == NULL ? NULL : redisCommand(c, command);
    struct buf b = BUF_INIT;

    show(reply, &b);
    if (reply != NULL)
        freeReplyObject(reply);
    if (c != NULL)
        redisFree(c);
    return buf_take(&b);
}

static bool says(struct redis_servers *r, unsigned i, const char *command, const char *text)
{
    char *got = redis_server_ask(r, i, command);
    bool good = strstr(got, text) != NULL;

    mem_free(&got);
    return good;
}

static void add_tls(const struct redis_servers *r, int port, const char **argv, size_t *n)
{
    static char files[3][256], number[16];
    const char *more[] = {"--tls-port",         number,   "--tls-ca-cert-file", files[0],
                          "--tls-cert-file",    files[1], "--tls-key-file",     files[2],
                          "--tls-auth-clients", "no"};

    snprintf(number, sizeof(number), "%d", port);
    unit_path("ca.pem", files[0]);
    unit_path("server.pem", files[1]);
    unit_path("server.key", files[2]);
    if (r->mutual)
        more[9] = "yes";
    memcpy(argv + *n, more, sizeof(more));
    *n += unit_count(more);
}

static void run_server(const struct redis_servers *r, const struct redis_server *s, const char *dir,
                       const char *log)
{
    char number[16], config[32];
    const char *argv[40] = {"redis-server",
                            "--port",
                            number,
                            "--bind",
                            "127.0.0.1",
                            "--dir",
                            dir,
                            "--save",
                            "",
                            "--appendonly",
                            "yes",
                            "--appendfsync",
                            "no",
                            "--logfile",
                            log,
                            "--repl-diskless-sync-delay",
                            "0"};
    size_t n = 17;

    snprintf(number, sizeof(number), "%d", s->port);
    snprintf(config, sizeof(config), "nodes-%d.conf", s->port);
    if (s->tls_port != 0)
        add_tls(r, s->tls_port, argv, &n);
    if (r->cluster) {
        const char *more[] = {"--cluster-enabled",      "yes", "--cluster-config-file", config,
                              "--cluster-node-timeout", "1000"};

        memcpy(argv + n, more, sizeof(more));
        n += unit_count(more);
    }
    if (r->password[0] != '\0') {
        argv[n++] = "--requirepass";
        argv[n++] = r->password;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

void redis_server_start(struct redis_servers *r, unsigned i)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), DLC_SEC(30));
    char name[64], dir[256], log[256];

    snprintf(name, sizeof(name), "redis-%d", r->s[i].port);
    unit_path(name, dir);
    (void)mkdir(dir, 0700);
    snprintf(name, sizeof(name), "redis-%d/log", r->s[i].port);
    unit_path(name, log);
    r->s[i].pid = fork();
    assert_true(r->s[i].pid >= 0);
    if (r->s[i].pid == 0)
        run_server(r, &r->s[i], dir, log);
    while (!says(r, i, "PING", "PONG")) {
        int status;

        assert_int_equal(waitpid(r->s[i].pid, &status, WNOHANG), 0); /* it ended: see its log */
        assert_true(dlc_mono_now().ns < until.ns);
        breathe();
    }
}

void redis_server_signal(struct redis_servers *r, unsigned i, int sig)
{
    assert_true(r->s[i].pid > 0);
    assert_int_equal(kill(r->s[i].pid, sig), 0);
}

void redis_server_kill(struct redis_servers *r, unsigned i)
{
    if (r->s[i].pid == 0)
        return;
    kill(r->s[i].pid, SIGKILL);
    assert_int_equal(waitpid(r->s[i].pid, NULL, 0), r->s[i].pid);
    r->s[i].pid = 0;
}

void redis_servers_stop(struct redis_servers *r)
{
    for (unsigned i = 0; i < r->n; i++)
        redis_server_kill(r, i);
}

static void start(struct redis_servers *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        r->s[i].port = free_port();
        redis_server_start(r, i);
    }
}

void redis_servers_start_one(struct redis_servers *r, const char *password)
{
    *r = (struct redis_servers){.n = 1};
    if (password != NULL)
        snprintf(r->password, sizeof(r->password), "%s", password);
    start(r);
}

/* A CA, and certificates that it signs; another CA. */
static void make_certificates(void)
{
    static const char script[] =
        "cd '%s' && test -e server.pem || {"
        " key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2';"
        " for ca in ca other-ca; do"
        "  openssl req -x509 $key -subj /CN=$ca -keyout $ca.key -out $ca.pem || exit 1; done;"
        " for name in server client; do"
        "  openssl req $key -subj /CN=$name -addext subjectAltName=IP:127.0.0.1,DNS:redis.test"
        "   -keyout $name.key -out $name.csr && openssl x509 -req -in $name.csr -CA ca.pem"
        "   -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out $name.pem || exit 1;"
        " done; } >openssl.log 2>&1";
    char dir[256], command[1024];

    unit_path(".", dir);
    snprintf(command, sizeof(command), script, dir);
    assert_int_equal(system(command), 0); /* see openssl.log */
}

const char *redis_servers_file(const char *name, char out[static 256])
{
    return unit_path(name, out);
}

void redis_servers_start_tls(struct redis_servers *r, const char *password, bool mutual)
{
    make_certificates();
    *r = (struct redis_servers){.n = 1, .mutual = mutual};
    if (password != NULL)
        snprintf(r->password, sizeof(r->password), "%s", password);
    r->s[0].tls_port = free_port();
    start(r);
}

void redis_servers_wait_ready(struct redis_servers *r)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), DLC_SEC(40));
    char known[40], slaves[40];

    snprintf(known, sizeof(known), "cluster_known_nodes:%u\r", r->n);
    for (unsigned i = 0; i < r->n; i++) {
        snprintf(slaves, sizeof(slaves), "connected_slaves:%u\r", r->n / r->masters - 1);
        while (!says(r, i, "CLUSTER INFO", "cluster_state:ok") ||
               !says(r, i, "CLUSTER INFO", known) ||
               (says(r, i, "INFO replication", "role:master") &&
                !says(r, i, "INFO replication", slaves)) ||
               (says(r, i, "INFO replication", "role:slave") &&
                !says(r, i, "INFO replication", "master_link_status:up"))) {
            if (dlc_mono_now().ns > until.ns) {
                fail_msg("the Cluster did not come together");
                return;
            }
            breathe();
        }
    }
}

static void expect_ok(struct redis_servers *r, unsigned i, const char *command)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), DLC_SEC(20));

    while (!says(r, i, command, "OK")) { /* others may not be known yet */
        assert_true(dlc_mono_now().ns < until.ns);
        breathe();
    }
}

void redis_servers_start_cluster(struct redis_servers *r, unsigned masters, unsigned replicas)
{
    char command[100];

    *r = (struct redis_servers){.n = masters * (1 + replicas), .masters = masters, .cluster = true};
    assert_true(r->n <= REDIS_MOST);
    start(r);
    for (unsigned i = 0; i < r->n; i++) {
        if (i < masters) {
            snprintf(command, sizeof(command), "CLUSTER ADDSLOTSRANGE %u %u", 16384 * i / masters,
                     16384 * (i + 1) / masters - 1);
            expect_ok(r, i, command);
        }
        snprintf(command, sizeof(command), "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
        expect_ok(r, i, command);
        snprintf(command, sizeof(command), "CLUSTER MEET 127.0.0.1 %d", r->s[0].port);
        if (i > 0)
            expect_ok(r, i, command);
    }
    for (unsigned i = masters; i < r->n; i++) {
        char *id = redis_server_ask(r, i % masters, "CLUSTER MYID");

        snprintf(command, sizeof(command), "CLUSTER REPLICATE %s", id);
        expect_ok(r, i, command);
        mem_free(&id);
    }
    redis_servers_wait_ready(r);
}

void redis_servers_url(const struct redis_servers *r, char out[static 400])
{
    struct buf b = BUF_INIT;

    buf_adds(&b, r->s[0].tls_port != 0 ? "rediss://" : "redis://");
    if (r->password[0] != '\0')
        buf_addf(&b, ":%s@", r->password);
    for (unsigned i = 0; i < r->n; i++)
        buf_addf(&b, "%s127.0.0.1:%d", i > 0 ? "," : "",
                 r->s[i].tls_port != 0 ? r->s[i].tls_port : r->s[i].port);
    snprintf(out, 400, "%s", buf_str(&b));
    buf_release(&b);
}
