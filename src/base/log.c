// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/syscalls.h"

#define LIMIT_LINES   20u
#define LIMIT_SECONDS 60

enum log_level log_threshold = LOG_WARN;

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

void log_write(enum log_level level, const char *fmt, ...)
{
    char line[1200];
    struct tm tm;
    time_t now = time(NULL);
    va_list ap;
    size_t n;

    gmtime_r(&now, &tm);
    n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%SZ ", &tm);
    n += (size_t)snprintf(line + n, sizeof(line) - n, "%-5s ", names[level]);
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
    va_end(ap);
    /* One line per event: a newline in a key or a server's message must not forge another. */
    for (char *p = line; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ')
            *p = ' ';
    }
    n = strlen(line);
    line[n] = '\n';
    if (os_write(STDERR_FILENO, line, n + 1) < 0)
        return; /* nowhere left to say so */
}
