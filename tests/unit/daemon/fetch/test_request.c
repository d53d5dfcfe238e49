// SPDX-License-Identifier: Apache-2.0
/* Requests for samples: who shares a fetch and what it becomes by that, which sources a request
 * allows, and what it is told where there is no room. */
#include "daemon/played.h"

#include "base/counters.h"
#include "daemon/events.h"
#include "daemon/fetch/room.h"
#include "daemon/session.h"

#define N     12u
#define MB    ((uint64_t)1 << 20)
#define LARGE (MB / 2) /* bytes of the last sample: more than a quarter of memory */

enum { LOCAL, COPIES, OWNER, ANY, ROWS };

static struct node n;
static struct dataset *ds;
static bool cannot[ROWS];
static unsigned asked[ROWS];
static unsigned residents, bypassed; /* events */

static bool may(unsigned row)
{
    asked[row]++;
    return !cannot[row];
}

static bool may_local(struct fetch *f)
{
    (void)f;
    return may(LOCAL);
}

static bool may_copies(struct fetch *f)
{
    (void)f;
    return may(COPIES);
}

static bool may_owner(struct fetch *f)
{
    (void)f;
    return may(OWNER);
}

static bool may_any(struct fetch *f)
{
    (void)f;
    return may(ANY);
}

static const struct fetch_source rows[ROWS] = {
    [LOCAL] = {.name = "local", .can_serve = may_local, .start = played_start},
    [COPIES] = {.name = "copies",
                .remote = true,
                .gives_copies = true,
                .can_serve = may_copies,
                .start = played_start},
    [OWNER] = {.name = "owner",
               .remote = true,
               .waits_for_owner = true,
               .can_serve = may_owner,
               .start = played_start},
    [ANY] = {.name = "any", .remote = true, .can_serve = may_any, .start = played_start},
};
static const struct fetch_source *const table[ROWS] = {&rows[LOCAL], &rows[COPIES], &rows[OWNER],
                                                       &rows[ANY]};

static void on_resident(struct dataset *of, uint64_t sample, bool bypass)
{
    (void)sample;
    assert_ptr_equal(of, ds);
    residents++;
    bypassed += bypass;
}

static const struct node_events events = {.sample_resident = on_resident};

static struct catalog *catalog_with_large(void)
{
    struct catalog_builder *b = catalog_builder_new();
    struct catalog *c = NULL;
    char path[256], key[16];

    unit_path("catalog", path);
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "s%02u", i);
        assert_int_equal(
            catalog_builder_add(b, key, strlen(key), i == N - 1 ? LARGE : MB / 8, "e", NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(b, path, "s3://data/p/", NULL), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, NULL), 0);
    return c;
}

static int setup(void **state)
{
    (void)state;
    played_open(&n, MB);
    fetch_pipeline_free(&n.fetches);
    n.fetches = fetch_pipeline_new(&n, table, ROWS, prefetch_pump);
    n.events[0] = &events;
    ds = parts_dataset(&n, "d", catalog_with_large());
    ds->refs = 1;
    hist_init(&ds->prefetch.latency, 1000);
    ds->tenant_memory = n.own_memory;
    assert_int_equal(mem_index_new(n.own_memory->memory, N, 1, &ds->index, NULL), 0);
    memset(cannot, 0, sizeof(cannot));
    memset(asked, 0, sizeof(asked));
    residents = bypassed = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_timer_del(n.loop, &n.freeing);
    played_close(&n);
    return 0;
}

struct reader {
    struct waiter w;
    unsigned times;
    int rc;
    char text[100];
};

static void on_answer(struct waiter *w, int rc, const char *text)
{
    struct reader *r = dlc_container(w, struct reader, w);

    r->times++;
    r->rc = rc;
    snprintf(r->text, sizeof(r->text), "%s", text == NULL ? "" : text);
}

static struct waiter *reader(struct reader *r)
{
    *r = (struct reader){.w.done = on_answer};
    dlc_list_init(&r->w.of_fetch);
    return &r->w;
}

struct warm_up {
    struct fetch_listener l;
    unsigned times;
    uint64_t bytes;
    int rc;
};

static void on_end(struct fetch_listener *l, uint64_t bytes, int rc, const struct dlc_err *err)
{
    struct warm_up *u = dlc_container(l, struct warm_up, l);

    assert_true(rc == 0 || err->text[0] != '\0');
    u->times++;
    u->bytes = bytes;
    u->rc = rc;
}

static const struct fetch *fetch_of(uint64_t sample)
{
    const struct fetch *f = map_get(&ds->fetching, sample);

    assert_non_null(f);
    return f;
}

/* ---- tests ---- */

/* A fetch notifies one warm-up; another one need not wait for it. */
static void test_warm_ups_share_a_fetch(void **state)
{
    struct warm_up first = {.l.ended = on_end}, second = first, third = first;

    (void)state;
    fetch_start(ds, 1, FETCH_MEMORY, NULL, &first.l);
    fetch_start(ds, 1, FETCH_MEMORY, NULL, &second.l);
    assert_int_equal(second.times, 1);
    assert_int_equal(second.bytes, MB / 8);
    assert_int_equal(second.rc, 0);
    assert_int_equal(first.times, 0);
    played_end_all(0);
    assert_int_equal(first.times, 1);
    assert_int_equal(first.bytes, MB / 8);
    assert_int_equal(first.rc, 0);
    assert_int_equal(second.times, 1);
    fetch_start(ds, 1, FETCH_MEMORY, NULL, &third.l); /* it is resident */
    assert_int_equal(third.times, 1);
    assert_int_equal(third.bytes, 0);
    assert_int_equal(played.n_asked, 1);
}

/* A warm-up joins the fetch of a reader. */
static void test_warm_up_of_what_is_read(void **state)
{
    struct warm_up u = {.l.ended = on_end};
    struct reader r;

    (void)state;
    fetch_start(ds, 1, FETCH_MEMORY, reader(&r), NULL);
    fetch_start(ds, 1, FETCH_MEMORY, NULL, &u.l);
    assert_int_equal(u.times, 0);
    memset(cannot, true, sizeof(cannot));
    played_end_all(DLC_ENOTFOUND);
    assert_int_equal(u.times, 1);
    assert_int_equal(u.rc, DLC_ENOTFOUND);
    assert_int_equal(r.times, 1);
    assert_string_equal(r.text, "sample 1 failed");
}

/* A fetch leaves no trace in the cache only if all that want it bypass the cache. */
static void test_bypass_by_all(void **state)
{
    struct session s = {.ds = ds}, bypasses = {.ds = ds, .bypasses_cache = true};
    struct reader r;

    (void)state;
    fetch_ahead(&bypasses, 1);
    fetch_ahead(&bypasses, 1);
    assert_true(fetch_of(1)->bypass);
    fetch_ahead(&bypasses, 2);
    fetch_ahead(&s, 2);
    fetch_ahead(&bypasses, 2);
    assert_false(fetch_of(2)->bypass);
    reader(&r)->session = &bypasses;
    fetch_start(ds, 3, FETCH_MEMORY, &r.w, NULL);
    assert_true(fetch_of(3)->bypass);
    fetch_start(ds, 4, FETCH_MEMORY, NULL, NULL);
    assert_false(fetch_of(4)->bypass);
    played_end_all(0);
    assert_int_equal(residents, 4);
    assert_int_equal(bypassed, 2);
}

/* What memory is reserved for: a reader's user, and a wait that somebody feels. */
static void test_for_whom(void **state)
{
    struct session s = {.ds = ds, .user = 7};
    struct reader r, nobody;

    (void)state;
    reader(&r)->session = &s;
    fetch_start(ds, 1, FETCH_MEMORY, &r.w, NULL);
    assert_int_equal(fetch_of(1)->user, 7);
    assert_true(fetch_of(1)->on_demand);
    fetch_ahead(&s, 2);
    assert_int_equal(fetch_of(2)->user, 7);
    assert_false(fetch_of(2)->on_demand);
    fetch_start(ds, 3, FETCH_MEMORY, reader(&nobody), NULL);
    assert_true(fetch_of(3)->user == MEM_NOBODY);
    played_end_all(0);
}

static void test_for_a_peer(void **state)
{
    struct reader r, late;

    (void)state;
    assert_true(fetch_for_peer(ds, 1, reader(&r)));
    assert_true(fetch_of(1)->for_peer);
    played_end_all(0);
    assert_int_equal(r.times, 1);
    assert_true(fetch_for_peer(ds, 1, reader(&r))); /* resident */
    assert_int_equal(r.times, 1);
    assert_int_equal(r.rc, 0);
    fetch_start(ds, 2, FETCH_MEMORY, NULL, NULL);
    assert_false(fetch_of(2)->for_peer);
    assert_true(fetch_for_peer(ds, 2, reader(&r)));
    assert_true(fetch_of(2)->for_peer);
    fetch_start(ds, 2, FETCH_MEMORY, reader(&late), NULL);
    assert_true(fetch_of(2)->for_peer);
    played_end_all(0);
    assert_int_equal(r.times, 1);
    assert_int_equal(late.times, 1);
}

/* Each of two nodes must not wait for the other one's answer. */
static void test_no_peer_waits_for_a_peer(void **state)
{
    struct reader r;

    (void)state;
    cannot[LOCAL] = cannot[COPIES] = true;
    fetch_start(ds, 1, FETCH_MEMORY, NULL, NULL);
    assert_false(fetch_for_peer(ds, 1, reader(&r)));
    assert_false(fetch_of(1)->for_peer);
    cannot[OWNER] = true;
    fetch_start(ds, 2, FETCH_MEMORY, NULL, NULL);
    assert_true(fetch_for_peer(ds, 2, reader(&r)));
    played_end_all(0);
    assert_int_equal(r.times, 1);
}

/* A copy is taken from this node's tiers and from the peer that is named, and from nobody else. */
static void test_take(void **state)
{
    struct reader r;

    (void)state;
    cannot[LOCAL] = true;
    fetch_take(ds, 1, FETCH_MEMORY, "b", reader(&r));
    assert_string_equal(fetch_of(1)->take_from, "b");
    assert_int_equal(played.n_asked, 1);
    played_end_all(DLC_EMISS);
    assert_int_equal(r.times, 1);
    assert_int_equal(r.rc, DLC_EMISS);
    assert_int_equal(asked[LOCAL], 1);
    assert_int_equal(asked[COPIES], 1);
    assert_int_equal(asked[OWNER] + asked[ANY], 0);
}

/* Now a reader wants it, wherever it is. */
static void test_take_is_joined(void **state)
{
    struct reader r, takes, takes_too;

    (void)state;
    cannot[LOCAL] = cannot[OWNER] = true;
    fetch_take(ds, 1, FETCH_MEMORY, "b", reader(&takes));
    fetch_take(ds, 1, FETCH_MEMORY, "b", reader(&takes_too));
    assert_non_null(fetch_of(1)->take_from);
    fetch_start(ds, 1, FETCH_MEMORY, reader(&r), NULL);
    assert_null(fetch_of(1)->take_from);
    assert_int_equal(asked[ANY], 0);
    played.at_once = true;
    played_end(played.held[0], DLC_EMISS);
    assert_int_equal(asked[ANY], 1);
    assert_int_equal(r.rc, 0);
    assert_int_equal(takes.rc, 0);
    assert_int_equal(takes_too.times, 1);
}

static void test_no_such_sample(void **state)
{
    struct reader r;

    (void)state;
    fetch_start(ds, N, FETCH_MEMORY, reader(&r), NULL);
    assert_int_equal(r.times, 1);
    assert_true(r.rc < 0);
    assert_true(r.text[0] != '\0');
    assert_null(map_get(&ds->fetching, N));
    assert_int_equal(played.n_asked, 0);
}

/* Readers go to the bucket themselves; prefetches of others need not wait. */
static void test_too_large(void **state)
{
    uint64_t bypasses = counters.mem_bypasses;
    struct reader r;

    (void)state;
    fetch_start(ds, N - 1, FETCH_MEMORY, reader(&r), NULL);
    assert_int_equal(r.rc, DLC_EBYPASS);
    assert_non_null(strstr(r.text, "larger than a quarter of --memory"));
    assert_int_equal(counters.mem_bypasses, bypasses + 1);
    assert_int_equal(played.n_asked, 0);
    assert_true(budget_for_prefetch(ds));
}

/* There is no disk tier for the disk goal. */
static void test_no_disk(void **state)
{
    struct warm_up u = {.l.ended = on_end};

    (void)state;
    fetch_start(ds, 1, FETCH_DISK, NULL, &u.l);
    assert_int_equal(u.times, 1);
    assert_int_equal(u.rc, DLC_EBYPASS);
    assert_int_equal(played.n_asked, 0);
}

/* Every sample in memory is held: prefetches pause. */
static void test_memory_is_held(void **state)
{
    struct memory *m = n.own_memory->memory;
    struct reader r = {.rc = 0};
    uint64_t len, held = 0;

    (void)state;
    played.at_once = true;
    while (r.rc == 0 && held < N - 1) {
        fetch_start(ds, held, FETCH_MEMORY, reader(&r), NULL);
        if (r.rc == 0)
            assert_non_null(memory_hold(m, ds->index, held++, &len));
    }
    assert_true(held > 2 && held < N - 1);
    assert_int_equal(r.rc, DLC_EBYPASS);
    assert_string_equal(r.text, "programs hold what is in memory");
    assert_false(budget_for_prefetch(ds));
    while (held > 0)
        memory_unhold(m, ds->index, --held);
}

/* ---- others wait for room ---- */

static struct fetch first;
static unsigned turns;

static bool first_again(struct fetch *f)
{
    (void)f;
    turns++;
    return true;
}

/* The first of them. */
static void somebody_waits(void)
{
    first = (struct fetch){.ds = ds};
    dlc_list_init(&first.of_room);
    turns = 0;
    assert_true(room_wait(&first, first_again));
}

static void test_waits_behind_others(void **state)
{
    struct reader r;

    (void)state;
    somebody_waits();
    fetch_start(ds, 1, FETCH_MEMORY, NULL, NULL);
    fetch_start(ds, 2, FETCH_MEMORY, reader(&r), NULL);
    assert_int_equal(played.n_asked, 0);
    assert_false(room_try(&n));
    assert_int_equal(turns, 1);
    assert_int_equal(played.n_asked, 2);
    assert_int_equal(played.asked[0], 2); /* the reader's */
    played_end_all(0);
}

/* A reader joins a prefetch that waits for room: it is tried before other prefetches. */
static void test_reader_joins_one_that_waits(void **state)
{
    struct reader r;

    (void)state;
    somebody_waits();
    fetch_start(ds, 1, FETCH_MEMORY, NULL, NULL);
    fetch_start(ds, 2, FETCH_MEMORY, NULL, NULL);
    fetch_start(ds, 2, FETCH_MEMORY, NULL, NULL); /* another prefetch changes nothing */
    assert_false(fetch_of(2)->on_demand);
    fetch_start(ds, 2, FETCH_MEMORY, reader(&r), NULL);
    assert_false(room_try(&n));
    assert_int_equal(played.asked[0], 2);
    assert_int_equal(played.asked[1], 1);
    played_end_all(0);
    assert_int_equal(r.times, 1);
}

/* While nobody may wait for room, it is tried at once. */
static void test_no_wait_in_a_pause(void **state)
{
    (void)state;
    somebody_waits();
    n.own_memory->room.pause = dlc_mono_add(loop_now(n.loop), DLC_SEC(1));
    fetch_start(ds, 1, FETCH_MEMORY, NULL, NULL);
    assert_int_equal(played.n_asked, 1);
    played_end_all(0);
    room_try(&n);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_warm_ups_share_a_fetch),
        T(test_warm_up_of_what_is_read),
        T(test_bypass_by_all),
        T(test_for_whom),
        T(test_for_a_peer),
        T(test_no_peer_waits_for_a_peer),
        T(test_take),
        T(test_take_is_joined),
        T(test_no_such_sample),
        T(test_too_large),
        T(test_no_disk),
        T(test_memory_is_held),
        T(test_waits_behind_others),
        T(test_reader_joins_one_that_waits),
        T(test_no_wait_in_a_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
