// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache plan`: what will training on this dataset cost? Lists the bucket, measures it with a few
 * reads, and predicts (sim/training_cost.h) requests, bytes, money and hours. No daemon is used, and
 * nothing is cached.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/listing/list_here.h"
#include "cli/bucket_settings.h"
#include "cli/commands.h"
#include "cli/manager_commands.h"
#include "cli/plan_report.h"
#include "cli/resource_name.h"
#include "base/json.h"

#define PROBES      64   /* ranges of different samples */
#define MEMORY_UNIT 64   /* cache/memory/arena_i.h rounds samples up to it */
#define DISK_UNIT   4096 /* cache/disk/space.c counts objects in it */

/* As given on the command line. */
struct texts {
    const char *epochs, *batch, *step_ms, *samples_per_s, *nodes, *gpus, *workers, *price_gpu,
        *price_ssd, *latency, *bandwidth;
    bool json;
};

/* ---- the command line ---- */

static int refuse(struct dlc_err *err, const char *option, const char *value, const char *what)
{
    return dlc_err_set(err, DLC_EINVAL, "--%s: \"%.60s\" is not %s", option, value, what);
}

static int parse_count(const char *option, const char *value, unsigned *out, struct dlc_err *err)
{
    uint64_t n;

    if (!str_parse_u64(value, &n) || n < 1 || n > 1000000)
        return refuse(err, option, value, "a number from 1 to 1000000");
    *out = (unsigned)n;
    return 0;
}

static int parse_amount(const char *option, const char *value, double *out, struct dlc_err *err)
{
    if (value == NULL || (str_parse_double(value, out) && *out >= 0 && *out < 1e12))
        return 0;
    return refuse(err, option, value, "a number from 0");
}

static int parse_speed(const struct texts *x, struct cost_setup *s, struct dlc_err *err)
{
    double step = 0;
    int rc = parse_amount("samples-per-s", x->samples_per_s, &s->samples_per_s, err);

    if (rc == 0)
        rc = parse_amount("step-ms", x->step_ms, &step, err);
    if (rc == 0 && x->step_ms != NULL && x->samples_per_s != NULL)
        rc = dlc_err_set(err, DLC_EINVAL, "give either --step-ms or --samples-per-s");
    if (rc == 0 && step > 0)
        s->samples_per_s = s->batch * 1000 / step;
    return rc;
}

static int parse_bucket(const struct texts *x, struct cost_bucket *b, struct dlc_err *err)
{
    struct dlc_dur latency = {0};
    uint64_t bytes = 0;

    if ((x->latency == NULL) != (x->bandwidth == NULL))
        return dlc_err_set(err, DLC_EINVAL,
                           "--latency and --bandwidth: give both, or none to measure them");
    if (x->latency == NULL)
        return 0;
    if (!str_parse_dur(x->latency, &latency) || latency.ns < 0)
        return refuse(err, "latency", x->latency, "a time like 30ms");
    if (!str_parse_size(x->bandwidth, &bytes) || bytes == 0)
        return refuse(err, "bandwidth", x->bandwidth, "a size like 200MB");
    b->latency_s = b->p99_s = dlc_dur_seconds(latency);
    b->bytes_per_s = (double)bytes;
    return 0;
}

static int parse_setup(const struct texts *x, const struct config *c, struct plan *p,
                       struct dlc_err *err)
{
    struct cost_setup *s = &p->setup;
    int rc = parse_count("epochs", x->epochs, &s->epochs, err);

    if (rc == 0)
        rc = parse_count("nodes", x->nodes, &s->nodes, err);
    if (rc == 0)
        rc = parse_count("gpus", x->gpus, &s->gpus, err);
    if (rc == 0)
        rc = parse_count("workers", x->workers, &s->workers, err);
    if (rc == 0)
        rc = parse_count("batch", x->batch, &s->batch, err);
    if (rc == 0)
        rc = parse_speed(x, s, err);
    if (rc == 0)
        rc = parse_amount("price-gpu", x->price_gpu, &s->price_gpu, err);
    if (rc == 0)
        rc = parse_amount("price-ssd", x->price_ssd, &s->price_ssd, err);
    if (rc == 0)
        rc = parse_bucket(x, &p->bucket, err);
    if (rc == 0 && c->memory == CONFIG_AUTO)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "say how much memory the daemon of a node will have: --memory SIZE");
    s->memory = c->memory;
    s->disk = c->disk == CONFIG_AUTO ? 0 : c->disk;
    return rc;
}

/* ---- the dataset ---- */

static void show_listed(void *bar, uint64_t objects)
{
    progress_update(bar, "listing", objects, 0, 0, 0);
}

/* Requests for sample i, and what it takes in the tiers. */
static int add_sample(struct cost_data *d, const struct bucket *b, const struct catalog *c,
                      uint64_t i, struct dlc_err *err)
{
    struct catalog_sample s;
    int rc = catalog_sample(c, i, &s, err);

    for (size_t k = 0; rc == 0 && k < s.n_pieces; k++)
        if (s.pieces[k].kind == PIECE_OBJECT && s.pieces[k].length > 0)
            d->gets += bucket_read_requests(b, s.pieces[k].length, catalog_is_whole(c));
    d->bytes += s.size;
    d->memory_bytes += DLC_ALIGN_UP(s.size, MEMORY_UNIT);
    d->disk_bytes += DLC_ALIGN_UP(s.size, DISK_UNIT);
    catalog_sample_release(&s);
    return rc;
}

static int count_samples(struct cost_data *d, const struct bucket *b, const struct catalog *c,
                         struct dlc_err *err)
{
    int rc = 0;

    d->samples = catalog_visible(c);
    for (uint64_t i = 0; i < d->samples && rc == 0; i++)
        rc = add_sample(d, b, c, i, err);
    if (rc == 0 && d->samples == 0)
        rc = dlc_err_set(err, DLC_ENOTFOUND, "%s has no samples", catalog_url(c));
    return rc;
}

/* ---- the bucket ---- */

/* Where sample i begins in the bucket. False: its bytes are not there. */
static bool range_of(const struct catalog *c, uint64_t i, struct probe_range *r)
{
    struct catalog_entry *object = mem_new(struct catalog_entry);
    struct catalog_sample s;
    bool found = catalog_sample(c, i, &s, NULL) == 0 && s.n_pieces > 0 &&
                 s.pieces[0].kind == PIECE_OBJECT && s.pieces[0].length > 0 &&
                 catalog_object(c, s.pieces[0].object, object, NULL) == 0;

    if (found)
        *r = (struct probe_range){mem_str(object->key), mem_str(object->etag), s.pieces[0].offset,
                                  s.pieces[0].length};
    catalog_sample_release(&s);
    mem_free(&object);
    return found;
}

static int probe(struct plan *p, struct bucket *b, const struct catalog *c, struct dlc_err *err)
{
    struct probe_range ranges[PROBES] = {0};
    uint64_t n = catalog_visible(c);
    unsigned found = 0;
    int rc;

    for (unsigned i = 0; i < PROBES && i < n; i++)
        found += range_of(c, n * i / PROBES, &ranges[found]);
    rc = found > 0 ? bucket_probe(b, ranges, found, &p->probe, err)
                   : dlc_err_set(err, DLC_EINVAL,
                                 "there is nothing to measure %s with: its samples are empty; give "
                                 "--latency and --bandwidth",
                                 p->url);
    p->bucket.latency_s = p->probe.latency_s;
    p->bucket.p99_s = p->probe.p99_s;
    p->bucket.bytes_per_s = p->probe.bytes_per_s;
    for (unsigned i = 0; i < found; i++) {
        mem_free(&ranges[i].key);
        mem_free(&ranges[i].etag);
    }
    return rc;
}

static int examine(struct plan *p, const struct url *u, const struct bucket_config *bc,
                   struct progress *bar, struct dlc_err *err)
{
    struct bucket_tally tally = {0};
    struct bucket_config counted = *bc;
    struct catalog *catalog = NULL;
    struct bucket *b = NULL;
    struct dlc_mono start = dlc_mono_now();
    int rc;

    counted.tally = &tally;
    rc = list_here(u, &counted, show_listed, bar, &catalog, err);
    p->data.list_s = dlc_dur_seconds(dlc_mono_since(start));
    p->data.list_requests = tally.requests;
    p->data.list_bytes = tally.bytes;
    p->data.list_money = (double)tally.money_nano / 1e9;
    if (rc == 0)
        rc = bucket_open(u, bc, &b, err);
    if (rc == 0)
        rc = count_samples(&p->data, b, catalog, err);
    if (rc == 0 && !(p->bucket.bytes_per_s > 0)) {
        progress_update(bar, "measuring", 0, 0, 0, 0);
        rc = probe(p, b, catalog, err);
    }
    if (rc == 0)
        bucket_prices(b, &p->bucket.price_get, &p->bucket.price_byte);
    bucket_close(&b);
    catalog_close(&catalog);
    return rc;
}

/* ---- the command ---- */

/* The URL of a registered dataset, and its endpoint if it has one. Gives both. */
static int resolve(const struct config *c, const char *name, char **url, char **endpoint,
                   struct dlc_err *err)
{
    struct api api = API_INIT;
    char *path = mem_fmt("/v1/datasets/%s", name);
    json_t *d = NULL;
    int rc = api_open(&api, c, err);

    if (rc == 0)
        rc = api_call(&api, "GET", path, NULL, &d, err);
    if (rc == 0) {
        *url = mem_str(json_text_at(d, "url"));
        if (json_text_at(d, "endpoint")[0] != '\0')
            *endpoint = mem_str(json_text_at(d, "endpoint"));
    }
    json_decref(d);
    mem_free(&path);
    api_close(&api);
    return rc;
}

static int predict(const struct args *a, const struct texts *x, struct plan *p,
                   struct progress *bar, struct dlc_err *err)
{
    struct bucket_config bc = bucket_settings(&a->config);
    const char *given = a->operands[0];
    const char *name = str_starts(given, "dlcache://") ? given + 10 : given;
    char *url = NULL, *endpoint = NULL;
    struct url u = URL_INIT;
    int rc = parse_setup(x, &a->config, p, err);

    if (rc == 0 && name_is_ok(name) && api_is_known(&a->config))
        rc = resolve(&a->config, name, &url, &endpoint, err);
    if (endpoint != NULL)
        bc.endpoint = endpoint;
    if (rc == 0)
        rc = url_parse(&u, url != NULL ? url : given, err);
    p->url = given;
    p->bucket.max_requests = bc.max_requests;
    if (rc == 0)
        rc = examine(p, &u, &bc, bar, err);
    if (rc == 0)
        cost_forecast(&p->data, &p->bucket, &p->setup, &p->forecast);
    url_release(&u);
    mem_free(&url);
    mem_free(&endpoint);
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct texts x = {.epochs = "1",
                      .batch = "256",
                      .nodes = "1",
                      .gpus = "1",
                      .workers = "8",
                      .price_ssd = "0.08"};
    const struct args_option options[] = {
        {"epochs", 'n', "N", "How often the dataset is read (default 1).", NULL, &x.epochs},
        {"batch", 'b', "N", "Samples of one step of a node (default 256).", NULL, &x.batch},
        {"step-ms", 0, "X", "Milliseconds that a step takes.", NULL, &x.step_ms},
        {"samples-per-s", 0, "X", "Or: samples that a node trains in a second.", NULL,
         &x.samples_per_s},
        {"nodes", 0, "N", "Nodes that share the work (default 1).", NULL, &x.nodes},
        {"gpus", 0, "N", "GPUs of a node, for their price (default 1).", NULL, &x.gpus},
        {"workers", 0, "N", "Workers of a node that reads directly (default 8).", NULL, &x.workers},
        {"price-gpu", 0, "X", "Price of a GPU for an hour (default 0).", NULL, &x.price_gpu},
        {"price-ssd", 0, "X", "Price of a GB of SSD for a month (default 0.08).", NULL,
         &x.price_ssd},
        {"latency", 0, "TIME", "Of the bucket; with --bandwidth, nothing is measured.", NULL,
         &x.latency},
        {"bandwidth", 0, "SIZE", "Bytes per second that a node gets from the bucket.", NULL,
         &x.bandwidth},
        {"json", 0, NULL, "Print a JSON object.", &x.json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct plan p = {.url = NULL};
    struct progress bar;
    struct dlc_err err = DLC_ERR_INIT;
    int status, rc;

    if (!args_parse(&a, cmd, options, argc, argv, &status))
        goto out;
    progress_init(&bar, "objects", a.quiet || x.json);
    rc = predict(&a, &x, &p, &bar, &err);
    progress_end(&bar);
    if (rc < 0) {
        status = cli_fail(cmd, &err);
        goto out;
    }
    if (x.json)
        plan_print_json(&p);
    else
        plan_print_table(&p);
    status = end_output(cmd);
out:
    args_release(&a);
    return status;
}

const struct command cmd_plan = {
    .name = "plan",
    .synopsis = "URL | NAME --memory SIZE [--disk SIZE] [--epochs N] [--step-ms X --batch N] ...",
    .summary = "Predict what training on a dataset will cost.",
    .details =
        "Lists the bucket, measures its latency and bandwidth with some 1,000 reads (128 MB at\n"
        "most), and predicts requests, bytes, money and hours: through dlcache with this much "
        "memory\n"
        "(--memory) and disk (--disk; without it no disk tier) on each node, by workers that read\n"
        "the bucket themselves in each epoch, and from a copy on local SSDs. Every sample is read\n"
        "once per epoch, in an order that is told ahead (docs/plan.md has the formulas). The\n"
        "bucket's prices are list prices unless --price-get, --price-list and --price-gb are "
        "given.\n"
        "\n"
        "NAME is a registered dataset; its bucket is read with the credentials found here.",
    .examples =
        "  $ dlcache plan s3://my-bucket/train/ --epochs 90 --memory 200GB --batch 256 "
        "--step-ms 180\n"
        "  $ dlcache plan imagenet --epochs 90 --nodes 4 --gpus 8 --price-gpu 2.5 --memory 400GB\n"
        "  $ dlcache plan s3://my-bucket/train/ --epochs 10 --memory 64GB --disk 1TB --json\n",
    ONE_OPERAND("the URL or name of a dataset"),
    .run = run,
};
