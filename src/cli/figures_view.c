// SPDX-License-Identifier: Apache-2.0
#include "cli/figures_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/stall.h"
#include "base/str.h"
#include "cli/table.h"

static const char *const sort_names[TOP_SORTS] = {"waiting", "read", "name"};

const char *top_sort_name(enum top_sort s)
{
    return sort_names[s];
}

static const char *name_of(const json_t *job)
{
    const char *name = json_text_at(job, "job");

    return name[0] != '\0' ? name : "(no name)";
}

/* Bytes that its readers got, by second of their time. */
static double read_rate(const json_t *job)
{
    double s = json_number_at(job, "recent.seconds");
    double readers = json_number_at(job, "readers.sessions");

    return s > 0 ? json_number_at(job, "recent.usage.read_bytes") / s * DLC_MAX(readers, 1.0) : 0;
}

/* ---- jobs in order ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(name_of(*(json_t *const *)a), name_of(*(json_t *const *)b));
}

static int by_number(double a, double b, const void *x, const void *y)
{
    return a > b ? -1 : a < b ? 1 : by_name(x, y);
}

static int by_waiting(const void *a, const void *b)
{
    return by_number(json_number_at(*(json_t *const *)a, "recent.waiting"),
                     json_number_at(*(json_t *const *)b, "recent.waiting"), a, b);
}

static int by_read(const void *a, const void *b)
{
    return by_number(read_rate(*(json_t *const *)a), read_rate(*(json_t *const *)b), a, b);
}

/* Gives; the jobs are borrowed. */
static json_t **sorted_jobs(const json_t *jobs, enum top_sort sort)
{
    static int (*const compare[TOP_SORTS])(const void *, const void *) = {by_waiting, by_read,
                                                                          by_name};
    size_t n = json_array_size(jobs);
    json_t **list = mem_zero((n + 1) * sizeof(list[0]));

    for (size_t i = 0; i < n; i++)
        list[i] = json_array_get(jobs, i);
    if (n > 1)
        qsort(list, n, sizeof(list[0]), compare[sort]);
    return list;
}

/* ---- lines ---- */

/* "43 %", "0.4 %", "-" */
static const char *percent(double share, char out[static 24])
{
    snprintf(out, 24, share > 0 && share < 0.01 ? "%.1f %%" : "%.0f %%", share * 100);
    return out;
}

static void add_share(struct table *t, const json_t *part, const json_t *whole)
{
    double all = json_number_value(whole);
    char text[24];

    table_add(t, all > 0 ? percent(json_number_value(part) / all, text) : "-");
}

static void add_job(struct table *t, const json_t *job)
{
    char text[24];
    bool known = json_number_at(job, "recent.seconds") > 0;

    table_add(t, name_of(job));
    table_addf(t, "%llu", (unsigned long long)json_u64_at(job, "readers.sessions"));
    if (known)
        table_addf(t, "%s/s", str_size((uint64_t)read_rate(job), text));
    else
        table_add(t, "-");
    table_add(t, known ? percent(json_number_at(job, "recent.waiting"), text) : "-");
    for (enum stall_reason r = 0; r < STALL_REASONS; r++) {
        double share = json_number_value(json_object_get(json_at(job, "recent"), stall_name(r)));

        table_add(t, share > 0 ? percent(share, text) : "");
    }
    if (json_at(job, "order") != NULL)
        table_addf(t, "%llu, %s", (unsigned long long)json_u64_at(job, "order.epoch"),
                   percent(json_number_at(job, "order.at") /
                               DLC_MAX(json_number_at(job, "order.length"), 1.0),
                           text));
    else
        table_add(t, "-");
}

static void add_jobs(json_t *const *jobs, struct buf *out)
{
    struct table t;

    if (jobs[0] == NULL) {
        buf_adds(out, "No job has read here yet.\n");
        return;
    }
    table_init(&t, "JOB|>READERS|>READS|>WAITS|>latency|>bandwidth|>disk|>memory|>order|>EPOCH");
    for (size_t i = 0; jobs[i] != NULL; i++)
        add_job(&t, jobs[i]);
    table_format(&t, out);
    table_release(&t);
}

static void add_datasets(const json_t *datasets, struct buf *out)
{
    struct table t;
    const json_t *d;
    char text[24];
    size_t i;

    if (json_array_size(datasets) == 0)
        return;
    table_init(&t, "DATASET|>SIZE|>MEMORY|>DISK|>REQUESTS|>COST|>DIRECT");
    json_array_foreach((json_t *)(uintptr_t)datasets, i, d)
    {
        table_add(&t, json_text_at(d, "name"));
        table_add(&t, str_size(json_u64_at(d, "bytes"), text));
        add_share(&t, json_at(d, "memory_bytes"), json_at(d, "bytes"));
        add_share(&t, json_at(d, "disk_bytes"), json_at(d, "bytes"));
        table_addf(&t, "%llu", (unsigned long long)json_u64_at(d, "usage.requests"));
        table_addf(&t, "$%.4f", json_number_at(d, "usage.money_nano") / 1e9);
        table_addf(&t, "$%.4f", json_number_at(d, "direct_nano") / 1e9);
    }
    buf_addc(out, '\n');
    table_format(&t, out);
    table_release(&t);
}

static void add_line(struct buf *out, const char *text)
{
    str_printable(text, strlen(text), out);
    buf_addc(out, '\n');
}

static void add_head(const json_t *f, struct buf *out)
{
    const char *name = json_text_at(f, "name");
    char a[24], b[24];

    buf_adds(out, "dlcache");
    if (name[0] != '\0') {
        buf_addc(out, ' ');
        str_printable(name, strlen(name), out);
    }
    buf_addf(out, " up %s", str_dur(dlc_dur_of_seconds(json_number_at(f, "uptime_s")), a));
    if (json_at(f, "memory") != NULL)
        buf_addf(out, "   memory %s of %s", str_size(json_u64_at(f, "memory.used"), a),
                 str_size(json_u64_at(f, "memory.ceiling"), b));
    if (json_at(f, "disk.used") != NULL)
        buf_addf(out, "   disk %s", str_size(json_u64_at(f, "disk.used"), a));
    buf_addc(out, '\n');
}

/* What is wrong, and what each job that waits should change. */
static void add_advice(const json_t *f, json_t *const *jobs, struct buf *out)
{
    struct buf line = BUF_INIT;
    const json_t *p;
    size_t i;

    json_array_foreach(json_object_get(f, "problems"), i, p)
    {
        buf_clear(&line);
        buf_addf(&line, "! %s %s", json_text_at(p, "what"), json_text_at(p, "remedy"));
        add_line(out, buf_str(&line));
    }
    for (i = 0; jobs[i] != NULL; i++) {
        if (json_text_at(jobs[i], "advice")[0] == '\0')
            continue;
        buf_clear(&line);
        buf_addf(&line, "> %s %s", name_of(jobs[i]), json_text_at(jobs[i], "advice"));
        add_line(out, buf_str(&line));
    }
    buf_release(&line);
}

/* ---- top ---- */

/* Characters are counted by the first bytes of their UTF-8. */
static size_t cut_columns(const char *line, size_t len, unsigned columns)
{
    size_t i = 0;

    for (unsigned seen = 0; i < len; i++)
        if (((unsigned char)line[i] & 0xc0) != 0x80 && seen++ == columns)
            break;
    return i;
}

void top_render(const json_t *figures, const struct top_screen *s, struct buf *out)
{
    json_t **jobs = sorted_jobs(json_object_get(figures, "jobs"), s->sort);
    struct buf all = BUF_INIT;
    const char *line;

    add_head(figures, &all);
    add_advice(figures, jobs, &all);
    buf_addc(&all, '\n');
    add_jobs(jobs, &all);
    add_datasets(json_object_get(figures, "datasets"), &all);
    line = buf_str(&all);
    for (unsigned row = 0; *line != '\0' && (s->rows == 0 || row < s->rows); row++) {
        size_t len = strcspn(line, "\n");

        buf_add(out, line, s->columns > 0 ? cut_columns(line, len, s->columns) : len);
        buf_addc(out, '\n');
        line += len + (line[len] == '\n');
    }
    buf_release(&all);
    mem_free(&jobs);
}

/* ---- explain ---- */

static void explain_waits(const json_t *job, struct buf *out)
{
    const json_t *recent = json_at(job, "recent");
    double waits = json_number_at(recent, "waiting");
    bool first = true;
    char text[24];

    buf_addf(out, "waited %s of the time: ", percent(waits, text));
    for (enum stall_reason r = 0; r < STALL_REASONS; r++) {
        double share = json_number_value(json_object_get(recent, stall_name(r)));

        if (share <= 0)
            continue;
        buf_addf(out, "%s%s %s", first ? "" : ", ", stall_name(r), percent(share, text));
        first = false;
    }
    buf_addf(out, "%strained or computed %s.\n", first ? "" : "; ", percent(1 - waits, text));
}

bool explain_render(const json_t *figures, const char *job, struct buf *out)
{
    const json_t *j = json_find(json_object_get(figures, "jobs"), "job", job);
    double s = json_number_at(j, "recent.seconds");
    const char *advice = json_text_at(j, "advice");
    char text[24];

    if (j == NULL)
        return false;
    buf_adds(out, "Job ");
    str_printable(name_of(j), strlen(name_of(j)), out);
    buf_adds(out, " reads ");
    str_printable(json_text_at(j, "dataset"), strlen(json_text_at(j, "dataset")), out);
    buf_addf(out, " with %llu reader%s.\n", (unsigned long long)json_u64_at(j, "readers.sessions"),
             json_u64_at(j, "readers.sessions") == 1 ? "" : "s");
    if (s <= 0) {
        buf_adds(out, "It has no reader now, so nobody waits.\n");
        return true;
    }
    buf_addf(out, "In the last %.0f s of its readers' time, at %s/s, it ", s,
             str_size((uint64_t)read_rate(j), text));
    explain_waits(j, out);
    if (advice[0] != '\0') {
        buf_adds(out, "It ");
        add_line(out, advice);
    } else {
        buf_adds(out, "It does not wait for data: dlcache has nothing to advise.\n");
    }
    return true;
}
