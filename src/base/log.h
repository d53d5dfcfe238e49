// SPDX-License-Identifier: Apache-2.0
/*
 * The log: one line per event on standard error or in a file: "2026-01-31T12:00:00Z level message",
 * or a JSON object with time, level, role, component (the directory below src), pid and message.
 * Never log credentials, tokens, signed headers or query strings of signed URLs.
 */
#ifndef DLC_BASE_LOG_H
#define DLC_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern _Atomic int log_threshold; /* of enum log_level; default LOG_WARN */

bool log_level_parse(const char *name, enum log_level *out);
void log_set_level(const char *name); /* that log_level_parse() takes */
void log_write(enum log_level level, const char *file, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Lines are JSON from now on, or text. `role` is theirs; borrowed for ever. */
void log_set_json(bool json, const char *role);
/* Lines go to the end of this file from now on. Before there is a second thread. */
int log_open(const char *path, struct dlc_err *err);
/* Open that file again, which logrotate may have renamed. On failure the old one stays. */
int log_reopen(struct dlc_err *err);
/* What libraries and crashes write to standard error goes to the file too. */
void log_take_stderr(void);
/* NULL: standard error. */
const char *log_path(void);

#define log_at(level, ...)                                                                         \
    do {                                                                                           \
        if ((int)(level) <= atomic_load_explicit(&log_threshold, memory_order_relaxed))            \
            log_write((level), __FILE__, __VA_ARGS__);                                             \
    } while (0)
/* For what others can cause at will: a few lines a minute from one place of the code. One thread.
 * The second call tells how many were left out since the last one that was not. */
struct log_limit {
    long long since_s;
    unsigned n, left_out;
};
bool log_limit_allows(struct log_limit *l);
unsigned log_limit_left_out(struct log_limit *l);

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
