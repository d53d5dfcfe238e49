// SPDX-License-Identifier: Apache-2.0
/* Attaching to a daemon that answers strangely: a thread of the test plays it, and every answer but
 * a good one is refused before anything of it is used. */
#include "fake_daemon.h"

#include <limits.h>

#include "client/attach.h"
#include "dlcache.h"

/* What becomes of dlc_open(). */
static int opened(uint64_t snapshot)
{
    const struct dlc_options opt = {
        .socket = fake.addr.sun_path, .no_spawn = 1, .snapshot = snapshot};
    struct dlc_dataset *ds = NULL;
    int rc = dlc_open("file:///fake/", &opt, &ds);

    if (rc == 0)
        assert_int_equal(dlc_count(ds), FAKE_SAMPLES);
    else
        assert_null(ds);
    dlc_close(&ds);
    return rc;
}

/* ---- opening ---- */

static void test_good(void **state)
{
    (void)state;
    fake.progress = 3;
    fake.answer.index.snapshot = 77;
    assert_int_equal(opened(0), 0);
    assert_int_equal(opened(77), 0);
    assert_int_equal(fake.opens, 2);
    assert_string_equal(json_string_value(json_object_get(fake.question, "snapshot")),
                        "000000000000004d");
}

static const char *asked(const char *name)
{
    const char *text = json_string_value(json_object_get(fake.question, name));

    return text != NULL ? text : "";
}

/* Everything that the daemon must know of the dataset, and nothing that is not set. */
static void test_question(void **state)
{
    struct dlc_options opt = {.socket = fake.addr.sun_path, .no_spawn = 1};
    struct dlc_dataset *ds;

    (void)state;
    unsetenv("DLCACHE_JOB");
    assert_int_equal(dlc_open("file:///fake/", &opt, &ds), 0);
    dlc_close(&ds);
    assert_string_equal(asked("url"), "file:///fake/");
    assert_int_equal(json_object_size(fake.question), 4);
    assert_true(json_is_false(json_object_get(fake.question, "anonymous")));
    assert_true(json_is_false(json_object_get(fake.question, "refresh")));
    opt.anonymous = opt.refresh = 1;
    opt.endpoint = "http://127.0.0.1:9";
    opt.token = "secret";
    setenv("DLCACHE_JOB", "train", 1);
    assert_int_equal(dlc_open("s3://fake/", &opt, &ds), 0);
    dlc_close(&ds);
    assert_true(json_is_true(json_object_get(fake.question, "anonymous")));
    assert_true(json_is_true(json_object_get(fake.question, "refresh")));
    assert_string_equal(asked("endpoint"), "http://127.0.0.1:9");
    assert_string_equal(asked("token"), "secret");
    assert_string_equal(asked("job"), "train");
    assert_int_equal(json_object_size(fake.question), 7);
    setenv("DLCACHE_JOB", "", 1);
    assert_int_equal(opened(0), 0);
    assert_int_equal(json_object_size(fake.question), 4);
    unsetenv("DLCACHE_JOB");
}

static void refuse_with(json_t *refusal, int code, const char *text)
{
    json_decref(fake.refusal);
    fake.refusal = refusal;
    assert_int_equal(opened(0), code);
    assert_non_null(strstr(dlc_last_error(), text));
}

/* A refusal has a negative code; whatever else it says is nonsense, and never success. */
static void test_refused(void **state)
{
    (void)state;
    fake.progress = 1;
    refuse_with(json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_EDENIED, "error", "not you"),
                DLC_EDENIED, "not you");
    refuse_with(json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EDENIED), DLC_EDENIED, "refused");
    refuse_with(json_pack("{s:b}", "ok", 0), DLC_EPROTO, "refused");
    refuse_with(json_pack("{s:b, s:i}", "ok", 0, "code", 0), DLC_EPROTO, "refused");
    refuse_with(json_pack("{s:b, s:i}", "ok", 0, "code", 5), DLC_EPROTO, "refused");
    refuse_with(json_pack("{s:b, s:I}", "ok", 0, "code", (json_int_t)INT_MIN - 1), DLC_EPROTO,
                "refused");
    refuse_with(json_pack("{s:b, s:I}", "ok", 0, "code", (json_int_t)INT_MIN), INT_MIN, "refused");
    refuse_with(json_pack("{}"), DLC_EPROTO, "refused");
}

/* A daemon that has no descriptor left is asked six times, then no more. */
static void test_busy(void **state)
{
    struct dlc_mono start = dlc_mono_now();

    (void)state;
    refuse_with(json_pack("{s:b, s:i, s:s}", "ok", 0, "code", DLC_EBUSY, "error", "full"),
                DLC_EBUSY, "full");
    assert_int_equal(fake.opens, 6);
    assert_true(dlc_mono_since(start).ns >= DLC_MS(1500).ns); /* 50 ms, doubling */
}

/* One that is just ending greets nobody: another call, four in all. If it stays so, ten more attempts
 * in a second, and a last one when the bucket cannot be listed either. */
static void test_hangs_up(void **state)
{
    (void)state;
    fake.hang_ups = 3;
    assert_int_equal(opened(0), 0);
    assert_int_equal(fake.calls, 4);
    fake.hang_ups = UINT_MAX;
    assert_int_equal(opened(0), DLC_ENODAEMON);
    assert_int_equal(fake.calls, 4 + 12 * 4);
    assert_non_null(strstr(dlc_last_error(), "and without it"));
}

/* Sizes, versions and descriptors that do not fit together. */
static void refuses(int code, const char *text)
{
    assert_int_equal(opened(0), code);
    if (strstr(dlc_last_error(), text) == NULL)
        fail_msg("%s", dlc_last_error());
    fake_good_answer();
}

static void test_sizes(void **state)
{
    struct fake_answer *a = &fake.answer;

    (void)state;
    a->segment_size--;
    refuses(DLC_EPROTO, "does not have the size it says");
    a->index_size++;
    refuses(DLC_EPROTO, "does not have the size it says");
    a->segment_size = SHM_HDR_SIZE - 1;
    refuses(DLC_EPROTO, "lacks descriptors");
    a->index_size = SHM_HDR_SIZE - 1;
    refuses(DLC_EPROTO, "lacks descriptors");
    a->n_fds = 4;
    refuses(DLC_EPROTO, "lacks descriptors");
    a->index.n_slots = FAKE_SAMPLES + 1;
    refuses(DLC_EPROTO, "does not fit its size");
    a->index.n_slots = UINT64_MAX;
    refuses(DLC_EPROTO, "does not fit its size");
    a->index.slots_off++;
    refuses(DLC_EPROTO, "does not fit its size");
    a->catalog = fake.other_catalog;
    refuses(DLC_EPROTO, "index and catalog do not match");
    assert_int_equal(opened(0), 0);
}

static void test_versions(void **state)
{
    struct fake_answer *a = &fake.answer;

    (void)state;
    a->segment.magic++;
    refuses(DLC_EPROTO, "of another version");
    a->index.magic++;
    refuses(DLC_EPROTO, "of another version");
    a->session.magic++;
    refuses(DLC_EPROTO, "of another version");
    a->segment.version++;
    refuses(DLC_EPROTO, "of another version");
    a->index.version++;
    refuses(DLC_EPROTO, "of another version");
    a->session.version++;
    refuses(DLC_EPROTO, "of another version");
    a->index.snapshot = 77;
    assert_int_equal(opened(78), DLC_ECHANGED);
    assert_non_null(strstr(dlc_last_error(), "000000000000004d"));
}

static void test_extents(void **state)
{
    struct fake_answer *a = &fake.answer;

    (void)state;
    a->segment.extent_shift = 11;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.extent_shift = 49;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.extent_shift = 64;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = 0;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = FAKE_EXTENTS + 1; /* the table has no room for it */
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.n_extents = FAKE_EXTENTS - 1; /* they do not cover it */
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.size++;
    refuses(DLC_EPROTO, "do not make up its segment");
    a->segment.size -= 4096; /* the last one is shorter: so it may be */
    assert_int_equal(opened(0), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_good),     T(test_question), T(test_refused),  T(test_busy),
        T(test_hangs_up), T(test_sizes),    T(test_versions), T(test_extents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
