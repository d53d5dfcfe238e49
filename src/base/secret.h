// SPDX-License-Identifier: Apache-2.0
/* Secrets: memory that held a token, a key or a password is wiped before it is freed. */
#ifndef DLC_BASE_SECRET_H
#define DLC_BASE_SECRET_H

#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/mem.h"

static inline void secret_free(char **sp)
{
    if (*sp != NULL)
        explicit_bzero(*sp, strlen(*sp));
    mem_free(sp);
}

/* Reserve what the buffer will hold before filling it: growing leaves copies behind. */
static inline void secret_buf_release(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->cap);
    buf_release(b);
}

/* Wipe a text, or all texts that are members of an object. Nobody else may have a reference. */
static inline void secret_json_wipe(const json_t *v)
{
    const char *s = json_string_value(v), *name;
    json_t *member;

    if (s != NULL)
        explicit_bzero((char *)(uintptr_t)s, json_string_length(v));
    json_object_foreach((json_t *)(uintptr_t)v, name, member) secret_json_wipe(member);
}

#endif
