// SPDX-License-Identifier: Apache-2.0
/* The Redis that nodes share as a source, on a real server: what is read there, and what stored. */
#include "daemon/played.h"

#include <poll.h>

#include "base/counters.h"
#include "base/syscalls.h"
#include "cluster/peer/redis_tier.h"
#include "daemon/session.h"
#include "manager/store/redis_servers.h"

#define N 8u

static struct redis_servers servers;
static struct node n;
static struct dataset *ds;

static int start(void **state)
{
    (void)state;
    redis_servers_start_one(&servers, "");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_servers_stop(&servers);
    return 0;
}

static void open_shared(size_t value_max)
{
    struct shared_config c = {.deadline = DLC_SEC(30), .value_max = value_max};
    struct dlc_err err = DLC_ERR_INIT;
    char url[400];

    redis_servers_url(&servers, url);
    c.url = url;
    if (shared_new(&c, &n.shared, &err) < 0)
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    static const struct fetch_source *const sources[] = {&fetch_from_redis, &played_source};
    struct dlc_err err = DLC_ERR_INIT;
    char root[256];

    (void)state;
    free(redis_server_ask(&servers, 0, "FLUSHALL"));
    played_open(&n, (uint64_t)4 << 20);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, sources, 2, prefetch_pump);
    played.at_once = true; /* the bucket */
    os_rmtree(unit_path("disk", root));
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &n.disk, &err), 0);
    open_shared(0);
    ds = played_dataset(&n, "a", N);
    parts_belongs(ds, "train", "ann");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    shared_free(&n.shared);
    played_close(&n);
    return 0;
}

static unsigned ended;

static void on_end(struct fetch_listener *l, uint64_t bytes, int rc, const struct dlc_err *err)
{
    (void)l;
    (void)bytes;
    (void)err;
    assert_int_equal(rc, 0);
    ended++;
}

static void await(void)
{
    for (unsigned i = 0; i < 20000 && (ended == 0 || n.pending > 0); i++) {
        played_turn(&n);
        poll(NULL, 0, ended == 0);
    }
    assert_int_equal(ended, 1);
}

/* Fetch it; in memory its bytes must be right. */
static void get(uint64_t sample, enum fetch_goal goal)
{
    struct fetch_listener l = {on_end};
    const unsigned char *p;
    uint64_t len;

    ended = 0;
    fetch_start(ds, sample, goal, NULL, &l);
    await();
    if (goal == FETCH_DISK)
        return;
    p = memory_hold(n.own_memory->memory, ds->index, sample, &len);
    assert_non_null(p);
    for (uint64_t i = 0; i < len; i++)
        assert_int_equal(p[i], sample);
    assert_true(mem_index_checksum(ds->index, sample) == hash64(p, len));
    memory_unhold(n.own_memory->memory, ds->index, sample);
    memory_evict(n.own_memory->memory, ds->index, sample);
}

static void await_puts(uint64_t puts)
{
    struct shared_figures f;

    for (unsigned i = 0; i < 10000; i++) {
        shared_figures(n.shared, &f);
        if (f.puts >= puts)
            break;
        poll(NULL, 0, 1);
    }
    assert_int_equal(f.puts, puts);
}

static void test_there_and_back(void **state)
{
    uint64_t hits = counters.shared_hits, misses = counters.shared_misses;

    (void)state;
    get(3, FETCH_MEMORY);
    assert_int_equal(played.n_asked, 1);
    assert_int_equal(counters.shared_misses, misses + 1);
    await_puts(1);
    get(3, FETCH_MEMORY);
    assert_int_equal(played.n_asked, 1); /* from Redis */
    assert_int_equal(counters.shared_hits, hits + 1);
    await_puts(1); /* and not stored again */
    free(redis_server_ask(&servers, 0, "FLUSHALL"));
    get(3, FETCH_MEMORY);
    assert_int_equal(played.n_asked, 2);
    await_puts(2);
}

/* What goes to disk is stored, too, with a checksum of its own. */
static void test_disk_goal(void **state)
{
    struct disk_figures f;

    (void)state;
    played.unsummed = true;
    get(5, FETCH_DISK);
    await_puts(1);
    disk_drop_all(n.disk);
    get(5, FETCH_MEMORY);
    assert_int_equal(played.n_asked, 1);
    get(5, FETCH_DISK); /* from Redis to a file */
    assert_int_equal(played.n_asked, 1);
    disk_figures(n.disk, &f);
    assert_int_equal(f.chunks, 1);
}

static void test_not_shared(void **state)
{
    uint64_t misses = counters.shared_misses;

    (void)state;
    ended = 1;
    fetch_ahead(&(struct session){.ds = ds, .bypasses_cache = true},
                1); /* for a session that keeps nothing */
    await();
    assert_int_equal(counters.shared_misses, misses);
    await_puts(0);
    shared_free(&n.shared);
    open_shared(PARTS_SIZE - 1); /* too large for it */
    get(2, FETCH_MEMORY);
    assert_int_equal(counters.shared_misses, misses);
    await_puts(0);
    shared_free(&n.shared);
    open_shared(0);
    parts_leaves(ds); /* not of the cluster */
    get(2, FETCH_MEMORY);
    assert_int_equal(counters.shared_misses, misses);
    await_puts(0);
    assert_int_equal(played.n_asked, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_goal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_shared, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
