// SPDX-License-Identifier: Apache-2.0
/* Importance sampling in a process without a daemon: what a specification means and which are
 * refused, weights that are saved and brought back, figures of a draw. */
#include "lock_held.h"
#include "unit.h"

#include <math.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "client/dataset.h"
#include "client/job_weights.h"

#define N       20u
#define VISIBLE 16u /* the others are targets */

static struct dlc_dataset *ds;

static int setup(void **state)
{
    struct catalog_builder *b = catalog_builder_new();
    char key[8], path[256];

    (void)state;
    unsetenv("DLCACHE_JOB");
    for (unsigned i = 0; i < N; i++) {
        snprintf(key, sizeof(key), "k%02u", i);
        assert_int_equal(catalog_builder_add(b, key, 3, 1, "e", NULL), 0);
    }
    catalog_builder_settle(b);
    for (unsigned i = 0; i < N; i++) {
        const struct catalog_new_sample s = {.object = i, .label = SAMPLE_NO_LABEL};

        if (i == 0 || i == VISIBLE)
            assert_int_equal(catalog_builder_split(b, i == 0 ? "train" : "masks", i > 0, NULL), 0);
        assert_int_equal(catalog_builder_sample(b, &s, NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(b, unit_path("c", path), "file:///x/", NULL), 0);
    catalog_builder_free(&b);
    ds = mem_new(struct dlc_dataset);
    ds->tag = DATASET_TAG;
    ds->shown = mem_str("file:///x/");
    ds->n = N;
    ds->try_again.ns = INT64_MAX; /* look for no daemon */
    assert_int_equal(catalog_open(path, &ds->catalog, NULL), 0);
    assert_int_equal(dlc_count(ds), VISIBLE);
    dlc_mtx_init(&ds->mtx, LCK_dataset);
    dlc_mtx_init(&ds->direct_mtx, LCK_direct);
    importance_init(&ds->importance);
    dlc_list_init(&ds->retired);
    dlc_list_init(&ds->link);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dlc_close(&ds);
    return 0;
}

/* Begin by a specification; what it means. */
static const struct draw_spec *begin(const struct dlc_importance *spec)
{
    if (dlc_importance(ds, spec) < 0)
        fail_msg("%s", dlc_last_error());
    return &ds->importance.spec;
}

#define BEGIN(...) begin(&(struct dlc_importance){__VA_ARGS__})

static void assert_refused(const char *why, const struct dlc_importance *spec)
{
    assert_int_equal(dlc_importance(ds, spec), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), why));
}

#define REFUSED(why, ...) assert_refused(why, &(struct dlc_importance){__VA_ARGS__})

/* ---- specifications ---- */

static void test_defaults(void **state)
{
    const struct draw_spec *s = BEGIN(.seed = 7);

    (void)state;
    assert_int_equal(s->mode, DRAW_COVERAGE);
    assert_int_equal(s->n, VISIBLE);
    assert_int_equal(s->first, 0);
    assert_int_equal(s->length, VISIBLE / 2);
    assert_int_equal(s->seed, 7);
    assert_int_equal(s->rank, 0);
    assert_int_equal(s->world, 1);
    assert_int_equal(s->every, 4);
    assert_true(s->replication == 1 && s->prefer == 1);
    assert_int_equal(ds->importance.rule, WEIGHTS_RANK);
    s = BEGIN(.mode = DLC_SHADE, .rule = DLC_RULE_PLAIN, .rank = 2, .world = 3, .every = 5,
              .replication = 2.5);
    assert_int_equal(s->mode, DRAW_SHADE);
    assert_int_equal(s->length, VISIBLE);
    assert_int_equal(s->rank, 2);
    assert_int_equal(s->world, 3);
    assert_int_equal(s->every, 5);
    assert_true(s->replication == 2.5);
    assert_int_equal(ds->importance.rule, WEIGHTS_PLAIN);
    s = BEGIN(.prefer = 3, .length = 11);
    assert_true(s->prefer == 3);
    assert_int_equal(s->length, 11);
}

/* As many positions as it takes to draw each sample once in `every` epochs. */
static void test_length(void **state)
{
    (void)state;
    assert_int_equal(BEGIN(.every = 1)->length, VISIBLE);
    assert_int_equal(BEGIN(.every = 2, .count = 15)->length, 8); /* rounded up */
    assert_int_equal(BEGIN(.every = 2, .count = 14)->length, 7);
    assert_int_equal(BEGIN(.every = 3, .count = 15)->length, 7); /* 5 would do */
}

static void test_range(void **state)
{
    const struct draw_spec *s = BEGIN(.first = 4);

    (void)state;
    assert_int_equal(s->first, 4);
    assert_int_equal(s->n, VISIBLE - 4);
    s = BEGIN(.first = VISIBLE, .count = 4); /* targets are named */
    assert_int_equal(s->first, VISIBLE);
    assert_int_equal(s->n, 4);
    BEGIN(.first = N - 1, .count = 1);
    REFUSED("the dataset has 20", .first = N - 1, .count = 2);
    REFUSED("samples 21 to 22", .first = N + 1, .count = 1);
    REFUSED("the dataset has 20", .first = 1, .count = UINT64_MAX);
    assert_int_equal(ds->importance.spec.first, N - 1); /* as before */
}

static void test_list(void **state)
{
    static const uint64_t all[] = {N - 1, 3}, beyond[] = {3, N};
    const struct draw_spec *s = BEGIN(.samples = all, .n_samples = 2, .first = 9, .count = 5);

    (void)state;
    assert_int_equal(s->first, 0);
    assert_int_equal(s->n, 2);
    assert_memory_equal(ds->importance.samples, all, sizeof(all));
    assert_ptr_not_equal(ds->importance.samples, all);
    REFUSED("sample 20, at place 1", .samples = beyond, .n_samples = 2);
    fault_arm(FAULT_ALLOC, 1);
    assert_int_equal(dlc_importance(ds, &(struct dlc_importance){.samples = all, .n_samples = 1}),
                     DLC_ENOMEM);
    assert_true(fault_disarm());
    assert_int_equal(ds->importance.spec.n, 2);
    BEGIN(.seed = 1);
    assert_null(ds->importance.samples);
}

static void test_refused(void **state)
{
    (void)state;
    BEGIN(.mode = DLC_SHADE, .rule = DLC_RULE_PLAIN);
    REFUSED("importance of mode 2 and rule 0", .mode = DLC_SHADE + 1);
    REFUSED("importance of mode 0 and rule 2", .rule = DLC_RULE_PLAIN + 1);
    REFUSED("rank", .rank = 2, .world = 2);
}

/* ---- jobs ---- */

static void test_job(void **state)
{
    char own[64];

    (void)state;
    BEGIN(.job = "a");
    assert_string_equal(ds->importance.job, "a");
    assert_false(ds->importance.own);
    setenv("DLCACHE_JOB", "b", 1);
    BEGIN(.seed = 1);
    assert_string_equal(ds->importance.job, "b");
    assert_false(ds->importance.own);
    setenv("DLCACHE_JOB", "B B", 1);
    REFUSED("(see DLCACHE_JOB)", .seed = 1);
    setenv("DLCACHE_JOB", "", 1);
    BEGIN(.seed = 1);
    assert_true(ds->importance.own);
    snprintf(own, sizeof(own), "%s", ds->importance.job);
    unsetenv("DLCACHE_JOB");
    BEGIN(.seed = 1);
    assert_string_equal(ds->importance.job, own); /* of the process */
}

/* The end of the name is a number that chance gives: other containers have our pid, too. */
static const char *number_of_process(void)
{
    BEGIN(.seed = 1);
    return strrchr(ds->importance.job, '-') + 1;
}

static void test_own_name(void **state)
{
    char mine[32];
    int status;
    pid_t pid;

    (void)state;
    snprintf(mine, sizeof(mine), "%s", number_of_process());
    assert_int_equal(strlen(mine), 16);
    assert_true(strtoull(mine, NULL, 16) != 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        BEGIN(.job = "other");
        _exit(strcmp(number_of_process(), mine) == 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Weights and what the rule remembers are those of a job. */
static void test_another_job(void **state)
{
    const uint64_t sample = 3;
    const float loss = 2;
    struct dlc_scale scale;
    float w;

    (void)state;
    BEGIN(.job = "a");
    assert_int_equal(dlc_learn(ds, 0, &sample, &loss, 1, NULL), 0);
    BEGIN(.job = "a", .seed = 5);
    assert_int_equal(dlc_scale(ds, &scale), 0);
    assert_int_equal(scale.count, 1);
    assert_int_equal(dlc_weights(ds, 3, 1, &w), 0);
    assert_true(w > 0);
    BEGIN(.job = "b");
    assert_int_equal(dlc_scale(ds, &scale), 0);
    assert_int_equal(scale.count, 0);
    assert_int_equal(dlc_weights(ds, 3, 1, &w), 0);
    assert_true(w == 0);
}

/* What cannot be had is an error, and the job is not begun. */
static void test_no_memory(void **state)
{
    const struct dlc_importance spec = {.job = "a"};
    float w;

    (void)state;
    fault_arm(FAULT_SYSCALL, 1);
    assert_true(dlc_importance(ds, &spec) < 0);
    assert_true(fault_disarm());
    assert_null(ds->importance.job);
    assert_int_equal(dlc_weights(ds, 0, 1, &w), DLC_EINVAL);
}

/* ---- weights ---- */

static void test_not_begun(void **state)
{
    struct dlc_learnt learnt = {.used = 9};
    struct dlc_drawn drawn = {.part = 9};
    uint64_t sample = 1;
    float w = 1;

    (void)state;
    assert_int_equal(dlc_learn(ds, 0, &sample, &w, 1, &learnt), DLC_EINVAL);
    assert_int_equal(learnt.used, 0);
    assert_int_equal(dlc_draw(ds, 0, &sample, 1, &drawn), DLC_EINVAL);
    assert_int_equal(drawn.part, 0);
    assert_int_equal(dlc_weights(ds, 0, 1, &w), DLC_EINVAL);
    assert_int_equal(dlc_set_weights(ds, 0, 1, &w), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "dlc_importance"));
}

static void test_learn(void **state)
{
    const uint64_t samples[] = {1, 2, 3}, beyond = N;
    const float losses[] = {1, NAN, 3};
    struct dlc_learnt learnt;

    (void)state;
    BEGIN(.rule = DLC_RULE_PLAIN);
    assert_int_equal(dlc_learn(ds, 0, samples, losses, 3, &learnt), 0);
    assert_int_equal(learnt.used, 2);
    assert_int_equal(learnt.ignored, 1);
    assert_true(learnt.mean == 2);
    assert_int_equal(dlc_learn(ds, 0, &beyond, losses, 1, NULL), DLC_EINVAL);
}

static void test_weights_come_back(void **state)
{
    float in[N], out[N] = {0};
    unsigned refs;

    (void)state;
    BEGIN(.seed = 1);
    refs = ds->importance.mapped->refs;
    for (unsigned i = 0; i < N; i++)
        in[i] = (float)i;
    assert_int_equal(dlc_set_weights(ds, 0, N, in), 0);
    assert_int_equal(dlc_weights(ds, 0, N, out), 0);
    assert_memory_equal(in, out, sizeof(in));
    in[0] = 50;
    in[1] = 51;
    assert_int_equal(dlc_set_weights(ds, 18, 2, in), 0);
    assert_int_equal(dlc_weights(ds, 17, 3, out), 0);
    assert_true(out[0] == 17 && out[1] == 50 && out[2] == 51);
    assert_int_equal(dlc_set_weights(ds, N, 0, in), 0); /* none */
    assert_int_equal(dlc_set_weights(ds, 19, 2, in), DLC_EINVAL);
    assert_int_equal(dlc_weights(ds, N + 1, 0, out), DLC_EINVAL);
    assert_int_equal(dlc_weights(ds, 1, UINT64_MAX, out), DLC_EINVAL);
    assert_non_null(strstr(dlc_last_error(), "from 1 on: the dataset has 20"));
    assert_int_equal(ds->importance.mapped->refs, refs);
}

/* One that is not a weight: none of them is taken. */
static void test_bad_weights(void **state)
{
    static const float bad[] = {-1, INFINITY, NAN};
    float w[3];

    (void)state;
    BEGIN(.seed = 1);
    for (unsigned i = 0; i < unit_count(bad); i++) {
        const float in[] = {1, 0, bad[i]};

        assert_int_equal(dlc_set_weights(ds, 4, 3, in), DLC_EINVAL);
        assert_non_null(strstr(dlc_last_error(), "the weight of sample 6 is"));
        assert_int_equal(dlc_weights(ds, 4, 3, w), 0);
        assert_true(w[0] == 0);
    }
}

static void lock_weights(void)
{
    dlc_mtx_lock(&ds->importance.mtx);
}

static void unlock_weights(void)
{
    dlc_mtx_unlock(&ds->importance.mtx);
}

static void learns(void *arg)
{
    const uint64_t sample = 1;
    const float loss = 1;

    (void)arg;
    assert_int_equal(dlc_learn(ds, 0, &sample, &loss, 1, NULL), 0);
}

static void saves_scale(void *arg)
{
    assert_int_equal(dlc_scale(ds, arg), 0);
}

static void sets_scale(void *arg)
{
    assert_int_equal(dlc_set_scale(ds, arg), 0);
}

/* (LEARN-1) */
static void test_learning_is_locked(void **state)
{
    struct dlc_scale scale = {.count = 5};

    (void)state;
    BEGIN(.seed = 1);
    assert_true(waits_for(lock_weights, unlock_weights, learns, NULL));
    assert_true(waits_for(lock_weights, unlock_weights, sets_scale, &scale));
    scale.count = 0;
    assert_true(waits_for(lock_weights, unlock_weights, saves_scale, &scale));
    assert_int_equal(scale.count, 5);
}

static void test_scale(void **state)
{
    struct dlc_scale in = {.first = 1, .mean = 2, .sum = 3, .count = 4, .epoch = 5}, out = {0};

    (void)state;
    assert_int_equal(dlc_set_scale(ds, &in), 0);
    assert_int_equal(dlc_scale(ds, &out), 0);
    assert_memory_equal(&in, &out, sizeof(in));
    for (unsigned i = 0; i < 3; i++) {
        struct dlc_scale bad = in;

        *(i == 0 ? &bad.first : i == 1 ? &bad.mean : &bad.sum) = INFINITY;
        assert_int_equal(dlc_set_scale(ds, &bad), DLC_EINVAL);
    }
}

/* ---- draws ---- */

static void test_draw(void **state)
{
    uint64_t list[N], error[2] = {77, 77};
    struct dlc_drawn drawn;
    char before[512];
    unsigned refs;

    (void)state;
    BEGIN(.length = 8, .every = 4);
    refs = ds->importance.mapped->refs;
    dlc_weights(ds, N + 1, 0, NULL); /* an error, whose text stays */
    snprintf(before, sizeof(before), "%s", dlc_last_error());
    assert_int_equal(dlc_draw(ds, 0, list, 8, &drawn), 8); /* just enough room */
    assert_int_equal(drawn.distinct, 8);
    assert_int_equal(drawn.forced, 4);
    assert_int_equal(drawn.resident, 0);
    assert_int_equal(drawn.part, VISIBLE);
    assert_true(fabs(drawn.effective - VISIBLE) < 1e-6);
    assert_int_equal(dlc_draw(ds, 0, error, 2, &drawn), 8); /* too little: how many there are */
    assert_true(error[0] == 77 && error[1] == 77);
    assert_string_equal(dlc_last_error(), before);
    assert_int_equal(ds->importance.mapped->refs, refs);
}

/* Each epoch is another one, and each sample comes once in `every` of them. */
static void test_epochs(void **state)
{
    unsigned seen[VISIBLE] = {0};

    (void)state;
    BEGIN(.length = 4, .every = 4, .count = VISIBLE);
    for (uint64_t e = 0; e < 4; e++) {
        uint64_t list[4];

        assert_int_equal(dlc_draw(ds, e, list, 4, NULL), 4);
        for (unsigned i = 0; i < 4; i++)
            seen[list[i]]++;
    }
    for (unsigned i = 0; i < VISIBLE; i++)
        assert_int_equal(seen[i], 1);
}

/* Ranks draw from parts of their own. */
static void test_ranks(void **state)
{
    unsigned seen[VISIBLE] = {0};

    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint64_t list[VISIBLE];

        BEGIN(.rank = rank, .world = 2, .length = VISIBLE, .every = 1);
        assert_int_equal(dlc_draw(ds, 0, list, VISIBLE, NULL), VISIBLE / 2);
        for (unsigned i = 0; i < VISIBLE / 2; i++)
            seen[list[i]]++;
    }
    for (unsigned i = 0; i < VISIBLE; i++)
        assert_int_equal(seen[i], 1);
}

/* The samples of a daemon that are resident are counted, and by the list that was given. */
static void test_resident(void **state)
{
    static const uint64_t listed[] = {5, 6, 7, 8};
    struct attachment *a = mem_new(struct attachment);
    struct shm_segment_hdr header = {0};
    struct shm_slot slots[N] = {0};
    struct dlc_drawn drawn;
    uint64_t list[N];
    int fds[2];

    (void)state;
    BEGIN(.length = VISIBLE, .every = 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a->sock = fds[0];
    a->doorbell = a->channel = -1;
    a->header = &header;
    a->slots = slots;
    a->n = N;
    atomic_store(&ds->cur, a);
    for (unsigned i = 6; i < 9; i++)
        atomic_store(&slots[i].where, shm_where_make(SHM_READY, 64, 1));
    assert_int_equal(dlc_draw(ds, 0, list, N, &drawn), VISIBLE);
    assert_int_equal(drawn.resident, 3);
    assert_int_equal(a->users, 0);
    atomic_store(&ds->cur, NULL);
    BEGIN(.samples = listed, .n_samples = 4, .length = 4, .every = 1);
    atomic_store(&ds->cur, a);
    assert_int_equal(dlc_draw(ds, 0, list, N, &drawn), 4);
    assert_int_equal(drawn.resident, 3);
    atomic_store(&ds->cur, NULL);
    os_close(&fds[0]);
    os_close(&fds[1]);
    mem_free(&a);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_defaults),  T(test_length),      T(test_range),
        T(test_list),      T(test_refused),     T(test_job),
        T(test_own_name),  T(test_another_job), T(test_no_memory),
        T(test_not_begun), T(test_learn),       T(test_weights_come_back),
        T(test_scale),     T(test_bad_weights), T(test_learning_is_locked),
        T(test_draw),      T(test_epochs),      T(test_ranks),
        T(test_resident),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
