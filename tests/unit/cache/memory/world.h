// SPDX-License-Identifier: Apache-2.0
/* A memory tier with one dataset of 1000 samples, and one client that has opened it. */
#ifndef DLC_TESTS_CACHE_MEMORY_WORLD_H
#define DLC_TESTS_CACHE_MEMORY_WORLD_H

#include "unit.h"

#include "cache/memory/memory_i.h"
#include "client.h"

#define WORLD_SNAPSHOT 77

struct world {
    struct memory *m;
    struct mem_index *x;
    struct mem_session *s;
    struct client c;
    struct shm_pin_block *b; /* of the client's first thread */
};

/* A segment of `size` bytes, of which at most `ceiling` are in use. */
static inline struct world *world_new(uint64_t size, uint64_t ceiling)
{
    struct world *w = test_calloc(1, sizeof(*w));

    assert_int_equal(memory_new(size, ceiling, &w->m, NULL), 0);
    assert_int_equal(mem_index_new(w->m, 1000, WORLD_SNAPSHOT, &w->x, NULL), 0);
    assert_int_equal(mem_session_new(w->x, &w->s, NULL), 0);
    client_open(&w->c, w->m, w->x, w->s);
    w->b = client_block(&w->c, 0);
    return w;
}

static inline int world_free(void **state)
{
    struct world *w = *state;

    arena_check(&w->m->arena);
    client_close(&w->c);
    mem_session_free(&w->s);
    mem_index_free(&w->x);
    memory_free(&w->m);
    test_free(w);
    return 0;
}

#endif
