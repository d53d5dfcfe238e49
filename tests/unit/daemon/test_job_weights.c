// SPDX-License-Identifier: Apache-2.0
/* Weights as the daemon hands them out: whose they are, that nobody can cut them, that their marks
 * are taken and their mean is known. */
#include "daemon.h"

#include <math.h>
#include <sys/mman.h>

#include "importance/weights.h"

#define N 3000u

static struct daemon d;
static char url[512];

static int setup(void **state)
{
    (void)state;
    daemon_init(&d, "d", "4MB", false);
    daemon_start(&d);
    dataset("w", N, 10, "", url);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_end(&d);
    return 0;
}

static int session(void)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);

    tell(sock, json_pack("{s:s, s:s}", "op", "open", "url", url), &m);
    assert_true(json_is_true(json_object_get(m.body, "ok")));
    msg_release(&m);
    return sock;
}

/* A descriptor of them, or a code. */
static int weights_of(int sock, const char *job, bool own)
{
    struct msg m = MSG_INIT;
    int fd;

    tell(sock, json_pack("{s:s, s:s, s:b}", "op", "weights", "job", job, "own", (int)own), &m);
    fd = json_is_true(json_object_get(m.body, "ok"))
             ? msg_take_fd(&m, 0)
             : (int)json_integer_value(json_object_get(m.body, "code"));
    msg_release(&m);
    return fd;
}

static ino_t file_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, weights_size(N));
    return st.st_ino;
}

/* What `stat` says of a job's weights; NAN: there are none. */
static double said(const char *job, const char *what)
{
    struct msg m = MSG_INIT;
    int sock = dial_greeted(&d);
    double v = NAN;
    json_t *w;
    size_t i;

    tell(sock, json_pack("{s:s}", "op", "stat"), &m);
    json_array_foreach(
        json_object_get(json_array_get(json_object_get(m.body, "datasets"), 0), "weights"), i, w)
    {
        if (strcmp(json_string_value(json_object_get(w, "job")), job) == 0)
            v = json_number_value(json_object_get(w, what));
    }
    msg_release(&m);
    os_close(&sock);
    return v;
}

static void test_whose(void **state)
{
    int a = session(), b = session(), fds[4];

    (void)state;
    fds[0] = weights_of(a, "one", false);
    fds[1] = weights_of(b, "one", false);
    assert_int_equal(file_of(fds[0]), file_of(fds[1]));
    assert_true(said("one", "sessions") == 2);
    fds[2] = weights_of(b, "two", false);
    assert_true(file_of(fds[2]) != file_of(fds[0]));
    assert_true(said("one", "sessions") == 1 && said("two", "sessions") == 1);
    fds[3] = weights_of(b, "own-1", true);
    assert_true(said("two", "sessions") == 0 && said("own-1", "sessions") == 1);
    os_close(&b);
    until(isnan(said("own-1", "sessions"))); /* goes with its process; the others stay */
    assert_true(said("two", "sessions") == 0);
    os_close(&a);
    until(said("one", "sessions") == 0);
    a = session();
    b = weights_of(a, "one", false);
    assert_int_equal(file_of(b), file_of(fds[0]));
    os_close(&a);
    os_close(&b);
    for (unsigned k = 0; k < 4; k++)
        os_close(&fds[k]);
}

static void test_sealed(void **state)
{
    int sock = session(), fd = weights_of(sock, "one", false);

    (void)state;
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, (off_t)weights_size(N) * 2), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    os_close(&fd);
    os_close(&sock);
}

/* Marks are taken, and the mean is that of what was learnt, once somebody is followed: also after a
 * giant has come and gone. */
static void test_mean(void **state)
{
    struct dlc_dataset *reader = open_at(&d, url, 0);
    const struct dlc_order o = {.kind = DLC_SHUFFLED};
    int sock = session(), fd = weights_of(sock, "mean", false);
    void *map = os_map(fd, 0, weights_size(N), true);
    struct dlc_err err = DLC_ERR_INIT;
    struct weights w;

    (void)state;
    assert_non_null(map);
    assert_int_equal(weights_open(&w, map, weights_size(N), N, &err), 0);
    assert_int_equal(dlc_follow(reader, &o, 0, 0), 0);
    for (unsigned i = 0; i < 100; i++)
        weights_set(&w, i * 30, i % 2 == 0 ? 1 : 3);
    until(said("mean", "learnt") == 100 && said("mean", "mean") == 2);
    until(w.words[WEIGHTS_KEEPER][0] == 0);       /* it took the marks, ... */
    assert_true(w.words[WEIGHTS_SENDER][0] != 0); /* ... but not those of others */
    weights_set(&w, 0, 3e38f);
    until(said("mean", "mean") > 1e36);
    weights_set(&w, 0, 1);
    until(said("mean", "mean") == 2);
    weights_set(&w, 0, NAN);
    until(said("mean", "learnt") == 99);
    w.words[WEIGHTS_KEEPER][0] = ((uint64_t)1 << N / 64) - 1; /* it says that all are marked */
    weights_set(&w, 5, 1);
    until(w.words[WEIGHTS_KEEPER][0] == 0);
    os_unmap(map, weights_size(N));
    os_close(&fd);
    os_close(&sock);
    dlc_close(&reader);
}

/* Eight at once; the one that was left longest ago makes place. */
static void test_places(void **state)
{
    int socks[9], fds[9];
    char job[8];

    (void)state;
    for (unsigned k = 0; k < 9; k++) {
        socks[k] = session();
        snprintf(job, sizeof(job), "j%u", k % 8);
        fds[k] = weights_of(socks[k], job, false);
        assert_true(fds[k] >= 0);
    }
    assert_int_equal(weights_of(socks[8], "j8", false), DLC_EBUSY);
    assert_true(said("j0", "sessions") == 2); /* it keeps what it has */
    os_close(&fds[8]);
    fds[8] =
        weights_of(socks[7], "own", true); /* who leaves the last of its own makes place, ... */
    assert_true(fds[8] >= 0 && isnan(said("j7", "sessions")));
    os_close(&fds[8]);
    fds[8] = weights_of(socks[7], "j7", false); /* ... also where it goes with its session */
    assert_true(fds[8] >= 0 && isnan(said("own", "sessions")) && said("j1", "sessions") == 1);
    os_close(&fds[8]);
    assert_true(isnan(said("one", "sessions")) && isnan(said("mean", "sessions")));
    os_close(&socks[3]);
    until(said("j3", "sessions") == 0);
    os_close(&socks[5]);
    until(said("j5", "sessions") == 0);
    fds[8] = weights_of(socks[8], "j8", false);
    assert_true(fds[8] >= 0 && isnan(said("j3", "sessions")) && said("j5", "sessions") == 0);
    for (unsigned k = 0; k < 9; k++) {
        os_close(&socks[k]);
        os_close(&fds[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whose),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_places),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
