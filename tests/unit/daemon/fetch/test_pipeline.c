// SPDX-License-Identifier: Apache-2.0
/*
 * The fetch pipeline over a table of sources that the test plays: in which order they are asked,
 * what a failure, a late source and a wrong checksum do, and what those that wait are told.
 */
#include "daemon/fetch/fetch.h"
#include "daemon/fetch/source.h"
#include "daemon/parts.h"

#include <poll.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "daemon/dataset_chunks.h"
#include "daemon/session.h"

#define N       8u
#define SIZE    PARTS_SIZE
#define MB      ((uint64_t)1 << 20)
#define SOURCES 3
#define LEAST   DLC_MS(250)

/* What a source does when it is asked. */
enum play { REFUSE, SERVE, FAIL, HANG };

struct fake {
    enum play play[4]; /* the first time, the second ... */
    int rc;            /* of FAIL */
    enum fetch_sum sum;
    bool cannot, cancels, repairs, cannot_repair;

    struct fetch_attempt *attempt; /* that hangs, the last one; all of them */
    struct fetch_attempt *hanging[4];
    unsigned asked, started, hurried, cancelled, finished, repaired, offered, published;
    int finished_rc;
    _Atomic uint64_t hits, misses, late;
};

struct told {
    struct waiter w;
    unsigned times;
    int rc;
    char text[100];
};

static struct fake fakes[SOURCES];
static struct fetch_source sources[SOURCES];
static const struct fetch_source *table[SOURCES];
static struct node n;
static struct dataset ds;
static unsigned rooms;

/* ---- sources ---- */

static struct fake *fake_of(const struct fetch_source *s)
{
    return &fakes[s - sources];
}

static bool can_serve(unsigned i)
{
    fakes[i].asked++;
    return !fakes[i].cannot;
}

static bool can_serve_0(struct fetch *f)
{
    (void)f;
    return can_serve(0);
}

static bool can_serve_1(struct fetch *f)
{
    (void)f;
    return can_serve(1);
}

static bool can_serve_2(struct fetch *f)
{
    (void)f;
    return can_serve(2);
}

/* The bytes of a sample are its number. */
static void bring(struct fetch_attempt *a, uint64_t sample)
{
    const struct fake *k = fake_of(a->source);

    memset(a->dst, (int)sample, a->size);
    a->sum = k->sum;
    a->checksum = k->sum == FETCH_SUM_KNOWN ? hash64(a->dst, a->size) : 1;
    a->rc = 0;
}

static bool start(struct fetch_attempt *a)
{
    struct fake *k = fake_of(a->source);
    enum play play = k->play[k->started];

    if (play == REFUSE)
        return false;
    if (play == HANG) {
        k->attempt = k->hanging[k->started++] = a;
        return true;
    }
    k->started++;
    if (play == SERVE)
        bring(a, a->f->sample);
    else
        a->rc = dlc_err_set(&a->err, k->rc, "source %d failed", (int)(k - fakes));
    fetch_attempt_done(a);
    return true;
}

/* The chunk is where it should be. */
static bool start_in_place(struct fetch_attempt *a)
{
    assert_null(a->dst);
    fake_of(a->source)->started++;
    fetch_attempt_done(a);
    return true;
}

static bool cancel(struct fetch_attempt *a)
{
    struct fake *k = fake_of(a->source);

    k->cancelled++;
    if (k->cancels)
        k->attempt = NULL;
    return k->cancels;
}

static void hurry(struct fetch_attempt *a)
{
    fake_of(a->source)->hurried++;
}

static bool repair(struct fetch_attempt *a)
{
    struct fake *k = fake_of(a->source);

    if (!k->repairs && !k->cannot_repair)
        return false;
    k->repaired++;
    fetch_attempt_repaired(a, k->repairs);
    return true;
}

static void finished(struct fetch_attempt *a, int rc)
{
    struct fake *k = fake_of(a->source);

    k->finished++;
    k->finished_rc = rc;
}

/* Of the last source: it keeps copies. */
static void offer(struct fetch *f, const void *bytes)
{
    assert_false(mem_index_ready(ds.index, f->sample));
    assert_int_equal(((const unsigned char *)bytes)[f->size - 1], f->sample);
    fakes[SOURCES - 1].offered++;
}

static void published(struct fetch *f)
{
    assert_true(mem_index_ready(ds.index, f->sample));
    fakes[SOURCES - 1].published++;
}

/* ---- the world ---- */

static void room(struct node *of)
{
    assert_ptr_equal(of, &n);
    rooms++;
}

static void set_up_sources(void)
{
    static bool (*const can[SOURCES])(struct fetch * f) = {can_serve_0, can_serve_1, can_serve_2};

    for (unsigned i = 0; i < SOURCES; i++) {
        fakes[i] = (struct fake){.play = {SERVE}, .rc = DLC_EMISS, .sum = FETCH_SUM_KNOWN};
        sources[i] = (struct fetch_source){.name = "fake",
                                           .tier = TIER_BUCKET,
                                           .remote = true,
                                           .least = LEAST,
                                           .most = DLC_SEC(2),
                                           .slowest = 20,
                                           .hits = &fakes[i].hits,
                                           .misses = &fakes[i].misses,
                                           .late = &fakes[i].late,
                                           .can_serve = can[i],
                                           .start = start,
                                           .cancel = cancel,
                                           .hurry = hurry,
                                           .repair = repair,
                                           .finished = finished};
        table[i] = &sources[i];
    }
    sources[SOURCES - 1].offer = offer;
    sources[SOURCES - 1].published = published;
}

static const struct config config; /* prices that are 0 */

static int setup(void **state)
{
    (void)state;
    log_threshold = LOG_ERROR;
    rooms = 0;
    set_up_sources();
    n = (struct node){.loop = loop_new(NULL), .work = work_new(NULL), .config = &config};
    assert_non_null(n.loop);
    assert_non_null(n.work);
    tenant_memories_init(&n.memories, MB, MB, NULL);
    assert_int_equal(tenant_memory_get(&n.memories, "", &n.own_memory, NULL), 0);
    n.fetches = fetch_pipeline_new(&n, table, SOURCES, room);
    ds = (struct dataset){.tag = DLC_TAG4('d', 's', 'e', 't'),
                          .node = &n,
                          .state = DATASET_READY,
                          .refs = 1,
                          .catalog = parts_catalog("s", N)};
    dlc_list_init(&ds.sessions);
    hist_init(&ds.prefetch.latency, 1000);
    ds.tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds.index, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(ds.refs, 1);
    assert_int_equal(n.pending, 0);
    for (unsigned i = 0; i < N_BUDGETS; i++)
        assert_int_equal(n.used[i], 0);
    assert_int_equal(n.own_memory->filling, 0);
    mem_index_free(&ds.index);
    tenant_memory_put(&n.own_memory);
    tenant_memories_free(&n.memories);
    catalog_close(&ds.catalog);
    fetch_pipeline_free(&n.fetches);
    map_release(&ds.fetching);
    work_free(&n.work);
    loop_free(&n.loop);
    return 0;
}

/* One turn of the loop, so much later. */
static void turn(struct dlc_dur d)
{
    dlc_clock_advance(d);
    loop_stop(n.loop); /* the next turn is its last */
    loop_run(n.loop);
}

static void done(struct waiter *w, int rc, const char *text)
{
    struct told *t = dlc_container(w, struct told, w);

    t->times++;
    t->rc = rc;
    snprintf(t->text, sizeof(t->text), "%s", text == NULL ? "" : text);
}

static void want(struct told *t, uint64_t sample)
{
    *t = (struct told){.w.done = done};
    dlc_list_init(&t->w.of_fetch);
    fetch_start(&ds, sample, FETCH_MEMORY, &t->w, NULL);
}

/* Until it was told: workers post to the loop. */
static void await(const struct told *t)
{
    for (unsigned i = 0; i < 10000 && t->times == 0; i++) {
        turn(DLC_MS(0));
        poll(NULL, 0, t->times == 0);
    }
    assert_int_equal(t->times, 1);
}

static void assert_resident(uint64_t sample)
{
    uint64_t len;
    const unsigned char *p = memory_hold(n.own_memory->memory, ds.index, sample, &len);

    assert_non_null(p);
    assert_int_equal(len, SIZE);
    for (unsigned i = 0; i < SIZE; i++)
        assert_int_equal(p[i], sample);
    assert_int_equal(mem_index_checksum(ds.index, sample), hash64(p, SIZE));
    memory_unhold(n.own_memory->memory, ds.index, sample);
}

/* ---- tests ---- */

static void test_sources_in_their_order(void **state)
{
    struct told t, again;

    (void)state;
    want(&t, 3);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_resident(3);
    assert_int_equal(fakes[0].started, 1);
    assert_int_equal(fakes[0].finished_rc, 0);
    assert_int_equal(fakes[0].hits, 1);
    assert_int_equal(fakes[1].asked + fakes[2].asked, 0);
    assert_int_equal(rooms, 1);
    assert_int_equal(fakes[2].offered, 1);
    assert_int_equal(fakes[2].published, 1);
    assert_true(hist_percentile(&ds.prefetch.latency, 0.99) > 0); /* its time is counted */
    want(&again, 3); /* resident: no source is asked, and the answer comes at once */
    assert_int_equal(again.times, 1);
    assert_int_equal(fakes[0].asked, 1);
}

/* A source that cannot serve, refuses or fails is passed over; what it says reaches nobody. */
static void test_fall_through(void **state)
{
    struct told t;

    (void)state;
    fakes[0].play[0] = REFUSE;
    fakes[1].play[0] = FAIL;
    want(&t, 1);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_resident(1);
    assert_int_equal(fakes[0].started + fakes[0].finished, 0);
    assert_int_equal(fakes[1].finished, 1);
    assert_int_equal(fakes[1].finished_rc, DLC_EMISS);
    assert_int_equal(fakes[1].misses, 1);
    assert_int_equal(fakes[2].hits, 1);
    fakes[0].cannot = fakes[1].cannot = true;
    fakes[2].play[1] = SERVE;
    want(&t, 2);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_int_equal(fakes[1].started, 1);
    assert_int_equal(fakes[2].hits, 2);
}

/* Each of those that wait is told once, by the last source's error. */
static void test_all_fail(void **state)
{
    struct told t[3];
    struct memory_figures m;

    (void)state;
    for (unsigned i = 0; i < SOURCES; i++)
        fakes[i] = (struct fake){.play = {FAIL, FAIL}, .rc = DLC_EMISS};
    fakes[2].rc = DLC_ENOTFOUND;
    for (unsigned i = 0; i < unit_count(t); i++)
        want(&t[i], 5);
    await(&t[0]);
    for (unsigned i = 0; i < 3; i++)
        turn(DLC_SEC(1));
    for (unsigned i = 0; i < unit_count(t); i++) {
        assert_int_equal(t[i].times, 1);
        assert_int_equal(t[i].rc, DLC_ENOTFOUND);
        assert_string_equal(t[i].text, "source 2 failed");
    }
    for (unsigned i = 0; i < SOURCES; i++)
        assert_int_equal(fakes[i].started, 1);
    assert_null(map_get(&ds.fetching, 5));
    memory_figures(n.own_memory->memory, &m);
    assert_int_equal(m.residents, 0);
    want(&t[0], 5); /* it is not remembered */
    await(&t[0]);
    assert_int_equal(fakes[0].started, 2);
}

static void test_late_source_is_cancelled(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {HANG}, .cancels = true};
    want(&t, 2);
    turn(DLC_MS(200)); /* before its time */
    assert_int_equal(fakes[0].cancelled, 0);
    turn(DLC_MS(100));
    assert_int_equal(fakes[0].cancelled, 1);
    assert_int_equal(fakes[0].late, 1);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_resident(2);
    assert_int_equal(fakes[0].finished + fakes[0].misses, 0);
    assert_int_equal(fakes[1].hits, 1);
    assert_int_equal(fakes[2].asked, 0);
}

/* It still writes into its memory, which nobody else has until it comes back. */
static void test_late_source_cannot_be_stopped(void **state)
{
    struct fetch_attempt *a;
    struct told t;
    uint64_t used;

    (void)state;
    fakes[0] = (struct fake){.play = {HANG}, .sum = FETCH_SUM_KNOWN};
    want(&t, 2);
    turn(DLC_MS(300));
    await(&t);
    assert_resident(2);
    a = fakes[0].attempt;
    used = n.own_memory->filling;
    assert_int_equal(used, SIZE);
    bring(a, 99);
    assert_resident(2);
    fetch_attempt_done(a);
    turn(DLC_MS(0));
    assert_resident(2);
    assert_int_equal(t.times, 1);
    assert_int_equal(fakes[0].finished + fakes[0].hits, 0);
}

/* The bucket is away and the disk is slow: the disk is asked again, and waited for. */
static void test_late_source_is_the_last_resort(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {HANG, HANG}, .cancels = true, .sum = FETCH_SUM_KNOWN};
    fakes[1].play[0] = fakes[2].play[0] = FAIL;
    want(&t, 2);
    turn(DLC_MS(300));
    for (unsigned i = 0; i < 10000 && fakes[0].started < 2; i++) {
        turn(DLC_MS(0));
        poll(NULL, 0, 1);
    }
    assert_int_equal(fakes[0].started, 2);
    turn(DLC_SEC(2)); /* its time is longer now */
    assert_int_equal(t.times, 0);
    bring(fakes[0].attempt, 2);
    fetch_attempt_done(fakes[0].attempt);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_resident(2);
    assert_int_equal(fakes[1].started + fakes[2].started, 2);
}

/* It is late again: the fetch fails with the last source's error and asks nobody a third time. */
static void test_late_source_is_late_again(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {HANG, HANG, SERVE}, .cancels = true};
    fakes[1].play[0] = fakes[2].play[0] = FAIL;
    want(&t, 2);
    turn(DLC_MS(300));
    for (unsigned i = 0; i < 10000 && fakes[0].started < 2; i++) {
        turn(DLC_MS(0));
        poll(NULL, 0, 1);
    }
    turn(DLC_SEC(21));
    await(&t);
    assert_int_equal(t.rc, DLC_EMISS);
    assert_string_equal(t.text, "source 2 failed");
    assert_int_equal(fakes[0].started, 2);
    assert_int_equal(fakes[0].late, 2);
    assert_int_equal(fakes[1].started + fakes[2].started, 2);
}

static void test_wrong_checksum(void **state)
{
    struct told t;

    (void)state;
    fakes[0].sum = FETCH_SUM_CLAIMED; /* and it is wrong */
    fakes[1].sum = FETCH_SUM_NONE;    /* then it is taken here */
    want(&t, 4);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_resident(4);
    assert_int_equal(fakes[0].finished_rc, DLC_ECORRUPT);
    assert_int_equal(fakes[0].misses, 1);
    assert_int_equal(fakes[0].hits, 0);
    assert_int_equal(fakes[1].hits, 1);
}

/* The same source is asked again, once. */
static void test_retry(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {FAIL, SERVE}, .rc = DLC_EDENIED, .repairs = true};
    fakes[0].sum = FETCH_SUM_KNOWN;
    want(&t, 1);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_int_equal(fakes[0].started, 2);
    fakes[0] = (struct fake){.play = {FAIL, FAIL, SERVE}, .rc = DLC_EDENIED, .repairs = true};
    want(&t, 2);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_int_equal(fakes[0].started, 2);
    assert_int_equal(fakes[1].hits, 1);
}

/* Nothing could be repaired: the next source. */
static void test_no_repair(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {FAIL, SERVE}, .rc = DLC_EDENIED, .cannot_repair = true};
    want(&t, 1);
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_int_equal(fakes[0].repaired, 1);
    assert_int_equal(fakes[0].started, 1);
    assert_int_equal(fakes[0].finished_rc, DLC_EDENIED);
    assert_int_equal(fakes[1].hits, 1);
}

static void test_nobody_serves(void **state)
{
    struct told t;

    (void)state;
    fakes[0].cannot = fakes[1].cannot = fakes[2].cannot = true;
    want(&t, 1);
    assert_int_equal(t.times, 1);
    assert_int_equal(t.rc, DLC_EBUCKET);
    assert_non_null(strstr(t.text, "no source serves sample 1"));
}

/* Of two that were late the first one is the last resort. */
static void test_two_are_late(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {HANG, SERVE}, .cancels = true, .sum = FETCH_SUM_KNOWN};
    fakes[1] = (struct fake){.play = {HANG, SERVE}, .cancels = true};
    fakes[2].play[0] = FAIL;
    want(&t, 2);
    turn(DLC_MS(300));
    turn(DLC_MS(300));
    await(&t);
    assert_int_equal(t.rc, 0);
    assert_resident(2);
    assert_int_equal(fakes[0].started, 2);
    assert_int_equal(fakes[1].started, 1);
    assert_int_equal(fakes[0].late + fakes[1].late, 2);
}

/* The daemon stops while a source is late: nobody is asked again. */
static void test_late_at_the_end(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {HANG, SERVE}, .cancels = true};
    sources[0].remote = false;
    want(&t, 2);
    n.stopping = true;
    turn(DLC_MS(300));
    assert_int_equal(t.times, 1);
    assert_int_equal(t.rc, DLC_ECANCELED);
    assert_int_equal(fakes[0].started, 1);
    assert_int_equal(fakes[1].started, 0);
}

/* Late sources keep their memory, and there is no other: readers go to the bucket. */
static void test_late_sources_hold_memory(void **state)
{
    struct told t[4];

    (void)state;
    fakes[0] = (struct fake){.play = {HANG, HANG, HANG, HANG}};
    memory_set_ceiling(n.own_memory->memory, 0); /* a page is the least: four samples */
    for (unsigned i = 0; i < 4; i++)
        want(&t[i], i);
    turn(DLC_MS(300));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(t[i].times, 1);
        assert_int_equal(t[i].rc, DLC_EBYPASS);
    }
    assert_int_equal(fakes[1].asked, 0);
    assert_int_equal(n.own_memory->filling, 4 * SIZE);
    for (unsigned i = 0; i < 4; i++)
        fetch_attempt_ended(fakes[0].hanging[i]);
}

/* Those end the fetch, whatever comes after: no room, and the end of the daemon. */
static void test_final_errors(void **state)
{
    struct told t;

    (void)state;
    fakes[0] = (struct fake){.play = {FAIL}, .rc = DLC_EBYPASS};
    want(&t, 1);
    await(&t);
    assert_int_equal(t.rc, DLC_EBYPASS);
    assert_int_equal(fakes[0].finished_rc, DLC_EBYPASS);
    assert_int_equal(fakes[0].misses + fakes[0].hits, 0); /* it had it */
    n.stopping = true;
    want(&t, 2);
    assert_int_equal(t.times, 1);
    assert_int_equal(t.rc, DLC_ECANCELED);
    assert_int_equal(fakes[0].started, 1);
    assert_int_equal(fakes[1].started + fakes[2].started, 0);
}

/* Readers that come while it is under way share it, and the source hears that one waits. */
static void test_joined(void **state)
{
    struct told t[2];

    (void)state;
    fakes[0].play[0] = HANG;
    fetch_start(&ds, 6, FETCH_MEMORY, NULL, NULL);
    fetch_start(&ds, 6, FETCH_MEMORY, NULL, NULL); /* another prefetch */
    assert_int_equal(fakes[0].hurried, 0);
    want(&t[0], 6);
    want(&t[1], 6);
    assert_int_equal(fakes[0].hurried, 2);
    assert_int_equal(fakes[0].started, 1);
    bring(fakes[0].attempt, 6);
    fetch_attempt_ended(fakes[0].attempt);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(t[i].times, 1);
        assert_int_equal(t[i].rc, 0);
    }
    assert_resident(6);
}

/* ---- the disk goal ---- */

static int setup_disk(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct disk_figures f;
    char root[256];

    setup(state);
    os_rmtree(unit_path("disk", root));
    if (disk_open(&(struct disk_config){.root = root, .limit = MB}, &n.disk, &err) < 0)
        fail_msg("%s", err.text);
    do
        disk_figures(n.disk, &f);
    while (f.scanning);
    ds.disk.group = disk_group(n.disk, 1, "x");
    return 0;
}

static int teardown_disk(void **state)
{
    int rc = teardown(state);

    disk_close(&n.disk);
    return rc;
}

struct warm_up {
    struct fetch_listener l;
    unsigned times;
    int rc;
    uint64_t bytes;
};

static void on_end(struct fetch_listener *l, uint64_t bytes, int rc, const struct dlc_err *err)
{
    struct warm_up *u = dlc_container(l, struct warm_up, l);

    (void)err;
    u->times++;
    u->rc = rc;
    u->bytes = bytes;
}

/* What a warm-up is told. */
static int to_disk(uint64_t sample)
{
    struct warm_up u = {.l.ended = on_end};

    fetch_start(&ds, sample, FETCH_DISK, NULL, &u.l);
    for (unsigned i = 0; i < 10000 && u.times == 0; i++) {
        turn(DLC_MS(0));
        poll(NULL, 0, u.times == 0);
    }
    assert_int_equal(u.times, 1);
    assert_int_equal(u.bytes, SIZE);
    return u.rc;
}

static bool on_disk(uint64_t sample)
{
    struct catalog_entry e;

    assert_int_equal(catalog_get(ds.catalog, sample, &e, NULL), 0);
    return disk_has(n.disk, dataset_chunk(&ds, e.key, e.etag));
}

/* The file of a wrong checksum goes, and the next source writes another one. */
static void test_wrong_checksum_on_disk(void **state)
{
    (void)state;
    fakes[0].sum = FETCH_SUM_CLAIMED;
    fakes[1].sum = FETCH_SUM_NONE;
    assert_int_equal(to_disk(3), 0);
    assert_true(on_disk(3));
    assert_int_equal(fakes[0].finished_rc, DLC_ECORRUPT);
    assert_int_equal(fakes[0].misses, 1);
    assert_int_equal(fakes[1].finished_rc, 0);
    assert_int_equal(fakes[1].hits, 1);
    assert_false(mem_index_ready(ds.index, 3));
}

/* A source that this node has itself, and that needs no file. */
static void test_in_place_on_disk(void **state)
{
    (void)state;
    sources[0].remote = false;
    sources[0].start = start_in_place;
    assert_int_equal(to_disk(3), 0);
    assert_int_equal(fakes[0].hits, 1);
    assert_int_equal(fakes[1].asked, 0);
    assert_false(on_disk(3)); /* nothing was written */
}

/* The bytes came, and could not be kept: not the source's fault. */
static void test_not_kept_on_disk(void **state)
{
    (void)state;
    atomic_store(&n.ending, true);
    assert_int_equal(to_disk(3), DLC_EBYPASS);
    assert_false(on_disk(3));
    assert_int_equal(fakes[0].started, 1);
    assert_int_equal(fakes[0].finished_rc, DLC_EBYPASS);
    assert_int_equal(fakes[0].hits + fakes[0].misses, 0);
    assert_int_equal(fakes[1].asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_repair, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_serves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_are_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_sources_hold_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_checksum_on_disk, setup_disk, teardown_disk),
        cmocka_unit_test_setup_teardown(test_in_place_on_disk, setup_disk, teardown_disk),
        cmocka_unit_test_setup_teardown(test_not_kept_on_disk, setup_disk, teardown_disk),
        cmocka_unit_test_setup_teardown(test_sources_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fall_through, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_source_is_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_source_cannot_be_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_source_is_the_last_resort, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_source_is_late_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_checksum, setup, teardown),
        cmocka_unit_test_setup_teardown(test_retry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_final_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
