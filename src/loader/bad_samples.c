// SPDX-License-Identifier: Apache-2.0
#include "loader/bad_samples_i.h"

#include <stdbool.h>

#include "base/mem.h"

static bool is_known(const struct bad_list *b, uint64_t sample)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->v[i].sample == sample)
            return true;
    }
    return false;
}

void bad_add(struct bad_list *b, uint64_t sample, const char *why)
{
    b->seen++;
    if (b->n == BAD_KEPT || is_known(b, sample))
        return;
    mem_reserve(b->v, b->n, b->cap);
    b->v[b->n++] = (struct bad_one){sample, mem_str(why)};
}

void bad_release(struct bad_list *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        mem_free(&b->v[i].why);
    mem_free(&b->v);
    *b = (struct bad_list){0};
}
