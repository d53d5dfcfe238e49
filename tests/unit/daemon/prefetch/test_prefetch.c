// SPDX-License-Identifier: Apache-2.0
/*
 * Cursors of sessions, followed look by look, over a dataset that is all in memory: what a move, a
 * jump and a pause do to the window, to the clock of next uses and to who is evicted.
 */
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/job_weights.h"
#include "daemon/prefetch/cache_bypass.h"
#include "daemon/prefetch/prefetch.h"
#include "daemon/prefetch/read_outcomes.h"
#include "daemon/prefetch/reader_state.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "unit.h"

#include <math.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/mem.h"
#include "catalog/catalog.h"
#include "order/order.h"
#include "order/schedule.h"

#define SIZE     1000u
#define ROOM     (4096 + N * (uint64_t)1024) /* the segment's header and all samples, to the byte */
#define TAG      DLC_TAG4('d', 's', 'e', 't')
#define POLL_MAX 8192u /* positions that one poll goes through */

static unsigned N; /* samples */

struct world {
    struct node n;
    struct dataset ds;
    struct session s[2];
    struct mem_index *other; /* of another dataset */
};

static struct catalog *catalog_of(unsigned n)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    char path[256], key[20];

    unit_path("catalog", path);
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "s%06u", i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), SIZE, "e", &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, path, "s3://b/p", &err), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_open(path, &c, &err), 0);
    return c;
}

static void bring(struct memory *m, struct mem_index *x, uint64_t sample, uint64_t len)
{
    struct mem_fill *f;

    assert_int_equal(memory_reserve(m, x, sample, len, &f), 0);
    memory_publish(m, &f);
}

static void set_up(void **state, unsigned samples)
{
    static const struct config config;
    struct world *w = mem_new(struct world);

    N = samples;
    w->n.config = &config;
    w->n.loop = loop_new(NULL);
    assert_non_null(w->n.loop);
    tenant_memories_init(&w->n.memories, ROOM, ROOM, NULL);
    assert_int_equal(tenant_memory_get(&w->n.memories, "", &w->n.own_memory, NULL), 0);
    dlc_list_init(&w->n.datasets);
    dlc_list_init(&w->n.following);
    w->n.events[0] = &bypass_events;
    w->n.events[1] = &outcomes_events;
    w->ds = (struct dataset){.tag = TAG, .node = &w->n, .state = DATASET_READY, .refs = 1};
    w->ds.catalog = catalog_of(N);
    dlc_list_init(&w->ds.sessions);
    dlc_list_init(&w->ds.job_weights);
    dlc_list_push_tail(&w->n.datasets, &w->ds.link);
    hist_init(&w->ds.prefetch.latency, UINT32_MAX);
    w->ds.tenant_memory = w->n.own_memory;
    assert_int_equal(mem_index_new(w->n.own_memory->memory, N, 1, &w->ds.index, NULL), 0);
    assert_int_equal(mem_index_new(w->n.own_memory->memory, 10, 1, &w->other, NULL), 0);
    for (unsigned i = 0; i < N; i++)
        bring(w->n.own_memory->memory, w->ds.index, i, SIZE);
    for (unsigned i = 0; i < unit_count(w->s); i++) {
        w->s[i] = (struct session){.ds = &w->ds};
        dlc_list_init(&w->s[i].waiters);
        dlc_list_push_tail(&w->ds.sessions, &w->s[i].link);
        assert_int_equal(mem_session_new(w->ds.index, &w->s[i].mem, NULL), 0);
    }
    *state = w;
}

static int setup(void **state)
{
    set_up(state, 200);
    return 0;
}

/* So few that a victim is the best of all, not of a sample. */
static int setup_few(void **state)
{
    set_up(state, 60);
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    loop_timer_del(w->n.loop, &w->n.prefetch_timer);
    for (unsigned i = 0; i < unit_count(w->s); i++) {
        prefetch_stop(&w->s[i]);
        mem_session_free(&w->s[i].mem);
    }
    mem_index_free(&w->ds.index);
    mem_index_free(&w->other);
    tenant_memory_put(&w->n.own_memory);
    tenant_memories_free(&w->n.memories);
    catalog_close(&w->ds.catalog);
    mem_free(&w->ds.outcomes.bits);
    loop_free(&w->n.loop);
    mem_free(&w);
    return 0;
}

/* One turn of the loop, so much later. */
static void turn(struct world *w, struct dlc_dur d)
{
    dlc_clock_advance(d);
    loop_stop(w->n.loop); /* the next turn is its last */
    loop_run(w->n.loop);
}

/* The loop's time goes on; the tests look themselves. */
static void pass_time(struct world *w, struct dlc_dur d)
{
    loop_timer_del(w->n.loop, &w->n.prefetch_timer);
    turn(w, d);
}

static struct shm_session_hdr *hdr(struct world *w, unsigned i)
{
    return mem_session_map(w->s[i].mem);
}

/* Follow an order without end from pos on. */
static void follow(struct world *w, unsigned i, uint64_t pos)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N};
    struct schedule *t = schedule_new(&spec, 0, 0, NULL);

    assert_non_null(t);
    prefetch_start(&w->s[i], t, pos, false);
}

/* The client's cursor is at pos when the daemon looks. */
static const struct reader_state *look(struct world *w, unsigned i, uint64_t pos)
{
    atomic_store(&hdr(w, i)->cursor, pos);
    prefetch_poll(&w->s[i]);
    return &w->s[i].reader;
}

static void test_begin(void **state)
{
    struct world *w = *state;
    const struct reader_state *f = &w->s[0].reader;

    prefetch_poll(&w->s[0]); /* follows nothing */
    assert_int_equal(w->ds.refs, 1);
    atomic_store(&hdr(w, 0)->overtaken, 5);
    atomic_store(&hdr(w, 0)->ahead, 6);
    atomic_store(&hdr(w, 0)->waited_ns, 7);
    follow(w, 0, 30);
    assert_true(f->active && !f->idle);
    assert_int_equal(f->pos, 30);
    assert_int_equal(atomic_load(&hdr(w, 0)->cursor), 30);
    assert_int_equal(atomic_load(&hdr(w, 0)->overtaken) + atomic_load(&hdr(w, 0)->ahead) +
                         atomic_load(&hdr(w, 0)->waited_ns),
                     0);
    assert_int_equal(w->ds.prefetch.n_following, 1);
    assert_int_equal(w->ds.prefetch.n_reading, 1);
    assert_int_equal(w->n.own_memory->n_reading, 1);
    look(w, 0, 30);
    assert_int_equal(f->window, 64); /* before anything is measured */
    assert_int_equal(f->ahead, 94);
    follow(w, 0, 7); /* another order of the same session */
    assert_int_equal(w->ds.prefetch.n_following, 1);
    assert_int_equal(w->n.own_memory->n_reading, 1);
    assert_int_equal(f->pos, 7);
    follow(w, 1, 0);
    assert_int_equal(w->ds.prefetch.n_following, 2);
    assert_int_equal(w->n.own_memory->n_reading, 2);
    prefetch_stop(&w->s[0]);
    prefetch_stop(&w->s[0]);
    assert_int_equal(w->ds.prefetch.n_following, 1);
    assert_int_equal(w->ds.prefetch.n_reading, 1);
    assert_int_equal(w->ds.refs, 1);
}

/* The clock of next uses goes by what readers read, on average. */
static void test_moves(void **state)
{
    struct world *w = *state;
    const struct reader_state *f;

    follow(w, 0, 0);
    f = look(w, 0, 10);
    assert_int_equal(f->pos, 10);
    assert_true(w->ds.clock.progress == 10);
    assert_int_equal(w->ds.outcomes.reads.ahead, 10); /* samples it has passed */
    look(w, 0, 10);
    assert_true(w->ds.clock.progress == 10);
    follow(w, 1, 0);
    look(w, 0, 30);
    assert_true(w->ds.clock.progress == 20);
    look(w, 1, 4);
    assert_true(w->ds.clock.progress == 22);
    look(w, 0, N + 3); /* into the next epoch */
    assert_true(w->ds.clock.progress == 22 + (N + 3 - 30) / 2.0);
    assert_int_equal(w->ds.outcomes.reads.reuse, 4 + 3);
}

/* A jump moves no clock and counts no reads, forward or back. */
static void test_jumps(void **state)
{
    struct world *w = *state;
    const struct reader_state *f;
    uint64_t far;

    follow(w, 0, 100);
    f = look(w, 0, 110);
    assert_true(w->ds.clock.progress == 10);
    look(w, 0, 109); /* one back */
    assert_int_equal(f->pos, 109);
    assert_true(w->ds.clock.progress == 10);
    assert_int_equal(w->ds.outcomes.reads.ahead, 10);
    assert_true(f->ahead >= 109 && f->ahead <= 109 + f->window);
    far = f->ahead + POLL_MAX; /* as far as it can have come */
    w->ds.clock.progress = 0;
    look(w, 0, far);
    assert_true(w->ds.clock.progress == (double)(far - 109));
    assert_int_equal(w->ds.outcomes.reads.ahead + w->ds.outcomes.reads.reuse, 10 + far - 109);
    far = f->ahead + POLL_MAX + 1;
    w->ds.clock.progress = 0;
    look(w, 0, far);
    assert_int_equal(f->pos, far);
    assert_int_equal(f->ahead, far + f->window);
    assert_true(w->ds.clock.progress == 0);
    look(w, 0, far + 5); /* out there a move is one as anywhere */
    assert_true(w->ds.clock.progress == 5);
    w->ds.clock.progress = 0;
    look(w, 0, UINT64_MAX); /* nonsense */
    assert_int_equal(f->pos, UINT64_MAX / 2);
    look(w, 0, 3);
    assert_int_equal(f->pos, 3);
    assert_int_equal(f->ahead, 3 + f->window);
    assert_true(w->ds.clock.progress == 0);
}

/* Room for one is needed: does this one go? Who went comes back. */
static bool goes(struct world *w, uint64_t newcomer, uint64_t sample)
{
    bool did, gone[200] = {false};

    bring(w->n.own_memory->memory, w->other, newcomer, SIZE);
    for (uint64_t i = 0; i < N; i++)
        gone[i] = !mem_index_ready(w->ds.index, i);
    did = gone[sample];
    memory_evict(w->n.own_memory->memory, w->other, newcomer);
    memory_tick(w->n.own_memory->memory);
    for (uint64_t i = 0; i < N; i++) {
        if (gone[i])
            bring(w->n.own_memory->memory, w->ds.index, i, SIZE);
    }
    return did;
}

/* What is needed last goes first, wherever the cursor went. */
static void test_victims(void **state)
{
    struct world *w = *state;

    follow(w, 0, 0);
    look(w, 0, 50);
    assert_true(goes(w, 0, 49)); /* just read: needed again in an epoch */
    look(w, 0, 10);
    assert_true(goes(w, 1, 9));
    look(w, 0, 30);
    assert_true(goes(w, 2, 29));
    look(w, 0, 30 + POLL_MAX + 5); /* a move that is too long to go through */
    assert_true(goes(w, 5, (30 + POLL_MAX + 4) % N));
    look(w, 0, 600 * N); /* far ahead, where an epoch begins */
    assert_true(goes(w, 3, N - 1));
    look(w, 0, 40);
    assert_true(goes(w, 4, 39));
}

/* A session that does not read for a second has no next uses; one that waits is not idle. */
static void test_idle(void **state)
{
    struct world *w = *state;
    const struct reader_state *f;

    pass_time(w, DLC_SEC(1));
    follow(w, 0, 0);
    follow(w, 1, 100);
    f = look(w, 0, 1);
    pass_time(w, DLC_MS(500));
    look(w, 0, 1);
    assert_false(f->idle);
    look(w, 1, 101);
    pass_time(w, DLC_MS(600));
    look(w, 0, 1);
    assert_true(f->idle);
    assert_int_equal(w->ds.prefetch.n_reading, 1);
    assert_int_equal(w->n.own_memory->n_reading, 1);
    assert_int_equal(f->ahead, f->pos + f->window); /* what it will need comes all the same */
    look(w, 1, 101);
    look(w, 0, 2); /* it reads again */
    assert_false(f->idle);
    assert_int_equal(w->ds.prefetch.n_reading, 2);
    w->s[0].n_waiters = 1;
    pass_time(w, DLC_SEC(30));
    look(w, 0, 2);
    assert_false(f->idle);
    w->s[0].n_waiters = 0;
    look(w, 0, 2);
    assert_false(f->idle); /* it has waited until now */
    assert_true(f->pause.ns >= DLC_MS(1100).ns);
    pass_time(w, (struct dlc_dur){4 * f->pause.ns - DLC_SEC(1).ns});
    look(w, 0, 2);
    assert_false(f->idle); /* four times its longest pause are to pass */
    pass_time(w, DLC_MS(1100));
    look(w, 0, 2);
    assert_true(f->idle);
    look(w, 0, 1); /* a jump wakes it */
    assert_false(f->idle);
    assert_int_equal(w->ds.prefetch.n_reading, 2 - w->s[1].reader.idle);
    prefetch_stop(&w->s[1]);
    assert_int_equal(w->ds.prefetch.n_reading, 1);
    atomic_store(&hdr(w, 0)->ahead, 1); /* workers read for it: theirs are the waits */
    w->ds.prefetch.n_waiting = 1;
    pass_time(w, DLC_SEC(60));
    look(w, 0, 1);
    assert_false(f->idle);
    w->ds.prefetch.n_waiting = 0;
    w->s[0].n_waiters = 1;
    pass_time(w, DLC_SEC(60));
    look(w, 0, 1);
    assert_true(f->idle);
    assert_int_equal(w->n.own_memory->n_reading, 0);
    look(w, 0, 1); /* nobody reads: the room is there to be shared by none */
    assert_true(f->window > 2);
    prefetch_stop(&w->s[0]);
    assert_int_equal(w->n.own_memory->n_reading, 0);
}

/* Time in which the reader waited is no time in which it read. */
static void test_waits(void **state)
{
    struct world *w = *state;
    const struct reader_state *f;
    int64_t before;

    follow(w, 0, 0);
    f = look(w, 0, 1);
    assert_int_equal(f->rate.waited.ns, 0);
    prefetch_waits(&w->s[0], true);
    assert_int_equal(w->ds.prefetch.n_waiting, 1);
    dlc_clock_advance(DLC_SEC(10));
    prefetch_waits(&w->s[0], true);
    assert_int_equal(w->ds.prefetch.n_waiting, 1);
    assert_in_range(f->rate.waited.ns, DLC_SEC(10).ns, DLC_SEC(15).ns);
    dlc_clock_advance(DLC_SEC(10));
    look(w, 0, 1); /* counts the wait so far */
    assert_in_range(f->rate.waited.ns, DLC_SEC(20).ns, DLC_SEC(25).ns);
    assert_true(f->waiting_since.ns != 0); /* and it goes on */
    assert_int_equal(w->ds.prefetch.n_waiting, 1);
    prefetch_waits(&w->s[0], false);
    assert_int_equal(w->ds.prefetch.n_waiting, 0);
    assert_int_equal(f->waiting_since.ns, 0);
    before = f->rate.waited.ns;
    dlc_clock_advance(DLC_SEC(10));
    look(w, 0, 1);
    assert_int_equal(f->rate.waited.ns, before);
    atomic_store(&hdr(w, 0)->waited_ns, 5000); /* as the client says of its workers, in all */
    look(w, 0, 1);
    assert_int_equal(f->rate.waited.ns, before + 5000);
    atomic_store(&hdr(w, 0)->waited_ns, 8000);
    look(w, 0, 1);
    assert_int_equal(f->rate.waited.ns, before + 8000);
    atomic_store(&hdr(w, 0)->waited_ns, 10);
    look(w, 0, 1);
    assert_int_equal(f->rate.waited.ns, before + 8000);
    atomic_store(&hdr(w, 0)->waited_ns, UINT64_MAX); /* an hour is believed */
    look(w, 0, 1);
    assert_int_equal(f->rate.waited.ns, before + 8000 + DLC_SEC(3600).ns);
}

static struct schedule_list *list_of(uint64_t first, uint64_t length)
{
    uint64_t *v = mem_alloc(length * sizeof(*v));
    struct schedule_list *l;

    for (uint64_t i = 0; i < length; i++)
        v[i] = first + i;
    l = schedule_list_new(v, length, N, NULL);
    assert_non_null(l);
    return l;
}

/* Lists, one epoch after the other: fetched as far as they are known. */
static void test_lists(void **state)
{
    struct world *w = *state;
    struct schedule_list *l = list_of(10, 5);
    const struct reader_state *f;

    assert_false(prefetch_reads_lists(&w->s[0]));
    follow(w, 1, 0);
    assert_false(prefetch_reads_lists(&w->s[1]));
    prefetch_start(&w->s[0], schedule_new_list(&l, 0, 0, 0), 0, false);
    assert_true(prefetch_reads_lists(&w->s[0]));
    f = look(w, 0, 0);
    assert_int_equal(f->ahead, 5);
    l = list_of(50, 6);
    assert_int_equal(prefetch_append_list(&w->s[0], &l, NULL), 0);
    assert_null(l);
    look(w, 0, 0);
    assert_int_equal(f->ahead, 11);
    l = list_of(70, 7);
    assert_true(prefetch_append_list(&w->s[0], &l, NULL) < 0); /* one ahead is enough */
    assert_non_null(l);
    atomic_store(&hdr(w, 0)->cursor, 6); /* not looked at since */
    assert_int_equal(prefetch_append_list(&w->s[0], &l, NULL), 0);
    assert_int_equal(f->pos, 6);
    look(w, 0, 7);
    assert_int_equal(f->ahead, 18);
    prefetch_stop(&w->s[0]);
    assert_false(prefetch_reads_lists(&w->s[0]));
}

/* Whose cursor stands for a session: its own, or one that hands samples to workers. */
static void test_whose_cursor(void **state)
{
    struct world *w = *state;

    assert_null(reader_state_of(&w->s[1]));
    follow(w, 0, 0);
    assert_ptr_equal(reader_state_of(&w->s[0]), &w->s[0].reader);
    look(w, 0, 0);
    assert_null(reader_state_of(&w->s[1]));
    atomic_store(&hdr(w, 0)->ahead, 1);
    look(w, 0, 0);
    assert_ptr_equal(reader_state_of(&w->s[1]), &w->s[0].reader);
    prefetch_stop(&w->s[0]);
    assert_null(reader_state_of(&w->s[1]));
}

/* Among very many sessions only the first 64 are looked at: each miss asks. */
static void test_cursor_among_many(void **state)
{
    static struct session many[63];
    struct world *w = *state;
    struct session *leader = &w->s[1];

    dlc_list_remove(&leader->link);
    for (unsigned i = 0; i < unit_count(many); i++) {
        many[i] = (struct session){.ds = &w->ds};
        if (i < 62)
            dlc_list_push_tail(&w->ds.sessions, &many[i].link);
    }
    dlc_list_push_tail(&w->ds.sessions, &leader->link); /* the 64th */
    leader->reader.active = true;
    leader->reader.in_hand = 1;
    assert_ptr_equal(reader_state_of(&w->s[0]), &leader->reader);
    dlc_list_push_head(&w->ds.sessions, &many[62].link); /* now it is the 65th */
    assert_null(reader_state_of(&w->s[0]));
    leader->reader.active = false;
    for (unsigned i = 0; i < unit_count(many); i++)
        dlc_list_remove(&many[i].link);
}

/* A session that keeps nothing: what came for it alone leaves when its cursor has passed it. */
static void test_keeps_nothing(void **state)
{
    struct world *w = *state;

    w->s[0].bypasses_cache = true;
    events_raise(&w->n, sample_resident, &w->ds, 3, true);
    events_raise(&w->n, sample_resident, &w->ds, 20, true);
    follow(w, 0, 0);
    look(w, 0, 10);
    assert_false(mem_index_ready(w->ds.index, 3));
    assert_true(mem_index_ready(w->ds.index, 4)); /* it was here for others */
    assert_true(mem_index_ready(w->ds.index, 20));
    follow(w, 1, 0); /* somebody who keeps what it needs */
    look(w, 0, 30);
    assert_true(mem_index_ready(w->ds.index, 20));
    mem_free(&w->ds.bypass.samples);
}

/* By itself the daemon looks as long as anybody follows an order, and no longer. */
static void test_looks_by_itself(void **state)
{
    struct world *w = *state;

    follow(w, 0, 0);
    for (uint64_t pos = 5; pos < 20; pos += 5) {
        atomic_store(&hdr(w, 0)->cursor, pos);
        turn(w, DLC_MS(20));
        assert_int_equal(w->s[0].reader.pos, pos);
        assert_int_equal(w->ds.refs, 1);
        assert_true(heap_has(&w->n.prefetch_timer.node));
    }
    prefetch_stop(&w->s[0]);
    turn(w, DLC_MS(20));
    assert_false(heap_has(&w->n.prefetch_timer.node));
}

/* The cursor of a fast reader is polled more often, so that its window does not run dry. */
static void test_looks_often(void **state)
{
    struct world *w = *state;

    follow(w, 0, 0);
    w->s[0].reader.rate = (struct rate){.per_s = 1e6};
    turn(w, DLC_MS(20));
    w->s[0].reader.rate = (struct rate){.per_s = 1e6};
    atomic_store(&hdr(w, 0)->cursor, 5);
    turn(w, DLC_MS(3));
    assert_int_equal(w->s[0].reader.pos, 5);
}

/* A list is announced to the other nodes with the weights by which it was drawn. */
static void test_list_sends_weights(void **state)
{
    struct world *w = *state;
    struct job_weights weights = {.send.next = {INT64_MAX}};
    struct schedule_list *l = list_of(10, 5);

    prefetch_start(&w->s[0], schedule_new_list(&l, 0, 0, 0), 0, false);
    w->s[0].job_weights = &weights;
    l = list_of(50, 6);
    assert_int_equal(prefetch_append_list(&w->s[0], &l, NULL), 0);
    assert_true(weights.send.next.ns < INT64_MAX);
    weights.send.next.ns = INT64_MAX;
    l = list_of(70, 7);
    assert_true(prefetch_append_list(&w->s[0], &l, NULL) < 0);
    assert_true(weights.send.next.ns == INT64_MAX);
    w->s[0].job_weights = NULL;
    schedule_list_free(&l);
}

/* The window: what the reader reads in the time that a fetch takes, as far as memory allows. */
static void test_window(void **state)
{
    struct world *w = *state;
    const struct reader_state *f = &w->s[0].reader;
    struct conn c = {.job = (char *)(uintptr_t) "job"};
    uint64_t half = ROOM / 2 / SIZE, want;
    double p99;

    for (unsigned i = 0; i < 100; i++)
        hist_add(&w->ds.prefetch.latency, 100000); /* 0.1 s */
    p99 = (double)hist_percentile(&w->ds.prefetch.latency, 0.99) / 1e6;
    assert_true(p99 > 0.09 && p99 < 0.11);
    follow(w, 0, 0);
    for (unsigned k = 1; k <= 20; k++) { /* four samples each 40 ms */
        pass_time(w, DLC_MS(40));
        look(w, 0, 4 * k);
    }
    assert_true(f->rate.per_s > 5 && f->rate.per_s < 110);
    want = (uint64_t)(f->rate.per_s * p99 * 1.3 + f->rate.burst) + 8;
    assert_int_equal(f->window, want);
    assert_true(f->ahead >= 80 + want);
    assert_false(f->short_of_memory);
    atomic_store(&hdr(w, 0)->ahead, 10); /* in the hands of workers */
    look(w, 0, 80);
    assert_int_equal(f->in_hand, 10);
    assert_int_equal(f->window, want + 10);
    atomic_store(&hdr(w, 0)->overtaken, 5);
    look(w, 0, 80);
    assert_int_equal(f->overtaken, 5);
    assert_int_equal(f->window, want + 15);
    atomic_store(&hdr(w, 0)->overtaken, UINT32_MAX); /* nonsense */
    look(w, 0, 80);
    assert_int_equal(f->overtaken, POLL_MAX);
    atomic_store(&hdr(w, 0)->overtaken, 5);
    prefetch_stop(&w->s[0]);
    follow(w, 0, 80);
    atomic_store(&hdr(w, 0)->ahead, UINT64_MAX); /* not more than there are, and than fit */
    look(w, 0, 80);
    assert_int_equal(f->in_hand, N);
    assert_int_equal(f->window, half);
    assert_true(f->short_of_memory);
    follow(w, 1, 0);
    look(w, 0, 80);
    assert_int_equal(f->window, half / 2); /* an equal part of it */
    prefetch_stop(&w->s[1]);
    atomic_store(&hdr(w, 0)->overtaken, 0);
    atomic_store(&hdr(w, 0)->ahead, 80); /* as much again, before anything is measured */
    w->s[0].reader.rate = (struct rate){0};
    look(w, 0, 80);
    assert_int_equal(f->window, half);
    w->s[0].conn = &c;
    w->s[0].part = 5 * SIZE; /* its job's part of memory */
    look(w, 0, 80);
    assert_int_equal(f->window, 5);
    w->s[0].part = 1;
    look(w, 0, 80);
    assert_int_equal(f->window, 2); /* at least */
}

/* Where nodes share datasets, windows take what this node need not keep for all. */
static void test_window_beside_what_is_kept(void **state)
{
    struct world *w = *state;
    struct tenant_memory *m = w->n.own_memory;
    const struct reader_state *f = &w->s[0].reader;
    uint64_t all = memory_usable(m->memory), holes = all / 64, room = all / 4 - holes;

    w->s[0].reader.asked = w->s[1].reader.asked = N;
    follow(w, 0, 0);
    m->owned = all - all / 4;
    look(w, 0, 0);
    assert_int_equal(f->window, room / SIZE);
    assert_true(f->short_of_memory);
    follow(w, 1, 100);
    look(w, 1, 100);
    assert_int_equal(w->s[1].reader.window, 2); /* the first one has all of it, ... */
    look(w, 0, 0);
    assert_int_equal(f->window, room / 2 / SIZE);
    look(w, 0, room / SIZE); /* ... until it has read that */
    look(w, 1, 100);
    assert_int_equal(w->s[1].reader.window, room / 2 / SIZE);
    prefetch_stop(&w->s[1]);
    m->owned = all - holes - 1; /* as much as can be kept: some room for windows all the same */
    look(w, 0, 100);
    assert_int_equal(f->window, DLC_MAX(holes / SIZE, 2));
    m->owned = all - holes; /* more: it cannot be kept anyway */
    look(w, 0, 101);
    assert_int_equal(f->window, all / 2 / SIZE);
    m->owned = holes;
    look(w, 0, 102);
    assert_int_equal(f->window, all / 2 / SIZE); /* half of it at most */
}

/* A node with a disk keeps less in memory for the others. */
static void test_window_with_a_disk(void **state)
{
    struct world *w = *state;
    struct tenant_memory *m = w->n.own_memory;
    uint64_t all = memory_usable(m->memory);

    w->s[0].reader.asked = N;
    follow(w, 0, 0);
    w->n.disk = (struct disk *)w; /* not looked at */
    m->owned = all - all / 16;
    look(w, 0, 0);
    assert_int_equal(w->s[0].reader.window, all / 8 / SIZE);
    w->n.disk = NULL;
}

/* The clock of a dataset is compared with that of others, where others are read. */
static void test_clock_beside_others(void **state)
{
    struct world *w = *state;
    struct dlc_mono begin;

    follow(w, 0, 0);
    begin = w->ds.clock.anchored;
    turn(w, DLC_SEC(20));
    turn(w, DLC_SEC(20));
    assert_int_equal(w->ds.clock.anchored.ns, begin.ns);
    w->n.own_memory->n_reading++; /* in the same memory */
    turn(w, DLC_SEC(20));
    assert_true(w->ds.clock.anchored.ns > begin.ns);
    w->n.own_memory->n_reading--;
}

/* A relaxed order: nothing is fetched before the client knows that it is settled. */
static void test_relaxed_order(void **state)
{
    const struct order_spec spec = {.kind = ORDER_SEQUENTIAL, .n = N};
    struct world *w = *state;
    struct schedule *t = schedule_new(&spec, 0, 0, NULL);

    assert_non_null(t);
    prefetch_start(&w->s[0], t, 0, true);
    assert_true(w->s[0].reader.swapping);
    assert_int_equal(atomic_load(&hdr(w, 0)->horizon), 64);
    follow(w, 0, 0);
    assert_false(w->s[0].reader.swapping);
    assert_int_equal(atomic_load(&hdr(w, 0)->horizon), 0);
}

static void assert_sums(const struct world *w)
{
    uint64_t ahead = 0, reading = 0;

    for (unsigned i = 0; i < unit_count(w->s); i++) {
        const struct reader_state *r = &w->s[i].reader;
        uint64_t bytes = r->active ? (r->ahead - r->pos) * SIZE : 0;

        ahead += bytes;
        reading += r->idle ? 0 : bytes;
    }
    assert_int_equal(w->n.own_memory->ahead, ahead);
    assert_int_equal(w->n.own_memory->ahead_reading, reading);
}

/* What windows hold is summed up when one changes: no window is sized by a pass over all. */
static void test_sums_of_windows(void **state)
{
    struct world *w = *state;

    follow(w, 0, 0);
    assert_sums(w);
    look(w, 0, 10);
    assert_true(w->n.own_memory->ahead > 0);
    assert_sums(w);
    follow(w, 1, 50);
    look(w, 1, 60);
    assert_sums(w);
    pass_time(w, DLC_SEC(3));
    look(w, 0, 20);
    look(w, 1, 60); /* it has not moved */
    assert_true(w->s[1].reader.idle);
    assert_sums(w);
    look(w, 1, 5000000); /* it jumps */
    assert_sums(w);
    prefetch_stop(&w->s[0]);
    assert_sums(w);
    assert_false(dlc_list_empty(&w->n.following));
    prefetch_stop(&w->s[1]);
    assert_int_equal(w->n.own_memory->ahead, 0);
    assert_true(dlc_list_empty(&w->n.following));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_begin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_jumps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_victims, setup_few, teardown),
        cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window_beside_what_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window_with_a_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clock_beside_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relaxed_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_of_windows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whose_cursor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cursor_among_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keeps_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_looks_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_looks_often, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_sends_weights, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
