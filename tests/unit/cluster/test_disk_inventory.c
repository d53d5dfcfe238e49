// SPDX-License-Identifier: Apache-2.0
/* What a node has on disk of the cluster's datasets is found again when nobody has them open. */
#include "daemon/parts.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/event_loop.h"
#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/disk/disk.h"
#include "cluster/disk_inventory.h"
#include "cluster/member.h"
#include "daemon/dataset_chunks.h"
#include "daemon/events.h"
#include "daemon/work.h"

#define N 5u

static struct node n;
static struct member member;
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
    member = (struct member){.node = &n};
    n.member = &member;
    n.events[0] = &inventory_events;
    memset(&config, 0, sizeof(config));
    config.dir = dir;
    n.config = &config;
    dc.root = path = mem_fmt("%s/disk", dir);
    assert_int_equal(disk_open(&dc, &n.disk, NULL), 0);
    mem_free(&path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parts_free_all(&n);
    inventory_close(&n);
    disk_close(&n.disk);
    return 0;
}

/* Open, with a stored catalog and all its chunks; the inventory hears of it. */
static struct dataset *open_one(const char *cid, const char *tenant)
{
    struct dataset *ds = parts_dataset(&n, "x", parts_catalog("k", N));
    struct dlc_err err = DLC_ERR_INIT;
    char from[256], bytes[PARTS_SIZE] = {0};
    struct catalog_entry e;

    parts_belongs(ds, cid, tenant);
    ds->disk.id = (struct name_hash){0x1234, 0x5678};
    ds->catalog_path = mem_fmt("%s/catalogs/%s.cat", dir, tenant);
    unit_path("catalog", from);
    assert_int_equal(catalog_install(from, ds->catalog_path, &err), 0);
    dataset_enter_group(ds);
    for (uint64_t i = 0; i < N; i++) {
        assert_int_equal(catalog_get(ds->catalog, i, &e, NULL), 0);
        assert_int_equal(
            disk_store(n.disk, dataset_chunk(ds, e.key, e.etag), bytes, PARTS_SIZE, NULL), 0);
    }
    events_raise(&n, catalog_loaded, ds);
    return ds;
}

static void stop_loop(struct timer *t)
{
    (void)t;
    loop_stop(n.loop);
}

static struct timer stopper = {.fire = stop_loop};

static uint64_t chunks(void)
{
    struct disk_figures f;

    disk_figures(n.disk, &f);
    return f.chunks;
}

static void chunks_of_an_open_one_are_dropped(void **state)
{
    struct dataset *ds = open_one("train", "ann");

    (void)state;
    assert_int_equal(chunks(), N);
    assert_int_equal(dataset_drop_chunks(ds, NULL, 0), N * PARTS_SIZE);
    assert_int_equal(chunks(), 0);
    assert_int_equal(dataset_drop_chunks(ds, NULL, 0), 0);
}

/* By name and tenant, as an order of the manager names it; another tenant's stays. */
static void what_is_left_is_found_by_name_and_tenant(void **state)
{
    char *note = mem_fmt("%s/catalogs/train@ann.owner", dir);
    struct stat st;

    (void)state;
    parts_free(open_one("train", "ann"));
    assert_int_equal(os_stat(note, &st), 0);
    assert_int_equal(inventory_drop(&n, "train", "bob", "", true), 0);
    assert_int_equal(inventory_drop(&n, "test", "ann", "", true), 0);
    assert_int_equal(inventory_drop(&n, "train", "ann", "s3://elsewhere/p/", true), 0);
    assert_int_equal(inventory_drop(&n, "../train", "ann", "", true), 0);
    assert_int_equal(chunks(), N);
    assert_int_equal(inventory_drop(&n, "train", "ann", "s3://data/p/", true), N * PARTS_SIZE);
    assert_int_equal(chunks(), 0);
    assert_int_equal(os_stat(note, &st), -1);
    mem_free(&note);
}

/* Files of other names stay, such as the records of versions before 0.1: they had the end ".left". */
static void records_of_other_names_are_not_read(void **state)
{
    char *note = mem_fmt("%s/catalogs/train@ann.owner", dir);
    char *older = mem_fmt("%s/catalogs/train@ann.left", dir);

    (void)state;
    parts_free(open_one("train", "ann"));
    assert_int_equal(rename(note, older), 0);
    assert_int_equal(inventory_drop(&n, "train", "ann", "", true), 0);
    assert_int_equal(chunks(), N);
    assert_int_equal(os_unlink(older), 0);
    mem_free(&older);
    mem_free(&note);
}

/* What is nobody's leaves no note: the cluster does not know it. */
static void what_is_not_the_clusters_is_not_noted(void **state)
{
    struct dataset *ds = open_one("train", "ann");
    char *note = mem_fmt("%s/catalogs/train@ann.owner", dir);

    (void)state;
    assert_int_equal(os_unlink(note), 0);
    parts_leaves(ds);
    events_raise(&n, catalog_loaded, ds);
    assert_int_equal(os_unlink(note), -1);
    mem_free(&note);
}

static void the_open_one_is_found(void **state)
{
    struct dataset *ds = open_one("train", "ann");

    (void)state;
    assert_ptr_equal(inventory_still_open(&n, "train", "ann", ""), ds);
    assert_ptr_equal(inventory_still_open(&n, "train", "ann", "s3://data/p/"), ds);
    assert_null(inventory_still_open(&n, "train", "ann", "s3://elsewhere/p/"));
    assert_null(inventory_still_open(&n, "train", "bob", ""));
    ds->stale = true;
    assert_null(inventory_still_open(&n, "train", "ann", ""));
}

/* A directory that is slow, or has many names, does not stop the loop of a node that joins. */
static void names_are_not_read_by_the_loop(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    n.loop = loop_new(&err);
    n.work = work_new(&err);
    assert_true(n.loop != NULL && n.work != NULL);
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(readdir), .nth = 1, .mode = FAULT_HANG, .pid = getpid()});
    inventory_open(&n); /* returns, although the call does not */
    assert_int_equal(n.pending, 1);
    while (fault_hanging() == 0)
        sched_yield();
    assert_true(fault_disarm());
    while (n.pending > 0) {
        loop_timer_set(n.loop, &stopper, dlc_mono_add(dlc_mono_now(), DLC_MS(1)));
        loop_run(n.loop);
    }
    work_free(&n.work);
    loop_free(&n.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunks_of_an_open_one_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_left_is_found_by_name_and_tenant, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(records_of_other_names_are_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_the_clusters_is_not_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_open_one_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_not_read_by_the_loop, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
