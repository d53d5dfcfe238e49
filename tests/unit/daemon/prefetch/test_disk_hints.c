// SPDX-License-Identifier: Apache-2.0
/*
 * Hints to the disk tier: what a dataset's chunks cost, how often they will be read, and whose the
 * chunks of an earlier daemon are. How many runs the tier expects is seen by what it evicts: of two
 * groups that cost the same, that which will be read less often.
 */
#include "daemon/played.h"

#include <math.h>
#include <poll.h>
#include <semaphore.h>

#include "base/config.h"
#include "base/syscalls.h"
#include "bucket/bucket.h"
#include "cache/policy/policy.h"
#include "cluster/peer/view.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/session.h"
#include "order/schedule.h"

#define N    50u
#define SIZE 4096u /* of a chunk */

static struct node n;
static struct dataset *ds;
static struct config config;
static struct session s[2];
static uint32_t probe, newcomer; /* groups */
static uint64_t costs;           /* how often one was told */
static double last_cost;
static uint64_t last_number;

static void on_cost(struct dataset *of, uint64_t number, double cost)
{
    assert_ptr_equal(of, ds);
    costs++;
    last_cost = cost;
    last_number = number;
}

static const struct node_events told = {.sample_cost = on_cost, .derived_cost = on_cost};

static int set_up(void **state)
{
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct disk_figures f;
    char root[256];

    (void)state;
    played_open(&n, (uint64_t)4 << 20);
    n.events[0] = &disk_hints_events;
    n.events[1] = &told;
    costs = 0;
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_load(&config, "/dev/null", &err), 0);
    n.config = &config;
    os_rmtree(unit_path("disk", root));
    assert_int_equal(
        disk_open(&(struct disk_config){.root = root, .limit = 2 * SIZE}, &n.disk, &err), 0);
    do
        disk_figures(n.disk, &f);
    while (f.scanning);
    ds = played_dataset(&n, "x", N);
    ds->runs_after = POLICY_UNKNOWN;
    ds->disk.group = disk_group(n.disk, 1, "x");
    probe = disk_group(n.disk, 2, "probe");
    newcomer = disk_group(n.disk, 3, "newcomer");
    for (unsigned i = 0; i < 8; i++) { /* it was read before: that counts where nobody knows */
        disk_group_join(n.disk, ds->disk.group);
        disk_group_leave(n.disk, ds->disk.group);
    }
    bc.price_get = 1; /* for a thousand */
    bc.price_gb = 2;
    assert_int_equal(bucket_open(&ds->url, &bc, &ds->bucket, &err), 0);
    memset(s, 0, sizeof(s));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < unit_count(s); i++)
        schedule_free(&s[i].reader.schedule);
    bucket_close(&ds->bucket);
    played_close(&n);
    if (n.cluster != NULL)
        cluster_free(&n.cluster);
    config_release(&config);
    return 0;
}

/* A session begins; epochs 0: without an end. */
static void follow(unsigned i, uint64_t epochs, uint64_t pos)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N};

    s[i].ds = ds;
    s[i].reader.active = true;
    s[i].reader.pos = pos;
    schedule_free(&s[i].reader.schedule);
    s[i].reader.schedule = schedule_new(&spec, 0, epochs, NULL);
    assert_non_null(s[i].reader.schedule);
    if (dlc_list_empty(&ds->sessions) || i > 0)
        dlc_list_push_tail(&ds->sessions, &s[i].link);
}

static void store(uint64_t id, uint32_t group)
{
    static const char bytes[SIZE];
    struct chunk_id c = {.hi = id, .lo = id, .group = group};
    struct dlc_err err = DLC_ERR_INIT;

    if (disk_store(n.disk, c, bytes, SIZE, &err) < 0)
        fail_msg("chunk %u: %s", (unsigned)id, err.text);
}

/* Does a chunk of the dataset go before one that will be read `runs` times? */
static bool goes_before(int32_t runs)
{
    struct disk_group_figures f;

    disk_drop_all(n.disk);
    disk_group_cost(n.disk, ds->disk.group, 1, SIZE);
    disk_group_cost(n.disk, probe, 1, SIZE);
    disk_group_cost(n.disk, newcomer, 100, SIZE);
    disk_group_expect(n.disk, probe, runs);
    disk_group_expect(n.disk, newcomer, 1000000);
    store(1, ds->disk.group);
    store(2, probe);
    store(3, newcomer);
    disk_group_figures(n.disk, ds->disk.group, &f);
    return f.chunks == 0;
}

static void assert_runs(int32_t runs)
{
    dataset_expect(ds);
    assert_int_equal(ds->runs, runs); /* for the memory tier */
    assert_true(goes_before(runs + 1));
    if (runs > 0)
        assert_false(goes_before(runs - 1));
}

/* Its past counts then: it is worth more than what is read once more, less than what is often. */
static void assert_unknown(void)
{
    dataset_expect(ds);
    assert_int_equal(ds->runs, POLICY_UNKNOWN);
    assert_false(goes_before(1));
    assert_true(goes_before(1000));
}

/* ---- tests ---- */

static void test_runs_of_orders(void **state)
{
    (void)state;
    follow(0, 5, 0);
    assert_runs(5);
    follow(0, 5, 2 * N + 1);
    assert_runs(3); /* part of one counts */
    follow(0, 5, 5 * N);
    assert_runs(0);
    follow(0, 5, 9 * N); /* beyond the end */
    assert_runs(0);
    follow(0, 5, N);
    follow(1, 2, 0);
    assert_runs(6);
    dlc_list_remove(&s[1].link);
    dlc_list_remove(&s[0].link);
}

static void take_view(unsigned version, int readers, int runs)
{
    json_t *view =
        json_pack("{s:i, s:[{s:s, s:s, s:i, s:s}], s:[{s:s, s:i, s:i}]}", "version", (int)version,
                  "nodes", "name", "a", "address", "http://a:1", "weight", 1, "state", "live",
                  "datasets", "id", "train", "readers", readers, "runs", runs);

    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

/* The manager knows of the jobs of all nodes. */
static void test_runs_of_the_cluster(void **state)
{
    (void)state;
    n.cluster = cluster_new("a");
    parts_belongs(ds, "train", "ann");
    take_view(1, 1, 7);
    assert_runs(7); /* nobody reads it here */
    follow(0, 5, 0);
    assert_runs(7);
    follow(0, 9, 0);
    assert_runs(9);
    take_view(2, 0, 20); /* of no reader: it does not count */
    assert_runs(9);
    dlc_list_remove(&s[0].link);
}

/* What was expected before is forgotten when nobody can say any more. */
static void test_unknown_runs(void **state)
{
    uint64_t *v = mem_alloc(sizeof(*v));
    struct schedule_list *l;

    (void)state;
    assert_unknown();
    follow(0, 0, 0);
    assert_unknown();
    v[0] = 1;
    l = schedule_list_new(v, 1, N, NULL);
    schedule_free(&s[0].reader.schedule);
    s[0].reader.schedule = schedule_new_list(&l, 0, 3, 0); /* lists that are still to come */
    assert_unknown();
    follow(0, 5, 0);
    follow(1, 5, 0);
    s[1].reader.active = false; /* without an order */
    assert_unknown();
    s[1].reader.active = true;
    assert_runs(10);
    ds->state = DATASET_LISTING;
    s[1].reader.active = false;
    assert_runs(10); /* nothing is said of a dataset that is not ready */
    ds->state = DATASET_READY;
    dlc_list_remove(&s[1].link);
    dlc_list_remove(&s[0].link);
}

/* A job says how many runs follow its own (DLCACHE_RUNS). */
static void test_runs_declared(void **state)
{
    (void)state;
    dataset_run_begins(ds, -1);
    assert_int_equal(ds->runs, POLICY_UNKNOWN);
    dataset_run_begins(ds, 3);
    assert_int_equal(ds->runs, 3); /* nobody has announced an order */
    assert_runs(3);
    follow(0, 5, 0);
    dataset_run_begins(ds, 2);
    assert_int_equal(ds->runs, 5 + 2);
    follow(1, 5, 0);
    dataset_run_begins(ds, -1); /* a second rank of that run */
    assert_int_equal(ds->runs, 5 + 5 + 2);
    dlc_list_remove(&s[1].link);
    dataset_run_begins(ds, -1); /* the next run begins */
    assert_int_equal(ds->runs, 5 + 1);
    dataset_run_begins(ds, -1);
    assert_int_equal(ds->runs, 5);
    dlc_list_remove(&s[0].link);
    assert_runs(0); /* it was the last one */
    dataset_run_begins(ds, -1);
    assert_unknown(); /* there is another one all the same */
}

/* Of a dataset without samples there is nothing to expect. */
static void test_runs_of_nothing(void **state)
{
    (void)state;
    catalog_close(&ds->catalog);
    ds->catalog = parts_catalog("none", 0);
    dataset_run_begins(ds, 3);
    assert_int_equal(ds->runs, POLICY_UNKNOWN);
    n.cluster = cluster_new("a");
    parts_belongs(ds, "train", "ann");
    take_view(1, 1, 7);
    dataset_run_begins(ds, -1);
    assert_int_equal(ds->runs, POLICY_UNKNOWN);
}

static void test_costs(void **state)
{
    struct policy_prices prices;
    double want;

    (void)state;
    config.price_second = 3;
    prices.share = 3.0 / 4;
    bucket_prices(ds->bucket, &prices.request, &prices.transfer);
    assert_true(prices.request > 0 && prices.transfer > 0);
    want = policy_cost(&prices, 2, 1000000);
    dataset_fetched(ds, 5, DLC_SEC(2), 1000000);
    assert_int_equal(ds->outcomes.fetched, 1);
    assert_int_equal(costs, 0); /* the cluster does not know it */
    parts_belongs(ds, "train", "ann");
    dataset_fetched(ds, 5, DLC_SEC(2), 1000000);
    assert_int_equal(costs, 1);
    assert_int_equal(last_number, 5);
    assert_true(fabs(last_cost - want) < 1e-9);
    dataset_derived(ds, 7, DLC_SEC(2), 1000000);
    assert_int_equal(costs, 2);
    assert_int_equal(last_number, 7);
    assert_true(fabs(last_cost - want) < 1e-9);
    catalog_close(&ds->catalog); /* it is being listed: no catalog yet */
    dataset_derived(ds, 8, DLC_SEC(2), 1000000);
    assert_int_equal(last_number, 8);
}

/* Without a disk tier the cluster still wants to know what samples cost. */
static void test_costs_without_a_disk(void **state)
{
    struct disk *d = n.disk;

    (void)state;
    n.disk = NULL;
    dataset_fetched(ds, 1, DLC_SEC(1), 1000);
    dataset_derived(ds, 1, DLC_SEC(1), 1000);
    assert_int_equal(costs, 0);
    parts_belongs(ds, "train", "ann");
    dataset_fetched(ds, 1, DLC_SEC(1), 1000);
    assert_int_equal(costs, 1);
    dataset_derived(ds, 1, DLC_SEC(1), 1000);
    assert_int_equal(costs, 1);
    dataset_expect(ds);
    events_raise(&n, dataset_ready, ds);
    assert_int_equal(n.pending, 0);
    n.disk = d;
}

static struct chunk_id chunk_of(uint64_t sample)
{
    struct catalog_entry e;
    struct chunk_id id;

    assert_int_equal(catalog_get(ds->catalog, sample, &e, NULL), 0);
    id = dataset_chunk(ds, e.key, e.etag);
    id.group = 0; /* as an earlier daemon left it */
    return id;
}

static void settle(void)
{
    for (unsigned i = 0; i < 5000 && n.pending > 0; i++) {
        played_turn(&n);
        poll(NULL, 0, n.pending > 0);
    }
    assert_int_equal(n.pending, 0);
    assert_int_equal(ds->refs, 1);
    assert_null(ds->disk.adoption);
}

/* Chunks that an earlier daemon left become the dataset's, those of others do not. */
static void test_adoption(void **state)
{
    static const char bytes[PARTS_SIZE];
    struct disk_group_figures f;
    struct chunk_id other = {.hi = 7, .lo = 7};

    (void)state;
    assert_int_equal(disk_store(n.disk, chunk_of(0), bytes, PARTS_SIZE, NULL), 0);
    assert_int_equal(disk_store(n.disk, chunk_of(N - 1), bytes, PARTS_SIZE, NULL), 0);
    assert_int_equal(disk_store(n.disk, other, bytes, PARTS_SIZE, NULL), 0);
    n.stopping = true;
    events_raise(&n, dataset_ready, ds);
    assert_int_equal(n.pending, 0);
    n.stopping = false;
    events_raise(&n, dataset_ready, ds);
    assert_int_equal(n.pending, 1);
    settle();
    disk_group_figures(n.disk, ds->disk.group, &f);
    assert_int_equal(f.chunks, 2);
    disk_group_figures(n.disk, 0, &f);
    assert_int_equal(f.chunks, 1);
    disk_drop(n.disk, other);
    events_raise(&n, dataset_ready, ds); /* nothing is left to adopt */
    assert_int_equal(n.pending, 0);
}

static sem_t gate, passed;

static void wait_at_gate(struct work *w)
{
    (void)w;
    sem_wait(&gate);
    sem_post(&passed);
}

/* A dataset that stops is not walked to its end. */
static void test_adoption_stops(void **state)
{
    static const char bytes[PARTS_SIZE];
    struct work stuck[4] = {{0}};
    struct disk_group_figures f;

    (void)state;
    assert_int_equal(disk_store(n.disk, chunk_of(0), bytes, PARTS_SIZE, NULL), 0);
    sem_init(&gate, 0, 0);
    sem_init(&passed, 0, 0);
    for (unsigned i = 0; i < unit_count(stuck); i++) {
        stuck[i].run = wait_at_gate;
        work_run(n.work, WORK_BACKGROUND, &stuck[i]);
    }
    events_raise(&n, dataset_ready, ds);
    assert_non_null(ds->disk.adoption);
    events_raise(&n, dataset_stopping, ds);
    for (unsigned i = 0; i < unit_count(stuck); i++)
        sem_post(&gate);
    for (unsigned i = 0; i < unit_count(stuck); i++)
        sem_wait(&passed);
    settle();
    disk_group_figures(n.disk, ds->disk.group, &f);
    assert_int_equal(f.chunks, 0);
    events_raise(&n, dataset_stopping, ds); /* nothing is under way */
}

/* A dataset with one plain object and one that has a derived form, in this order. */
static struct catalog *catalog_with_derived_form(void)
{
    const struct piece pieces[] = {{PIECE_OBJECT, .object = 0, .length = 10},
                                   {PIECE_DERIVED, .object = 1, .length = 20}};
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    char path[256];

    assert_int_equal(catalog_builder_add(b, "a", 1, 10, "e", &err), 0);
    assert_int_equal(catalog_builder_add(b, "b", 1, 10, "e", &err), 0);
    catalog_builder_settle(b);
    assert_int_equal(catalog_builder_derived(b, 1, PARTS_SIZE, &err), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct catalog_new_sample one = {.name = i == 0 ? "x" : "y",
                                         .name_len = 1,
                                         .pieces = &pieces[i],
                                         .n_pieces = 1,
                                         .label = SAMPLE_NO_LABEL};

        assert_int_equal(catalog_builder_sample(b, &one, &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("derived", path), "s3://b/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    return c;
}

static void test_adoption_of_derived_forms(void **state)
{
    static const char bytes[PARTS_SIZE];
    struct disk_group_figures f;
    struct catalog_entry e;

    (void)state;
    catalog_close(&ds->catalog);
    ds->catalog = catalog_with_derived_form();
    for (unsigned i = 0; i < 2; i++) { /* of the plain one there is none: another's chunk */
        struct chunk_id id;

        assert_int_equal(catalog_object(ds->catalog, i, &e, NULL), 0);
        id = dataset_derived_chunk(ds, &e);
        id.group = 0;
        assert_int_equal(disk_store(n.disk, id, bytes, PARTS_SIZE, NULL), 0);
    }
    events_raise(&n, dataset_ready, ds);
    settle();
    disk_group_figures(n.disk, ds->disk.group, &f);
    assert_int_equal(f.chunks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs_of_orders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_runs_of_the_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_runs_declared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_runs_of_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_costs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_costs_without_a_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_adoption, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_adoption_stops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_adoption_of_derived_forms, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
