// SPDX-License-Identifier: Apache-2.0
/* Decoded caches: whose room is told and which leaves first, however many datasets are open. */
#include "daemon/parts.h"

#include "cache/memory/memory_i.h"
#include "daemon/decoded_cache.h"
#include "ipc/shm.h"

#define MB      ((uint64_t)1 << 20)
#define KB      ((uint64_t)1 << 10)
#define CEILING (4 * MB)
#define SAMPLES 1000u /* of PARTS_SIZE bytes */

static struct node n;
static struct tenant_memory *memory;
static struct dataset *ds;

static int set_up(void **state)
{
    (void)state;
    parts_node(&n);
    tenant_memories_init(&n.memories, CEILING, CEILING, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &memory, NULL), 0);
    ds = parts_dataset(&n, "a", parts_catalog("a", SAMPLES));
    ds->tenant_memory = memory;
    assert_int_equal(mem_index_new(memory->memory, SAMPLES, 1, &ds->index, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    decoded_cache_events.dataset_closing(ds);
    assert_int_equal(n.n_decoded, 0);
    mem_index_free(&ds->index);
    parts_free_all(&n);
    tenant_memory_put(&memory);
    tenant_memories_free(&n.memories);
    return 0;
}

/* Thousands that are open and in use, none of which may be looked at: they have no catalog. */
static void open_others(void)
{
    char name[32];

    for (unsigned i = 0; i < 8000; i++) {
        snprintf(name, sizeof(name), "other%u", i);
        struct dataset *other = parts_dataset(&n, name, NULL);

        other->state = DATASET_READY;
        other->refs = 1;
        other->tenant_memory = memory;
    }
}

static struct decoded_cache *get(const char *policy)
{
    unsigned char key[SHA256_LEN];
    struct decoded_cache *c;

    decoded_key(key, 1, NULL, policy);
    assert_int_equal(decoded_get(ds, key, &c, NULL), 0);
    return c;
}

static uint64_t room_told(const struct decoded_cache *c)
{
    const struct shm_index_hdr *h = c->index->seg.map;

    return atomic_load(&h->decoded_room);
}

/* Datasets in use have what they may bring in for themselves. */
static void room_is_told_without_a_look_at_all_datasets(void **state)
{
    struct decoded_cache *c;
    uint64_t free_room;

    (void)state;
    open_others();
    c = get("policy");
    free_room = room_told(c);
    assert_in_range(free_room, 3 * MB, CEILING);
    dataset_ref(ds);
    decoded_caches_tell_room(&n);
    assert_int_equal(room_told(c), free_room - SAMPLES * PARTS_SIZE);
    ds->refs = 0;
    dataset_expect_bytes(ds);
    decoded_caches_tell_room(&n);
    assert_int_equal(room_told(c), free_room);
    decoded_put(&c);
}

static void bring(struct decoded_cache *c, uint64_t sample)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve_decoded(memory->memory, c->index, sample, 100 * KB, 0, &f), 0);
    memory_publish(memory->memory, &f);
}

/* Those without users are counted as room, and stand in the order in which they were left. */
static void unused_caches_are_room(void **state)
{
    struct decoded_cache *a = get("a"), *b = get("b"), *c = get("c"), *first = b;

    (void)state;
    bring(a, 0);
    bring(b, 0);
    bring(b, 1);
    decoded_put(&b);
    assert_int_equal(memory_unused(memory->memory), 200 * KB);
    decoded_put(&a);
    decoded_put(&c); /* has nothing to give */
    assert_int_equal(memory_unused(memory->memory), 300 * KB);
    assert_ptr_equal(memory->unused.next, &first->unused);
    b = get("b");
    assert_ptr_equal(b, first);
    assert_int_equal(memory_unused(memory->memory), 100 * KB);
    assert_true(memory->unused.next != &first->unused);
    assert_ptr_equal(memory->unused.next, memory->unused.prev);
    decoded_put(&b);
    assert_ptr_equal(memory->unused.prev, &first->unused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(room_is_told_without_a_look_at_all_datasets, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(unused_caches_are_room, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
