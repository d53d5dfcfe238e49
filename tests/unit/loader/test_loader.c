// SPDX-License-Identifier: Apache-2.0
// timeout: 180
/* The pipeline: batches of raw tensors, whose bytes are the samples' own, through a real daemon. */
#include "daemon.h"

#include "base/check.h"
#include "order/permutation.h"

#define N     103u
#define SIZE  400u
#define BATCH 8u

static struct daemon d;

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

static struct dlc_loader_spec raw_spec(unsigned threads)
{
    return (struct dlc_loader_spec){
        .kind = DLC_TENSORS,
        .batch = BATCH,
        .threads = threads,
        .order = {.kind = DLC_SHUFFLED, .seed = 5},
        .tensor = {.dtype = DLC_U8, .raw = 1, .ndim = 1, .shape = {SIZE}}};
}

static struct dlc_dataset *open_raw(const char *shape)
{
    char url[512];

    return open_at(&d, dataset("raw", N, SIZE, shape, url), 0);
}

static struct dlc_loader *loader(struct dlc_dataset *ds, const struct dlc_loader_spec *spec)
{
    struct dlc_loader *l;

    if (dlc_loader_open(ds, spec, &l) < 0)
        fail_msg("%s", dlc_last_error());
    return l;
}

static int next(struct dlc_loader *l, struct dlc_batch *b)
{
    int rc = dlc_loader_next(l, b);

    if (rc < 0)
        fail_msg("%s", dlc_last_error());
    return rc;
}

/* Is each sample of the batch what its index says? */
static void check_bytes(const struct dlc_batch *b)
{
    for (uint32_t k = 0; k < b->samples; k++) {
        struct dlc_view v = {.data = (char *)b->data + k * b->bytes, .len = b->bytes};

        assert_true(is_sample(&v, b->index[k]));
        assert_int_equal(b->labels[k], -1);
    }
}

/* Read to the end of the epoch; index of each sample in the order they came. */
static unsigned read_epoch(struct dlc_loader *l, uint64_t list[static N])
{
    struct dlc_batch b;
    unsigned n = 0;

    while (next(l, &b) == 1) {
        check_bytes(&b);
        memcpy(list + n, b.index, b.samples * sizeof(*list));
        n += b.samples;
        assert_int_equal(b.position, n);
        dlc_batch_put(&b);
    }
    return n;
}

static void assert_order(const uint64_t list[static N], uint64_t epoch)
{
    struct permutation p;

    permutation_init(&p, N, 5, epoch);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(list[i], permutation_at(&p, i));
}

static void test_epochs_for_any_number_of_threads(void **state)
{
    static const unsigned threads[] = {1, 2, 3, 8};
    uint64_t list[N];

    (void)state;
    for (unsigned t = 0; t < unit_count(threads); t++) {
        struct dlc_dataset *ds = open_raw("?latency=1ms");
        struct dlc_loader_spec spec = raw_spec(threads[t]);
        struct dlc_loader *l;

        spec.order.epochs = 3;
        l = loader(ds, &spec);
        assert_int_equal(dlc_loader_length(l), (N + BATCH - 1) / BATCH);
        for (unsigned e = 0; e < 3; e++) {
            assert_int_equal(read_epoch(l, list), N);
            assert_order(list, e);
        }
        assert_int_equal(read_epoch(l, list), 0); /* after the last one, for good */
        dlc_loader_close(&l);
        assert_null(l);
        dlc_close(&ds);
    }
}

static void test_resume_and_seek(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = raw_spec(2);
    struct dlc_loader *l = loader(ds, &spec);
    uint64_t whole[N], epoch, position;
    struct dlc_batch b, held;

    (void)state;
    read_epoch(l, whole);
    assert_int_equal(dlc_loader_seek(l, 0, 0), 0);
    assert_int_equal(next(l, &held), 1);
    assert_int_equal(next(l, &b), 1);
    dlc_batch_put(&b);
    dlc_loader_tell(l, &epoch, &position);
    assert_int_equal(epoch, 0);
    assert_int_equal(position, 2 * BATCH);
    dlc_loader_close(&l);
    check_bytes(&held); /* a batch that is held outlives its loader */
    dlc_batch_put(&held);

    spec.epoch = epoch;
    spec.position = position;
    l = loader(ds, &spec);
    assert_int_equal(next(l, &b), 1);
    assert_memory_equal(b.index, whole + position, BATCH * sizeof(*whole));
    dlc_batch_put(&b);
    assert_int_equal(dlc_loader_seek(l, 0, N), 0); /* the end of an epoch */
    assert_int_equal(next(l, &b), 0);
    assert_int_equal(next(l, &b), 1);
    assert_int_equal(b.epoch, 1);
    dlc_batch_put(&b);
    assert_int_equal(dlc_loader_seek(l, 0, N + 1), DLC_EINVAL);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_ranks_do_not_overlap(void **state)
{
    unsigned seen[N] = {0};
    uint64_t list[N];

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct dlc_dataset *ds = open_raw("");
        struct dlc_loader_spec spec = raw_spec(2);
        struct dlc_loader *l;
        unsigned n;

        spec.order.rank = rank;
        spec.order.world = 3;
        spec.order.drop_last = spec.drop_last = 1;
        l = loader(ds, &spec);
        n = read_epoch(l, list);
        assert_int_equal(n, N / 3 / BATCH * BATCH);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(seen[list[i]]++, 0);
        dlc_loader_close(&l);
        dlc_close(&ds);
    }
}

/* Who keeps everything gets everything, and its bytes stay. */
static void test_a_consumer_that_holds_all(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = raw_spec(3);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_batch b[(N + BATCH - 1) / BATCH + 1]; /* and the end */
    unsigned n = 0;

    (void)state;
    while (next(l, &b[n]) == 1)
        n++;
    assert_int_equal(n, unit_count(b) - 1);
    for (unsigned i = 0; i < n; i++) {
        check_bytes(&b[i]);
        dlc_batch_put(&b[i]);
    }
    assert_int_equal(next(l, &b[0]), 1);
    dlc_batch_put(&b[0]);
    dlc_batch_put(&b[0]); /* zeroed: allowed */
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static unsigned n_allocs, n_frees;

static void *counting_alloc(size_t bytes, void *arg)
{
    n_allocs++;
    assert_int_equal(bytes, BATCH * SIZE);
    assert_ptr_equal(arg, &n_allocs);
    return malloc(bytes);
}

static void counting_free(void *p, size_t bytes, void *arg)
{
    (void)arg;
    assert_int_equal(bytes, BATCH * SIZE);
    n_frees++;
    free(p);
}

static void test_memory_of_the_caller(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = raw_spec(2);
    struct dlc_loader *l;
    struct dlc_batch b;
    uint32_t count;

    (void)state;
    spec.alloc = counting_alloc;
    spec.free = counting_free;
    spec.alloc_arg = &n_allocs;
    spec.ring = 3;
    assert_int_equal(dlc_loader_bytes(&spec, &count), BATCH * SIZE);
    assert_int_equal(count, 3);
    l = loader(ds, &spec);
    assert_int_equal(n_allocs, 3);
    assert_int_equal(next(l, &b), 1);
    dlc_loader_close(&l);
    assert_int_equal(n_frees, 2);
    dlc_batch_put(&b);
    assert_int_equal(n_frees, 3);
    dlc_close(&ds);
}

/* The whole ring is made, and then no more, however long nobody takes; and the next epoch's first
 * batches are there before the last of this one is taken. */
static void test_ahead_and_bounded(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = raw_spec(2);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_loader_stats s;
    struct dlc_batch b;

    (void)state;
    until((dlc_loader_stats(l, &s), s.ready == 4));
    for (unsigned i = 0; i < (N + BATCH - 1) / BATCH; i++) {
        assert_int_equal(next(l, &b), 1);
        dlc_batch_put(&b);
        until((dlc_loader_stats(l, &s), s.ready == 4));
    }
    assert_int_equal(next(l, &b), 0);
    assert_int_equal(dlc_loader_try_next(l, &b), 1); /* without waiting */
    assert_int_equal(b.epoch, 1);
    dlc_batch_put(&b);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

/* Files of two sizes: those of the wrong one are bad. */
static const char *with_bad(char url[static 512], unsigned every)
{
    char dir[256], path[300];

    unit_path(every == 1 ? "allbad" : "bad", dir);
    mkdir(dir, 0700);
    for (unsigned i = 0; i < 32; i++) {
        unsigned char bytes[SIZE];
        size_t size = i % every == 0 ? SIZE / 2 : SIZE;
        int fd;

        fill_bytes(bytes, i, SIZE);
        snprintf(path, sizeof(path), "%s/s%06u", dir, i);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(os_write_all(fd, bytes, size), 0);
        os_close(&fd);
    }
    snprintf(url, 512, "file://%s/", dir);
    return url;
}

static struct dlc_loader_spec bad_spec(uint32_t on_bad)
{
    struct dlc_loader_spec spec = raw_spec(3);

    spec.on_bad = on_bad;
    spec.order = (struct dlc_order){.kind = DLC_SEQUENTIAL, .epochs = 1};
    return spec;
}

static void test_bad_samples_are_skipped(void **state)
{
    struct dlc_loader_spec spec = bad_spec(DLC_BAD_SKIP);
    char url[512], why[600];
    struct dlc_dataset *ds = open_at(&d, with_bad(url, 3), 0);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_loader_stats s;
    struct dlc_batch b;
    uint64_t sample;
    unsigned n = 0;

    (void)state;
    while (next(l, &b) == 1) {
        check_bytes(&b);
        for (uint32_t k = 0; k < b.samples; k++, n++)
            assert_int_equal(b.index[k], n + n / 2 + 1); /* 1 2 4 5 7 8 ... */
        dlc_batch_put(&b);
    }
    assert_int_equal(n, 32 - 11);
    dlc_loader_stats(l, &s);
    assert_int_equal(s.bad, 11);
    assert_int_equal(s.samples, n);
    for (unsigned k = 0; k < 11; k++) {
        assert_true(dlc_loader_bad(l, k, &sample, why, sizeof(why)) > 0);
        assert_int_equal(sample % 3, 0);
        assert_non_null(strstr(why, "(s0000"));
    }
    assert_int_equal(dlc_loader_bad(l, 11, &sample, why, sizeof(why)), DLC_ENOTFOUND);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_bad_samples_are_replaced(void **state)
{
    struct dlc_loader_spec spec = bad_spec(DLC_BAD_REPLACE);
    char url[512];
    struct dlc_dataset *ds = open_at(&d, with_bad(url, 3), 0);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_batch b;
    unsigned n = 0;

    (void)state;
    while (next(l, &b) == 1) {
        assert_int_equal(b.samples, BATCH);
        check_bytes(&b);
        for (uint32_t k = 0; k < b.samples; k++, n++)
            assert_int_equal(b.index[k], n % 3 != 0 ? n : k + 1 < BATCH ? n + 1 : n + 1 - BATCH);
        dlc_batch_put(&b);
    }
    assert_int_equal(n, 32);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_bad_samples_raise_once_per_batch(void **state)
{
    struct dlc_loader_spec spec = bad_spec(DLC_BAD_RAISE);
    char url[512];
    struct dlc_dataset *ds = open_at(&d, with_bad(url, 3), 0);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_batch b;
    unsigned samples = 0, raised = 0;
    int rc;

    (void)state;
    while ((rc = dlc_loader_next(l, &b)) != 0) {
        if (rc < 0) {
            char first[32]; /* of this batch: whatever thread came first */

            snprintf(first, sizeof(first), "sample %u ", (raised * BATCH + 2) / 3 * 3);
            assert_non_null(strstr(dlc_last_error(), first));
            raised++;
        } else {
            check_bytes(&b);
            samples += b.samples;
        }
        dlc_batch_put(&b);
    }
    assert_int_equal(raised, 4);
    assert_int_equal(samples, 32 - 11);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_all_bad(void **state)
{
    char url[512];
    struct dlc_dataset *ds = open_at(&d, with_bad(url, 1), 0);
    struct dlc_loader_stats s;
    struct dlc_batch b;

    (void)state;
    for (uint32_t how = DLC_BAD_SKIP; how <= DLC_BAD_REPLACE; how++) {
        struct dlc_loader_spec spec = bad_spec(how);
        struct dlc_loader *l = loader(ds, &spec);

        assert_int_equal(next(l, &b), 0);
        dlc_loader_stats(l, &s);
        assert_int_equal(s.bad, 32);
        dlc_loader_close(&l);
    }
    dlc_close(&ds);
}

/* Closed and sought while threads wait for a bucket that takes its time. */
static void test_closes_while_bytes_are_waited_for(void **state)
{
    struct dlc_dataset *ds = open_raw("?latency=20s");
    struct dlc_loader_spec spec = raw_spec(4);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_mono start = dlc_mono_now();
    struct dlc_batch b;

    (void)state;
    assert_int_equal(dlc_loader_try_next(l, &b), DLC_EMISS);
    assert_int_equal(dlc_loader_seek(l, 1, 0), 0);
    dlc_loader_close(&l);
    assert_true(dlc_mono_since(start).ns < DLC_SEC(15).ns);
    dlc_close(&ds);
}

static void test_a_bucket_that_fails_raises_whatever_was_said(void **state)
{
    struct dlc_loader_spec spec = raw_spec(2);
    struct dlc_dataset *ds = open_raw("?errors=1.0");
    struct dlc_loader *l;
    struct dlc_batch b;

    (void)state;
    spec.on_bad = DLC_BAD_SKIP;
    l = loader(ds, &spec);
    assert_int_equal(dlc_loader_next(l, &b), DLC_EBUCKET);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

static void test_refusals(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = raw_spec(1);
    struct dlc_loader *l;

    (void)state;
    spec.batch = 0;
    assert_int_equal(dlc_loader_open(ds, &spec, &l), DLC_EINVAL);
    spec = raw_spec(1);
    spec.order.relaxed = 1;
    assert_int_equal(dlc_loader_open(ds, &spec, &l), DLC_EINVAL);
    spec = raw_spec(1);
    spec.drop_last = 1;
    spec.batch = N + 1;
    assert_int_equal(dlc_loader_open(ds, &spec, &l), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "no batch of"));
    spec = raw_spec(1);
    spec.position = N + 1;
    assert_int_equal(dlc_loader_open(ds, &spec, &l), DLC_EINVAL);
    assert_null(l);
    dlc_close(&ds);
}

/* (LOADER-RING-5): the child may close and put, and the parent does not notice. */
static void test_fork(void **state)
{
    struct dlc_dataset *ds = open_raw("");
    struct dlc_loader_spec spec = raw_spec(2);
    struct dlc_loader *l = loader(ds, &spec);
    struct dlc_batch b, other;
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(next(l, &b), 1);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool refused = dlc_loader_next(l, &other) == DLC_EINVAL;

        dlc_batch_put(&b);
        dlc_loader_close(&l);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    check_bytes(&b);
    dlc_batch_put(&b);
    assert_int_equal(next(l, &b), 1);
    dlc_batch_put(&b);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

/* Without a daemon samples come from the bucket itself; with a new one, from there again. */
static void test_the_daemon_dies(void **state)
{
    struct dlc_dataset *ds = open_raw("?latency=1ms");
    struct dlc_loader_spec spec = raw_spec(2);
    struct dlc_loader *l = loader(ds, &spec);
    uint64_t list[N];
    struct dlc_batch b;

    (void)state;
    assert_int_equal(next(l, &b), 1);
    dlc_batch_put(&b);
    daemon_kill(&d);
    while (next(l, &b) == 1) {
        check_bytes(&b);
        dlc_batch_put(&b);
    }
    daemon_start(&d);
    assert_int_equal(read_epoch(l, list), N);
    assert_order(list, 1);
    dlc_loader_close(&l);
    dlc_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_for_any_number_of_threads),
        cmocka_unit_test(test_resume_and_seek),
        cmocka_unit_test(test_ranks_do_not_overlap),
        cmocka_unit_test(test_a_consumer_that_holds_all),
        cmocka_unit_test(test_memory_of_the_caller),
        cmocka_unit_test(test_ahead_and_bounded),
        cmocka_unit_test(test_bad_samples_are_skipped),
        cmocka_unit_test(test_bad_samples_are_replaced),
        cmocka_unit_test(test_bad_samples_raise_once_per_batch),
        cmocka_unit_test(test_all_bad),
        cmocka_unit_test(test_closes_while_bytes_are_waited_for),
        cmocka_unit_test(test_a_bucket_that_fails_raises_whatever_was_said),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_the_daemon_dies),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
