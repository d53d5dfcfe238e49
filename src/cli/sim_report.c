// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_report.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/table.h"

#define MATRIX_COLUMNS 12 /* capacities beside each other */

static double hit_share(const struct sim_result *r)
{
    return r->reads > 0 ? (double)r->hits / (double)r->reads : 0;
}

static double measure(const struct sim_report *r, const struct sim_result *x, double rows)
{
    if (strcmp(r->measure, "hits") == 0)
        return hit_share(x);
    if (strcmp(r->measure, "bytes") == 0)
        return (double)x->miss_bytes / rows / 1e9;
    if (strcmp(r->measure, "money") == 0)
        return x->money / rows;
    return x->seconds / rows;
}

static const char *measure_name(const struct sim_report *r)
{
    if (strcmp(r->measure, "hits") == 0)
        return "share of reads that hit";
    if (strcmp(r->measure, "bytes") == 0)
        return "GB transferred";
    if (strcmp(r->measure, "money") == 0)
        return "money for requests and transfer";
    return "seconds spent on misses";
}

/* "160 GB" or "40 %", as it was asked for. */
static const char *capacity_name(const struct sim_report *r, unsigned i, char out[static 24])
{
    if (r->shares != NULL)
        snprintf(out, 24, "%.4g %%", r->shares[i]);
    else if (r->study->capacities[i] % 1000000000 == 0)
        snprintf(out, 24, "%llu GB", (unsigned long long)(r->study->capacities[i] / 1000000000));
    else
        str_size(r->study->capacities[i], out);
    return out;
}

/* Policies down, capacities across. */
static void print_matrix(const struct sim_report *r)
{
    const struct study *s = r->study;
    struct buf head = BUF_INIT;
    struct table t;
    char name[24];

    buf_adds(&head, measure_name(r));
    for (unsigned c = 0; c < s->n_capacities; c++)
        buf_addf(&head, "|>%s", capacity_name(r, c, name));
    buf_adds(&head, "|>mean");
    table_init(&t, buf_str(&head));
    for (unsigned i = 0; i < s->n_contenders; i++) {
        double sum = 0;

        table_add(&t, s->contenders[i]->name);
        for (unsigned c = 0; c < s->n_capacities; c++) {
            double v = measure(r, &s->results[c][i], (double)s->rows);

            table_addf(&t, v < 10 ? "%.3f" : "%.2f", v);
            sum += v / s->n_capacities;
        }
        table_addf(&t, sum < 10 ? "%.3f" : "%.2f", sum);
    }
    table_print(&t, stdout);
    table_release(&t);
    buf_release(&head);
    putchar('\n');
}

/* Everything that was counted, as means of one row at one capacity. */
static void print_totals(const struct sim_report *r)
{
    const struct study *s = r->study;
    double rows = (double)s->rows * s->n_capacities;
    struct table t;
    char n[32], size[24];

    table_init(&t,
               "policy|>hits|>hit share|>misses|>not kept|>evicted|>seconds|>transferred|>money");
    for (unsigned i = 0; i < s->n_contenders; i++) {
        struct sim_result x = study_total(s, i);

        table_add(&t, s->contenders[i]->name);
        table_add(&t, table_count((uint64_t)((double)x.hits / rows + 0.5), n));
        table_addf(&t, "%.1f %%", 100 * hit_share(&x));
        table_add(&t, table_count((uint64_t)((double)(x.reads - x.hits) / rows + 0.5), n));
        table_add(&t, table_count((uint64_t)((double)x.refused / rows + 0.5), n));
        table_add(&t, table_count((uint64_t)((double)x.evictions / rows + 0.5), n));
        table_addf(&t, "%.2f", x.seconds / rows);
        table_add(&t, str_size((uint64_t)((double)x.miss_bytes / rows), size));
        table_addf(&t, "%.2f", x.money / rows);
    }
    table_print(&t, stdout);
    table_release(&t);
}

void sim_report_tables(const struct sim_report *r)
{
    char size[24];

    printf("%s: %s\n", r->title, r->subtitle);
    printf("%s in all", str_size(r->bytes, size));
    if (r->coverage > 0)
        printf("; each job sees %.1f %% of the samples per epoch", 100 * r->coverage);
    printf("\n\n");
    if (r->study->n_capacities > 1 && r->study->n_capacities <= MATRIX_COLUMNS)
        print_matrix(r);
    print_totals(r);
}

/* ---- JSON ---- */

static json_t *json_contender(const struct sim_report *r, unsigned i)
{
    const struct study *s = r->study;
    struct sim_result x = study_total(s, i);
    double rows = (double)s->rows, all = rows * s->n_capacities;
    json_t *seconds = json_array(), *hits = json_array(), *measured = json_array();

    for (unsigned c = 0; c < s->n_capacities; c++) {
        json_array_append_new(seconds, json_real(s->results[c][i].seconds / rows));
        json_array_append_new(hits, json_real(hit_share(&s->results[c][i])));
        json_array_append_new(measured, json_real(measure(r, &s->results[c][i], rows)));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "seconds",
                     x.seconds / all, "hit_share", hit_share(&x), "misses",
                     (double)(x.reads - x.hits) / all, "not_kept", (double)x.refused / all,
                     "evictions", (double)x.evictions / all, "bytes", (double)x.miss_bytes / all,
                     "money", x.money / all, "seconds_by_capacity", seconds,
                     "hit_share_by_capacity", hits, "measure_by_capacity", measured);
}

json_t *sim_report_json(const struct sim_report *r)
{
    const struct study *s = r->study;
    json_t *capacities = json_array(), *all = json_object(), *out;

    for (unsigned c = 0; c < s->n_capacities; c++)
        json_array_append_new(capacities, json_integer((json_int_t)s->capacities[c]));
    for (unsigned i = 0; i < s->n_contenders; i++)
        json_object_set_new(all, s->contenders[i]->name, json_contender(r, i));
    out = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "workload", r->workload, "title",
                    r->title, "subtitle", r->subtitle, "measure", measure_name(r), "bytes",
                    (json_int_t)r->bytes, "rows", (json_int_t)(s->rows * s->n_capacities),
                    "capacities", capacities, "policies", all);
    if (r->coverage > 0)
        json_object_set_new(out, "coverage", json_real(r->coverage));
    return out;
}
