// SPDX-License-Identifier: Apache-2.0
/* A writer killed with SIGKILL at any point: what is under a final name is whole. */
#include "util.h"

#include <poll.h>
#include <signal.h>

enum { ROUNDS = 40, CHUNKS = 60 };

static size_t size_of(unsigned i)
{
    return i % 7 == 0 ? 200000 : 1000 + i;
}

/* Store, fill and evict for ever, with a byte to the parent when it begins. */
static void writer(int ready, unsigned round)
{
    struct disk *d = NULL;
    struct rng r = {round};

    if (disk_open(&(struct disk_config){.root = root, .limit = 1000000, .sync = round % 4 == 0}, &d,
                  NULL) < 0 ||
        write(ready, "x", 1) != 1)
        _exit(1);
    for (;;) {
        unsigned i = (unsigned)rng_below(&r, CHUNKS);
        struct disk_fill *f;

        if (i % 3 != 0) {
            if (store(d, i, size_of(i)) < 0)
                _exit(1);
        } else if (disk_fill_begin(d, id_of(i), size_of(i), &f, NULL) == 0) {
            unsigned char *p = bytes_of(i, size_of(i));

            memcpy(disk_fill_data(f), p, size_of(i));
            mem_free(&p);
            if (disk_fill_commit(d, &f, NULL) < 0)
                _exit(1);
        }
        if (i % 5 == 0)
            disk_drop(d, id_of((unsigned)rng_below(&r, CHUNKS)));
    }
}

static void test_kill(void **state)
{
    uint64_t corrupt = count_read(disk_corrupt);
    unsigned found = 0, torn = 0;
    struct rng r = {99};

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        int ready[2], status;
        struct disk *d;
        pid_t pid;
        char byte;

        assert_int_equal(pipe(ready), 0);
        pid = fork();
        if (pid == 0)
            writer(ready[1], round);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        /* Let it work for a random while; the pipe stays silent unless it dies. */
        close(ready[1]);
        poll(&(struct pollfd){.fd = ready[0], .events = POLLIN}, 1, (int)rng_below(&r, 20));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        close(ready[0]);
        torn += count_files("tmp", ".tmp");
        d = open_limited(0);
        assert_int_equal(count_files("tmp", ""), 0);
        for (unsigned i = 0; i < CHUNKS; i++) {
            int rc = fetch(d, i, size_of(i));

            assert_true(rc == 0 || rc == DLC_EMISS);
            found += rc == 0;
        }
        assert_int_equal(figures_of(d).chunks, count_files("chunks", ""));
        disk_close(&d);
    }
    assert_int_equal(count_read(disk_corrupt), corrupt);
    assert_true(found > 0); /* it did write */
    assert_true(torn > 0);  /* and was caught in the middle of it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {disk_test(test_kill)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
