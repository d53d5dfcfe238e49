// SPDX-License-Identifier: Apache-2.0
/* Warm-ups: which samples they fetch, where to, when they end, and what they then say. */
#include "daemon/played.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/config.h"
#include "base/syscalls.h"
#include "cluster/peer/view.h"
#include "daemon/client_conn.h"
#include "daemon/ownership.h"
#include "daemon/prefetch/warm.h"
#include "ipc/frame.h"

#define N    3000u /* more samples than one step passes over, or one turn starts */
#define FEW  20u
#define ROOM ((uint64_t)16 << 20)

static struct node n;
static struct {
    unsigned times;
    uint64_t done, failed, left, bytes, total;
    char text[500];
} last;

static int set_up(void **state)
{
    (void)state;
    memset(&last, 0, sizeof(last));
    played_open(&n, ROOM);
    n.events[0] = &ownership_events;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(dlc_list_empty(&n.warms));
    dlc_list_each (l, &n.datasets)
        assert_int_equal(dlc_container(l, struct dataset, link)->budget.n_warms, 0);
    played_close(&n);
    if (n.cluster != NULL)
        cluster_free(&n.cluster);
    return 0;
}

static void on_end(struct warm *w, void *arg)
{
    assert_ptr_equal(arg, &last);
    last.times++;
    last.done = w->done;
    last.failed = w->failed;
    last.left = w->left;
    last.bytes = w->bytes;
    last.total = w->total;
    snprintf(last.text, sizeof(last.text), "%s", w->first_error.text);
}

static void order(struct dataset *ds, enum fetch_goal goal, uint64_t first, uint64_t count)
{
    assert_true(warm_start_command(ds, goal, first, count, on_end, &last));
}

static void use_disk(void)
{
    struct dlc_err err = DLC_ERR_INIT;
    char root[256];

    if (disk_open(&(struct disk_config){.root = unit_path("disk", root)}, &n.disk, &err) < 0)
        fail_msg("%s", err.text);
}

static void take_view(const char *nodes)
{
    json_t *list = json_array(), *view;

    for (; *nodes != '\0'; nodes++) {
        char name[2] = {*nodes, '\0'};

        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:s}", "name", name, "address",
                                              "http://x:1", "weight", 1, "state", "live"));
    }
    n.cluster = cluster_new("a");
    view = json_pack("{s:i, s:o}", "version", 1, "nodes", list);
    assert_int_equal(cluster_take_view(n.cluster, view, NULL), 0);
    json_decref(view);
}

static void turns(unsigned k)
{
    while (k-- > 0)
        played_turn(&n);
}

/* Turn the loop until this many were asked for: workers prepare files. */
static void await_asked(unsigned asked)
{
    for (unsigned i = 0; i < 10000 && played.n_asked < asked; i++) {
        played_turn(&n);
        poll(NULL, 0, played.n_asked < asked);
    }
    assert_int_equal(played.n_asked, asked);
}

/* All of a dataset, for a client that has gone since. */
static void test_all_of_it(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);
    struct conn gone = {.node = &n, .id = 99};

    (void)state;
    played.at_once = true;
    assert_true(warm_start(&gone, ds, FETCH_MEMORY));
    assert_int_equal(ds->budget.n_warms, 1);
    turns(N / 256 + 1);
    assert_int_equal(played.n_asked, N);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(played.asked[i], i);
    assert_int_equal(mem_index_resident(ds->index), N);
    assert_true(dlc_list_empty(&n.warms));
    order(ds, FETCH_MEMORY, 0, 7); /* it is all here: counted, and nothing was read */
    assert_int_equal(last.times, 1);
    assert_int_equal(last.done, 7);
    assert_int_equal(last.bytes, 0);
    assert_int_equal(played.n_asked, N);
}

static void test_some_of_it(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", FEW);

    (void)state;
    order(ds, FETCH_MEMORY, 5, 4);
    assert_int_equal(played.n_asked, 4);
    assert_int_equal(played.asked[0], 5);
    assert_int_equal(last.times, 0);
    played_end(played.held[--played.n_held], 0);
    played_end(played.held[--played.n_held], DLC_ENOTFOUND); /* sample 7 */
    played_end(played.held[--played.n_held], DLC_EBUCKET);
    assert_int_equal(last.times, 0);
    played_end(played.held[--played.n_held], 0);
    assert_int_equal(last.times, 1);
    assert_int_equal(last.done, 2);
    assert_int_equal(last.failed, 2);
    assert_int_equal(last.bytes, 2 * PARTS_SIZE);
    assert_int_equal(last.total, 4);
    assert_string_equal(last.text, "sample 7 failed");
    order(ds, FETCH_MEMORY, 3, 0); /* nothing */
    assert_int_equal(last.times, 2);
    assert_int_equal(last.done, 0);
}

/* A command of the manager is for what this node owns. */
static void test_only_ours(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);
    unsigned ours = 0;

    (void)state;
    take_view("ab");
    parts_belongs(ds, "train", "ann");
    played.at_once = true;
    order(ds, FETCH_MEMORY, 0, N);
    turns(N / 256 + 1);
    assert_int_equal(last.times, 1);
    for (uint64_t i = 0; i < N; i++) {
        if (dataset_owns(ds, i))
            assert_int_equal(played.asked[ours++], i);
    }
    assert_int_equal(played.n_asked, ours);
    assert_int_equal(last.done, ours);
    assert_int_equal(last.total, ours);
}

/* Many samples of other nodes one after the other, which one step does not get past. */
static void test_none_ours(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);

    (void)state;
    take_view("b");
    parts_belongs(ds, "train", "ann");
    assert_false(dataset_owns(ds, 0));
    order(ds, FETCH_MEMORY, 0, N);
    turns(2);
    assert_int_equal(last.times, 1);
    assert_int_equal(last.total, 0);
    assert_int_equal(played.n_asked, 0);
}

/* An eviction of the dataset ends commands that warm it, and no others. */
static void test_cut(void **state)
{
    struct dataset *a = played_dataset(&n, "a", N), *b = played_dataset(&n, "b", N);
    struct dataset *c = played_dataset(&n, "c", FEW);
    struct conn gone = {.node = &n, .id = 99};
    struct warm *first;

    (void)state;
    parts_belongs(a, "train", "ann");
    parts_belongs(b, "train", "bob");
    order(a, FETCH_MEMORY, 0, N);
    first = dlc_container(n.warms.next, struct warm, link);
    assert_int_equal(first->next, 256);
    order(b, FETCH_MEMORY, 0, 2);
    order(c, FETCH_MEMORY, 0, 2); /* not of the cluster */
    assert_true(warm_start(&gone, a, FETCH_MEMORY));
    warm_cut(&n, "test", "ann");
    assert_true(first->next < first->end);
    warm_cut(&n, "train", "ann");
    assert_int_equal(first->next, first->end);
    assert_int_equal(first->total, first->next);
    dlc_list_each (l, &n.warms) {
        const struct warm *w = dlc_container(l, struct warm, link);

        assert_int_equal(w->end, w == first ? first->next : w->ds == a ? N : 2);
    }
    turns(N / 256 + 1);
    played_end_all(0);
    turns(N / 256 + 1);
    played_end_all(0);
    assert_int_equal(last.times, 3);
}

static void test_not_too_many(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);
    struct conn gone = {.node = &n, .id = 99};

    (void)state;
    for (unsigned i = 0; i < 64; i++)
        order(ds, FETCH_MEMORY, 2 * i, 2);
    assert_false(warm_start_command(ds, FETCH_MEMORY, 200, 1, on_end, &last));
    assert_false(warm_start(&gone, ds, FETCH_MEMORY));
    assert_int_equal(ds->budget.n_warms, 64);
    played_end(played.held[--played.n_held], 0);
    played_end(played.held[--played.n_held], 0);
    assert_int_equal(last.times, 1);
    order(ds, FETCH_MEMORY, 200, 1);
    played_end_all(0);
    assert_int_equal(last.times, 65);
}

/* Memory that is full takes no more, so that the walk does not push out what it brought. */
static void test_memory_is_full(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);
    struct memory_figures m;

    (void)state;
    played.at_once = true;
    memory_set_ceiling(n.own_memory->memory, (uint64_t)1 << 20);
    order(ds, FETCH_MEMORY, N - 2, 2);
    order(ds, FETCH_MEMORY, 0, N);
    turns(N / 256 + 1);
    assert_int_equal(last.times, 2);
    assert_int_equal(last.failed, 0);
    memory_figures(n.own_memory->memory, &m);
    assert_int_equal(mem_index_resident(ds->index), last.done); /* with those that were here */
    assert_int_equal(last.left, N - last.done);
    assert_true(m.used + PARTS_SIZE > m.ceiling - m.ceiling / 16);
    assert_true(m.used - 1024 + PARTS_SIZE <= m.ceiling - m.ceiling / 16);
    order(ds, FETCH_MEMORY, last.done - 7, 5); /* those are here: no room is needed */
    assert_int_equal(last.times, 3);
    assert_int_equal(last.done, 5);
}

/* A sample that does not fit ends the walk, even if smaller ones follow. */
static void test_one_does_not_fit(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    char path[256], key[20];
    struct catalog *c = NULL;
    struct dataset *ds;

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "s%06u", i);
        assert_int_equal(
            catalog_builder_add(b, key, strlen(key), i == 100 ? ROOM : PARTS_SIZE, "e", NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("c", path), "s3://data/p/", NULL), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_load(path, &c, NULL), 0);
    ds = played_dataset(&n, "a", N);
    catalog_close(&ds->catalog);
    ds->catalog = c;
    played.at_once = true;
    order(ds, FETCH_MEMORY, 0, N);
    turns(N / 256 + 1);
    assert_int_equal(last.times, 1);
    assert_int_equal(last.done, 100);
    assert_int_equal(last.left, N - 100);
}

/* The rest goes to disk, until the disk takes no more. */
static void test_rest_to_disk(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);
    uint64_t in_memory;

    (void)state;
    use_disk();
    played.at_once = true;
    memory_set_ceiling(n.own_memory->memory, (uint64_t)256 << 10);
    order(ds, FETCH_MEMORY, 0, 400);
    await_asked(400);
    for (unsigned i = 0; i < 10000 && last.times == 0; i++) {
        played_turn(&n);
        poll(NULL, 0, last.times == 0);
    }
    assert_int_equal(last.done, 400);
    in_memory = mem_index_resident(ds->index);
    assert_in_range(in_memory, 100, 256);
    for (unsigned i = 0; i < 400; i++)
        assert_int_equal(played.to_disk[i], played.asked[i] >= in_memory);
    played.at_once = false;
    memory_set_ceiling(n.own_memory->memory, ROOM); /* room that is not asked for */
    order(ds, FETCH_DISK, 400, 3);
    await_asked(403);
    assert_true(played.to_disk[400] && played.to_disk[402]);
    played_end_all(DLC_EBYPASS);
    assert_int_equal(last.times, 2);
    assert_int_equal(last.done + last.failed, 0);
    assert_int_equal(last.left, 3);
}

/* Each fetch to disk has a file mapped: 512 at once, of two warm-ups too. Nothing is left out. */
static void test_files_at_once(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);

    (void)state;
    use_disk();
    order(ds, FETCH_DISK, 0, 400);
    order(ds, FETCH_DISK, 400, 400);
    await_asked(512);
    turns(20);
    assert_int_equal(played.n_asked, 512);
    played.at_once = true;
    played_end_all(0);
    for (unsigned i = 0; i < 10000 && last.times < 2; i++) {
        played_turn(&n);
        poll(NULL, 0, last.times < 2);
    }
    assert_int_equal(last.times, 2);
    assert_int_equal(last.left + last.failed, 0);
    assert_int_equal(played.n_asked, 800);
}

/* No room is counted. Without a disk the walk goes on: memory may have room again. */
static void test_no_room(void **state)
{
    struct dataset *ds = played_dataset(&n, "a", N);

    (void)state;
    order(ds, FETCH_MEMORY, 0, 300);
    assert_int_equal(played.n_held, 256);
    played_end(played.held[--played.n_held], DLC_EBYPASS);
    turns(2);
    assert_int_equal(played.n_asked, 300);
    played_end_all(0);
    assert_int_equal(last.times, 1);
    assert_int_equal(last.done, 299);
    assert_int_equal(last.failed, 0);
    assert_int_equal(last.left, 1);
}

/* With one, the walk ends: there is nowhere to put the rest. */
static void test_disk_is_full(void **state)
{
    struct dataset *ds = played_dataset(&n, "b", N);

    (void)state;
    use_disk();
    played.at_once = true;
    order(ds, FETCH_DISK, N - 1, 1);
    for (unsigned i = 0; i < 10000 && last.times == 0; i++) {
        played_turn(&n);
        poll(NULL, 0, last.times == 0);
    }
    assert_int_equal(last.done, 1);
    played.at_once = false;
    order(ds, FETCH_MEMORY, 0, N);
    assert_int_equal(played.n_held, 256);
    played_end(played.held[--played.n_held], DLC_EBYPASS);
    turns(3);
    assert_int_equal(played.n_asked, 1 + 256);
    played_end_all(DLC_EBUCKET);
    assert_int_equal(last.times, 2);
    assert_int_equal(last.done, 1); /* it is there */
    assert_int_equal(last.failed, 255);
    assert_int_equal(last.left, N - 1 - 255);
}

/* ---- what a client is told ---- */

static struct conn *caller;

static void on_message(struct conn *c, struct msg *m)
{
    (void)m;
    caller = c;
    loop_stop(n.loop);
}

static uint64_t on_ended(struct conn *c)
{
    (void)c;
    return 0;
}

static void on_closed(struct conn *c)
{
    (void)c;
}

static int dial(const struct config *config)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    json_t *hello = json_pack("{s:s, s:i}", "op", "hello", "version", PROTOCOL_VERSION);
    json_t *warm = json_pack("{s:s}", "op", "warm");
    struct msg m = MSG_INIT;
    int fd = os_socket(AF_UNIX, SOCK_STREAM);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", config->socket);
    assert_int_equal(os_connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(msg_send(fd, hello, NULL, 0, NULL), 0);
    assert_int_equal(msg_send(fd, warm, NULL, 0, NULL), 0);
    json_decref(hello);
    json_decref(warm);
    loop_run(n.loop); /* until the second message has come */
    assert_int_equal(msg_recv(fd, &m, DLC_SEC(10), NULL), 0);
    msg_release(&m);
    return fd;
}

static void hear(int fd, json_t *want)
{
    struct msg m = MSG_INIT;

    assert_int_equal(msg_recv(fd, &m, DLC_SEC(10), NULL), 0);
    if (!json_equal(m.body, want))
        fail_msg("%s", json_dumps(m.body, 0));
    json_decref(want);
    msg_release(&m);
}

static void test_answer(void **state)
{
    static const struct client_ops ops = {on_message, on_ended, on_closed};
    struct dataset *ds = played_dataset(&n, "a", FEW);
    struct dlc_err err = DLC_ERR_INIT;
    struct config config = {0};
    char path[256];
    int fd;

    (void)state;
    assert_int_equal(config_load(&config, "/dev/null", &err), 0);
    assert_int_equal(config_set(&config, "socket", unit_path("s.sock", path), &err), 0);
    n.config = &config;
    n.listener.fd = -1;
    reserve_init(&n);
    assert_int_equal(server_open(&n, &ops, &err), 0);
    fd = dial(&config);
    assert_true(warm_start(caller, ds, FETCH_MEMORY));
    assert_int_equal(played.n_held, FEW);
    played_end(played.held[--played.n_held], DLC_EBUCKET); /* the last one, 19 */
    played_end(played.held[--played.n_held], 0);
    warm_progress(dlc_container(n.warms.next, struct warm, link));
    hear(fd, json_pack("{s:{s:s, s:i, s:i, s:i, s:i, s:i}}", "progress", "phase", "warming", "done",
                       2, "total", (int)FEW, "bytes", (int)PARTS_SIZE, "total_bytes",
                       (int)(FEW * PARTS_SIZE), "failed", 1));
    played_end_all(0);
    hear(fd,
         json_pack("{s:b, s:i, s:i, s:i, s:i, s:i, s:s}", "ok", 1, "samples", (int)FEW - 1, "total",
                   (int)FEW, "bytes", (int)((FEW - 1) * PARTS_SIZE), "failed", 1, "left", 0,
                   "error", "1 of 20 samples could not be read; the first: sample 19 failed"));
    conn_close(&caller);
    os_close(&fd);
    server_close(&n);
    reserve_release(&n);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_some_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_none_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_too_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_is_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_does_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rest_to_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_is_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answer, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
