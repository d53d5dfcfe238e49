// SPDX-License-Identifier: Apache-2.0
/* Pin blocks of threads. */
#ifndef DLC_CLIENT_PINS_H
#define DLC_CLIENT_PINS_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/attachment.h"

struct shm_pin_block *pins_slow(struct attachment *a); /* NULL: none left */
/* Claim an entry outside the thread's own block. The entry is marked with `sample`. */
_Atomic uint64_t *pins_overflow(struct attachment *a, uint64_t sample);
void pins_attachment_gone(const struct attachment *a);

struct pins_cached {
    uint64_t generation;
    struct shm_pin_block *block;
    unsigned hint;
};
#define PINS_CACHE 4
extern _Thread_local struct pins_cached pins_cache[PINS_CACHE]
    __attribute__((tls_model("initial-exec")));

static inline struct shm_pin_block *pins_block(struct attachment *a, unsigned **hint)
{
    struct pins_cached *c = &pins_cache[a->generation % PINS_CACHE];

    *hint = &c->hint;
    return c->generation == a->generation ? c->block : pins_slow(a);
}

#endif
