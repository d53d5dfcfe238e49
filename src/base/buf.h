// SPDX-License-Identifier: Apache-2.0
/* A growing string of bytes, always followed by a NUL that does not count. */
#ifndef DLC_BASE_BUF_H
#define DLC_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t len, cap;
};

#define BUF_INIT                                                                                   \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_reserve(struct buf *b, size_t more);
void buf_clear(struct buf *b);            /* empty, memory kept */
void buf_release(struct buf *b);          /* memory freed; usable again */
char *buf_take(struct buf *b);            /* gives the string; b is as after release. Never NULL */
const char *buf_str(const struct buf *b); /* "" when empty */

#endif
