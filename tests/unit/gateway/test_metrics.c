// SPDX-License-Identifier: Apache-2.0
/* A snapshot as metrics and as JSON: (GATEWAY-1) to (GATEWAY-3). */
#include "gateway/metrics.h"

#include "base/counters.h"
#include "base/mem.h"
#include "daemon/figures.h"
#include "gateway/figures_json.h"
#include "unit.h"

static char evil[] = "a\"b\\c\n<img src=x>\xe2\x80\xae"
                     "\xff";
static char url[] = "s3://bucket/evil/", tenant_a[] = "a", tenant_b[] = "b", empty[] = "";
static uint64_t values[128];

/* Two datasets and two jobs, of two tenants. */
static struct node_figures two(void)
{
    static struct dataset_figures datasets[2];
    static struct job_figures jobs[2];
    static struct tenant_figures tenants[2];
    static char b[] = "of-b";
    struct node_figures f = {.name = empty,
                             .counters = values,
                             .memory_policy = "auto",
                             .disk_policy = "lru",
                             .datasets = datasets,
                             .n_datasets = 2,
                             .jobs = jobs,
                             .n_jobs = 2,
                             .tenants = tenants,
                             .n_tenants = 2};

    assert_true(counter_table_len <= DLC_COUNT(values));
    for (unsigned i = 0; i < counter_table_len; i++)
        values[i] = 1000000000ull * (i + 1);
    for (unsigned i = 0; i < N_WORK; i++)
        f.work[i].name = "demand";
    datasets[0] = (struct dataset_figures){
        .label = evil, .url = url, .tenant = tenant_a, .snapshot = "0123456789abcdef"};
    datasets[1] = (struct dataset_figures){.label = b, .url = url, .tenant = tenant_b};
    datasets[0].counts.usage.n[USAGE_stall_memory_ns] = 2500000000;
    datasets[0].counts.usage.n[USAGE_memory_hits] = 7;
    datasets[0].counts.outcomes[BUCKET_THROTTLED] = 3;
    f.other.usage.n[USAGE_memory_hits] = 11;
    jobs[0] = (struct job_figures){.job = evil, .tenant = tenant_a, .dataset = evil};
    jobs[1] = (struct job_figures){.job = b, .tenant = tenant_b, .dataset = b};
    jobs[1].has_order = true;
    jobs[1].at = 17;
    tenants[0].tenant = tenant_a;
    tenants[1].tenant = tenant_b;
    return f;
}

#define EVIL "a\\\"b\\\\c\\n<img src=x>\xe2\x80\xae\xef\xbf\xbd"

static void assert_has(const struct buf *b, const char *text)
{
    if (strstr(b->data, text) == NULL)
        print_error("%s is missing\n", text);
    assert_non_null(strstr(b->data, text));
}

static void test_all(void **state)
{
    struct node_figures f = two();
    struct buf b = BUF_INIT;

    (void)state;
    gateway_metrics(&f, NULL, true, &b);
    assert_has(&b, "\ndlcache_dataset_hits_total{dataset=\"" EVIL "\",tenant=\"a\",snapshot="
                   "\"0123456789abcdef\",tier=\"memory\"} 7\n");
    assert_has(&b, "\ndlcache_dataset_hits_total{dataset=\"other\",tenant=\"\",snapshot=\"\","
                   "tier=\"memory\"} 11\n");
    assert_has(&b, ",reason=\"memory\"} 2.5\n");
    assert_has(&b, ",bucket=\"s3://bucket\",status=\"throttled\"} 3\n");
    assert_has(&b, "\ndlcache_job_epoch_position{job=\"of-b\",tenant=\"b\"} 17\n");
    assert_has(&b, "\ndlcache_evictions_total{tier=\"disk\",policy=\"lru\"} ");
    buf_release(&b);
}

/* (GATEWAY-2) */
static void test_every_counter_of_the_table(void **state)
{
    struct node_figures f = two();
    struct buf b = BUF_INIT;
    char help[256];

    (void)state;
    gateway_metrics(&f, NULL, false, &b);
    for (unsigned i = 0; i < counter_table_len; i++) {
        snprintf(help, sizeof(help), " %s\n", counter_table[i].help);
        assert_has(&b, help);
    }
    assert_has(&b, "\ndlcache_stall_latency_seconds_total ");
    assert_has(&b, "\ndlcache_money_dollars_total ");
    assert_null(strstr(b.data, "_ns_total"));
    buf_release(&b);
}

/* (GATEWAY-3) */
static void test_a_tenant_sees_its_own(void **state)
{
    struct node_figures f = two();
    struct buf b = BUF_INIT;
    json_t *doc;
    char *text;

    (void)state;
    gateway_metrics(&f, "b", true, &b);
    assert_has(&b, "\ndlcache_dataset_sessions{dataset=\"of-b\"");
    assert_null(strstr(b.data, "tenant=\"a\""));
    assert_null(strstr(b.data, "other"));
    assert_null(strstr(b.data, "dlcache_bucket_requests_total"));
    assert_null(strstr(b.data, "dlcache_memory_used_bytes"));
    buf_release(&b);

    doc = gateway_figures_json(&f, "b");
    text = json_dumps(doc, JSON_COMPACT);
    assert_null(strstr(text, "img"));
    assert_null(json_object_get(doc, "counters"));
    assert_int_equal(json_array_size(json_object_get(doc, "datasets")), 1);
    assert_int_equal(json_array_size(json_object_get(doc, "jobs")), 1);
    free(text);
    json_decref(doc);
    doc = gateway_figures_json(&f, NULL);
    assert_int_equal(json_array_size(json_object_get(doc, "datasets")), 2);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_every_counter_of_the_table),
        cmocka_unit_test(test_a_tenant_sees_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
