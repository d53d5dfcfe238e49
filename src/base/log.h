// SPDX-License-Identifier: Apache-2.0
/*
 * The log: one line per event on standard error, "2026-01-31T12:00:00Z level message".
 * Never log credentials, tokens, signed headers or query strings of signed URLs.
 */
#ifndef DLC_BASE_LOG_H
#define DLC_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern enum log_level log_threshold; /* set once at start; default LOG_WARN */

bool log_level_parse(const char *name, enum log_level *out);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...)                                                                         \
    do {                                                                                           \
        if ((level) <= log_threshold)                                                              \
            log_write((level), __VA_ARGS__);                                                       \
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
