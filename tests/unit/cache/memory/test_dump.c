// SPDX-License-Identifier: Apache-2.0
/* The memory tier as text: what `dlcache stat --shm` shows. */
#include "unit.h"

#include "base/buf.h"
#include "cache/memory/memory_i.h"
#include "client.h"

#define MB     ((uint64_t)1 << 20)
#define SHOWN  100u  /* lines of a list */
#define LOOKED 4096u /* entries that are looked at */

struct world {
    struct memory *m;
    struct mem_index *x;
    struct mem_session *s;
    struct client c;
    struct buf text;
};

static int setup(void **state)
{
    struct world *w = test_calloc(1, sizeof(*w));

    assert_int_equal(memory_new(8 * MB, 4 * MB, &w->m, NULL), 0);
    assert_int_equal(mem_index_new(w->m, 1000, 77, &w->x, NULL), 0);
    assert_int_equal(mem_session_new(w->x, &w->s, NULL), 0);
    client_open(&w->c, w->m, w->x, w->s);
    w->text = (struct buf)BUF_INIT;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    buf_release(&w->text);
    client_close(&w->c);
    mem_session_free(&w->s);
    mem_index_free(&w->x);
    memory_free(&w->m);
    test_free(w);
    return 0;
}

static void put(struct world *w, uint64_t sample, uint64_t len)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(w->m, w->x, sample, len, &f), 0);
    memory_publish(w->m, &f);
}

static const char *dump(struct world *w)
{
    buf_release(&w->text);
    memory_dump(w->m, &w->text);
    return buf_str(&w->text);
}

static unsigned times(const char *text, const char *word)
{
    unsigned n = 0;

    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        n++;
    return n;
}

static void test_all(void **state)
{
    static const char *const want =
        "arena ceiling 4194304, used 6144, free 4184064, largest hole 4184064\n"
        "extents 128 of 65536 bytes, dropped so far 0, dropped and not yet unmapped by clients 0 "
        "bytes\n"
        "samples 2 resident; retired 2048 bytes\n"
        "index snapshot 77, slots 1000, resident 2 (4000 bytes), filling 1, retired 1\n"
        "  session 0: 2 blocks, hits 0, misses 0, bypasses 0, pins 3\n"
        "    block 0 entry 5 sample 1000 (no such sample)\n"
        "    block 0 entry 6 sample 999\n"
        "    block 1 entry 4 sample 2\n"
        "  session 1: 0 blocks, hits 0, misses 0, bypasses 0, pins 0\n"
        "blocks in address order\n"
        "    0x0000001000         1024 used resident snapshot 77 sample 1 len 1000 held 1\n"
        "    0x0000001400         2048 used retired snapshot 77 sample 2 len 2000\n"
        "    0x0000001c00         3008 used resident snapshot 77 sample 3 len 3000\n"
        "    0x00000027c0           64 used filling snapshot 77 sample 900 len 10\n"
        "    0x0000002800      4184064 free\n"
        "    0x0000400000      4194304 out\n"
        "retired, the oldest first\n"
        "    0x0000001400         2048 used retired snapshot 77 sample 2 len 2000\n";
    struct world *w = *state;
    struct mem_session *second;
    struct mem_fill *f;
    char first[128];
    uint64_t bytes;
    uint32_t len;

    assert_int_equal(mem_session_new(w->x, &second, NULL), 0);
    put(w, 1, 1000);
    put(w, 2, 2000);
    put(w, 3, 3000);
    assert_non_null(memory_hold(w->m, w->x, 1, &bytes));
    assert_non_null(client_read(&w->c, client_block(&w->c, 1), 4, 2, &len));
    atomic_store(&client_block(&w->c, 0)->pins[5], 1000 + 1); /* a lie */
    atomic_store(&client_block(&w->c, 0)->pins[6], 999 + 1);  /* the last one there is */
    memory_evict(w->m, w->x, 2);
    assert_int_equal(memory_reserve(w->m, w->x, 900, 10, &f), 0);
    snprintf(first, sizeof(first), "segment version %u, size 8388608, owner pid %d started %llu\n",
             SHM_VERSION, (int)getpid(), (unsigned long long)segment_owner_start());
    dump(w);
    assert_memory_equal(buf_str(&w->text), first, strlen(first));
    assert_string_equal(buf_str(&w->text) + strlen(first), want);
    memory_set_closing(w->m);
    assert_non_null(strstr(dump(w), ", closing\n"));
    memory_abandon(w->m, &f);
    memory_unhold(w->m, w->x, 1);
    mem_session_free(&second);
}

/* Lists are cut at 100 lines, and say how long they were. */
static void test_long_lists(void **state)
{
    struct world *w = *state;
    uint32_t len;

    for (unsigned i = 0; i < SHOWN; i++) {
        put(w, i, 1000);
        assert_non_null(client_read(&w->c, client_block(&w->c, i / 50), i % 50, i, &len));
        memory_evict(w->m, w->x, i);
    }
    assert_int_equal(times(dump(w), " used retired "), 2 * SHOWN); /* blocks, and retired */
    assert_int_equal(times(dump(w), " entry "), SHOWN);
    assert_int_equal(times(dump(w), "... and"), 1);
    assert_non_null(strstr(dump(w), "    ... and 2 more blocks\n")); /* the hole, and beyond */
    for (unsigned i = SHOWN; i < SHOWN + 3; i++) {
        put(w, i, 1000);
        assert_non_null(client_read(&w->c, client_block(&w->c, 3), i - SHOWN, i, &len));
        memory_evict(w->m, w->x, i);
    }
    assert_int_equal(times(dump(w), " used retired "), 2 * SHOWN);
    assert_int_equal(times(dump(w), " entry "), SHOWN);
    assert_non_null(strstr(dump(w), "    ... and 5 more blocks\n"));
    assert_non_null(strstr(dump(w), "    ... and 3 more retired\n"));
    assert_non_null(strstr(dump(w), "    ... and 3 more pins\n"));
}

/* The work does not grow with what there is: neither with blocks nor with pins, and a session that
 * claims all pin blocks costs no more. */
static void test_looks_at_few(void **state)
{
    struct world *w = *state;
    struct mem_session *more[6];
    struct mem_index *big;
    struct mem_fill *f;

    for (unsigned i = 0; i < 6; i++) { /* with 1,024 blocks each: the first three are looked at */
        assert_int_equal(mem_session_new(w->x, &more[i], NULL), 0);
        atomic_store(&((struct shm_session_hdr *)mem_session_map(more[i]))->blocks_high,
                     SHM_BLOCKS);
    }
    client_block(&w->c, 0);
    assert_int_equal(times(dump(w), "blocks, not looked at\n"), 3);
    assert_int_equal(times(dump(w), "  session "), 7);
    for (unsigned i = 0; i < 6; i++)
        mem_session_free(&more[i]);
    for (unsigned i = 0; i < 900; i++)
        put(w, i, 1000);
    assert_non_null(strstr(dump(w), "    ... and 802 more blocks\n"));
    assert_int_equal(mem_index_new(w->m, LOOKED, 78, &big, NULL), 0);
    for (unsigned i = 0; i < LOOKED; i++) {
        assert_int_equal(memory_reserve(w->m, big, i, 64, &f), 0);
        memory_publish(w->m, &f);
    }
    assert_non_null(strstr(dump(w), "    ... and at least 3996 more blocks\n"));
    mem_index_free(&big);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_all), T(test_long_lists), T(test_looks_at_few)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
