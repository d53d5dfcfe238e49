// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon in a child process, with a directory, a socket and datasets of its own, for the tests of
 * node and client. Sample i of a dataset is the file sNNNNNN, whose bytes follow from i, so that
 * every reader can check what it got.
 */
#ifndef DLC_TESTS_DAEMON_H
#define DLC_TESTS_DAEMON_H

#include "unit.h"

#include <sched.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "ipc/frame.h"
#include "base/syscalls.h"
#include "client/daemon.h"
#include "dlcache.h"
#include "daemon/daemon.h"

/* Wait for a condition; fails after 30 seconds. */
#define until(cond)                                                                                \
    do {                                                                                           \
        struct dlc_mono until_end = dlc_mono_add(dlc_mono_now(), DLC_SEC(30));                     \
        while (!(cond)) {                                                                          \
            assert_false(dlc_mono_passed(until_end, dlc_mono_now()));                              \
            poll(NULL, 0, 1);                                                                      \
        }                                                                                          \
    } while (0)

struct daemon {
    char dir[256], socket[256];
    struct config config;
    int helper; /* socket to the process that starts and awaits daemons; -1: none yet */
    pid_t helper_pid, pid;
};

/* ---- datasets ---- */

static inline unsigned char byte_of(uint64_t sample, uint64_t at)
{
    return (unsigned char)((sample * 131 + at * 7 + at / 251) & 0xff);
}

static inline void fill_bytes(unsigned char *p, uint64_t sample, size_t len)
{
    for (size_t k = 0; k < len; k++)
        p[k] = byte_of(sample, k);
}

/* Is the view sample i? */
static inline bool is_sample(const struct dlc_view *v, uint64_t i)
{
    const unsigned char *p = v->data;

    for (size_t k = 0; k < v->len; k++) {
        if (p[k] != byte_of(i, k))
            return false;
    }
    return p != NULL;
}

/* n files of size bytes each below the test's directory, made once. The URL, with a shape or "". */
static inline const char *dataset(const char *name, unsigned n, size_t size, const char *shape,
                                  char url[static 512])
{
    unsigned char *bytes = mem_alloc(size + 1);
    char dir[256], path[300];

    unit_path(name, dir);
    for (unsigned i = 0; i < n && (i > 0 || mkdir(dir, 0700) == 0); i++) {
        int fd;

        fill_bytes(bytes, i, size);
        snprintf(path, sizeof(path), "%s/s%06u", dir, i);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(os_write_all(fd, bytes, size), 0);
        os_close(&fd);
    }
    mem_free(&bytes);
    snprintf(url, 512, "file://%s/%s", dir, shape);
    return url;
}

/* ---- the daemon ---- */

static inline void set(struct config *c, const char *flag, const char *value)
{
    struct dlc_err err = DLC_ERR_INIT;

    if (config_set(c, flag, value, &err) < 0)
        fail_msg("%s", err.text);
}

/* Settings of a daemon that is not started yet: `memory` bytes, and a disk tier if asked for. */
static inline void daemon_init(struct daemon *d, const char *name, const char *memory, bool disk)
{
    struct dlc_err err = DLC_ERR_INIT;
    char file[64];

    *d = (struct daemon){.helper = -1, .pid = -1};
    unit_path(name, d->dir);
    snprintf(file, sizeof(file), "%s.sock", name);
    unit_path(file, d->socket);
    assert_int_equal(config_load(&d->config, "/dev/null", &err), 0);
    set(&d->config, "dir", d->dir);
    set(&d->config, "socket", d->socket);
    set(&d->config, "memory", memory);
    set(&d->config, "disk", disk ? "auto" : "0");
    set(&d->config, "disk-keep-free", "0");
    set(&d->config, "retries", "1");
    set(&d->config, "log-level", "error");
}

static inline void daemon_ready(void *arg)
{
    int *fd = arg;

    assert_int_equal(os_write_all(*fd, "R", 1), 0);
    os_close(fd);
}

/* In the helper: a daemon that answers. -1: it said why not; -2: it ended in another way. */
static inline pid_t daemon_fork(struct daemon *d)
{
    int fds[2], status = 0;
    pid_t pid;
    char c;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        const struct node_start start = {.ready = daemon_ready, .arg = &fds[1]};
        struct dlc_err err = DLC_ERR_INIT;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        os_close(&fds[0]);
        os_close(&d->helper);
        log_set_level(d->config.log_level);
        if (node_main(&d->config, &start, &err) < 0)
            fprintf(stderr, "daemon: %s\n", err.text);
        config_release(&d->config);
        exit(err.code != 0);
    }
    os_close(&fds[1]);
    if (read(fds[0], &c, 1) != 1) {
        waitpid(pid, &status, 0);
        pid = WIFEXITED(status) && WEXITSTATUS(status) == 1 ? -1 : -2;
    }
    os_close(&fds[0]);
    return pid;
}

/* Requests: 0, a daemon please; else a pid, how did it end? */
static inline void helper_main(struct daemon *d)
{
    int ask, answer;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(d->helper, &ask, sizeof(ask)) == (ssize_t)sizeof(ask)) {
        if (ask == 0)
            answer = daemon_fork(d);
        else if (waitpid(ask, &answer, 0) != ask)
            answer = -1;
        if (write(d->helper, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
            break;
    }
    _exit(0);
}

static inline int helper_ask(struct daemon *d, int ask)
{
    int answer;

    assert_int_equal(write(d->helper, &ask, sizeof(ask)), sizeof(ask));
    assert_int_equal(read(d->helper, &answer, sizeof(answer)), sizeof(answer));
    return answer;
}

/* The client's watch thread of the test before ends soon after its last dataset was closed. */
static inline void wait_until_alone(void)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), DLC_SEC(2));
    unsigned n;

    do {
        DIR *dir = opendir("/proc/self/task");

        assert_non_null(dir);
        for (n = 0; readdir(dir) != NULL;)
            n++;
        closedir(dir);
        sched_yield();
    } while (n > 3 && dlc_mono_sub(end, dlc_mono_now()).ns > 0); /* itself, "." and ".." */
}

/* Daemons are children of a process without threads, whatever the test has: fork() and sanitizers
 * like it so. Its first start is before the test has any. */
static inline void helper_start(struct daemon *d)
{
    int fds[2];

    wait_until_alone();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fflush(NULL);
    d->helper_pid = fork();
    assert_true(d->helper_pid >= 0);
    d->helper = fds[d->helper_pid == 0];
    os_close(&fds[d->helper_pid != 0]);
    if (d->helper_pid == 0)
        helper_main(d);
}

/* Start it and wait until it answers. */
static inline void daemon_start(struct daemon *d)
{
    if (d->helper < 0)
        helper_start(d);
    d->pid = helper_ask(d, 0);
    assert_true(d->pid > 0);
}

/* How it ended, as waitpid() says it. */
static inline int daemon_wait(struct daemon *d)
{
    int status = helper_ask(d, d->pid);

    d->pid = -1;
    return status;
}

/* A daemon that a failed test left ended has no process: kill(-1) would reach every one there is. */
static inline void daemon_signal(const struct daemon *d, int number)
{
    assert_true(d->pid > 0);
    assert_int_equal(kill(d->pid, number), 0);
}

static inline void daemon_kill(struct daemon *d)
{
    daemon_signal(d, SIGKILL);
    daemon_wait(d);
}

/* End it in good order; it must say that all is well. */
static inline void daemon_stop(struct daemon *d)
{
    daemon_signal(d, SIGTERM);
    assert_int_equal(daemon_wait(d), 0);
}

static inline void daemon_end(struct daemon *d)
{
    if (d->pid > 0)
        daemon_stop(d);
    os_close(&d->helper);
    waitpid(d->helper_pid, NULL, 0);
    config_release(&d->config);
}

/* How many segments of daemons, dead ones included, a process maps. */
static inline unsigned segments_of(pid_t pid)
{
    char path[64], line[512];
    unsigned n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, "dlcache-segment") != NULL;
    fclose(f);
    return n;
}

/* ---- talking to it ---- */

static inline int dial(const struct daemon *d)
{
    struct dlc_err err = DLC_ERR_INIT;
    int sock = daemon_connect(&d->config, dlc_mono_add(dlc_mono_now(), DLC_SEC(30)), &err);

    if (sock < 0)
        fail_msg("%s", err.text);
    return sock;
}

/* The final answer. Takes ask. Gives; m was MSG_INIT. */
static inline void tell(int sock, json_t *ask, struct msg *m)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = msg_send(sock, ask, NULL, 0, &err);

    json_decref(ask);
    do {
        msg_release(m);
        if (rc == 0)
            rc = msg_recv(sock, m, DLC_SEC(30), &err);
        if (rc < 0)
            fail_msg("%s", err.text);
    } while (json_object_get(m->body, "progress") != NULL);
}

static inline int dial_greeted(const struct daemon *d)
{
    struct msg m = MSG_INIT;
    int sock = dial(d);

    tell(sock, json_pack("{s:s, s:i}", "op", "hello", "version", 1), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    msg_release(&m);
    return sock;
}

/* A number in the answer to `stat`: of the daemon's part, or of the first dataset ("datasets"). */
/* The daemon takes no other descriptors. */
static inline void seal_list(int fd)
{
    assert_int_equal(os_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
}

static inline json_int_t stat_of(const struct daemon *d, const char *part, const char *name)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(d);
    json_int_t v;
    json_t *o;

    tell(sock, json_pack("{s:s}", "op", "stat"), &m);
    o = json_object_get(m.body, part);
    if (json_is_array(o))
        o = json_array_get(o, 0);
    v = json_integer_value(json_object_get(o, name));
    msg_release(&m);
    os_close(&sock);
    return v;
}

static inline struct dlc_dataset *open_at(const struct daemon *d, const char *url,
                                          uint32_t timeout_ms)
{
    const struct dlc_options opt = {.socket = d->socket, .no_spawn = 1, .timeout_ms = timeout_ms};
    struct dlc_dataset *ds = NULL;

    if (dlc_open(url, &opt, &ds) < 0)
        fail_msg("%s", dlc_last_error());
    return ds;
}

/* Get, check and put sample i. */
static inline void read_one(struct dlc_dataset *ds, uint64_t i)
{
    struct dlc_view v;

    if (dlc_get(ds, i, &v) < 0)
        fail_msg("%s", dlc_last_error());
    assert_true(is_sample(&v, i));
    dlc_put(ds, &v);
}

#endif
