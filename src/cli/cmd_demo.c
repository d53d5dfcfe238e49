// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache demo`: the effect of the cache on a training loop, in under a minute and without a
 * cloud.
 *
 * Three runs over the same images, in the same shuffled orders, by the same number of worker
 * processes with the same pause per batch in place of the training step: directly from a bucket
 * that answers each request after 30 ms, one request after the other in each worker, as most loaders
 * do; the same with all requests of a batch at once; then through a daemon of its own. Every figure
 * is measured.
 */
#include "cli/commands.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "cli/args.h"
#include "cli/daemon_client.h"
#include "cli/cmd_demo.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "dlcache.h"
#include "bucket/bucket.h"

#define WORKERS   4
#define EPOCHS    3
#define BATCH     16
#define AHEAD     4  /* batches asked for ahead of the one in use */
#define STEP_MS   10 /* one batch on the pretended GPU */
#define LATENCY   "30ms"
#define IMAGE_MAX ((uint64_t)1 << 20)
/* List prices of S3 Standard in us-east-1: USD per 1000 GETs, and per GB to another region. */
#define PRICE_GET "0.0004"
#define PRICE_GB  "0.02"

/* What the workers of one epoch tell the parent; shared memory. */
struct tally {
    _Atomic uint64_t done, hits, stall_ns, requests, bytes, money_nano, failed;
};

struct epoch {
    double seconds;
    uint64_t samples, hits, stall_ns, requests, bytes, money_nano;
};

struct demo {
    struct config *config; /* its socket is the demonstration's own */
    char dir[40], *url, *socket;
    uint64_t n;
    pid_t daemon;
    struct tally *tally;
    struct progress progress;
};

/* ---- the worker: a training loop's data side ---- */

static void step(void)
{
    struct timespec ts = {.tv_nsec = STEP_MS * 1000000};

    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        ;
}

/* The same shuffle for everybody; each worker takes every WORKERS-th batch of it. */
static uint64_t *shuffled(uint64_t n, unsigned epoch)
{
    uint64_t *order = mem_alloc(n * sizeof(*order));
    struct rng r = {1000 + epoch};

    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = rng_below(&r, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

typedef int read_batch_f(void *source, const uint64_t *idx, size_t n);

static int train(struct demo *d, unsigned rank, unsigned epoch, read_batch_f *read_batch,
                 read_batch_f *announce, void *source)
{
    uint64_t *order = shuffled(d->n, epoch), batches = (d->n + BATCH - 1) / BATCH;
    int rc = 0;

    for (uint64_t b = rank; b < batches && rc == 0; b += WORKERS) {
        size_t n = (size_t)DLC_MIN((uint64_t)BATCH, d->n - b * BATCH);
        struct dlc_mono start = dlc_mono_now();

        for (uint64_t k = b == rank ? 0 : AHEAD; announce != NULL && k <= AHEAD; k++) {
            uint64_t next = b + k * WORKERS;

            if (next < batches)
                announce(source, order + next * BATCH,
                         (size_t)DLC_MIN((uint64_t)BATCH, d->n - next * BATCH));
        }
        rc = read_batch(source, order + b * BATCH, n);
        d->tally->stall_ns += (uint64_t)dlc_mono_since(start).ns;
        d->tally->done += n;
        step();
    }
    mem_free(&order);
    return rc;
}

/* ---- straight from the bucket ---- */

struct direct {
    bool at_once; /* all requests of a batch */
    struct bucket *bucket;
    struct catalog_entry *entries;
    void *buf;
};

static int direct_batch_at_once(struct direct *s, const uint64_t *idx, size_t n)
{
    struct bucket_read reads[BATCH];
    struct dlc_err err;
    int rc;

    for (size_t i = 0; i < n; i++) {
        const struct catalog_entry *e = &s->entries[idx[i]];

        reads[i] = (struct bucket_read){.key = e->key,
                                        .etag = e->etag,
                                        .length = e->size,
                                        .whole = true,
                                        .dst = (char *)s->buf + i * IMAGE_MAX};
    }
    rc = bucket_read_all_wait(s->bucket, reads, n, &err);
    if (rc < 0)
        fprintf(stderr, "dlcache demo: %s\n", err.text);
    return rc;
}

static int direct_batch(void *source, const uint64_t *idx, size_t n)
{
    struct direct *s = source;
    struct dlc_err err;

    if (s->at_once)
        return direct_batch_at_once(s, idx, n);

    for (size_t i = 0; i < n; i++) {
        const struct catalog_entry *e = &s->entries[idx[i]];

        if (bucket_read_wait(s->bucket, e->key, e->etag, 0, e->size, true, s->buf, &err) < 0) {
            fprintf(stderr, "dlcache demo: %s\n", err.text);
            return err.code;
        }
    }
    return 0;
}

static bool collect(struct bucket_list *l, const struct bucket_object *objects, size_t n)
{
    struct catalog_entry **next = l->priv;

    for (size_t i = 0; i < n; i++, (*next)++) {
        snprintf((*next)->key, sizeof((*next)->key), "%s", objects[i].key);
        snprintf((*next)->etag, sizeof((*next)->etag), "%s", objects[i].etag);
        (*next)->size = objects[i].size;
    }
    return true;
}

static int direct_run(struct demo *d, unsigned rank, unsigned epoch, bool at_once)
{
    struct direct s = {.at_once = at_once,
                       .entries = mem_zero(d->n * sizeof(*s.entries)),
                       .buf = mem_alloc(BATCH * IMAGE_MAX)};
    struct bucket_config bc = BUCKET_CONFIG_INIT;
    struct catalog_entry *next = s.entries;
    struct url u = URL_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    bc.price_get = strtod(PRICE_GET, NULL);
    bc.price_gb = strtod(PRICE_GB, NULL);
    bc.price_list = 0;
    rc = url_parse(&u, d->url, &err);
    if (rc == 0)
        rc = bucket_open(&u, &bc, &s.bucket, &err);
    if (rc == 0)
        rc = bucket_list_wait(s.bucket, NULL, collect, &next, &err);
    if (rc < 0)
        fprintf(stderr, "dlcache demo: %s\n", err.text);
    else
        rc = train(d, rank, epoch, direct_batch, NULL, &s);
    d->tally->requests += count_read(bucket_gets);
    d->tally->bytes += count_read(bucket_bytes);
    d->tally->money_nano += count_read(money_nano);
    bucket_close(&s.bucket);
    url_release(&u);
    mem_free(&s.entries);
    mem_free(&s.buf);
    return rc;
}

static int direct_worker(struct demo *d, unsigned rank, unsigned epoch)
{
    return direct_run(d, rank, epoch, false);
}

static int parallel_worker(struct demo *d, unsigned rank, unsigned epoch)
{
    return direct_run(d, rank, epoch, true);
}

/* ---- through dlcache ---- */

static int cached_batch(void *source, const uint64_t *idx, size_t n)
{
    struct dlc_view views[BATCH];
    int rc = dlc_get_many(source, idx, n, views, NULL);

    if (rc < 0) {
        fprintf(stderr, "dlcache demo: %s\n", dlc_last_error());
        return rc;
    }
    for (size_t i = 0; i < n; i++) {
        rc = memcmp(views[i].data, "\x89PNG", 4) == 0 ? rc : DLC_ECORRUPT;
        dlc_put(source, &views[i]);
    }
    return rc;
}

static int cached_announce(void *source, const uint64_t *idx, size_t n)
{
    return dlc_prefetch(source, idx, n);
}

static int cached_worker(struct demo *d, unsigned rank, unsigned epoch)
{
    struct dlc_options opt = {.socket = d->socket, .no_spawn = 1};
    struct dlc_dataset *ds;
    struct dlc_stats st;
    int rc = dlc_open(d->url, &opt, &ds);

    if (rc < 0) {
        fprintf(stderr, "dlcache demo: %s\n", dlc_last_error());
        return rc;
    }
    rc = train(d, rank, epoch, cached_batch, cached_announce, ds);
    dlc_dataset_stats(ds, &st);
    d->tally->hits += st.hits;
    dlc_close(&ds);
    return rc;
}

/* ---- the parent ---- */

static int run_epoch(struct demo *d, const char *phase, unsigned epoch,
                     int (*worker)(struct demo *, unsigned, unsigned), struct epoch *out)
{
    struct dlc_mono start = dlc_mono_now();
    unsigned running = WORKERS;
    char name[32];
    int status;

    snprintf(name, sizeof(name), "%s %u", phase, epoch + 1);
    memset(d->tally, 0, sizeof(*d->tally));
    for (unsigned rank = 0; rank < WORKERS; rank++) {
        if (fork() == 0)
            _exit(worker(d, rank, epoch) == 0 ? 0 : 1);
    }
    while (running > 0) {
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid > 0) {
            running--;
            d->tally->failed += status != 0;
        } else {
            dlc_sleep(DLC_MS(20));
        }
        progress_update(&d->progress, name, d->tally->done, d->n, 0, 0);
    }
    *out = (struct epoch){
        .seconds = dlc_dur_seconds(dlc_mono_since(start)),
        .samples = d->tally->done,
        .hits = d->tally->hits,
        .stall_ns = d->tally->stall_ns,
        .requests = d->tally->requests,
        .bytes = d->tally->bytes,
        .money_nano = d->tally->money_nano,
    };
    return d->tally->failed == 0 ? 0 : DLC_EIO;
}

static int counters_of(struct demo *d, struct epoch *e, struct dlc_err *err)
{
    struct ctl c = CTL_INIT;
    struct msg m = MSG_INIT;
    int rc = ctl_open(&c, d->config, false, err);

    if (rc == 0)
        rc = ctl_call(&c, json_pack("{s:s}", "op", "stat"), NULL, NULL, &m, err);
    if (rc == 0) {
        e->requests = json_u64_at(m.body, "counters.bucket_gets");
        e->bytes = json_u64_at(m.body, "counters.bucket_bytes");
        e->money_nano = json_u64_at(m.body, "counters.money_nano");
    }
    msg_release(&m);
    ctl_close(&c);
    return rc;
}

static int start_daemon(struct demo *d, struct dlc_err *err)
{
    struct dlc_mono limit = dlc_mono_add(dlc_mono_now(), DLC_SEC(20));
    struct ctl c = CTL_INIT;
    int rc;

    d->daemon = fork();
    if (d->daemon == 0) {
        char *dir = mem_fmt("%s/cache", d->dir);

        execl("/proc/self/exe", "dlcache", "serve", "--quiet", "--socket", d->socket, "--dir", dir,
              "--price-get", PRICE_GET, "--price-gb", PRICE_GB, "--price-list", "0", (char *)NULL);
        _exit(127);
    }
    while ((rc = ctl_open(&c, d->config, false, err)) == DLC_ENODAEMON &&
           waitpid(d->daemon, NULL, WNOHANG) == 0 && !dlc_mono_passed(limit, dlc_mono_now()))
        dlc_sleep(DLC_MS(5));
    ctl_close(&c);
    return rc;
}

enum { DIRECT, PARALLEL, CACHED, SOURCES };

static int run_all(struct demo *d, struct epoch (*of)[EPOCHS], struct dlc_err *err)
{
    struct epoch before, after;
    int rc = 0;

    for (unsigned e = 0; e < EPOCHS && rc == 0; e++) {
        rc = run_epoch(d, "bucket, epoch", e, direct_worker, &of[DIRECT][e]);
        if (rc == 0)
            rc = run_epoch(d, "64 requests, epoch", e, parallel_worker, &of[PARALLEL][e]);
        if (rc < 0)
            return dlc_err_set(err, rc, "reading straight from the bucket failed");
    }
    rc = start_daemon(d, err);
    for (unsigned e = 0; e < EPOCHS && rc == 0; e++) {
        rc = counters_of(d, &before, err);
        if (rc == 0 && run_epoch(d, "dlcache, epoch", e, cached_worker, &of[CACHED][e]) < 0)
            rc = dlc_err_set(err, DLC_EIO, "reading through dlcache failed");
        if (rc == 0)
            rc = counters_of(d, &after, err);
        of[CACHED][e].requests = after.requests - before.requests;
        of[CACHED][e].bytes = after.bytes - before.bytes;
        of[CACHED][e].money_nano = after.money_nano - before.money_nano;
    }
    return rc;
}

/* ---- what people see ---- */

static void add_rows(struct table *t, const char *name, const struct epoch *e)
{
    char size[24], number[32];

    for (unsigned i = 0; i < EPOCHS; i++) {
        table_add(t, i == 0 ? name : "");
        table_addf(t, "%u", i + 1);
        table_add(t,
                  table_count((unsigned long long)((double)e[i].samples / e[i].seconds), number));
        table_addf(t, "%.1f %%", 100.0 * (double)e[i].hits / (double)e[i].samples);
        table_addf(t, "%.2f", (double)e[i].stall_ns / 1e9 / WORKERS);
        table_add(t, table_count(e[i].requests, number));
        table_add(t, str_size(e[i].bytes, size));
        table_addf(t, "%.6f", (double)e[i].money_nano / 1e9);
    }
}

static void print_table(const struct demo *d, struct epoch (*of)[EPOCHS])
{
    static const char *const names[SOURCES] = {"a request per worker", "64 requests at once",
                                               "through dlcache"};
    struct table t = TABLE_INIT;
    double seconds[SOURCES] = {0}, money[SOURCES] = {0};

    table_init(&t, "source|>epoch|>samples/s|>hits|>stalled s|>requests|>bytes|>USD");
    for (unsigned k = 0; k < SOURCES; k++)
        add_rows(&t, names[k], of[k]);
    printf("\n");
    table_print(&t, stdout);
    table_release(&t);
    for (unsigned i = 0; i < SOURCES * EPOCHS; i++) {
        seconds[i / EPOCHS] += of[i / EPOCHS][i % EPOCHS].seconds;
        money[i / EPOCHS] += (double)of[i / EPOCHS][i % EPOCHS].money_nano;
    }
    printf("\n%d workers, batches of %d, a step of %d ms after each, %llu images, %s per request.\n"
           "Hits were in memory when asked for. Stalled: mean time a worker waited for data.\n"
           "Prices: S3, %s USD per 1000 GETs and %s USD per GB to another region.\n\n"
           "%d epochs took %.1f s with a request per worker, %.1f s with 64 requests at once and\n"
           "%.1f s through dlcache: %.1f and %.1f times as fast, for %.0f %% of the money.\n",
           WORKERS, BATCH, STEP_MS, (unsigned long long)d->n, LATENCY, PRICE_GET, PRICE_GB, EPOCHS,
           seconds[DIRECT], seconds[PARALLEL], seconds[CACHED], seconds[DIRECT] / seconds[CACHED],
           seconds[PARALLEL] / seconds[CACHED], 100 * money[CACHED] / money[DIRECT]);
}

static json_t *epochs_json(const struct epoch *e)
{
    json_t *a = json_array();

    for (unsigned i = 0; i < EPOCHS; i++)
        json_array_append_new(
            a, json_pack("{s:f, s:I, s:f, s:I, s:I, s:f}", "samples_per_s",
                         (double)e[i].samples / e[i].seconds, "hits", (json_int_t)e[i].hits,
                         "stalled_s", (double)e[i].stall_ns / 1e9 / WORKERS, "requests",
                         (json_int_t)e[i].requests, "bytes", (json_int_t)e[i].bytes, "usd",
                         (double)e[i].money_nano / 1e9));
    return a;
}

static int prepare(struct demo *d, struct dlc_err *err)
{
    char *images;
    int rc;

    snprintf(d->dir, sizeof(d->dir), "/tmp/dlcache-demo-XXXXXX");
    if (mkdtemp(d->dir) == NULL)
        return dlc_err_sys(err, "cannot make a directory in /tmp");
    images = mem_fmt("%s/images", d->dir);
    d->url = mem_fmt("file://%s?latency=" LATENCY, images);
    d->socket = mem_fmt("%s/socket", d->dir);
    rc = config_set(d->config, "socket", d->socket, err);
    d->tally =
        mmap(NULL, sizeof(*d->tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (d->tally == MAP_FAILED)
        rc = dlc_err_sys(err, "cannot map shared memory");
    if (rc == 0)
        rc = demo_make_images(images, d->n, err);
    mem_free(&images);
    return rc;
}

static void clean_up(struct demo *d)
{
    if (d->daemon > 0) {
        kill(d->daemon, SIGTERM);
        while (waitpid(d->daemon, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (d->dir[0] != '\0')
        os_rmtree(d->dir);
    mem_free(&d->url);
    mem_free(&d->socket);
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct args a = ARGS_INIT;
    struct demo d = {.n = 960, .config = &a.config};
    struct epoch of[SOURCES][EPOCHS] = {0};
    struct dlc_err err = DLC_ERR_INIT;
    const char *samples = NULL;
    bool json = false;
    int status = CLI_OK;
    const struct args_option options[] = {
        {"json", 0, NULL, "Print the figures as one line of JSON.", &json, NULL},
        {"samples", 'n', "N", "Images in the dataset. Default: 960.", NULL, &samples},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };

    if (!args_parse(&a, cmd, options, argc, argv, &status))
        goto out;
    if (samples != NULL && (!str_parse_u64(samples, &d.n) || d.n < BATCH || d.n > 1000000)) {
        dlc_err_set(&err, DLC_EINVAL, "--samples %s: a number from %d to 1000000", samples, BATCH);
        status = cli_fail(cmd, &err);
        goto out;
    }
    progress_init(&d.progress, "samples", a.quiet || json);
    if (prepare(&d, &err) < 0 || run_all(&d, of, &err) < 0) {
        progress_end(&d.progress);
        status = cli_fail(cmd, &err);
    } else {
        progress_end(&d.progress);
        if (json)
            print_json(json_pack("{s:o, s:o, s:o}", "direct", epochs_json(of[DIRECT]), "parallel",
                                 epochs_json(of[PARALLEL]), "dlcache", epochs_json(of[CACHED])),
                       false);
        else
            print_table(&d, of);
    }
    clean_up(&d);
out:
    args_release(&a);
    return status;
}

const struct command cmd_demo = {
    .name = "demo",
    .synopsis = "[--samples N] [--json]",
    .summary = "Show what dlcache does, in under a minute and without a cloud.",
    .details =
        "Makes a small dataset of images in a local bucket that answers each request after 30 ms,\n"
        "reads it for three epochs with four worker processes as a training loop would: straight "
        "from\n"
        "the bucket, each worker with one request after the other; with all requests of a batch "
        "at\n"
        "once, 64 by all workers; and through a daemon of its own. Leaves nothing behind.",
    .examples = "  $ dlcache demo\n"
                "  $ dlcache demo --samples 5000 --json\n",
    .run = run,
};
