// SPDX-License-Identifier: Apache-2.0
/*
 * The sources of fetches over a real memory, disk tier and bucket of files: where a sample comes
 * from, where a copy stays, and what a source that fails or waits does.
 */
#include "daemon/played.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/syscalls.h"
#include "bucket/bucket.h"
#include "daemon/cluster_ops.h"
#include "daemon/session.h"

#define N    8u
#define ROOM ((uint64_t)4 << 20)

static struct node n;
static struct dataset *ds;
static struct config config;
static struct bucket_tally tally; /* of the bucket's requests */
static char files[256];

/* ---- the world ---- */

static const char *file_of(uint64_t sample)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s/s%06u", files, (unsigned)sample);
    return path;
}

static void write_file(uint64_t sample, int byte)
{
    unsigned char bytes[PARTS_SIZE];
    int fd = open(file_of(sample), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    memset(bytes, byte, sizeof(bytes));
    assert_true(fd >= 0);
    assert_int_equal(os_write_all(fd, bytes, sizeof(bytes)), 0);
    os_close(&fd);
}

/* Of the files, with the ETags that the bucket has. */
static struct catalog *catalog_of_files(void)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    struct bucket_stat st;
    char path[256], key[20];

    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "s%06u", i);
        assert_int_equal(bucket_stat_wait(ds->bucket, key, &st, &err), 0);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), PARTS_SIZE, st.etag, &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("catalog", path), "file:///x/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    return c;
}

static void open_disk(void)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct disk_figures f;
    char root[256];

    unit_path("disk", root);
    os_rmtree(root);
    if (disk_open(&(struct disk_config){.root = root}, &n.disk, &err) < 0)
        fail_msg("%s", err.text);
    do
        disk_figures(n.disk, &f);
    while (f.scanning);
}

static int set_up(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    played_open(&n, ROOM);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, fetch_sources, n_fetch_sources, prefetch_pump);
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_load(&config, "/dev/null", &err), 0);
    n.config = &config;
    open_disk();
    unit_path("files", files);
    mkdir(files, 0700);
    for (unsigned i = 0; i < N; i++)
        write_file(i, (int)i);
    ds = played_files(&n, files, &tally);
    ds->catalog = catalog_of_files();
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bucket_close(&ds->bucket);
    played_close(&n);
    config_release(&config);
    return 0;
}

/* Until nothing is under way any more. */
static void settle(void)
{
    for (unsigned i = 0; i < 20000 && (n.pending > 0 || ds->fetching.n > 0); i++) {
        played_turn(&n);
        poll(NULL, 0, n.pending > 0);
    }
    assert_int_equal(n.pending, 0);
    assert_int_equal(ds->refs, 1);
}

/* ---- readers ---- */

struct reader {
    struct waiter w;
    unsigned times;
    int rc;
    char text[500];
};

static void on_answer(struct waiter *w, int rc, const char *text)
{
    struct reader *r = dlc_container(w, struct reader, w);

    r->times++;
    r->rc = rc;
    snprintf(r->text, sizeof(r->text), "%s", text == NULL ? "" : text);
}

static void want(struct reader *r, uint64_t sample, struct session *s)
{
    memset(r, 0, sizeof(*r));
    r->w.done = on_answer;
    r->w.session = s;
    r->w.asked = dlc_mono_now();
    dlc_list_init(&r->w.of_fetch);
    fetch_start(ds, sample, FETCH_MEMORY, &r->w, NULL);
}

/* Read it and wait for all that follows. */
static int get(uint64_t sample)
{
    struct reader r;

    want(&r, sample, NULL);
    settle();
    assert_int_equal(r.times, 1);
    assert_true(r.rc == 0 || r.text[0] != '\0'); /* an error says why */
    return r.rc;
}

static int ended_rc;
static unsigned ended_times;

static void on_end(struct fetch_listener *l, uint64_t bytes, int rc, const struct dlc_err *err)
{
    (void)l;
    (void)bytes;
    (void)err;
    ended_rc = rc;
    ended_times++;
}

/* The disk goal. */
static int to_disk(uint64_t sample)
{
    struct fetch_listener l = {on_end};

    ended_times = 0;
    fetch_start(ds, sample, FETCH_DISK, NULL, &l);
    settle();
    assert_int_equal(ended_times, 1);
    return ended_rc;
}

static struct chunk_id chunk_of(uint64_t sample)
{
    struct catalog_entry e;

    assert_int_equal(catalog_get(ds->catalog, sample, &e, NULL), 0);
    return dataset_chunk(ds, e.key, e.etag);
}

static bool on_disk(uint64_t sample)
{
    return disk_has(n.disk, chunk_of(sample));
}

static void assert_resident(uint64_t sample)
{
    uint64_t len;
    const unsigned char *p = memory_hold(n.own_memory->memory, ds->index, sample, &len);

    assert_non_null(p);
    assert_int_equal(len, PARTS_SIZE);
    for (unsigned i = 0; i < PARTS_SIZE; i++)
        assert_int_equal(p[i], sample);
    assert_int_equal(mem_index_checksum(ds->index, sample), hash64(p, PARTS_SIZE));
    memory_unhold(n.own_memory->memory, ds->index, sample);
}

/* ---- threads of a work class that hang ---- */

static sem_t gate, passed;

static void wait_at_gate(struct work *w)
{
    (void)w;
    sem_wait(&gate);
    sem_post(&passed);
}

static struct work stuck[32];

static void block(enum work_class c)
{
    sem_init(&gate, 0, 0);
    sem_init(&passed, 0, 0);
    memset(stuck, 0, sizeof(stuck));
    for (unsigned i = 0; i < unit_count(stuck); i++) {
        stuck[i].run = wait_at_gate;
        work_run(n.work, c, &stuck[i]);
    }
}

static void unblock(void)
{
    for (unsigned i = 0; i < unit_count(stuck); i++)
        sem_post(&gate);
    for (unsigned i = 0; i < unit_count(stuck); i++)
        sem_wait(&passed);
}

/* ---- tests ---- */

static void test_bucket_then_disk(void **state)
{
    uint64_t before;

    (void)state;
    assert_int_equal(get(3), 0);
    assert_resident(3);
    assert_int_equal(ds->outcomes.fetched, 1);
    assert_true(on_disk(3)); /* a copy */
    memory_evict(n.own_memory->memory, ds->index, 3);
    assert_int_equal(unlink(file_of(3)), 0);
    assert_int_equal(get(3), 0);
    assert_resident(3);
    assert_int_equal(ds->outcomes.fetched, 1);
    memory_evict(n.own_memory->memory, ds->index, 3);
    disk_drop(n.disk, chunk_of(3));
    before = tally.requests;
    assert_int_equal(get(3), DLC_ENOTFOUND);
    assert_int_equal(tally.requests, before + 1); /* it is not asked for another version */
}

static void test_disk_goal(void **state)
{
    uint64_t stores;

    (void)state;
    assert_int_equal(to_disk(2), 0); /* from the bucket */
    assert_true(on_disk(2));
    assert_false(mem_index_ready(ds->index, 2));
    assert_int_equal(ds->outcomes.fetched, 1);
    assert_int_equal(unlink(file_of(2)), 0);
    stores = counters.disk_stores;
    assert_int_equal(to_disk(2), 0); /* it is there */
    assert_int_equal(counters.disk_stores, stores);
    assert_int_equal(get(2), 0); /* the same bytes */
    assert_resident(2);
    disk_drop(n.disk, chunk_of(2));
    assert_int_equal(to_disk(2), 0); /* from memory */
    assert_true(on_disk(2));
    assert_int_equal(ds->outcomes.fetched, 1);
    assert_int_equal(to_disk(2), 0); /* resident and on disk */
    assert_int_equal(counters.disk_stores, stores + 1);
    memory_evict(n.own_memory->memory, ds->index, 2);
    memory_tick(n.own_memory->memory); /* nobody holds it any more */
    assert_null(memory_hold(n.own_memory->memory, ds->index, 2, &stores));
}

/* A daemon that ends stores nothing more, and says so to those that wait. */
static void test_stores_while_it_ends(void **state)
{
    uint64_t dropped = counters.disk_stores_dropped;

    (void)state;
    atomic_store(&n.ending, true);
    assert_int_equal(get(1), 0);
    assert_false(on_disk(1));
    assert_int_equal(counters.disk_stores_dropped, dropped + 1);
    assert_int_equal(to_disk(1), DLC_EBYPASS);
    n.stopping = true;
    write_file(2, 2);
    assert_int_equal(get(2), DLC_ECANCELED);
    n.stopping = false;
}

static void test_stores_are_bounded(void **state)
{
    uint64_t dropped = counters.disk_stores_dropped;

    (void)state;
    budget_take(ds, BUDGET_STORING, 2 * ROOM); /* the disk is behind */
    assert_int_equal(get(1), 0);
    assert_false(on_disk(1));
    assert_int_equal(counters.disk_stores_dropped, dropped + 1);
    budget_give(ds, BUDGET_STORING, 2 * ROOM);
    fetch_ahead(&(struct session){.ds = ds, .bypasses_cache = true},
                2); /* for a session that keeps nothing */
    settle();
    assert_resident(2);
    assert_false(on_disk(2));
}

/* (FETCH-1): bytes that changed in memory reach neither the disk nor another reader. */
static void test_corrupt_memory(void **state)
{
    uint64_t corrupt = counters.mem_corrupt, len;
    struct reader r;
    unsigned char *p;

    (void)state;
    block(WORK_STORE);
    want(&r, 4, NULL);
    for (unsigned i = 0; i < 10000 && r.times == 0; i++) {
        played_turn(&n);
        poll(NULL, 0, r.times == 0);
    }
    assert_int_equal(n.used[BUDGET_STORING], PARTS_SIZE); /* the copy waits */
    assert_int_equal(n.used[BUDGET_FETCHES], 1);
    p = (unsigned char *)(uintptr_t)memory_hold(n.own_memory->memory, ds->index, 4, &len);
    p[5] ^= 1;
    memory_unhold(n.own_memory->memory, ds->index, 4);
    unblock();
    settle();
    assert_int_equal(counters.mem_corrupt, corrupt + 1);
    assert_false(mem_index_ready(ds->index, 4));
    assert_false(on_disk(4));
    assert_int_equal(get(4), 0);
    assert_resident(4);
}

/* A read that waits for prefetches of others goes to the front when a reader wants it. */
static void test_hurry(void **state)
{
    struct reader r;

    (void)state;
    assert_int_equal(to_disk(5), 0);
    block(WORK_PREFETCH);
    fetch_start(ds, 5, FETCH_MEMORY, NULL, NULL);
    want(&r, 5, NULL);
    for (unsigned i = 0; i < 10000 && r.times == 0; i++) {
        played_turn(&n);
        poll(NULL, 0, r.times == 0);
    }
    assert_int_equal(r.times, 1);
    assert_int_equal(r.rc, 0);
    assert_int_equal(ds->outcomes.fetched, 1); /* to_disk() */
    unblock();
    settle();
    assert_resident(5);
}

/* A disk that does not answer: the bucket is read, and the read in the queue is taken back. */
static void test_disk_hangs(void **state)
{
    uint64_t hedges = counters.disk_hedges;
    struct reader r;

    (void)state;
    assert_int_equal(to_disk(5), 0);
    block(WORK_DEMAND);
    want(&r, 5, NULL);
    dlc_clock_advance(DLC_MS(100));
    played_turn(&n);
    assert_int_equal(counters.disk_hedges, hedges);
    dlc_clock_advance(DLC_MS(300));
    settle(); /* while the threads hang */
    assert_int_equal(r.times, 1);
    assert_int_equal(r.rc, 0);
    assert_int_equal(counters.disk_hedges, hedges + 1);
    assert_int_equal(ds->outcomes.fetched, 2);
    assert_resident(5);
    unblock();
}

/* The read of a sample on disk takes so long. True: the bucket was read instead. */
static bool disk_takes(uint64_t sample, struct dlc_dur d)
{
    uint64_t hedges = counters.disk_hedges;
    struct reader r;

    memory_evict(n.own_memory->memory, ds->index, sample);
    block(WORK_DEMAND);
    want(&r, sample, NULL);
    dlc_clock_advance(d);
    played_turn(&n);
    unblock();
    settle();
    assert_int_equal(r.rc, 0);
    return counters.disk_hedges > hedges;
}

/* A disk that is slow all the time is given more of it: two seconds. */
static void test_slow_disk(void **state)
{
    (void)state;
    assert_int_equal(to_disk(5), 0);
    for (unsigned ms = 200; ms < 800; ms += 300) {
        for (unsigned i = 0; i < 3; i++)
            assert_false(disk_takes(5, DLC_MS(ms)));
    }
    assert_false(disk_takes(5, DLC_MS(1500)));
    assert_true(disk_takes(5, DLC_MS(2500)));
}

/* A prefetch does not wait behind readers. */
static void test_prefetch_class(void **state)
{
    (void)state;
    assert_int_equal(to_disk(6), 0);
    block(WORK_DEMAND);
    fetch_start(ds, 6, FETCH_MEMORY, NULL, NULL);
    settle();
    assert_resident(6);
    assert_int_equal(ds->outcomes.fetched, 1);
    unblock();
}

static void test_damaged_chunk(void **state)
{
    struct disk_group_figures g;
    char root[256], pattern[300];
    glob_t chunks;
    int fd;

    (void)state;
    assert_int_equal(to_disk(7), 0);
    snprintf(pattern, sizeof(pattern), "%s/chunks/*/*", unit_path("disk", root));
    assert_int_equal(glob(pattern, 0, NULL, &chunks), 0);
    assert_int_equal(chunks.gl_pathc, 1);
    fd = open(chunks.gl_pathv[0], O_WRONLY | O_CLOEXEC);
    globfree(&chunks);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 17), 1);
    os_close(&fd);
    assert_int_equal(get(7), 0);
    assert_resident(7);
    assert_int_equal(ds->outcomes.fetched, 2);
    disk_group_figures(n.disk, ds->disk.group, &g);
    assert_int_equal(g.chunks, 1); /* a sound one */
}

/* ---- what a bucket refuses ---- */

static void test_object_has_changed(void **state)
{
    struct catalog_entry e;
    struct bucket_stat st;
    struct dlc_err err;
    struct reader r;

    (void)state;
    assert_int_equal(catalog_get(ds->catalog, 1, &e, NULL), 0);
    assert_int_equal(unlink(file_of(1)), 0);
    write_file(1, 77);
    assert_int_equal(truncate(file_of(1), PARTS_SIZE - 1), 0);
    assert_int_equal(bucket_stat_wait(ds->bucket, "s000001", &st, &err), 0);
    assert_string_not_equal(st.etag, e.etag);
    want(&r, 1, NULL);
    settle();
    assert_int_equal(r.rc, DLC_ECHANGED);
    assert_non_null(strstr(r.text, e.etag));
    assert_non_null(strstr(r.text, st.etag));
    assert_non_null(strstr(r.text, "dlcache ls --refresh"));
    assert_int_equal(ds->outcomes.fetched, 0);
}

static unsigned renewed;
static bool renews;

static void renew(struct dataset *of, struct credential_retry *a)
{
    assert_ptr_equal(of, ds);
    renewed++;
    a->done(a, renews);
}

static const struct cluster_ops ops = {.renew_credentials = renew};

/* The next open of a file is denied. */
static void deny(void)
{
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(open), .nth = 1, .error = EACCES});
}

static void test_other_credentials(void **state)
{
    (void)state;
    n.cluster_ops = &ops;
    renewed = 0;
    deny();
    assert_int_equal(get(1), DLC_EDENIED); /* it has no credentials to renew */
    assert_int_equal(renewed, 0);
    ds->credentials.keys = bucket_keys_new();
    renews = false;
    deny();
    assert_int_equal(get(1), DLC_EDENIED);
    assert_int_equal(renewed, 1);
    renews = true;
    deny();
    assert_int_equal(get(1), 0); /* read again */
    assert_int_equal(renewed, 2);
    assert_resident(1);
    fault_disarm();
    bucket_keys_put(&ds->credentials.keys);
}

/* The credentials have changed since it was read: it is read again, and nobody is asked. */
static void test_credentials_came_meanwhile(void **state)
{
    struct reader r;

    (void)state;
    n.cluster_ops = &ops;
    renewed = 0;
    ds->credentials.keys = bucket_keys_new();
    deny();
    want(&r, 1, NULL);
    ds->credentials.version++;
    settle();
    assert_int_equal(r.rc, 0);
    assert_int_equal(renewed, 0);
    fault_disarm();
    bucket_keys_put(&ds->credentials.keys);
}

/* Whose bytes are on their way now. */
static void test_from_bucket_now(void **state)
{
    struct reader r;

    (void)state;
    assert_int_equal(to_disk(2), 0);
    want(&r, 1, NULL);
    assert_true(fetch_from_bucket_now(ds, 1));
    assert_false(fetch_from_bucket_now(ds, 3));
    settle();
    assert_false(fetch_from_bucket_now(ds, 1));
    want(&r, 2, NULL);
    assert_false(fetch_from_bucket_now(ds, 2)); /* the disk's */
    settle();
}

/* ---- why readers wait ---- */

static void test_stalls(void **state)
{
    struct session s = {.ds = ds};
    const uint64_t *ns = ds->readers.stall_ns;
    uint64_t was = counters.stall_disk_ns;
    struct reader r;

    (void)state;
    dlc_list_push_tail(&ds->sessions, &s.link);
    want(&r, 1, &s);
    dlc_clock_advance(DLC_SEC(3));
    settle();
    assert_in_range(ns[STALLED_CLIENT], DLC_SEC(3).ns, DLC_SEC(30).ns);
    assert_int_equal(s.waited.n[USAGE_stall_client_ns], ns[STALLED_CLIENT]);
    assert_int_equal(s.waited.n[USAGE_bucket_misses], 1);
    s.reader.active = true;
    want(&r, 2, &s);
    dlc_clock_advance(DLC_SEC(3));
    settle();
    assert_in_range(ns[STALLED_LATENCY], DLC_SEC(3).ns, DLC_SEC(30).ns);
    s.reader.short_of_memory = true;
    want(&r, 3, &s);
    dlc_clock_advance(DLC_SEC(3));
    settle();
    assert_in_range(ns[STALLED_MEMORY], DLC_SEC(3).ns, DLC_SEC(30).ns);
    memory_evict(n.own_memory->memory, ds->index, 3);
    want(&r, 3, &s); /* from disk, whatever else is short */
    settle();
    assert_true(ns[STALLED_DISK] > 0);
    assert_int_equal(counters.stall_disk_ns, was + ns[STALLED_DISK]);
    assert_int_equal(ns[STALLED_BANDWIDTH], 0);
    assert_int_equal(s.waited.n[USAGE_stall_latency_ns], ns[STALLED_LATENCY]);
    assert_int_equal(s.waited.n[USAGE_stall_memory_ns], ns[STALLED_MEMORY]);
    assert_int_equal(s.waited.n[USAGE_stall_disk_ns], ns[STALLED_DISK]);
    assert_int_equal(s.waited.n[USAGE_bucket_misses], 3);
    assert_int_equal(s.waited.n[USAGE_disk_hits], 1);
    assert_int_equal(unlink(file_of(4)), 0);
    want(&r, 4, &s); /* it does not come: no tier has served it */
    settle();
    assert_int_equal(r.rc, DLC_ENOTFOUND);
    assert_int_equal(s.waited.n[USAGE_bucket_misses], 3);
    dlc_list_remove(&s.link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bucket_then_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_goal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stores_while_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stores_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_corrupt_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hurry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prefetch_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_object_has_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_credentials, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_credentials_came_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_from_bucket_now, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stalls, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
