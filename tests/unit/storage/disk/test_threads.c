// SPDX-License-Identifier: Apache-2.0
/* Eight threads store, fill, read, drop and map the same few chunks under a tight limit. */
#include "util.h"

#include <pthread.h>

enum { THREADS = 8, CHUNKS = 40, STEPS = 400, LEN = 3000 };

struct player {
    struct disk *d;
    unsigned seed, bad, hits;
};

static void *play(void *arg)
{
    struct player *p = arg;
    struct rng r = {p->seed};
    unsigned char *buf = mem_alloc(LEN);

    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)rng_below(&r, CHUNKS);
        unsigned char *want = bytes_of(i, LEN);
        struct disk_figures now;
        struct disk_fill *f;
        int rc, fd;

        switch (rng_below(&r, 8)) {
        case 0:
        case 1: rc = disk_store(p->d, id_of(i), want, LEN, NULL); break;
        case 2:
            rc = disk_fill_begin(p->d, id_of(i), LEN, &f, NULL);
            if (rc == 0) {
                memcpy(disk_fill_data(f), want, LEN);
                rc = disk_fill_commit(p->d, &f, NULL);
            }
            break;
        case 3:
            disk_drop(p->d, id_of(i));
            rc = 0;
            break;
        case 4:
            rc = disk_map_fd(p->d, id_of(i), LEN, &fd, NULL);
            os_close(&fd);
            break;
        default:
            rc = disk_read(p->d, id_of(i), buf, LEN, NULL);
            if (rc == 0) {
                p->hits++;
                p->bad += memcmp(buf, want, LEN) != 0;
            }
        }
        p->bad += rc != 0 && rc != DLC_EMISS && rc != DLC_ENOSPACE;
        disk_figures(p->d, &now);
        p->bad += !now.scanning && now.bytes > 20 * LEN;
        mem_free(&want);
    }
    mem_free(&buf);
    return NULL;
}

static void test_threads(void **state)
{
    struct player players[THREADS];
    pthread_t threads[THREADS];
    struct disk_figures f;
    struct disk *d;
    unsigned hits = 0;

    (void)state;
    /* Not waiting for the scan: it takes part. */
    d = open_limited(0);
    for (unsigned i = 0; i < CHUNKS / 2; i++)
        store(d, i, LEN);
    disk_close(&d);
    assert_int_equal(disk_open(&(struct disk_config){.root = root, .limit = 20 * LEN}, &d, NULL),
                     0);
    for (unsigned i = 0; i < THREADS; i++) {
        players[i] = (struct player){.d = d, .seed = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(players[i].bad, 0);
        hits += players[i].hits;
    }
    assert_true(hits > 0);
    f = figures_of(d);
    assert_int_equal(f.bytes, f.chunks * LEN);
    assert_int_equal(count_files("chunks", ""), f.chunks);
    assert_int_equal(count_files("tmp", ""), 0);
    disk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {disk_test(test_threads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
