// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"

#define LIMIT_LINES   20u
#define LIMIT_SECONDS 60

#define MESSAGE_MAX 1150

_Atomic int log_threshold = LOG_WARN;

static struct {
    char *path;        /* NULL: standard error */
    _Atomic int fd;    /* keeps its number: writers need no lock */
    _Atomic bool json; /* W the thread that reloads; R any: relaxed, a line is of one kind */
    const char *role;  /* set before there is a second thread */
    bool takes_stderr;
} target = {.fd = STDERR_FILENO, .role = ""};

static const char *const names[] = {"error", "warn", "info", "debug"};

bool log_level_parse(const char *name, enum log_level *out)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_limit_allows(struct log_limit *l)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (l->n == 0 || now.tv_sec - l->since_s >= LIMIT_SECONDS) {
        l->since_s = now.tv_sec;
        l->n = 0;
    }
    if (l->n == LIMIT_LINES) {
        l->left_out++;
        return false;
    }
    l->n++;
    return true;
}

unsigned log_limit_left_out(struct log_limit *l)
{
    unsigned n = l->left_out;

    l->left_out = 0;
    return n;
}

void log_set_level(const char *name)
{
    enum log_level l;

    if (log_level_parse(name, &l))
        atomic_store_explicit(&log_threshold, l, memory_order_relaxed); /* with log_at() */
}

/* ---- where ---- */

void log_set_json(bool json, const char *role)
{
    target.role = role;
    atomic_store_explicit(&target.json, json, memory_order_relaxed);
}

const char *log_path(void)
{
    return target.path;
}

int log_open(const char *path, struct dlc_err *err)
{
    int fd = os_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0640);

    if (fd < 0)
        return dlc_err_sys(err, "--log-file: cannot open %s", path);
    mem_free(&target.path);
    target.path = mem_str(path);
    atomic_store(&target.fd, fd);
    return 0;
}

int log_reopen(struct dlc_err *err)
{
    int fd, rc = 0;

    if (target.path == NULL)
        return 0;
    fd = os_open(target.path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0640);
    if (fd < 0 || os_dup3(fd, atomic_load(&target.fd)) < 0)
        rc = dlc_err_sys(err, "cannot open %s again, so the old file goes on", target.path);
    os_close(&fd);
    if (rc == 0 && target.takes_stderr)
        log_take_stderr();
    return rc;
}

void log_take_stderr(void)
{
    target.takes_stderr = true;
    os_dup2(atomic_load(&target.fd), STDERR_FILENO);
}

/* ---- lines ---- */

static size_t add_time(char *out, size_t size, bool ms)
{
    struct timespec now;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
    if (ms)
        n += (size_t)snprintf(out + n, size - n, ".%03d", (int)(now.tv_nsec / 1000000));
    return n + (size_t)snprintf(out + n, size - n, "Z");
}

/* "daemon" of "../src/daemon/fetch/fetch.c". */
static void add_component(const char *file, struct buf *out)
{
    const char *src = strstr(file, "src/"), *name = src != NULL ? src + 4 : file;

    buf_addf(out, "%.*s", (int)strcspn(name, "/."), name);
}

static void write_json(enum log_level level, const char *file, const char *message)
{
    struct buf line = BUF_INIT;
    char time[40];

    add_time(time, sizeof(time), true);
    buf_addf(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"role\":\"%s\",\"component\":\"", time,
             names[level], target.role);
    add_component(file, &line);
    buf_addf(&line, "\",\"pid\":%d,\"message\":", (int)getpid());
    str_json(message, MESSAGE_MAX, &line);
    buf_adds(&line, "}\n");
    if (os_write(atomic_load(&target.fd), line.data, line.len) < 0) {
        /* nowhere left to say so */
    }
    buf_release(&line);
}

static void write_text(enum log_level level, const char *message)
{
    char line[MESSAGE_MAX + 50];
    size_t n = add_time(line, sizeof(line), false);

    snprintf(line + n, sizeof(line) - n - 1, " %-5s %s", names[level], message);
    /* One line per event: a newline in a key or a server's message must not forge another. */
    for (char *p = line; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ')
            *p = ' ';
    }
    n = strlen(line);
    line[n] = '\n';
    if (os_write(atomic_load(&target.fd), line, n + 1) < 0)
        return; /* nowhere left to say so */
}

void log_write(enum log_level level, const char *file, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    if (atomic_load_explicit(&target.json, memory_order_relaxed))
        write_json(level, file, message);
    else
        write_text(level, message);
}
