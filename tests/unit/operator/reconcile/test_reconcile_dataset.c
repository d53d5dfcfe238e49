// SPDX-License-Identifier: Apache-2.0
/* A CachedDataset: one look, one decision. */
#include "operator/world.h"

#include "base/mem.h"

#define SPEC(more) "{\"bucket\": \"s3://b/\"" more "}"

static void make(struct world *w, const char *spec)
{
    world_dataset(w, "x", spec);
}

static void fresh(struct world *w)
{
    make(w, SPEC(""));
}

static void invalid(struct world *w)
{
    make(w, "{}");
}

static void begun(struct world *w)
{
    fresh(w);
    w->left = 1; /* finalizer, tenant */
    world_round(w, "CachedDataset", "x", &(bool){false});
    w->left = -1;
}

static void listing(struct world *w)
{
    fresh(w);
    world_round(w, "CachedDataset", "x", &(bool){false});
}

static void listed(struct world *w)
{
    listing(w);
    world_nature(w);
}

static void ready(struct world *w)
{
    fresh(w);
    world_settle(w);
}

static void other_data(struct world *w)
{
    begun(w);
    json_object_set_new(
        w->datasets, "team.x",
        json_pack("{s:s, s:s, s:s}", "url", "s3://other/", "tenant", "team", "state", "ready"));
}

#define KEYS ", \"secretRef\": {\"name\": \"keys\"}"

static void secret_missing(struct world *w)
{
    make(w, SPEC(KEYS));
    world_round(w, "CachedDataset", "x", &(bool){false});
}

static void secret_late(struct world *w)
{
    secret_missing(w);
    world_secret(w, "keys");
}

static void secret_incomplete(struct world *w)
{
    json_object_del(json_object_get(world_secret(w, "keys"), "data"), "secret_key");
    secret_missing(w);
}

static void foreign_tenant_secret(struct world *w)
{
    world_secret(w, TENANT_SECRET);
    listing(w);
}

static void credentials_conflict(struct world *w)
{
    world_secret(w, "keys");
    world_secret(w, "others");
    world_dataset(w, "y", SPEC(", \"secretRef\": {\"name\": \"others\"}"));
    world_settle(w);
    secret_missing(w);
}

static void other_data_still(struct world *w)
{
    other_data(w);
    world_round(w, "CachedDataset", "x", &(bool){false});
}

static void bucket_missing(struct world *w)
{
    w->bad_url = "s3://b/";
    listed(w);
}

static void bucket_missing_still(struct world *w)
{
    bucket_missing(w);
    world_round(w, "CachedDataset", "x", &(bool){false});
}

static void bucket_missing_long(struct world *w)
{
    bucket_missing_still(w);
    w->now += 60;
}

static void warms(struct world *w)
{
    make(w, SPEC(", \"warm\": true, \"tier\": \"disk\""));
    world_round(w, "CachedDataset", "x", &(bool){false});
    world_nature(w);
}

static void warms_splits(struct world *w)
{
    make(w, SPEC(", \"warm\": true, \"splits\": [\"train\", \"test\"]"));
    world_round(w, "CachedDataset", "x", &(bool){false});
    world_nature(w);
}

static void set_cached(struct world *w, int bytes, bool busy)
{
    json_t *d = json_object_get(w->datasets, "team.x");

    json_object_set_new(
        d, "cached",
        json_pack("{s:i, s:[{s:s, s:i}]}", "bytes", bytes, "nodes", "node", "n1", "bytes", bytes));
    json_object_set_new(d, "preparation",
                        busy ? json_pack("[{s:s, s:s, s:i, s:i}]", "node", "n1", "phase", "warming",
                                         "done", bytes / 100, "total", 10)
                             : json_array());
}

static void half_warm(struct world *w)
{
    warms(w);
    world_round(w, "CachedDataset", "x", &(bool){false});
    set_cached(w, 500, true);
    w->now += RECON_WARM_S;
}

static void too_large(struct world *w) /* nobody warms any more, and half of it is there */
{
    half_warm(w);
    set_cached(w, 500, false);
}

static void warm(struct world *w)
{
    warms(w);
    world_settle(w);
}

static void listed_anew(struct world *w)
{
    warm(w);
    json_object_set_new(json_object_get(json_object_get(w->datasets, "team.x"), "snapshot"), "id",
                        json_string("s2"));
}

static void retained(struct world *w, const char *spec)
{
    make(w, spec);
    world_settle(w);
    w->now += 100;
}

static void unused(struct world *w)
{
    retained(w, SPEC(", \"retention\": \"100s\""));
}

static void unused_and_evicted(struct world *w)
{
    unused(w);
    world_settle(w);
}

/* Its time is over, and it never was ours. */
static void unused_other_data(struct world *w)
{
    make(w, SPEC(", \"retention\": \"100s\""));
    w->left = 1;
    world_round(w, "CachedDataset", "x", &(bool){false});
    w->left = -1;
    json_object_set_new(
        w->datasets, "team.x",
        json_pack("{s:s, s:s, s:s}", "url", "s3://other/", "tenant", "team", "state", "ready"));
    world_settle(w);
    w->now += 100;
}

static void used(struct world *w)
{
    unused(w);
    world_dltpod(w, "user",
                 "{\"jobs\": [{\"name\": \"a\", \"image\": \"i\", \"dataSource\": "
                 "{\"datasetRef\": {\"name\": \"x\"}}}]}");
}

static void left_behind(struct world *w)
{
    json_t *o = world_dataset(w, "x", SPEC(", \"retention\": \"100s\""));

    json_object_set_new(json_object_get(o, "metadata"), "annotations",
                        json_pack("{s:s}", ANNOTATION_RETAINED, "true"));
    world_settle(w);
    w->now += 100;
}

static void left_behind_other_data(struct world *w)
{
    json_t *o;

    unused_other_data(w);
    o = json_object_get(world_get(w, "CachedDataset", "x"), "metadata");
    json_object_set_new(o, "annotations", json_pack("{s:s}", ANNOTATION_RETAINED, "true"));
}

static void away(struct world *w)
{
    ready(w);
    w->away = true;
}

static void deleted(struct world *w)
{
    ready(w);
    world_delete(w, "CachedDataset", "x");
}

static void deleted_other_data(struct world *w)
{
    other_data(w);
    world_settle(w);
    world_delete(w, "CachedDataset", "x");
}

static void deleted_away(struct world *w)
{
    deleted(w);
    w->away = true;
}

static void deleted_used(struct world *w)
{
    used(w);
    world_delete(w, "CachedDataset", "x");
}

static const struct row {
    const char *what;
    void (*world)(struct world *);
    const char *want;
    const char *message; /* in status.message; NULL: not looked at */
} rows[] = {
    {"the schema is newer", invalid, "STATUS Pending; EVENT InvalidSpec!", "spec.bucket"},
    {"the finalizer comes first", fresh, "ADD_FINALIZER; again", NULL},
    {"then the data", begun, "MAKE_DATASET; again", NULL},
    {"nothing new while it is listed", listing, "", NULL},
    {"listed", listed, "STATUS Ready", NULL},
    {"nothing new when it is ready", ready, "", NULL},
    {"other data has that name", other_data, "STATUS Failed; EVENT DatasetConflict!",
     "other data under the name team.x"},
    {"is not looked at as ours", other_data_still, "", NULL},
    {"a Secret is missing", secret_missing, "", NULL},
    {"it comes late", secret_late, "CREDENTIALS; again", NULL},
    {"a Secret has but one key", secret_incomplete, "", NULL},
    {"the tenant's Secret is somebody's", foreign_tenant_secret, "", NULL},
    {"others read with another Secret", credentials_conflict, "", NULL},
    {"a bucket that does not exist", bucket_missing, "LIST; STATUS Failed; EVENT DatasetFailed!",
     "the bucket does not exist"},
    {"is not asked for at once again", bucket_missing_still, "", NULL},
    {"but after a while", bucket_missing_long, "LIST; STATUS Failed", NULL},
    {"to be warmed", warms, "WARM; STATUS Warming", NULL},
    {"to be warmed by splits", warms_splits, "WARM; WARM; STATUS Warming", NULL},
    {"half of it is there", half_warm, "STATUS Warming", NULL},
    {"half of it is all that fits", too_large, "STATUS Ready; EVENT Warmed", NULL},
    {"nothing new when it is warm", warm, "", NULL},
    {"listed anew, warmed anew", listed_anew, "WARM; STATUS Ready", NULL},
    {"unused for its retention", unused, "EVICT; STATUS Ready", NULL},
    {"nobody else's is evicted", unused_other_data, "", NULL},
    {"evicted once", unused_and_evicted, "", NULL},
    {"used", used, "STATUS Ready", NULL},
    {"left behind, its time is over", left_behind, "DELETE CachedDataset x", NULL},
    {"likewise with nothing of its own", left_behind_other_data, "DELETE CachedDataset x", NULL},
    {"the manager goes", away, "STATUS Ready", "connection refused"},
    {"deleted", deleted, "END_DATASET; again", NULL},
    {"deleted, other data has that name", deleted_other_data, "DROP_FINALIZER", NULL},
    {"deleted, the manager is away", deleted_away, "STATUS Ready", "waits for the manager"},
    {"deleted while it is read", deleted_used, "STATUS Ready", "waits for DLTPod user"},
};

/* Where nothing more is to come but by a watch. All others are looked at again. */
static void (*const at_rest[])(struct world *) = {invalid, deleted_other_data};

static bool rests(const struct row *row)
{
    for (size_t i = 0; i < unit_count(at_rest); i++)
        if (row->world == at_rest[i])
            return true;
    return false;
}

static const char *message_of(const struct actions *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].kind == ACT_STATUS) {
            const char *s = json_string_value(json_object_get(a->v[i].body, "message"));

            return s != NULL ? s : "";
        }
    return "";
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < unit_count(rows); i++) {
        struct actions a = ACTIONS_INIT;
        struct observed o;
        struct world w;
        char *said;

        world_init(&w);
        rows[i].world(&w);
        world_observe(&w, "CachedDataset", "x", &o);
        reconcile(&o, &a);
        world_unobserve(&o);
        said = world_say(&a);
        if (strcmp(said, rows[i].want) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\"", rows[i].what, said, rows[i].want);
        if (rows[i].message != NULL && strstr(message_of(&a), rows[i].message) == NULL)
            fail_msg("%s: \"%s\"", rows[i].what, message_of(&a));
        if ((!a.again && a.after.ns < 0) != rests(&rows[i]))
            fail_msg("%s: after %lld ns", rows[i].what, (long long)a.after.ns);
        mem_free(&said);
        actions_release(&a);
        world_release(&w);
    }
}

/* What its figures say of half a dataset. */
static void test_progress(void **state)
{
    json_t *p;
    struct world w;

    (void)state;
    world_init(&w);
    half_warm(&w);
    json_object_set_new(json_object_get(w.datasets, "team.x"), "spent",
                        json_pack("{s:f}", "money", 1.23));
    world_round(&w, "CachedDataset", "x", &(bool){false});
    p = json_object_get(world_get(&w, "CachedDataset", "x"), "status");
    assert_true(json_number_value(json_object_get(p, "cost")) == 1.23);
    p = json_object_get(p, "progress");
    assert_int_equal(json_integer_value(json_object_get(p, "percent")), 50);
    assert_int_equal(json_integer_value(json_object_get(p, "samples")), 5);
    assert_int_equal(json_integer_value(json_object_get(p, "total")), 10);
    assert_string_equal(world_text(&w, "CachedDataset", "x", "status.nodes.0.name"), "n1");
    world_release(&w);
}

/* Figures are no older than a minute or so, whatever it waits for. */
static void test_looks(void **state)
{
    static const struct {
        void (*world)(struct world *);
        int64_t most; /* seconds */
    } looks[] = {{listing, 2},
                 {ready, RECON_FIGURES_S},
                 {warm, RECON_FIGURES_S},
                 {used, RECON_FIGURES_S},
                 {secret_missing, 15},
                 {secret_incomplete, 15},
                 {foreign_tenant_secret, 15},
                 {credentials_conflict, 15},
                 {other_data_still, 15},
                 {away, 5}};

    (void)state;
    for (size_t i = 0; i < unit_count(looks); i++) {
        struct actions a = ACTIONS_INIT;
        struct observed o;
        struct world w;

        world_init(&w);
        looks[i].world(&w);
        world_observe(&w, "CachedDataset", "x", &o);
        reconcile(&o, &a);
        world_unobserve(&o);
        if (a.after.ns < 0 || a.after.ns > looks[i].most * 1000000000)
            fail_msg("%zu: after %lld ns", i, (long long)a.after.ns);
        actions_release(&a);
        world_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
