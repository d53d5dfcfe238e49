// SPDX-License-Identifier: Apache-2.0
/* A sample that another dataset has resident is copied, if it is the same object; else the next
 * source is asked. */
#include "daemon/played.h"

#include "base/counters.h"
#include "daemon/fetch/object_index.h"
#include "daemon/session.h"

#define N 4u

static const struct fetch_source *const sources[] = {&fetch_from_same_object, &played_source};
static struct node n;
static struct dataset *has;

static struct catalog *catalog_of(uint64_t size, const char *etag)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    char path[256], key[16];

    unit_path("catalog", path);
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), size, etag, &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, path, "s3://data/p/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    return c;
}

static struct dataset *open_it(uint64_t size, const char *etag)
{
    struct dataset *ds = parts_dataset(&n, "x", catalog_of(size, etag));

    ds->refs = 1;
    hist_init(&ds->prefetch.latency, 1000);
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    return ds;
}

static int set_up(void **state)
{
    (void)state;
    played_open(&n, (uint64_t)8 << 20);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, sources, DLC_COUNT(sources), prefetch_pump);
    has = open_it(PARTS_SIZE, "e");
    object_index_events.dataset_ready(has);
    fetch_start(has, 1, FETCH_MEMORY, NULL, NULL);
    played_end_all(0);
    assert_true(mem_index_ready(has->index, 1));
    assert_int_equal(played.n_asked, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dlc_list_each (l, &n.datasets)
        object_index_events.dataset_closing(dlc_container(l, struct dataset, link));
    played_close(&n);
    return 0;
}

static void get(struct dataset *ds, uint64_t sample)
{
    object_index_events.dataset_ready(ds);
    fetch_start(ds, sample, FETCH_MEMORY, NULL, NULL);
}

/* It came from the bucket. */
static void assert_not_copied(struct dataset *ds, uint64_t sample)
{
    unsigned before = played.n_asked;

    get(ds, sample);
    assert_int_equal(has->refs, 1);
    assert_int_equal(played.n_asked, before + 1);
    played_end_all(0);
}

static void copies(void **state)
{
    struct dataset *ds = open_it(PARTS_SIZE, "e");
    uint64_t hits = atomic_load(&counters.same_object_hits), len;
    const unsigned char *bytes;

    (void)state;
    get(ds, 1);
    assert_int_equal(has->refs, 2); /* until the copy is made, ... */
    assert_true(
        memory_evict(n.own_memory->memory, has->index, 1)); /* ... and so do its bytes stay */
    while (!mem_index_ready(ds->index, 1))
        played_turn(&n);
    assert_int_equal(played.n_asked, 1);
    assert_int_equal(has->refs, 1);
    assert_int_equal(atomic_load(&counters.same_object_hits), hits + 1);
    bytes = memory_hold(n.own_memory->memory, ds->index, 1, &len);
    assert_non_null(bytes);
    assert_int_equal(len, PARTS_SIZE);
    for (unsigned i = 0; i < PARTS_SIZE; i++)
        assert_int_equal(bytes[i], 1);
    assert_int_equal(mem_index_checksum(ds->index, 1), hash64(bytes, PARTS_SIZE));
    memory_unhold(n.own_memory->memory, ds->index, 1);
    assert_true(memory_evict(n.own_memory->memory, ds->index, 1));
}

/* Of the same name, but not the same. */
static void another_object(void **state)
{
    (void)state;
    assert_not_copied(open_it(PARTS_SIZE, "f"), 1);
    assert_not_copied(open_it(PARTS_SIZE + 1, "e"), 1);
    assert_not_copied(open_it(PARTS_SIZE, "e"), 2); /* not resident there */
}

/* Of another bucket or tenant; or the other one is not ready. */
static void another_place(void **state)
{
    struct dataset *ds = open_it(PARTS_SIZE, "e");

    (void)state;
    ds->disk.id.lo = 1;
    assert_not_copied(ds, 1);
    ds = open_it(PARTS_SIZE, "e");
    ds->disk.id.hi = 1;
    assert_not_copied(ds, 1);
    ds = open_it(PARTS_SIZE, "e");
    has->state = DATASET_FAILED;
    assert_not_copied(ds, 1);
    has->state = DATASET_READY;
}

/* Another shape of the same bucket is another place. */
static void assert_not_copied_from_shape(struct shape shape)
{
    struct dataset *ds = open_it(PARTS_SIZE, "e");

    has->url.shape = shape;
    assert_not_copied(ds, 1);
    has->url.shape = ds->url.shape;
    assert_true(memory_evict(n.own_memory->memory, ds->index, 1)); /* not for the next one */
}

static void another_shape(void **state)
{
    (void)state;
    assert_not_copied_from_shape((struct shape){.active = true});
    assert_not_copied_from_shape((struct shape){.latency = DLC_MS(1)});
    assert_not_copied_from_shape((struct shape){.jitter = DLC_MS(1)});
    assert_not_copied_from_shape((struct shape){.bandwidth = 1});
    assert_not_copied_from_shape((struct shape){.errors = 0.5});
    assert_not_copied_from_shape((struct shape){.seed = 1});
}

/* (SAME-OBJECT-1) */
static void another_tenant(void **state)
{
    struct dataset *ds = open_it(PARTS_SIZE, "e");

    (void)state;
    assert_int_equal(tenant_memory_get(&n.memories, "other", &ds->tenant_memory, NULL), 0);
    mem_index_free(&ds->index);
    assert_int_equal(mem_index_new(ds->tenant_memory->memory, N, 1, &ds->index, NULL), 0);
    assert_not_copied(ds, 1);
    assert_true(mem_index_ready(ds->index, 1));
    mem_index_free(&ds->index);
    tenant_memory_put(&ds->tenant_memory);
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
}

/* Its copy of before is still held, so that the resident one cannot be. */
static void cannot_be_held(void **state)
{
    uint64_t len;

    (void)state;
    assert_non_null(memory_hold(n.own_memory->memory, has->index, 1, &len));
    assert_true(memory_evict(n.own_memory->memory, has->index, 1));
    fetch_start(has, 1, FETCH_MEMORY, NULL, NULL);
    played_end_all(0);
    assert_true(mem_index_ready(has->index, 1));
    assert_not_copied(open_it(PARTS_SIZE, "e"), 1);
    memory_unhold(n.own_memory->memory, has->index, 1);
}

/* A session that bypasses the cache reads the bucket only. */
static void bypass(void **state)
{
    struct dataset *ds = open_it(PARTS_SIZE, "e");

    (void)state;
    object_index_events.dataset_ready(ds);
    fetch_ahead(&(struct session){.ds = ds, .bypasses_cache = true}, 1);
    assert_int_equal(played.n_asked, 2);
    played_end_all(0);
}

static void empty_sample(void **state)
{
    struct dataset *first = open_it(0, "e");

    (void)state;
    assert_not_copied(first, 2);
    assert_true(mem_index_ready(first->index, 2));
    assert_not_copied(open_it(0, "e"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_object, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_shape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_tenant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cannot_be_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bypass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_sample, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
