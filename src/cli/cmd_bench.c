// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache bench`: how fast is this bucket from here? Four measurements of one dataset, each as a
 * training loop sees it: listing the bucket, reading samples that are not cached, reading them
 * again from memory without a copy, and with one.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/table.h"
#include "dlcache.h"

#define BATCH       256
#define HIT_SECONDS 0.5

struct figures {
    uint64_t samples; /* of the dataset */
    uint64_t read;    /* of them, in the cold run */
    uint64_t bytes;   /* of those */
    double list_s, cold_s;
    double view_ns, copy_ns; /* of one sample; 0: it did not stay in memory */
};

static int library_error(int code, struct dlc_err *err)
{
    return dlc_err_set(err, code, "%s", dlc_last_error());
}

/* Forget the dataset, so that the next read is a cold one. */
static int evict(const struct config *config, const char *url, struct dlc_err *err)
{
    struct msg answer = MSG_INIT;
    int rc = ctl_evict(config, url, "all", NULL, NULL, &answer, err);

    msg_release(&answer);
    return rc;
}

/* Different samples, spread over the dataset, in no order: a stride that shares no factor with n.
 */
static void choose(uint64_t *idx, uint64_t want, uint64_t n)
{
    uint64_t stride = (uint64_t)((double)n * 0.6180339887) | 1, a, b;

    for (;; stride++) {
        for (a = stride, b = n; b != 0;) {
            uint64_t r = a % b;

            a = b;
            b = r;
        }
        if (a == 1)
            break;
    }
    for (uint64_t i = 0, at = 0; i < want; i++, at = (at + stride) % n)
        idx[i] = at;
}

static int read_cold(struct dlc_dataset *ds, const uint64_t *idx, struct figures *f,
                     struct progress *bar, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();
    struct dlc_view views[BATCH];
    int rc;

    for (uint64_t i = 0; i < f->read; i += BATCH) {
        size_t n = (size_t)DLC_MIN(f->read - i, BATCH);

        if (i + n < f->read) /* as a training loop that knows its next batch */
            dlc_prefetch(ds, idx + i + n, (size_t)DLC_MIN(f->read - i - n, BATCH));
        rc = dlc_get_many(ds, idx + i, n, views, NULL);
        if (rc < 0)
            return library_error(rc, err);
        for (size_t k = 0; k < n; k++) {
            f->bytes += views[k].len;
            dlc_put(ds, &views[k]);
        }
        progress_update(bar, "reading", i + n, f->read, f->bytes, 0);
    }
    f->cold_s = dlc_dur_seconds(dlc_mono_since(start));
    return 0;
}

/* Mean time to pin, touch or copy, and unpin, over those samples that are still in memory. */
static double measure_hits(struct dlc_dataset *ds, const uint64_t *idx, uint64_t n,
                           struct buf *copy)
{
    struct dlc_mono start = dlc_mono_now();
    struct dlc_dur took = {0};
    uint64_t hits = 0;
    struct dlc_view v;

    do {
        for (uint64_t i = 0; i < n; i++) {
            if (dlc_try_get(ds, idx[i], &v) < 0)
                continue;
            if (copy != NULL && v.len <= copy->cap)
                memcpy(copy->data, v.data, v.len);
            else if (v.len > 0)
                (void)*(const volatile char *)v.data; /* a view that nobody looks at is no read */
            dlc_put(ds, &v);
            hits++;
        }
        took = dlc_mono_since(start);
    } while (hits > 0 && dlc_dur_seconds(took) < HIT_SECONDS);
    return hits > 0 ? (double)took.ns / (double)hits : 0;
}

static uint64_t largest(struct dlc_dataset *ds, const uint64_t *idx, uint64_t n)
{
    int64_t most = 0;

    for (uint64_t i = 0; i < n; i++)
        most = DLC_MAX(most, dlc_size(ds, idx[i]));
    return (uint64_t)most;
}

static int measure(const struct args *a, uint64_t want, struct figures *f, struct progress *bar,
                   struct dlc_err *err)
{
    const struct dlc_options again = {.refresh = 1};
    struct dlc_dataset *ds = NULL;
    struct buf copy = BUF_INIT;
    uint64_t *idx = NULL;
    struct dlc_mono start;
    int rc;

    progress_update(bar, "listing", 0, 0, 0, 0);
    start = dlc_mono_now();
    rc = dlc_open(a->operands[0], &again, &ds);
    if (rc < 0) {
        library_error(rc, err);
        goto out;
    }
    f->list_s = dlc_dur_seconds(dlc_mono_since(start));
    f->samples = dlc_count(ds);
    f->read = DLC_MIN(want, f->samples);
    if (f->samples == 0) {
        rc = dlc_err_set(err, DLC_ENOTFOUND, "%s holds no samples", a->operands[0]);
        goto out;
    }
    idx = mem_alloc(f->read * sizeof(*idx));
    choose(idx, f->read, f->samples);
    rc = evict(&a->config, a->operands[0], err);
    if (rc == 0)
        rc = read_cold(ds, idx, f, bar, err);
    if (rc == 0) {
        buf_reserve(&copy, largest(ds, idx, f->read));
        f->view_ns = measure_hits(ds, idx, f->read, NULL);
        f->copy_ns = measure_hits(ds, idx, f->read, &copy);
    }
out:
    buf_release(&copy);
    mem_free(&idx);
    dlc_close(&ds);
    return rc;
}

/* ---- printing ---- */

static double per(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

static void print_table(const struct figures *f)
{
    char n[32], rate[32], size[24];
    struct table t;

    table_init(&t, "what|>samples|>time|>rate");
    table_add(&t, "list the bucket");
    table_add(&t, table_count(f->samples, n));
    table_addf(&t, "%.2f s", f->list_s);
    table_addf(&t, "%s/s", table_count((uint64_t)per((double)f->samples, f->list_s), rate));
    table_add(&t, "read cold");
    table_add(&t, table_count(f->read, n));
    table_addf(&t, "%.2f s", f->cold_s);
    table_addf(&t, "%s/s, %s/s", table_count((uint64_t)per((double)f->read, f->cold_s), rate),
               str_size((uint64_t)per((double)f->bytes, f->cold_s), size));
    if (f->view_ns > 0) {
        table_add(&t, "read again, a view");
        table_add(&t, "1");
        table_addf(&t, "%.0f ns", f->view_ns);
        table_addf(&t, "%s/s", table_count((uint64_t)(1e9 / f->view_ns), rate));
        table_add(&t, "read again, a copy");
        table_add(&t, "1");
        table_addf(&t, "%.0f ns", f->copy_ns);
        table_addf(&t, "%s/s", table_count((uint64_t)(1e9 / f->copy_ns), rate));
    }
    table_print(&t, stdout);
    table_release(&t);
    if (!(f->view_ns > 0))
        printf("nothing stayed in memory: give the daemon more (--memory)\n");
}

static void print_figures(const struct figures *f, const char *url, bool json)
{
    if (!json) {
        print_table(f);
        return;
    }
    print_json(json_pack("{s:o, s:I, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "url",
                         msg_string(url), "samples", (json_int_t)f->samples, "list_s", f->list_s,
                         "cold_samples", (json_int_t)f->read, "cold_bytes", (json_int_t)f->bytes,
                         "cold_s", f->cold_s, "cold_samples_per_s", per((double)f->read, f->cold_s),
                         "cold_MBps", per((double)f->bytes, f->cold_s) / 1e6, "view_ns", f->view_ns,
                         "copy_ns", f->copy_ns),
               false);
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *samples = "2000";
    bool json = false;
    const struct args_option options[] = {
        {"samples", 'n', "N", "How many samples to read (default 2000).", NULL, &samples},
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct figures f = {0};
    struct progress bar;
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t want = 0;
    int status, rc;

    if (!args_parse(&a, cmd, options, argc, argv, &status))
        goto out;
    if (!str_parse_u64(samples, &want) || want == 0) {
        dlc_err_set(&err, DLC_EINVAL, "--samples: \"%.60s\" is not a number from 1", samples);
        status = cli_fail(cmd, &err);
        goto out;
    }
    progress_init(&bar, "samples", a.quiet || json);
    rc = measure(&a, want, &f, &bar, &err);
    progress_end(&bar);
    if (rc == 0)
        print_figures(&f, a.operands[0], json);
    status = rc < 0 ? cli_fail(cmd, &err) : end_output(cmd);
out:
    args_release(&a);
    return status;
}

const struct command cmd_bench = {
    .name = "bench",
    .synopsis = "(URL | dlcache://NAME) [-n N] [--json]",
    .summary = "Measure a bucket from here, cold and cached.",
    .details = "Lists the bucket, forgets what is cached of the dataset, reads samples through the "
               "daemon as a\n"
               "training loop would, and reads them again from memory. It costs the requests and "
               "the transfer\n"
               "of the samples it reads.",
    .examples = "  $ dlcache bench s3://my-bucket/train/\n"
                "  $ dlcache bench dlcache://imagenet\n"
                "  $ dlcache bench -n 500 --json gs://my-bucket/train/\n"
                "  $ dlcache bench 'file:///data/images?latency=30ms'     as if it were far away\n",
    ONE_OPERAND("the URL of a dataset"),
    .run = run,
};
