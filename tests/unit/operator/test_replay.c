// SPDX-License-Identifier: Apache-2.0
/*
 * (RECONCILE-1) Whole lives of DLTPods and CachedDatasets, and the same again with the operator
 * killed after each single action: where a life comes to rest, and at its end, the two worlds are
 * the same. (RECONCILE-4) is counted on the way.
 */
#include "world.h"

#include "base/mem.h"

#define ONE(more)                                                                                  \
    "{\"secretRef\": {\"name\": \"keys\"}, \"epochs\": 3, \"retention\": \"1h\", \"jobs\": [{"     \
    "\"name\": \"train\", \"image\": \"torch\", \"dataSource\": {\"name\": \"birds\", "            \
    "\"bucket\": \"s3://b/birds/\"}" more "}]}"

#define STOPS 8

/* Where a life came to rest: what the worlds were. */
struct rests {
    char *sum[STOPS];
    size_t n;
};

static void rest(struct world *w, struct rests *r)
{
    world_settle(w);
    assert_true(r->n < STOPS);
    r->sum[r->n++] = world_sum(w);
}

static void live_plain(struct world *w, struct rests *r)
{
    world_secret(w, "keys");
    world_dltpod(w, "x", ONE(""));
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Running");
    world_end_pods(w, "Succeeded");
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Succeeded");
    assert_int_equal(json_object_size(w->jobs), 0);
    world_delete(w, "DLTPod", "x");
    rest(w, r);
    assert_int_equal(world_count(w, "DLTPod") + world_count(w, "Pod"), 0);
    assert_int_equal(world_count(w, "CachedDataset"), 1);
    assert_int_equal(json_object_size(w->datasets), 1);
    w->now += 3600; /* its retention is over */
    rest(w, r);
    assert_int_equal(world_count(w, "CachedDataset"), 0);
    assert_int_equal(json_object_size(w->datasets), 0);
}

static void live_ranks(struct world *w, struct rests *r)
{
    world_dltpod(w, "x",
                 "{\"replicas\": 3, \"warmUp\": \"complete\", \"retention\": \"0s\", \"jobs\": [{"
                 "\"name\": \"train\", \"image\": \"torch\", \"gpus\": 2, \"dataSource\": {"
                 "\"bucket\": \"bare\", \"keys\": {\"train\": {\"samples\": \"a/train/\"}}}}]}");
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Running");
    assert_int_equal(world_count(w, "Pod"), 3);
    assert_int_equal(world_count(w, "Service"), 1);
    world_delete(w, "DLTPod", "x");
    rest(w, r);
    assert_int_equal(json_object_size(w->datasets) + json_object_size(w->jobs), 0);
    assert_int_equal(world_count(w, "Pod") + world_count(w, "CachedDataset"), 0);
}

static void live_port(struct world *w, struct rests *r)
{
#define PORT(n)                                                                                    \
    "{\"replicas\": 2, \"masterPort\": " #n ", \"jobs\": [{\"name\": \"train\", \"image\": "       \
    "\"torch\", \"dataSource\": {\"bucket\": \"s3://b/\"}}]}"
    const json_t *port;

    world_dltpod(w, "x", PORT(1000));
    rest(w, r);
    world_spec(w, "DLTPod", "x", PORT(2000));
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Running");
    port = json_object_get(json_object_get(world_get(w, "Service", "x-train"), "spec"), "ports");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(port, 0), "port")), 2000);
#undef PORT
}

static void live_unprepared(struct world *w, struct rests *r)
{
    w->deaf = true;
    world_dltpod(w, "x", ONE(""));
    rest(w, r); /* the Secret is missing */
    assert_string_equal(world_condition(w, "DLTPod", "x", "DatasetReady"), "False:SecretMissing");
    world_secret(w, "keys");
    rest(w, r);
    assert_string_equal(world_condition(w, "DLTPod", "x", "DatasetReady"), "False:Listing");
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Preparing");
    world_delete(w, "DLTPod", "x");
    rest(w, r);
    assert_int_equal(json_object_size(w->jobs) + world_count(w, "DLTPod"), 0);
}

/* Deleted at every moment: before anything was written down, too. */
static void live_short(struct world *w, struct rests *r)
{
    bool did = false;

    world_secret(w, "keys");
    world_dltpod(w, "x", ONE(""));
    w->left = w->left < 0 ? 5 : w->left;
    world_round(w, "DLTPod", "x", &did);
    w->left = -1;
    world_delete(w, "DLTPod", "x");
    world_settle(w);
    assert_int_equal(json_object_size(w->jobs) + world_count(w, "DLTPod"), 0);
    (void)r;
}

static void live_changed(struct world *w, struct rests *r)
{
    char id[64];

    world_secret(w, "keys");
    world_dltpod(w, "x", ONE(""));
    rest(w, r);
    snprintf(id, sizeof(id), "%s", world_text(w, "DLTPod", "x", "status.jobs.0.id"));
    world_spec(w, "DLTPod", "x", ONE(", \"command\": [\"other\"]"));
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.jobs.0.id"), id); /* kept */
    assert_string_equal(world_text(w, "Pod", "x-train-0", "spec.containers.0.command.0"), "other");
    world_spec(w, "DLTPod", "x", ONE(", \"qos\": {\"priority\": 7}"));
    rest(w, r);
    assert_string_not_equal(world_text(w, "DLTPod", "x", "status.jobs.0.id"), id);
    assert_int_equal(json_object_size(w->jobs), 1);
    world_end_pods(w, "Failed");
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Failed");
    assert_int_equal(json_object_size(w->jobs), 0);
    world_spec(w, "DLTPod", "x", ONE(", \"args\": [\"--mended\"]")); /* runs once more */
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Running");
    assert_int_equal(json_object_size(w->jobs), 1);
}

static void live_forgotten(struct world *w, struct rests *r)
{
    json_t *pod;

    world_secret(w, "keys");
    world_dltpod(w, "x", ONE(""));
    rest(w, r);
    pod = json_deep_copy(world_get(w, "Pod", "x-train-0"));
    json_object_clear(w->jobs); /* the manager has lost it */
    rest(w, r);
    assert_int_equal(json_object_size(w->jobs), 1);
    assert_true(json_equal(pod, world_get(w, "Pod", "x-train-0"))); /* who runs runs on */
    json_decref(pod);
    json_object_clear(w->jobs);
    world_delete(w, "DLTPod", "x");
    rest(w, r);
    assert_int_equal(json_object_size(w->jobs), 0);
}

static void lose_records(struct world *w)
{
    json_object_clear(w->tenants);
    json_object_clear(w->datasets);
    json_object_clear(w->jobs);
    json_object_clear(w->keys);
}

/* Tenant, credentials, data and job come again; the pod does not. */
static void live_lost_records(struct world *w, struct rests *r)
{
    json_t *pod;
    char key[64];

    world_secret(w, "keys");
    world_dltpod(w, "x", ONE(""));
    world_dataset(w, "y", "{\"bucket\": \"s3://y/\", \"secretRef\": {\"name\": \"keys\"}}");
    rest(w, r);
    pod = json_deep_copy(world_get(w, "Pod", "x-train-0"));
    snprintf(key, sizeof(key), "%s", json_string_value(json_object_get(w->tenants, WORLD_NS)));
    lose_records(w);
    rest(w, r);
    assert_string_equal(json_string_value(json_object_get(w->tenants, WORLD_NS)), key);
    assert_int_equal(json_object_size(w->datasets), 2);
    assert_int_equal(json_object_size(w->jobs), 1);
    assert_true(json_equal(pod, world_get(w, "Pod", "x-train-0")));
    json_decref(pod);
    lose_records(w); /* and the Secret has changed meanwhile */
    json_object_set_new(json_object_get(world_get(w, "Secret", "keys"), "metadata"),
                        "resourceVersion", json_string("77"));
    rest(w, r);
    assert_string_equal(json_string_value(json_object_get(w->tenants, WORLD_NS)), "keys/77");
    assert_int_equal(json_object_size(w->jobs), 1);
}

static void live_shared(struct world *w, struct rests *r)
{
    static const char by_ref[] = "{\"jobs\": [{\"name\": \"train\", \"image\": \"torch\", "
                                 "\"dataSource\": {\"datasetRef\": {\"name\": \"birds\"}}}]}";

    world_dltpod(w, "x", by_ref);
    rest(w, r);
    assert_string_equal(world_condition(w, "DLTPod", "x", "DatasetReady"), "False:DatasetMissing");
    world_dataset(w, "birds",
                  "{\"bucket\": \"s3://b/birds/\", \"warm\": true, \"retention\": \"1m\"}");
    world_dltpod(w, "y", by_ref);
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.phase"), "Running");
    assert_string_equal(world_text(w, "DLTPod", "y", "status.phase"), "Running");
    assert_string_equal(world_condition(w, "CachedDataset", "birds", "Warmed"), "True:Warmed");
    world_delete(w, "DLTPod", "x");
    world_delete(w, "CachedDataset", "birds"); /* waits for y */
    rest(w, r);
    assert_int_equal(world_count(w, "CachedDataset"), 1);
    assert_int_equal(json_object_size(w->datasets), 1);
    world_delete(w, "DLTPod", "y");
    rest(w, r);
    assert_int_equal(world_count(w, "CachedDataset") + json_object_size(w->datasets), 0);
}

static void live_moved(struct world *w, struct rests *r)
{
    json_t *ready;

    world_secret(w, "keys");
    world_dltpod(w, "x", ONE(""));
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.jobs.0.nodes.0"), "n1");
    ready = json_array_get(
        json_object_get(json_object_get(world_get(w, "Node", "n1"), "status"), "conditions"), 0);
    json_object_set_new(ready, "status", json_string("Unknown"));
    w->now += RECON_NODE_LOST_S;
    rest(w, r);
    assert_string_equal(world_text(w, "DLTPod", "x", "status.jobs.0.nodes.0"), "n2");
    assert_int_equal(json_object_size(w->jobs), 1);
}

static void live_two(struct world *w, struct rests *r)
{
    static const char one[] = "{\"retention\": \"forever\", \"jobs\": [{\"name\": \"a\", "
                              "\"image\": \"i\", \"dataSource\": {\"bucket\": \"s3://a/\"}}]}";

    world_dltpod(w, "x",
                 "{\"retention\": \"forever\", \"jobs\": [{\"name\": \"a\", \"image\": \"i\", "
                 "\"dataSource\": {\"bucket\": \"s3://a/\"}}, {\"name\": \"b\", \"image\": \"i\", "
                 "\"dataSource\": {\"bucket\": \"s3://b/\"}}]}");
    rest(w, r);
    assert_int_equal(world_count(w, "Pod"), 2);
    world_spec(w, "DLTPod", "x", one);
    rest(w, r);
    assert_int_equal(world_count(w, "Pod"), 1);
    assert_int_equal(json_object_size(w->jobs), 1);
    assert_int_equal(json_object_size(w->datasets), 1);
}

static const struct life {
    const char *what;
    void (*live)(struct world *w, struct rests *r);
} lives[] = {
    {"runs, ends, is deleted, is forgotten", live_plain},
    {"three ranks, warmed, deleted while running", live_ranks},
    {"two ranks that meet at another port", live_port},
    {"a Secret that comes later, deleted while prepared", live_unprepared},
    {"deleted before anything was written down", live_short},
    {"image, then what it asks for changes; fails; is mended", live_changed},
    {"the manager loses its job", live_forgotten},
    {"the manager loses its records", live_lost_records},
    {"a CachedDataset for two, deleted while it is read", live_shared},
    {"a node is lost", live_moved},
    {"two jobs, one is taken away", live_two},
};

static void rests_release(struct rests *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->sum[i]);
}

static void test_killed_everywhere(void **state)
{
    (void)state;
    for (size_t l = 0; l < unit_count(lives); l++) {
        struct rests good = {.n = 0};
        struct world w;
        int n;

        world_init(&w);
        lives[l].live(&w, &good);
        n = w.actions;
        world_release(&w);
        for (int at = 0; at < n + 8; at++) {
            struct rests now = {.n = 0};

            world_init(&w);
            w.left = at;
            lives[l].live(&w, &now);
            assert_int_equal(now.n, good.n);
            for (size_t i = 0; i < good.n; i++)
                if (strcmp(now.sum[i], good.sum[i]) != 0)
                    fail_msg("%s: killed after action %d, at rest %zu it is\n%s\ninstead of\n%s",
                             lives[l].what, at, i, now.sum[i], good.sum[i]);
            rests_release(&now);
            world_release(&w);
        }
        rests_release(&good);
    }
}

/* The manager goes after every single action, and comes back. */
static void test_manager_goes(void **state)
{
    struct rests good = {.n = 0};
    struct world w;
    char *sum, *want;
    bool did = false;
    int n;

    (void)state;
    world_init(&w);
    live_plain(&w, &good);
    rests_release(&good);
    n = w.actions;
    world_release(&w);
    world_init(&w);
    world_secret(&w, "keys");
    world_dltpod(&w, "x", ONE(""));
    world_settle(&w);
    want = world_sum(&w);
    world_release(&w);
    for (int at = 0; at < n; at++) {
        world_init(&w);
        world_secret(&w, "keys");
        world_dltpod(&w, "x", ONE(""));
        w.left = at;
        while (w.left >= 0 && w.now < 1000100) {
            world_round(&w, "DLTPod", "x", &did);
            world_nature(&w);
            w.now++;
        }
        w.left = -1;
        w.away = true;
        world_settle(&w);
        w.away = false;
        world_settle(&w);
        sum = world_sum(&w);
        assert_string_equal(sum, want);
        free(sum);
        world_release(&w);
    }
    free(want);
}

/* (RECONCILE-4) Writes to the API server, of which the tenant's are the namespace's. */
static void test_calls(void **state)
{
    struct rests r = {.n = 0};
    struct world w;
    int first, second, alone;

    (void)state;
    world_init(&w);
    world_secret(&w, "keys");
    world_dltpod(&w, "before", ONE(""));
    world_settle(&w);
    first = w.calls;
    world_dltpod(&w, "x", ONE(""));
    rest(&w, &r);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Running");
    alone = w.calls - first;
    printf("to running: %d writes, %d with its namespace's\n", alone, first);
    world_delete(&w, "DLTPod", "before"); /* x alone names the data now */
    world_settle(&w);
    second = w.calls;
    world_delete(&w, "DLTPod", "x");
    rest(&w, &r);
    printf("deleted: %d more\n", w.calls - second);
    assert_true(alone + w.calls - second <= 12);
    rests_release(&r);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_everywhere),
        cmocka_unit_test(test_manager_goes),
        cmocka_unit_test(test_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
