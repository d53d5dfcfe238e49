// SPDX-License-Identifier: Apache-2.0
/* Commands of the manager to a node: what is executed, in which order, and what is reported. */
#include "daemon/parts.h"

#include "base/config.h"
#include "base/event_loop.h"
#include "base/syscalls.h"
#include "cache/disk/disk.h"
#include "cluster/commands.h"
#include "cluster/disk_inventory.h"
#include "cluster/member.h"
#include "daemon/dataset_chunks.h"
#include "daemon/events.h"
#include "daemon/work.h"

#define N 5u

static struct node n;
static struct member m;
static struct config config;
static char dir[256];

static int set_up(void **state)
{
    static unsigned runs;
    char name[32], *path;
    struct disk_config dc = {0};

    (void)state;
    snprintf(name, sizeof(name), "node%u", runs++);
    unit_path(name, dir);
    path = mem_fmt("%s/catalogs", dir);
    assert_int_equal(os_mkdirs(path, 0700), 0);
    mem_free(&path);
    parts_node(&n);
    memset(&m, 0, sizeof(m));
    dlc_list_init(&m.commands);
    dlc_list_init(&n.warms);
    dlc_list_init(&n.memories.all);
    m.node = &n;
    n.member = &m;
    n.events[0] = &inventory_events;
    memset(&config, 0, sizeof(config));
    config.dir = dir;
    n.config = &config;
    dc.root = path = mem_fmt("%s/disk", dir);
    assert_int_equal(disk_open(&dc, &n.disk, NULL), 0);
    mem_free(&path);
    assert_non_null(n.loop = loop_new(NULL));
    assert_non_null(n.work = work_new(NULL));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    commands_free(&n);
    work_free(&n.work);
    loop_free(&n.loop);
    parts_free_all(&n);
    disk_close(&n.disk);
    return 0;
}

/* ---- the node's datasets ---- */

/* Open, with all its chunks on disk. */
static struct dataset *open_one(const char *cid, const char *tenant, uint64_t disk_id)
{
    struct dataset *ds = parts_dataset(&n, "x", parts_catalog("k", N));
    char from[256], bytes[PARTS_SIZE] = {0};
    struct catalog_entry e;

    parts_belongs(ds, cid, tenant);
    ds->disk.id = (struct name_hash){0, disk_id};
    ds->refs = 1;
    ds->catalog_path = mem_fmt("%s/catalogs/%s.cat", dir, tenant);
    unit_path("catalog", from);
    assert_int_equal(catalog_install(from, ds->catalog_path, NULL), 0);
    dataset_enter_group(ds);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(catalog_get(ds->catalog, i, &e, NULL), 0);
        assert_int_equal(
            disk_store(n.disk, dataset_chunk(ds, e.key, e.etag), bytes, PARTS_SIZE, NULL), 0);
    }
    events_raise(&n, catalog_loaded, ds);
    return ds;
}

static uint64_t chunks(void)
{
    struct disk_figures f;

    disk_figures(n.disk, &f);
    return f.chunks;
}

/* ---- the manager's side ---- */

/* A heartbeat's answer with these commands, in JSON with ' for ". */
static void take(const char *text)
{
    char *json = mem_str(text);
    json_t *list;

    for (char *c = json; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    list = json_loads(json, 0, NULL);
    assert_non_null(list);
    commands_take(&n, list);
    json_decref(list);
    mem_free(&json);
}

static size_t n_done(void)
{
    json_t *done = commands_done(&n);
    size_t k = json_array_size(done);

    json_decref(done);
    return k;
}

static size_t wanted;

static void check(struct timer *t)
{
    if (n_done() >= wanted)
        loop_stop(n.loop);
    else
        loop_timer_set(n.loop, t, dlc_mono_add(loop_now(n.loop), DLC_MS(1)));
}

/* Run the loop until so many are done; the report of them. Gives. */
static json_t *run_until(size_t k)
{
    struct timer t = {.fire = check};

    wanted = k;
    loop_timer_set(n.loop, &t, dlc_mono_now());
    loop_run(n.loop);
    loop_timer_del(n.loop, &t);
    return commands_done(&n);
}

static json_int_t disk_bytes(const json_t *done, size_t i)
{
    const json_t *result = json_object_get(json_array_get(done, i), "result");

    assert_non_null(result);
    return json_integer_value(json_object_get(result, "disk_bytes"));
}

/* ---- tests ---- */

/* The manager repeats a command until it is told, and hears of it until it has confirmed. */
static void a_command_is_executed_once(void **state)
{
    const char *evict = "[{'id': 7, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann'}]";
    json_t *done;

    (void)state;
    parts_free(open_one("train", "ann", 1));
    take(evict);
    take(evict);
    done = run_until(1);
    assert_int_equal(json_array_size(done), 1);
    assert_int_equal(disk_bytes(done, 0), N * PARTS_SIZE);
    assert_int_equal(chunks(), 0);
    take(evict);
    assert_int_equal(n_done(), 1); /* not confirmed yet */
    commands_confirmed(&n, done);
    assert_int_equal(n_done(), 0);
    json_decref(done);
    assert_int_equal(n.pending, 0);
}

/* (CLUSTER-2): only of the tenant that it names. */
static void another_tenants_chunks_stay(void **state)
{
    json_t *done;

    (void)state;
    parts_free(open_one("train", "bob", 2));
    take("[{'id': 'x', 'op': 'evict', 'dataset': 'train', 'tenant': 'ann'}]");
    done = run_until(1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(done, 0), "id")), "x");
    assert_int_equal(disk_bytes(done, 0), 0);
    assert_int_equal(chunks(), N);
    json_decref(done);
}

static void an_open_dataset_is_evicted_and_released(void **state)
{
    struct dataset *ds = open_one("train", "ann", 3);
    json_t *done;

    (void)state;
    take("[{'id': 1, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann', 'tier': 'disk'}]");
    assert_int_equal(ds->refs, 2); /* while it is executed */
    done = run_until(1);
    assert_int_equal(disk_bytes(done, 0), N * PARTS_SIZE);
    assert_int_equal(ds->refs, 1);
    assert_int_equal(chunks(), 0);
    json_decref(done);
}

/* Of a deleted one nothing stays for the next run: report.c closes it after its last user. */
static void a_deleted_dataset_is_forgotten(void **state)
{
    struct dataset *ds = open_one("train", "ann", 7), *other = open_one("train", "bob", 8);

    (void)state;
    take("[{'id': 1, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann', 'tier': 'disk'},"
         " {'id': 2, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann', 'tier': 'disk',"
         "  'deleted': true}]");
    assert_false(ds->deleted); /* an eviction alone leaves it open */
    json_decref(run_until(2));
    assert_true(ds->deleted);
    assert_int_equal(ds->refs, 1); /* its session's */
    assert_false(other->deleted);
}

/* Commands for one dataset run one after the other; those for another do not wait. */
static void commands_of_one_dataset_run_in_order(void **state)
{
    struct dataset *train = open_one("train", "ann", 4), *test = open_one("test", "ann", 5);
    json_t *done;

    (void)state;
    take("[{'id': 1, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann', 'tier': 'disk'},"
         " {'id': 2, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann', 'tier': 'disk'},"
         " {'id': 3, 'op': 'evict', 'dataset': 'test', 'tenant': 'ann', 'tier': 'disk'}]");
    assert_int_equal(train->refs, 2); /* the first alone holds it */
    assert_int_equal(test->refs, 2);
    done = run_until(3);
    assert_int_equal(disk_bytes(done, 0), N * PARTS_SIZE);
    assert_int_equal(disk_bytes(done, 1), 0); /* nothing was left for it */
    assert_int_equal(disk_bytes(done, 2), N * PARTS_SIZE);
    json_decref(done);
}

static void an_unknown_command_fails(void **state)
{
    json_t *done;
    const char *error;

    (void)state;
    take("[{'id': 1, 'op': 'polish', 'dataset': 'train', 'tenant': 'ann'}, {'op': 'evict'}, 3]");
    done = commands_done(&n); /* what has no id cannot be reported: it is passed over */
    assert_int_equal(json_array_size(done), 1);
    error = json_string_value(json_object_get(json_array_get(done, 0), "error"));
    assert_non_null(error);
    assert_non_null(strstr(error, "does not know this command"));
    assert_null(json_object_get(json_array_get(done, 0), "result"));
    json_decref(done);
}

static void a_daemon_that_ends_begins_nothing(void **state)
{
    (void)state;
    parts_free(open_one("train", "ann", 6));
    n.stopping = true;
    take("[{'id': 1, 'op': 'evict', 'dataset': 'train', 'tenant': 'ann'}]");
    assert_true(dlc_list_empty(&m.commands));
    assert_int_equal(chunks(), N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_command_is_executed_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_tenants_chunks_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_open_dataset_is_evicted_and_released, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deleted_dataset_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands_of_one_dataset_run_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_command_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_daemon_that_ends_begins_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
