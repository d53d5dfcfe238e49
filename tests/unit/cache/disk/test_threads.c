// SPDX-License-Identifier: Apache-2.0
/* Eight threads store, fill, read, drop and map the same few chunks under a tight limit, for groups
 * whose jobs come and go. */
#include "util.h"

#include <pthread.h>

enum { THREADS = 8, GROUPS = 3, CHUNKS = 40, STEPS = 400, LEN = 3000 };

struct player {
    struct disk *d;
    unsigned seed, bad, hits;
    unsigned joined[GROUPS];
};

static void *play(void *arg)
{
    struct player *p = arg;
    struct rng r = {p->seed};
    unsigned char *buf = mem_alloc(LEN);

    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)rng_below(&r, CHUNKS);
        unsigned char *want = bytes_of(i, LEN);
        unsigned g = (unsigned)rng_below(&r, GROUPS);
        uint32_t group = disk_group(p->d, g, "g");
        struct chunk_id id = id_of(i);
        struct disk_figures now;
        struct disk_fill *f;
        int rc;

        id.group = group;
        switch (rng_below(&r, 10)) {
        case 0:
        case 1: rc = disk_store(p->d, id, want, LEN, NULL); break;
        case 2:
            rc = disk_fill_begin(p->d, id, LEN, &f, NULL);
            if (rc == 0) {
                memcpy(disk_fill_data(f), want, LEN);
                rc = disk_fill_commit(p->d, &f, NULL);
            }
            break;
        case 3:
            disk_drop(p->d, id);
            rc = 0;
            break;
        case 4:
            rc = disk_read_range(p->d, id, LEN, LEN / 3, buf, LEN / 2, NULL);
            p->bad += rc == 0 && memcmp(buf, want + LEN / 3, LEN / 2) != 0;
            break;
        case 5:
            disk_group_join(p->d, group);
            p->joined[g]++;
            rc = 0;
            break;
        case 6:
            if (p->joined[g] > 0)
                disk_group_leave(p->d, group);
            p->joined[g] -= p->joined[g] > 0;
            disk_group_cost(p->d, group, (double)i, LEN);
            rc = 0;
            break;
        default:
            rc = disk_read(p->d, id, buf, LEN, NULL);
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
    for (unsigned g = 0; g < GROUPS; g++) { /* while others change them, figures may lag behind */
        struct disk_group_figures in;
        unsigned jobs = 0;

        for (unsigned i = 0; i < THREADS; i++)
            jobs += players[i].joined[g];
        disk_group_figures(d, disk_group(d, g, "g"), &in);
        assert_int_equal(in.jobs, jobs);
        assert_int_equal(in.bytes, in.chunks * LEN);
    }
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
