// SPDX-License-Identifier: Apache-2.0
// timeout: 120
/* Explicit orders: a list for each epoch, through a real daemon. */
#include "daemon.h"

#include "base/check.h"

#define N     40u
#define SIZE  64u
#define BATCH 8u

static struct daemon d;

/* Of three lengths; with samples that come more than once, and some that never come. */
static const uint64_t lists[][20] = {
    {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4},
    {39, 0, 39, 0, 39, 0, 39, 0, 39},
    {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7},
};
static const unsigned lengths[] = {20, 9, 16};

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "8MB", false);
    daemon_start(&d);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static struct dlc_dataset *open_raw(const char *shape)
{
    char url[512];

    return open_at(&d, dataset("raw", N, SIZE, shape, url), 0);
}

static struct dlc_loader_spec listed(unsigned list)
{
    return (struct dlc_loader_spec){
        .kind = DLC_TENSORS,
        .batch = BATCH,
        .threads = 3,
        .order = {.kind = DLC_EXPLICIT, .list = lists[list], .list_len = lengths[list]},
        .tensor = {.dtype = DLC_U8, .raw = 1, .ndim = 1, .shape = {SIZE}}};
}

static struct dlc_loader *loader(struct dlc_dataset *ds, const struct dlc_loader_spec *spec)
{
    struct dlc_loader *l;

    if (dlc_loader_open(ds, spec, &l) < 0)
        fail_msg("%s", dlc_last_error());
    return l;
}

static void more(struct dlc_loader *l, unsigned list)
{
    if (dlc_loader_follow_more(l, lists[list], lengths[list]) < 0)
        fail_msg("%s", dlc_last_error());
}

/* One batch: what the list says from `from` on. Returns where it ends; 0: there was none. */
static unsigned take(struct dlc_loader *l, unsigned list, unsigned from)
{
    struct dlc_batch b;
    int rc = dlc_loader_next(l, &b);
    unsigned end;

    if (rc < 0)
        fail_msg("%s", dlc_last_error());
    if (rc == 0)
        return 0;
    end = from + b.samples;
    assert_true(end <= lengths[list]);
    assert_memory_equal(b.index, lists[list] + from, b.samples * sizeof(*b.index));
    for (uint32_t k = 0; k < b.samples; k++) {
        struct dlc_view v = {.data = (char *)b.data + k * b.bytes, .len = b.bytes};

        assert_true(is_sample(&v, b.index[k]));
    }
    assert_int_equal(b.position, end);
    dlc_batch_put(&b);
    return end;
}

/* From this position to the end of the epoch: each position once. */
static void read_list(struct dlc_loader *l, unsigned list, unsigned from)
{
    unsigned at = from, end;

    while ((end = take(l, list, at)) != 0)
        at = end;
    assert_int_equal(at, lengths[list]);
}

static void test_a_list_for_each_epoch(void **state)
{
    struct dlc_dataset *ds = open_raw("?latency=1ms");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l;
    struct dlc_batch b;

    (void)state;
    spec.order.epochs = 3;
    l = loader(ds, &spec);
    assert_int_equal(dlc_loader_length(l), 3);
    for (unsigned e = 0; e < 3; e++) {
        if (e < 2)
            more(l, e + 1);
        read_list(l, e, 0);
    }
    assert_int_equal(dlc_loader_next(l, &b), 0); /* after the last one, for good */
    assert_int_equal(dlc_loader_follow_more(l, lists[0], lengths[0]), DLC_EINVAL);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

/* The next epoch's batches are made before this one has ended, if its list is there. */
static void test_ahead_over_the_end(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = listed(2);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_loader_stats s;
    struct dlc_batch b;

    (void)state;
    until((dlc_loader_stats(l, &s), s.ready == 2)); /* all there is */
    more(l, 1);
    until((dlc_loader_stats(l, &s), s.ready == 4));
    read_list(l, 2, 0);
    assert_int_equal(dlc_loader_try_next(l, &b), 1);
    assert_int_equal(b.epoch, 1);
    assert_int_equal(b.index[0], 39);
    dlc_batch_put(&b);
    assert_int_equal(dlc_loader_length(l), 2);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_an_epoch_without_its_list_does_not_begin(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_batch b;

    (void)state;
    read_list(l, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(dlc_loader_next(l, &b), DLC_EINVAL);
        assert_non_null(strstr(dlc_last_error(), "list of epoch 1 has not been given"));
        assert_int_equal(dlc_loader_try_next(l, &b), DLC_EINVAL);
    }
    more(l, 1);
    more(l, 2); /* one ahead */
    assert_int_equal(dlc_loader_follow_more(l, lists[0], lengths[0]), DLC_EBUSY);
    assert_non_null(strstr(dlc_last_error(), "epoch 2 was given already"));
    read_list(l, 1, 0);
    more(l, 0);
    read_list(l, 2, 0);
    read_list(l, 0, 0);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_resume_and_seek(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l = loader(ds, &spec);
    uint64_t epoch, position;

    (void)state;
    more(l, 1);
    read_list(l, 0, 0);
    take(l, 1, 0);
    dlc_loader_tell(l, &epoch, &position);
    assert_int_equal(epoch, 1);
    assert_int_equal(position, BATCH);
    dlc_loader_close(&l);

    spec = listed(1);
    spec.epoch = epoch;
    spec.position = position;
    l = loader(ds, &spec);
    more(l, 2);
    read_list(l, 1, BATCH);
    assert_int_equal(dlc_loader_seek(l, 2, 5), 0);
    more(l, 0);
    assert_int_equal(dlc_loader_seek(l, 2, 11), 0); /* and what comes after it is not lost */
    read_list(l, 2, 11);
    assert_int_equal(dlc_loader_seek(l, 2, 0), DLC_EINVAL); /* its list is gone */
    assert_non_null(strstr(dlc_last_error(), "list of epoch 2 is not here"));
    assert_int_equal(dlc_loader_seek(l, 3, lengths[0] + 1), DLC_EINVAL);
    assert_int_equal(dlc_loader_follow(l, lists[2], lengths[2], 7, BATCH), 0);
    read_list(l, 2, BATCH);
    dlc_loader_tell(l, &epoch, &position);
    assert_int_equal(epoch, 8);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

/* What does not make a batch at the end is left out, of each list. */
static void test_drop_last(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l;

    (void)state;
    spec.drop_last = 1;
    l = loader(ds, &spec);
    for (unsigned e = 0; e < 6; e++) {
        more(l, (e + 1) % 2); /* a list is used up, also where its last samples were left out */
        assert_int_equal(take(l, e % 2, 0), BATCH);
        if (e % 2 == 0)
            assert_int_equal(take(l, 0, BATCH), 2 * BATCH);
        assert_int_equal(take(l, e % 2, 0), 0);
    }
    assert_int_equal(dlc_loader_follow_more(l, lists[0], BATCH - 1), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "no batch of"));
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_refusals(void **state)
{
    const uint64_t wrong[BATCH] = {1, 2, N};
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l;
    struct dlc_batch b;

    (void)state;
    spec.order.list = wrong;
    spec.order.list_len = BATCH;
    assert_int_equal(dlc_loader_open(ds, &spec, &l), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "40 at position 2"));
    spec = listed(0);
    spec.order.rank = 2;
    spec.order.world = 2;
    assert_int_equal(dlc_loader_open(ds, &spec, &l), DLC_EINVAL);
    spec = listed(0);
    spec.order.list_len = 0; /* later */
    l = loader(ds, &spec);
    assert_int_equal(dlc_loader_next(l, &b), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "call dlc_loader_follow()"));
    assert_int_equal(dlc_loader_follow_more(l, lists[0], lengths[0]), DLC_EINVAL);
    assert_int_equal(dlc_loader_follow(l, wrong, BATCH, 0, 0), DLC_EINVAL);
    assert_int_equal(dlc_loader_follow(l, lists[0], lengths[0], 0, 0), 0);
    assert_int_equal(dlc_loader_follow_more(l, wrong, BATCH), DLC_EINVAL);
    read_list(l, 0, 0);
    dlc_loader_close(&l);
    spec.order.kind = DLC_SEQUENTIAL;
    l = loader(ds, &spec);
    assert_int_equal(dlc_loader_follow_more(l, lists[0], lengths[0]), DLC_EINVAL);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

/* Rows are numbered over all tables; of a list of them no order of tables is told. */
static void test_rows(void **state)
{
    static const uint64_t rows[] = {0, N * 4 - 1, 5, 5, 6, 159};
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l;
    struct dlc_batch b;

    (void)state;
    spec.tensor.rows = 1;
    spec.tensor.shape[0] = SIZE / 4;
    spec.order.list = rows;
    spec.order.list_len = unit_count(rows);
    l = loader(ds, &spec);
    assert_int_equal(dlc_loader_next(l, &b), 1);
    assert_memory_equal(b.index, rows, sizeof(rows));
    for (unsigned k = 0; k < unit_count(rows); k++) {
        unsigned char whole[SIZE];

        fill_bytes(whole, (unsigned)rows[k] / 4, SIZE);
        assert_memory_equal((char *)b.data + k * b.bytes, whole + rows[k] % 4 * (SIZE / 4),
                            SIZE / 4);
    }
    dlc_batch_put(&b);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

/* The lists are told to the next daemon. */
static void test_the_daemon_dies(void **state)
{
    struct dlc_dataset *ds = open_raw("?latency=1ms");
    struct dlc_loader_spec spec = listed(0);
    struct dlc_loader *l = loader(ds, &spec);

    (void)state;
    take(l, 0, 0);
    daemon_kill(&d);
    more(l, 1);
    read_list(l, 0, BATCH);
    daemon_start(&d);
    more(l, 2);
    read_list(l, 1, 0);
    read_list(l, 2, 0);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_for_each_epoch),
        cmocka_unit_test(test_ahead_over_the_end),
        cmocka_unit_test(test_an_epoch_without_its_list_does_not_begin),
        cmocka_unit_test(test_resume_and_seek),
        cmocka_unit_test(test_drop_last),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_the_daemon_dies),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
