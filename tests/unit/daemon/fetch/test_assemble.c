// SPDX-License-Identifier: Apache-2.0
/*
 * Samples that are put together from pieces: of an object, of the catalog, and of the derived form
 * of an archive, which is made again when the disk tier has lost it.
 */
#include "daemon/played.h"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/syscalls.h"
#include "bucket/bucket.h"
#include "catalog/archives/packing.h"
#include "daemon/events.h"
#include "daemon/fetch/assemble.h"
#include "daemon/session.h"

#define SIZE    1000u
#define MEMBERS 3u

enum { RANGE, MIXED, DERIVED, DERIVED_MIXED, INLINE, WHOLE, N };

static struct node n;
static struct dataset *ds;
static struct config config;
static struct bucket_tally tally;
static struct buf tar; /* the archive, unpacked */
static char plain[SIZE];
static char files[256];

/* ---- the world ---- */

static const char *file_of(const char *key)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s/%s", files, key);
    return path;
}

static void write_file(const char *key, const void *data, size_t len)
{
    int fd = open(file_of(key), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(os_write_all(fd, data, len), 0);
    os_close(&fd);
}

static void write_files(void)
{
    struct buf packed = {0};
    char name[20], text[400];

    mkdir(unit_path("files", files), 0700);
    for (unsigned i = 0; i < SIZE; i++)
        plain[i] = (char)(i * 7 + i / 251);
    write_file("plain", plain, SIZE);
    for (unsigned i = 0; i < MEMBERS; i++) {
        snprintf(name, sizeof(name), "m%u.txt", i);
        snprintf(text, sizeof(text), "%0399u", 1000 + i);
        add_member(&tar, '0', name, text);
    }
    end_tar(&tar);
    pack(&packed, &tar, "pack.tar.gz");
    write_file("pack.tar.gz", packed.data, packed.len);
    buf_release(&packed);
}

static void add_object(struct catalog_builder *b, const char *key)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket_stat st;

    assert_int_equal(bucket_stat_wait(ds->bucket, key, &st, &err), 0);
    assert_int_equal(catalog_builder_add(b, key, strlen(key), st.size, st.etag, &err), 0);
}

/* Objects are sorted: pack.tar.gz is 0, plain is 1. */
static struct catalog *make_catalog(void)
{
    const struct piece pieces[N][3] = {
        [RANGE] = {{PIECE_OBJECT, .object = 1, .offset = 100, .length = 200}},
        [MIXED] = {{PIECE_INLINE, .bytes = "abc", .length = 3},
                   {PIECE_OBJECT, .object = 1, .offset = 0, .length = 50},
                   {PIECE_OBJECT, .object = 1, .offset = 900, .length = 100}},
        [DERIVED] = {{PIECE_DERIVED, .object = 0, .offset = 512, .length = 300}},
        [DERIVED_MIXED] = {{PIECE_DERIVED, .object = 0, .offset = 1536, .length = 30},
                           {PIECE_INLINE, .bytes = "xyz", .length = 3}},
        [INLINE] = {{PIECE_INLINE, .bytes = "only", .length = 4}},
        [WHOLE] = {{PIECE_OBJECT, .object = 1, .offset = 0, .length = SIZE}},
    };
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    char path[256];

    add_object(b, "plain");
    add_object(b, "pack.tar.gz");
    catalog_builder_settle(b);
    assert_int_equal(catalog_builder_derived(b, 0, tar.len, &err), 0);
    for (unsigned i = 0; i < N; i++) {
        struct catalog_new_sample s = {.name = "x", .name_len = 1, .pieces = pieces[i]};

        s.label = SAMPLE_NO_LABEL;
        while (s.n_pieces < 3 && pieces[i][s.n_pieces].length > 0)
            s.n_pieces++;
        if (catalog_builder_sample(b, &s, &err) < 0)
            fail_msg("%s", err.text);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("catalog", path), "file:///x/", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, &err), 0);
    return c;
}

static int set_up(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    char root[256];

    (void)state;
    played_open(&n, (uint64_t)1 << 20);
    n.events[0] = &assemble_events;
    memset(&config, 0, sizeof(config));
    assert_int_equal(config_load(&config, "/dev/null", &err), 0);
    n.config = &config;
    os_rmtree(unit_path("disk", root));
    assert_int_equal(disk_open(&(struct disk_config){.root = root}, &n.disk, &err), 0);
    write_files();
    ds = played_files(&n, files, &tally);
    ds->tally = &tally;
    ds->catalog = make_catalog();
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(dlc_list_empty(&n.deriving));
    bucket_close(&ds->bucket);
    played_close(&n);
    config_release(&config);
    buf_release(&tar);
    return 0;
}

/* ---- a read ---- */

struct answer {
    unsigned times;
    int rc;
    bool from_disk, summed;
    uint64_t checksum;
    char text[500], bytes[SIZE];
};

static void on_done(void *arg, int rc, const struct dlc_err *err, bool from_disk,
                    const uint64_t *checksum)
{
    struct answer *a = arg;

    a->times++;
    a->rc = rc;
    a->from_disk = from_disk;
    a->summed = checksum != NULL;
    a->checksum = checksum != NULL ? *checksum : 0;
    snprintf(a->text, sizeof(a->text), "%s", err->text);
}

static void begin(struct answer *a, uint64_t sample)
{
    memset(a, 0, sizeof(*a));
    assemble_read(ds, sample, WORK_DEMAND, a->bytes, on_done, a);
}

static void await(const struct answer *a)
{
    for (unsigned i = 0; i < 5000 && (a->times == 0 || n.pending > 0); i++) {
        played_turn(&n);
        poll(NULL, 0, a->times == 0);
    }
    assert_int_equal(a->times, 1);
    assert_int_equal(n.pending, 0);
    assert_int_equal(ds->refs, 1);
}

static void assert_derived(const struct answer *a)
{
    assert_int_equal(a->rc, 0);
    assert_memory_equal(a->bytes, tar.data + 512, 300);
    assert_true(a->from_disk && a->summed);
    assert_true(a->checksum == hash64(a->bytes, 300));
}

static struct chunk_id derived(void)
{
    struct catalog_entry e;

    assert_int_equal(catalog_object(ds->catalog, 0, &e, NULL), 0);
    return dataset_derived_chunk(ds, &e);
}

/* ---- tests ---- */

static void test_ranges_of_objects(void **state)
{
    struct answer a;

    (void)state;
    begin(&a, RANGE);
    await(&a);
    assert_int_equal(a.rc, 0);
    assert_memory_equal(a.bytes, plain + 100, 200);
    assert_false(a.from_disk);
    assert_true(a.summed && a.checksum == hash64(a.bytes, 200));
    begin(&a, WHOLE);
    await(&a);
    assert_memory_equal(a.bytes, plain, SIZE);
    assert_true(a.summed && a.checksum == hash64(a.bytes, SIZE));
    begin(&a, MIXED);
    await(&a);
    assert_int_equal(a.rc, 0);
    assert_memory_equal(a.bytes, "abc", 3);
    assert_memory_equal(a.bytes + 3, plain, 50);
    assert_memory_equal(a.bytes + 53, plain + 900, 100);
    assert_false(a.summed); /* its pieces come at different times */
    begin(&a, INLINE);
    assert_int_equal(a.times, 1); /* at once */
    assert_memory_equal(a.bytes, "only", 4);
    begin(&a, N);
    assert_int_equal(a.times, 1);
    assert_true(a.rc < 0);
    assert_string_not_equal(a.text, "");
}

/* The first piece that fails says why, once all have ended. */
static void test_object_is_gone(void **state)
{
    struct answer a;

    (void)state;
    assert_int_equal(unlink(file_of("plain")), 0);
    begin(&a, MIXED);
    await(&a);
    assert_int_equal(a.rc, DLC_ENOTFOUND);
    assert_non_null(strstr(a.text, "plain"));
}

/* Made again, once for all that wait for it, and then it is there. */
static void test_derived_form_is_missing(void **state)
{
    struct answer a[3];
    uint64_t before = tally.gets, gets;

    (void)state;
    begin(&a[0], DERIVED);
    begin(&a[1], DERIVED);
    begin(&a[2], DERIVED_MIXED);
    for (unsigned i = 0; i < 3; i++)
        await(&a[i]);
    gets = tally.gets - before;
    assert_true(gets > 0);
    assert_derived(&a[0]);
    assert_derived(&a[1]);
    assert_memory_equal(a[2].bytes, tar.data + 1536, 30);
    assert_memory_equal(a[2].bytes + 30, "xyz", 3);
    assert_false(a[2].summed);
    assert_true(disk_has(n.disk, derived()));
    begin(&a[0], DERIVED);
    await(&a[0]);
    assert_derived(&a[0]);
    disk_drop(n.disk, derived());
    begin(&a[0], DERIVED);
    await(&a[0]);
    assert_derived(&a[0]);
    assert_int_equal(tally.gets - before, 2 * gets); /* twice in all */
}

static void test_derived_form_cannot_be_made(void **state)
{
    struct answer a[2];

    (void)state;
    assert_int_equal(unlink(file_of("pack.tar.gz")), 0);
    begin(&a[0], DERIVED);
    begin(&a[1], DERIVED);
    await(&a[0]);
    await(&a[1]);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(a[i].rc, DLC_ENOTFOUND);
        assert_non_null(strstr(a[i].text, "pack.tar.gz"));
    }
}

static void test_archive_has_changed(void **state)
{
    struct answer a;

    (void)state;
    write_file("pack.tar.gz", "no archive", 10);
    begin(&a, DERIVED);
    await(&a);
    assert_true(a.rc < 0);
}

static void test_without_a_disk(void **state)
{
    struct disk *d = n.disk;
    struct answer a;

    (void)state;
    n.disk = NULL;
    begin(&a, DERIVED);
    assert_int_equal(a.times, 1);
    assert_int_equal(a.rc, DLC_EBYPASS);
    assert_non_null(strstr(a.text, "no disk tier"));
    begin(&a, RANGE);
    await(&a);
    assert_int_equal(a.rc, 0);
    n.disk = d;
}

/* ---- an end before it is made ---- */

static sem_t gate, passed;
static struct work stuck[32];

static void wait_at_gate(struct work *w)
{
    (void)w;
    sem_wait(&gate);
    sem_post(&passed);
}

/* It is asked for, and the threads that make it hang. */
static void begin_blocked(struct answer *a)
{
    sem_init(&gate, 0, 0);
    sem_init(&passed, 0, 0);
    memset(stuck, 0, sizeof(stuck));
    for (unsigned i = 0; i < unit_count(stuck); i++) {
        stuck[i].run = wait_at_gate;
        work_run(n.work, WORK_CATALOG, &stuck[i]);
    }
    begin(a, DERIVED);
    while (dlc_list_empty(&n.deriving)) {
        played_turn(&n);
        poll(NULL, 0, 0);
    }
}

static void unblock(void)
{
    for (unsigned i = 0; i < unit_count(stuck); i++)
        sem_post(&gate);
    for (unsigned i = 0; i < unit_count(stuck); i++)
        sem_wait(&passed);
}

/* A daemon that stops makes nothing again. */
static void test_stopping(void **state)
{
    struct answer a;

    (void)state;
    n.stopping = true;
    begin(&a, DERIVED);
    await(&a);
    assert_int_equal(a.rc, DLC_EMISS);
    n.stopping = false;
}

/* What is made for a dataset ends with it, and not with another one. */
static void test_dataset_stops(void **state)
{
    struct dataset other = {.node = &n};
    struct answer a;

    (void)state;
    begin_blocked(&a);
    events_raise(&n, dataset_stopping, &other);
    unblock();
    await(&a);
    assert_derived(&a);
    disk_drop(n.disk, derived());
    begin_blocked(&a);
    events_raise(&n, dataset_stopping, ds);
    unblock();
    await(&a);
    assert_int_equal(a.rc, DLC_ECANCELED);
}

static bool answered;

static void on_answer(struct waiter *w, int rc, const char *text)
{
    (void)w;
    (void)text;
    assert_int_equal(rc, 0);
    answered = true;
}

/* The same as fetches: resident, with the checksum of all pieces. */
static void test_fetched(void **state)
{
    const uint64_t samples[] = {RANGE, MIXED, DERIVED, INLINE};
    struct waiter w = {.done = on_answer};

    (void)state;
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, fetch_sources, n_fetch_sources, prefetch_pump);
    hist_init(&ds->prefetch.latency, 1000);
    for (unsigned i = 0; i < unit_count(samples); i++) {
        struct answer a;
        const char *bytes;
        uint64_t len;

        begin(&a, samples[i]);
        if (a.times == 0)
            await(&a);
        dlc_list_init(&w.of_fetch);
        answered = false;
        fetch_start(ds, samples[i], FETCH_MEMORY, &w, NULL);
        for (unsigned k = 0; k < 5000 && !answered; k++) {
            played_turn(&n);
            poll(NULL, 0, !answered);
        }
        bytes = memory_hold(n.own_memory->memory, ds->index, samples[i], &len);
        assert_non_null(bytes);
        assert_memory_equal(bytes, a.bytes, len);
        assert_true(mem_index_checksum(ds->index, samples[i]) == hash64(bytes, len));
        memory_unhold(n.own_memory->memory, ds->index, samples[i]);
    }
    assert_int_equal(ds->outcomes.fetched, 2); /* the others needed no bucket */
    while (n.pending > 0) {
        played_turn(&n);
        poll(NULL, 0, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges_of_objects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_object_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_derived_form_is_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_derived_form_cannot_be_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_archive_has_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fetched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stopping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dataset_stops, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
