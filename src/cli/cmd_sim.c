// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache sim`: what would each eviction policy have cost? Replays a trace, or a generated
 * workload, against any of them. The policies are the daemon's own code.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/sim_report.h"
#include "sim/workload_epochs.h"
#include "sim/sweep.h"

#define MOST_FILE    ((size_t)4 << 30)
#define SAMPLE_SIZE  100000
#define SAMPLE_COST  0.053 /* seconds: a request of DELI's bucket */
#define MIX_CAPACITY "160GB,180GB,200GB,220GB,240GB,260GB"
#define CAPACITY     "10%,20%,40%,60%,80%"
#define MIX_POLICIES "lru,random,lrfu,lfu,greedy,cost-aware-lrfu,worth-blind,worth,belady,offline"
#define POLICIES     "lru,lfu,lrfu,random,worth,clairvoyant"
/* Those that the disk tier can have. */
#define DISK_POLICIES "lru,random,lrfu,lfu,greedy,cost-aware-lrfu,worth-blind,worth"

/* As given on the command line. */
struct texts {
    const char *trace, *workload, *policies, *capacity, *clock, *half_life, *cost_factor, *tier,
        *seed, *measure;
    const char *chunks, *parallel, *shuffles, *each; /* mix */
    const char *samples, *epochs, *jobs, *draw;      /* epochs */
    const char *price_request, *price_gb;
    bool numpy, json;
};

/* As understood. */
struct setup {
    struct texts text;
    struct study study;
    struct mix mix;
    struct sim_trace trace;
    struct sim_report report;
    uint64_t shuffles;
    double parallel;
    struct epochs epochs;
    struct buf each;
    struct progress bar;
    bool percent; /* capacities are shares of all bytes */
    double shares[STUDY_CAPACITIES];
};

/* ---- the command line ---- */

static int no_number(struct dlc_err *err, const char *option, const char *value, const char *what)
{
    return dlc_err_set(err, DLC_EINVAL, "--%s: \"%.60s\" is not %s", option, value, what);
}

static int parse_count(const char *option, const char *value, uint64_t most, uint64_t *out,
                       struct dlc_err *err)
{
    char what[64];

    if (str_parse_u64(value, out) && *out >= 1 && *out <= most)
        return 0;
    snprintf(what, sizeof(what), "a number from 1 to %llu", (unsigned long long)most);
    return no_number(err, option, value, what);
}

static int parse_amount(const char *option, const char *value, double *out, struct dlc_err *err)
{
    if (str_parse_double(value, out) && *out >= 0 && *out < 1e12)
        return 0;
    return no_number(err, option, value, "a number from 0");
}

static int unknown_policy(const char *name, size_t len, struct dlc_err *err)
{
    const char *names[STUDY_CONTENDERS], *near;
    char *copy = mem_strn(name, DLC_MIN(len, 60));
    size_t n = 0;

    for (const struct sim_contender *c = sim_contenders; c->name != NULL; c++)
        names[n++] = c->name;
    near = nearest_name(copy, names, n);
    dlc_err_set(err, DLC_EINVAL, "no policy \"%s\"%s%s%s", copy,
                near != NULL ? "; did you mean \"" : "; `dlcache sim --help` names them",
                near != NULL ? near : "", near != NULL ? "\"?" : "");
    mem_free(&copy);
    return err->code;
}

static int parse_policies(struct study *s, const char *list, struct dlc_err *err)
{
    for (const char *p = list; *p != '\0';) {
        size_t n = strcspn(p, ",");
        const struct sim_contender *c = sim_contender_find(p, n);

        if (c == NULL)
            return unknown_policy(p, n, err);
        for (unsigned i = 0; i < s->n_contenders; i++)
            if (s->contenders[i] == c)
                return dlc_err_set(err, DLC_EINVAL, "--policies: %s is there twice", c->name);
        s->contenders[s->n_contenders++] = c;
        p += n + (p[n] == ',');
    }
    if (s->n_contenders == 0)
        return dlc_err_set(err, DLC_EINVAL, "--policies: there is none");
    return 0;
}

static int check_tier(const struct study *s, struct dlc_err *err)
{
    for (unsigned i = 0; s->options.tier == SIM_TIER_DISK && i < s->n_contenders; i++) {
        const char *why = sim_disk_refusal(s->contenders[i]);

        if (why != NULL)
            return dlc_err_set(err, DLC_EINVAL, "--tier disk, policy %s: %s",
                               s->contenders[i]->name, why);
    }
    return 0;
}

static int parse_capacity(struct setup *s, const char *one, struct dlc_err *err)
{
    struct study *y = &s->study;
    size_t len = strlen(one);
    bool percent = len > 1 && one[len - 1] == '%';

    if (y->n_capacities == STUDY_CAPACITIES)
        return dlc_err_set(err, DLC_EINVAL, "--capacity: more than %d", STUDY_CAPACITIES);
    if (y->n_capacities > 0 && percent != s->percent)
        return dlc_err_set(err, DLC_EINVAL, "--capacity: either sizes or percentages");
    s->percent = percent;
    if (percent) {
        char *number = mem_strn(one, len - 1);
        bool good = str_parse_double(number, &s->shares[y->n_capacities]);

        mem_free(&number);
        if (!good || !(s->shares[y->n_capacities] > 0) || s->shares[y->n_capacities] > 1000)
            return no_number(err, "capacity", one, "a size like 160GB or a share like 20%");
    } else if (!str_parse_size(one, &y->capacities[y->n_capacities]) ||
               y->capacities[y->n_capacities] > (uint64_t)1 << 60) {
        return no_number(err, "capacity", one, "a size like 160GB or a share like 20%");
    }
    y->n_capacities++;
    return 0;
}

static int parse_capacities(struct setup *s, const char *list, struct dlc_err *err)
{
    int rc = 0;

    for (const char *p = list; *p != '\0' && rc == 0;) {
        size_t n = strcspn(p, ",");
        char *one = mem_strn(p, n);

        rc = parse_capacity(s, one, err);
        mem_free(&one);
        p += n + (p[n] == ',');
    }
    if (rc == 0 && s->study.n_capacities == 0)
        rc = dlc_err_set(err, DLC_EINVAL, "--capacity: there is none");
    return rc;
}

static int parse_epochs(struct setup *s, struct dlc_err *err)
{
    uint64_t samples = 0, epochs = 0, jobs = 0;
    int rc = parse_count("samples", s->text.samples, 100000000, &samples, err);

    if (rc == 0)
        rc = parse_count("epochs", s->text.epochs, 10000, &epochs, err);
    if (rc == 0)
        rc = parse_count("jobs", s->text.jobs, 1000, &jobs, err);
    if (rc == 0 && samples * epochs * jobs > 1000000000)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "samples x epochs x jobs is more than 1,000,000,000 reads; take fewer");
    s->epochs = (struct epochs){.samples = (uint32_t)samples,
                                .epochs = (uint32_t)epochs,
                                .jobs = (uint32_t)jobs,
                                .importance = strcmp(s->text.draw, "importance") == 0,
                                .seed = s->study.seed,
                                .size = SAMPLE_SIZE,
                                .cost = SAMPLE_COST};
    return rc;
}

static int parse_options(struct setup *s, struct dlc_err *err)
{
    const struct texts *x = &s->text;
    struct sim_options *o = &s->study.options;
    struct dlc_dur half = {0};
    int rc = 0;

    o->clock = strcmp(x->clock, "job") == 0    ? SIM_CLOCK_JOB
               : strcmp(x->clock, "work") == 0 ? SIM_CLOCK_WORK
                                               : SIM_CLOCK_COST;
    o->tier = strcmp(x->tier, "disk") == 0     ? SIM_TIER_DISK
              : strcmp(x->tier, "memory") == 0 ? SIM_TIER_MEMORY
                                               : SIM_TIER_NONE;
    if (x->half_life != NULL && (!str_parse_dur(x->half_life, &half) || half.ns <= 0))
        return no_number(err, "half-life", x->half_life, "a time like 2s or 1h");
    o->policy.half_life = dlc_dur_seconds(half);
    rc = parse_amount("cost-factor", x->cost_factor, &o->policy.cost_factor, err);
    if (rc < 0)
        return rc;
    if (!(o->policy.cost_factor > 0))
        o->policy.cost_factor = POLICY_COST_TIES;
    if (!str_parse_u64(x->seed, &s->study.seed))
        return no_number(err, "seed", x->seed, "a whole number");
    rc = parse_amount("price-request", x->price_request, &o->prices.request, err);
    if (rc == 0)
        rc = parse_amount("price-gb", x->price_gb, &o->prices.transfer, err);
    o->prices.transfer /= 1e9;
    if (rc == 0)
        rc = parse_count("shuffles", x->shuffles, 100000, &s->shuffles, err);
    if (rc == 0)
        rc = parse_amount("parallel", x->parallel, &s->parallel, err);
    if (rc == 0 && !(s->parallel > 0))
        rc = no_number(err, "parallel", x->parallel, "more than 0");
    return rc == 0 ? parse_epochs(s, err) : rc;
}

/* ---- the workloads ---- */

static void show(uint64_t done, uint64_t total, void *priv)
{
    progress_update(priv, "simulating", done, total, 0, 0);
}

static void take_shares(struct setup *s, uint64_t bytes)
{
    for (unsigned i = 0; s->percent && i < s->study.n_capacities; i++)
        s->study.capacities[i] = (uint64_t)((double)bytes * s->shares[i] / 100 + 0.5);
    s->report.bytes = bytes;
    s->report.shares = s->percent ? s->shares : NULL;
}

static int run_trace(struct setup *s, struct dlc_err *err)
{
    struct buf file = BUF_INIT;
    int rc = os_read_file(s->text.trace, MOST_FILE, &file, err);

    if (rc == 0)
        rc = sim_trace_parse(&s->trace, s->text.trace, buf_str(&file), file.len, err);
    buf_release(&file);
    if (rc < 0)
        return rc;
    sim_trace_index(&s->trace);
    take_shares(s, s->trace.bytes);
    s->report.workload = "trace";
    s->report.title = "Eviction policies on a trace";
    snprintf(s->report.subtitle, sizeof(s->report.subtitle), "%u chunks, %u jobs, %u reads",
             s->trace.n_chunks, s->trace.n_jobs, s->trace.n_reads);
    study_trace(&s->study, &s->trace);
    return 0;
}

static int run_epochs(struct setup *s)
{
    s->report.coverage = epochs_make(&s->trace, &s->epochs);
    take_shares(s, s->trace.bytes);
    s->report.workload = "epochs";
    s->report.title = "Eviction policies over epochs of training";
    snprintf(s->report.subtitle, sizeof(s->report.subtitle),
             "%u samples, %u epochs (the first warms up), %u job%s, drawn by %s", s->epochs.samples,
             s->epochs.epochs, s->epochs.jobs, s->epochs.jobs > 1 ? "s" : "", s->text.draw);
    study_trace(&s->study, &s->trace);
    return 0;
}

static int run_mix(struct setup *s, struct dlc_err *err)
{
    struct buf file = BUF_INIT;
    int rc = 0;

    if (s->text.chunks != NULL) {
        rc = os_read_file(s->text.chunks, MOST_FILE, &file, err);
        if (rc == 0)
            rc = mix_parse(&s->mix, s->text.chunks, buf_str(&file), file.len, s->parallel, err);
        buf_release(&file);
        if (rc < 0)
            return rc;
    } else {
        mix_make(&s->mix, s->study.seed);
    }
    mix_seed(&s->mix, s->study.seed, s->text.numpy);
    take_shares(s, s->mix.trace.bytes);
    s->report.workload = "mix";
    s->report.title = "Eviction policies on a mix of jobs";
    snprintf(s->report.subtitle, sizeof(s->report.subtitle),
             "%u chunks of four datasets, mean of %llu orders of jobs", s->mix.trace.n_chunks,
             (unsigned long long)(MIX_ROWS * s->shuffles));
    study_mix(&s->study, &s->mix, (uint32_t)s->shuffles);
    return 0;
}

static int show_results(struct setup *s, struct dlc_err *err)
{
    if (s->text.json)
        print_json(sim_report_json(&s->report), false);
    else
        sim_report_tables(&s->report);
    if (s->text.each == NULL)
        return 0;
    return os_write_file(s->text.each, buf_str(&s->each), s->each.len, 0644, err);
}

static int simulate(struct setup *s, bool quiet, struct dlc_err *err)
{
    bool mix = strcmp(s->text.workload, "mix") == 0 && s->text.trace == NULL;
    const char *names = s->text.policies, *capacity = s->text.capacity;
    int rc = parse_options(s, err);

    if (names == NULL)
        names = s->study.options.tier == SIM_TIER_DISK ? DISK_POLICIES
                : mix                                  ? MIX_POLICIES
                                                       : POLICIES;
    if (capacity == NULL)
        capacity = mix ? MIX_CAPACITY : CAPACITY;
    if (rc == 0)
        rc = parse_policies(&s->study, names, err);
    if (rc == 0)
        rc = check_tier(&s->study, err);
    if (rc == 0)
        rc = parse_capacities(s, capacity, err);
    if (rc < 0)
        return rc;
    s->report.study = &s->study;
    s->report.measure = s->text.measure != NULL ? s->text.measure : mix ? "seconds" : "hits";
    s->study.each = s->text.each != NULL ? &s->each : NULL;
    s->study.on_row = show;
    s->study.priv = &s->bar;
    progress_init(&s->bar, "runs", quiet || s->text.json);
    rc = s->text.trace != NULL ? run_trace(s, err) : mix ? run_mix(s, err) : run_epochs(s);
    progress_end(&s->bar);
    return rc == 0 ? show_results(s, err) : rc;
}

static bool check_choices(const struct command *cmd, const struct texts *x, int *status)
{
    return args_choice(cmd, "workload", x->workload, "mix|epochs", status) &&
           args_choice(cmd, "clock", x->clock, "cost|job|work", status) &&
           args_choice(cmd, "tier", x->tier, "none|disk|memory", status) &&
           args_choice(cmd, "draw", x->draw, "shuffle|importance", status) &&
           (x->measure == NULL ||
            args_choice(cmd, "measure", x->measure, "seconds|hits|bytes|money", status));
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct setup *s = mem_new(struct setup);
    struct texts *x = &s->text;
    const struct args_option options[] = {
        {"trace", 0, "FILE", "Replay this file (docs/format/trace.md).", NULL, &x->trace},
        {"workload", 'w', "NAME", "Or make one: mix (default) or epochs.", NULL, &x->workload},
        {"policies", 'p', "A,B", "Which policies; the list is below.", NULL, &x->policies},
        {"capacity", 'c', "A,B", "Sizes (160GB) or shares of the data (20%).", NULL, &x->capacity},
        {"measure", 'm', "WHAT", "What to compare: seconds, hits, bytes or money.", NULL,
         &x->measure},
        {"json", 0, NULL, "Print a JSON object.", &x->json, NULL},
        {"each", 0, "FILE.csv", "Write the seconds of every single run.", NULL, &x->each},
        {"seed", 's', "N", "Of all random numbers (default 1).", NULL, &x->seed},
        {"shuffles", 0, "N", "mix: orders of jobs for each row (default 10).", NULL, &x->shuffles},
        {"chunks", 0, "FILE.csv", "mix: measured chunks (columns Cost, Key, Size).", NULL,
         &x->chunks},
        {"parallel", 0, "N", "mix: divide the costs in that file by N.", NULL, &x->parallel},
        {"numpy", 0, NULL, "mix: shuffle as NumPy's legacy generator.", &x->numpy, NULL},
        {"samples", 'n', "N", "epochs: samples (default 20000).", NULL, &x->samples},
        {"epochs", 0, "N", "epochs: how many (default 5).", NULL, &x->epochs},
        {"jobs", 0, "N", "epochs: jobs in step (default 1).", NULL, &x->jobs},
        {"draw", 0, "HOW", "epochs: shuffle (default) or importance.", NULL, &x->draw},
        {"clock", 0, "WHAT", "What ages uses: cost (default), job, work.", NULL, &x->clock},
        {"tier", 0, "WHAT", "none (default): the policy alone; disk, memory: a tier with it.", NULL,
         &x->tier},
        {"half-life", 0, "TIME", "When a use counts half (default: the policy's).", NULL,
         &x->half_life},
        {"cost-factor", 0, "X", "cost-aware-lrfu: power of the cost (default 1; 0: ties only).",
         NULL, &x->cost_factor},
        {"price-request", 0, "X", "Money for a request (default 0.0000004).", NULL,
         &x->price_request},
        {"price-gb", 0, "X", "Money for a gigabyte (default 0.09).", NULL, &x->price_gb},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    *x = (struct texts){.workload = "mix",
                        .clock = "cost",
                        .tier = "none",
                        .seed = "1",
                        .parallel = "1",
                        .shuffles = "10",
                        .samples = "20000",
                        .epochs = "5",
                        .jobs = "1",
                        .draw = "shuffle",
                        .cost_factor = "1",
                        .price_request = "0.0000004",
                        .price_gb = "0.09"};
    if (args_parse(&a, cmd, options, argc, argv, &status) && check_choices(cmd, x, &status))
        status = simulate(s, a.quiet, &err) < 0 ? cli_fail(cmd, &err) : end_output(cmd);
    sim_trace_release(&s->trace);
    mix_release(&s->mix);
    buf_release(&s->each);
    mem_free(&s);
    args_release(&a);
    return status;
}

const struct command cmd_sim = {
    .name = "sim",
    .synopsis = "[--trace FILE | --workload mix|epochs] [--policies LIST] [--capacity LIST] ...",
    .summary = "Compare eviction policies on a trace or a made workload.",
    .details =
        "Replays who reads what against each policy at each capacity, with the code that the "
        "daemon\n"
        "runs, and prints hits, misses, the seconds and the money that the misses cost.\n"
        "\n"
        "With --tier disk or memory that tier decides with each policy, by the code of the daemon. "
        "On\n"
        "disk, chunks of datasets that jobs read stay, whatever the policy, and memory lies before "
        "it:\n"
        "a chunk that a job reads several times in a row is read from disk once. Memory keeps "
        "whatever\n"
        "comes.\n"
        "\n"
        "Policies: lru, lfu, lrfu, random, greedy and cost-aware-lrfu (DLCache's), importance (as "
        "in\n"
        "SHADE), worth (ours), worth-blind (ours when no job declares its runs), worth-unheld,\n"
        "worth-keeps and worth-bare (ours without other parts, or without any), clairvoyant (the\n"
        "future is known), belady (the same, keeping whatever comes), offline (a bound).\n"
        "\n"
        "Workloads: mix is DLCache's eviction experiment: a dataset that is reused, one that is\n"
        "shared, one read by sliding windows, one read once, their jobs in random order. epochs "
        "is\n"
        "training: every sample in every epoch, in a fresh order.",
    .examples = "  $ dlcache sim\n"
                "  $ dlcache sim --json | python3 -m dlcache.torch.sim_plot policies.svg\n"
                "  $ dlcache sim -w epochs -p lru,worth,clairvoyant -c 10%,20%,40%\n"
                "  $ dlcache sim -w epochs --draw importance -p lru,importance --json\n"
                "  $ dlcache sim --trace yesterday.trace -c 500GB,1TB,2TB\n",
    .max = 0,
    .run = run,
};
