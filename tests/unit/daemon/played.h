// SPDX-License-Identifier: Apache-2.0
/*
 * The fetch pipeline of a daemon over one source that the test plays: it holds what it is asked
 * for until the test ends it, or serves or refuses it at once.
 */
#ifndef DLC_TESTS_UNIT_DAEMON_PLAYED_H
#define DLC_TESTS_UNIT_DAEMON_PLAYED_H

#include "daemon/parts.h"

#include "base/config.h"
#include "base/hash.h"
#include "base/log.h"
#include "daemon/fetch/fetch.h"
#include "daemon/fetch/source.h"
#include "daemon/prefetch/pump.h"
#include "daemon/work.h"

#define PLAYED_MAX 4096

static struct {
    bool at_once;  /* serve at once */
    bool unsummed; /* without a checksum */
    struct fetch_attempt *held[PLAYED_MAX];
    uint64_t asked[PLAYED_MAX]; /* samples, in the order in which they were asked for */
    bool to_disk[PLAYED_MAX];
    unsigned n_held, n_asked;
} played;

/* The bytes of a sample are its number. rc < 0: it fails. */
static inline void played_end(struct fetch_attempt *a, int rc)
{
    a->rc = rc;
    if (rc < 0) {
        dlc_err_set(&a->err, rc, "sample %llu failed", (unsigned long long)a->f->sample);
    } else {
        memset(a->dst, (int)a->f->sample, a->size);
        a->checksum = played.unsummed ? 0 : hash64(a->dst, a->size);
        a->sum = played.unsummed ? FETCH_SUM_NONE : FETCH_SUM_KNOWN;
    }
    fetch_attempt_ended(a);
}

static inline bool played_start(struct fetch_attempt *a)
{
    assert_true(played.n_asked < PLAYED_MAX);
    played.to_disk[played.n_asked] = a->f->to_disk;
    played.asked[played.n_asked++] = a->f->sample;
    if (played.at_once)
        played_end(a, 0);
    else
        played.held[played.n_held++] = a;
    return true;
}

static const struct fetch_source played_source = {
    .name = "played", .tier = TIER_BUCKET, .remote = true, .start = played_start};
static const struct fetch_source *const played_sources[] = {&played_source};

/* End what is held, the oldest first. */
static inline void played_end_all(int rc)
{
    while (played.n_held > 0) {
        struct fetch_attempt *a = played.held[0];

        memmove(&played.held[0], &played.held[1], --played.n_held * sizeof(played.held[0]));
        played_end(a, rc);
    }
}

static inline void played_open(struct node *n, uint64_t memory)
{
    static const struct config config; /* prices that are 0 */

    memset(&played, 0, sizeof(played));
    log_threshold = LOG_ERROR;
    parts_node(n);
    n->config = &config;
    dlc_list_init(&n->warms);
    dlc_list_init(&n->deriving);
    n->pump.fire = prefetch_pump_again;
    n->loop = loop_new(NULL);
    assert_non_null(n->loop);
    n->work = work_new(NULL);
    assert_non_null(n->work);
    tenant_memories_init(&n->memories, memory, memory, NULL);
    assert_int_equal(tenant_memory_get(&n->memories, "", &n->own_memory, NULL), 0);
    n->fetches = fetch_pipeline_new(n, played_sources, 1, prefetch_pump);
}

static inline struct dataset *played_dataset(struct node *n, const char *name, unsigned samples)
{
    struct dataset *ds = parts_dataset(n, name, parts_catalog(name, samples));

    ds->refs = 1;
    hist_init(&ds->prefetch.latency, 1000);
    ds->tenant_memory = n->own_memory;
    assert_int_equal(mem_index_new(n->own_memory->memory, samples, 1, &ds->index, NULL), 0);
    return ds;
}

/* A dataset of a directory of files, without a catalog and an index yet. */
static inline struct dataset *played_files(struct node *n, const char *files,
                                           struct bucket_tally *tally)
{
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    struct dataset *ds = parts_dataset(n, "x", NULL);
    struct dlc_err err = DLC_ERR_INIT;
    char url[300];

    ds->refs = 1;
    ds->state = DATASET_READY;
    ds->disk.group = disk_group(n->disk, 1, "x");
    ds->tenant_memory = n->own_memory;
    hist_init(&ds->prefetch.latency, 1000);
    dataset_table_remove(ds);
    url_release(&ds->url);
    snprintf(url, sizeof(url), "file://%s/", files);
    assert_int_equal(url_parse(&ds->url, url, &err), 0);
    dataset_table_add(ds);
    bc.retries = 0;
    bc.no_hedge = true;
    bc.tally = tally;
    assert_int_equal(bucket_open(&ds->url, &bc, &ds->bucket, &err), 0);
    return ds;
}

/* All that was started has ended, and nothing of it is left. */
static inline void played_close(struct node *n)
{
    assert_int_equal(n->pending, 0);
    for (unsigned i = 0; i < N_BUDGETS; i++)
        assert_int_equal(n->used[i], 0);
    dlc_list_each (l, &n->datasets) {
        struct dataset *ds = dlc_container(l, struct dataset, link);

        assert_int_equal(ds->refs, 1);
        events_raise(n, dataset_freed, ds);
        mem_free(&ds->backlog.samples);
        map_release(&ds->fetching);
        mem_index_free(&ds->index);
    }
    parts_free_all(n);
    tenant_memory_put(&n->own_memory);
    tenant_memories_free(&n->memories);
    fetch_pipeline_free(&n->fetches);
    work_free(&n->work);
    loop_timer_del(n->loop, &n->pump);
    loop_free(&n->loop);
    if (n->disk != NULL)
        disk_close(&n->disk);
}

/* One turn of the loop. */
static inline void played_turn(struct node *n)
{
    loop_stop(n->loop); /* the next turn is its last */
    loop_run(n->loop);
}

#endif
