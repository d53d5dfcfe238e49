// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void buf_reserve(struct buf *b, size_t more)
{
    size_t need = b->len + more + 1;

    if (need <= b->cap)
        return;
    b->cap = need < 64 ? 64 : need + need / 2;
    b->data = mem_grow(b->data, b->cap);
    b->data[b->len] = '\0'; /* a string also before anything is added */
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    buf_reserve(b, len);
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        buf_reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data != NULL)
        b->data[0] = '\0';
}

void buf_release(struct buf *b)
{
    mem_free(&b->data);
    b->len = b->cap = 0;
}

char *buf_take(struct buf *b)
{
    char *s = b->data != NULL ? b->data : mem_str("");

    *b = (struct buf)BUF_INIT;
    return s;
}

const char *buf_str(const struct buf *b)
{
    return b->data != NULL ? b->data : "";
}
