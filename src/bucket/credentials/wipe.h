// SPDX-License-Identifier: Apache-2.0
/* Memory that held a secret is wiped before it is freed. */
#ifndef DLC_BUCKET_CREDENTIALS_WIPE_H
#define DLC_BUCKET_CREDENTIALS_WIPE_H

#include <string.h>

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

#endif
