// SPDX-License-Identifier: Apache-2.0
/* Several jobs, their ends, and what holds them up: short lives of one DLTPod "x". */
#include "world.h"

#include "base/mem.h"

#define READER(name, dataset)                                                                      \
    "{\"name\": \"" name "\", \"image\": \"torch\", \"dataSource\": {\"name\": \"" dataset         \
    "\", \"bucket\": \"s3://b/" dataset "/\"}}"

static json_t *status_of(json_t *o)
{
    assert_non_null(o);
    return json_object_get(o, "status");
}

/* What the API server does not take is told, once, with its words; the rest is written down too. */
static void test_rejected(void **state)
{
    static const char *const kinds[] = {"ConfigMap", "Service", "Pod"};

    (void)state;
    for (size_t i = 0; i < unit_count(kinds); i++) {
        struct actions a = ACTIONS_INIT;
        struct observed o;
        struct world w;
        char words[100];

        world_init(&w);
        w.reject = kinds[i];
        world_dltpod(&w, "x", "{\"replicas\": 2, \"jobs\": [" READER("train", "x") "]}");
        world_settle(&w);
        assert_string_equal(world_condition(&w, "DLTPod", "x", "Placed"), "False:Rejected");
        assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Preparing");
        assert_string_not_equal(world_text(&w, "DLTPod", "x", "status.jobs.0.id"), "");
        snprintf(words, sizeof(words), "does not take %s x-train", kinds[i]);
        assert_non_null(strstr(world_text(&w, "DLTPod", "x", "status.message"), words));
        assert_non_null(
            strstr(world_text(&w, "DLTPod", "x", "status.jobs.0.message"), "exceeded quota"));
        assert_int_equal(json_array_size(w.events), 1);
        assert_string_equal(json_string_value(json_array_get(w.events, 0)), "Rejected");
        /* when it is decided again */
        world_observe(&w, "DLTPod", "x", &o);
        o.rejected = (struct rejection){KUBE_POD, 422, "", "it makes no sense"};
        reconcile(&o, &a);
        assert_int_equal(a.after.ns, RECON_LOOK_WAITING.ns);
        for (size_t k = 0; k < a.n; k++)
            assert_int_not_equal(a.v[k].kind, ACT_APPLY);
        actions_release(&a);
        world_unobserve(&o);
        w.reject = NULL;
        world_settle(&w);
        assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Running");
        world_release(&w);
    }
}

/* Data that nobody can hold is given up, and the DLTPod goes. */
static void test_not_kept(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x", "{\"jobs\": [" READER("a", "x") ", " READER("b", "y") "]}");
    world_settle(&w);
    w.reject = "CachedDataset";
    json_array_clear(w.events);
    world_delete(&w, "DLTPod", "x");
    world_settle(&w);
    assert_int_equal(world_count(&w, "DLTPod") + world_count(&w, "CachedDataset"), 0);
    assert_int_equal(json_object_size(w.datasets) + json_object_size(w.jobs), 0);
    assert_int_equal(json_array_size(w.events), 2);
    assert_string_equal(json_string_value(json_array_get(w.events, 0)), "NotKept");
    world_release(&w);
}

static void end_pod(struct world *w, const char *name)
{
    json_object_set_new(status_of(world_get(w, "Pod", name)), "phase", json_string("Succeeded"));
}

/* A rank that has ended well is written down: its pod is not made anew when somebody deletes it. */
static void test_succeeded_rank(void **state)
{
    const json_t *job, *done;
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x", "{\"replicas\": 3, \"jobs\": [" READER("a", "x") "]}");
    world_settle(&w);
    assert_int_equal(world_count(&w, "Pod"), 3);
    end_pod(&w, "x-a-1");
    world_settle(&w);
    job = json_array_get(json_object_get(status_of(world_get(&w, "DLTPod", "x")), "jobs"), 0);
    done = json_object_get(job, "succeeded");
    assert_int_equal(json_array_size(done), 1);
    assert_int_equal(json_integer_value(json_array_get(done, 0)), 1);
    world_delete(&w, "Pod", "x-a-1");
    world_delete(&w, "Pod", "x-a-2");
    world_settle(&w);
    assert_null(world_get(&w, "Pod", "x-a-1"));
    assert_non_null(world_get(&w, "Pod", "x-a-2"));
    end_pod(&w, "x-a-0");
    end_pod(&w, "x-a-2");
    world_settle(&w);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Succeeded");
    world_release(&w);
}

static void set_cached(struct world *w, int bytes, bool busy)
{
    json_t *d = json_object_iter_value(json_object_iter(w->datasets));

    assert_non_null(d);
    json_object_set_new(d, "cached", json_pack("{s:i, s:[]}", "bytes", bytes, "nodes"));
    json_object_set_new(d, "preparation",
                        busy ? json_pack("[{s:s, s:s, s:i, s:i}]", "node", "n1", "phase", "warming",
                                         "done", 5, "total", 10)
                             : json_array());
}

/* What one look decides. Gives. */
static char *decided(struct world *w)
{
    struct actions a = ACTIONS_INIT;
    struct observed o;
    char *said;

    world_observe(w, "DLTPod", "x", &o);
    reconcile(&o, &a);
    world_unobserve(&o);
    said = world_say(&a);
    actions_release(&a);
    return said;
}

static void assert_decided(struct world *w, const char *want, bool pods)
{
    char *said = decided(w);

    assert_int_equal(strstr(said, want) != NULL, 1);
    assert_int_equal(strstr(said, "APPLY Pod") != NULL, pods);
    mem_free(&said);
}

/* A DLTPod whose job may run, nothing warmed yet. */
static void begin_warm(struct world *w, const char *how, const char *job)
{
    char spec[400];

    world_init(w);
    w->idle = true;
    snprintf(spec, sizeof(spec), "{%s\"jobs\": [%s]}", how, job);
    world_dltpod(w, "x", spec);
    world_round(w, "DLTPod", "x", &(bool){false});
    world_nature(w);
    world_nature(w);
    set_cached(w, 0, false);
}

/* warmUp: none, then one that is begun, then one that is waited for until it is over. */
static void test_warm_up(void **state)
{
    struct world w;
    char *said;

    (void)state;
    begin_warm(&w, "", READER("a", "x"));
    said = decided(&w);
    assert_null(strstr(said, "WARM"));
    assert_non_null(strstr(said, "APPLY Pod x-a-0"));
    mem_free(&said);
    world_release(&w);

    begin_warm(
        &w, "\"warmUp\": \"complete\", ", /* a job that does not use the cache */
        "{\"name\": \"a\", \"image\": \"torch\", \"qos\": {\"useCache\": false}, \"dataSource\": "
        "{\"name\": \"x\", \"bucket\": \"s3://b/x/\"}}");
    said = decided(&w);
    assert_null(strstr(said, "WARM"));
    assert_non_null(strstr(said, "APPLY Pod x-a-0"));
    mem_free(&said);
    world_release(&w);

    begin_warm(&w, "\"warmUp\": \"start\", ", READER("a", "x"));
    assert_decided(&w, "WARM", true);
    world_release(&w);

    begin_warm(&w, "\"warmUp\": \"complete\", ", READER("a", "x"));
    assert_decided(&w, "WARM", false);
    world_round(&w, "DLTPod", "x", &(bool){false});
    set_cached(&w, 500, true);
    w.now += 10 * RECON_WARM_S; /* however long: a node is at it */
    world_round(&w, "DLTPod", "x", &(bool){false});
    assert_int_equal(world_count(&w, "Pod"), 0);
    said = decided(&w);
    assert_null(strstr(said, "WARM")); /* ordered once */
    mem_free(&said);
    set_cached(&w, 1000, false);
    assert_decided(&w, "APPLY Pod x-a-0", true);
    world_round(&w, "DLTPod", "x", &(bool){false});
    set_cached(&w, 0, true); /* once it has a pod, nobody waits any more */
    said = decided(&w);
    assert_null(strstr(said, "DELETE"));
    mem_free(&said);
    assert_int_equal(world_count(&w, "Pod"), 1);
    world_release(&w);

    begin_warm(&w, "\"warmUp\": \"complete\", ", READER("a", "x"));
    world_round(&w, "DLTPod", "x", &(bool){false});
    set_cached(&w, 500, false); /* ordered just now: nobody has begun */
    w.now += RECON_WARM_S - 1;
    assert_string_equal(world_condition(&w, "DLTPod", "x", "DatasetReady"), "False:Warming");
    said = decided(&w);
    assert_null(strstr(said, "APPLY"));
    mem_free(&said);
    w.now++;
    assert_decided(&w, "APPLY Pod x-a-0", true);
    world_release(&w);
}

/* A retention of centuries is one, too. */
static void test_long_retention(void **state)
{
    struct actions a = ACTIONS_INIT;
    struct observed o;
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x", "{\"retention\": \"300000000h\", \"jobs\": [" READER("a", "x") "]}");
    world_settle(&w);
    world_end_pods(&w, "Succeeded");
    world_settle(&w);
    w.now += RECON_SETTLE_S;
    world_observe(&w, "DLTPod", "x", &o);
    reconcile(&o, &a);
    world_unobserve(&o);
    assert_int_equal(a.n, 0);
    assert_int_equal(a.after.ns / 1000000000, 86400);
    actions_release(&a);
    world_delete(&w, "DLTPod", "x");
    world_settle(&w);
    assert_string_equal(world_text(&w, "CachedDataset", "x", "spec.retention"), "300000000h");
    world_release(&w);
}

/* Two jobs on the same data: it stays for the retention after the end of the last. */
static void test_same_data(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(
        &w, "x",
        "{\"retention\": \"100s\", \"jobs\": [" READER("a", "x") ", " READER("b", "x") "]}");
    world_settle(&w);
    end_pod(&w, "x-a-0");
    world_settle(&w);
    w.now += 200;
    json_object_del(w.jobs, world_text(&w, "DLTPod", "x", "status.jobs.1.id"));
    world_round(&w, "DLTPod", "x", &(bool){false}); /* lost for a moment */
    assert_int_equal(json_object_size(w.datasets), 1);
    world_settle(&w);
    end_pod(&w, "x-b-0");
    world_settle(&w);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Succeeded");
    w.now += 80;
    world_settle(&w);
    assert_int_equal(json_object_size(w.datasets), 1);
    w.now += 100;
    world_settle(&w);
    assert_int_equal(json_object_size(w.datasets), 0);
    world_release(&w);
}

/* One job fails: it is told, the others go on, and the DLTPod has failed when all have ended. */
static void test_one_fails(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x", "{\"jobs\": [" READER("a", "x") ", " READER("b", "y") "]}");
    world_settle(&w);
    json_array_clear(w.events);
    json_object_set_new(status_of(world_get(&w, "Pod", "x-a-0")), "phase", json_string("Failed"));
    world_settle(&w);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Running");
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.jobs.0.state"), "Failed");
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.jobs.1.state"), "Running");
    assert_string_equal(world_condition(&w, "DLTPod", "x", "Failed"), "False:JobFailed");
    assert_string_equal(world_condition(&w, "DLTPod", "x", "Running"), "True:Running");
    assert_non_null(strstr(world_text(&w, "DLTPod", "x", "status.message"),
                           "job a has failed, others go on: pod x-a-0"));
    assert_int_equal(json_object_size(w.jobs), 1);
    assert_int_equal(json_array_size(w.events), 1);
    end_pod(&w, "x-b-0");
    world_settle(&w);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.phase"), "Failed");
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.jobs.1.state"), "Succeeded");
    assert_string_equal(world_condition(&w, "DLTPod", "x", "Failed"), "True:PodFailed");
    assert_string_equal(world_condition(&w, "DLTPod", "x", "Succeeded"), "False:Failed");
    assert_int_equal(json_object_size(w.jobs), 0);
    world_release(&w);
}

/* A job that no object tells of. */
static void read_by_hand(struct world *w, const char *dataset)
{
    json_object_set_new(
        w->jobs, "j-hand",
        json_pack("{s:s, s:s, s:s}", "id", "j-hand", "state", "running", "dataset", dataset));
}

/* A whole round ends with a time to look again. */
static void look_again(struct world *w)
{
    struct dlc_dur after;
    struct observed o;
    bool again = true;

    world_observe(w, "DLTPod", "x", &o);
    while (again) {
        struct actions a = ACTIONS_INIT;

        reconcile(&o, &a);
        for (size_t i = 0; i < a.n; i++)
            assert_true(world_act(w, &o, &a.v[i]));
        again = a.again;
        after = a.after;
        actions_release(&a);
    }
    world_unobserve(&o);
    assert_true(after.ns >= 0 && after.ns <= RECON_LOOK_RUNNING.ns);
}

/* Data that cannot go yet goes when who reads it has ended: after the end of a DLTPod, after a
 * change of its spec, and at its deletion. Nothing stays that no object tells of. */
static void test_in_use(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x", "{\"retention\": \"0s\", \"jobs\": [" READER("a", "x") "]}");
    world_settle(&w);
    read_by_hand(&w, "team.x");
    world_end_pods(&w, "Succeeded");
    for (int i = 0; i < 4; i++)
        world_round(&w, "DLTPod", "x", &(bool){false});
    assert_int_equal(json_object_size(w.datasets), 1);
    look_again(&w);
    json_object_del(w.jobs, "j-hand");
    world_settle(&w);
    assert_int_equal(json_object_size(w.datasets), 0);
    /* it reads something else under the same name of a job */
    world_spec(&w, "DLTPod", "x", "{\"retention\": \"0s\", \"jobs\": [" READER("a", "y") "]}");
    world_settle(&w);
    read_by_hand(&w, "team.y");
    world_spec(&w, "DLTPod", "x", "{\"retention\": \"0s\", \"jobs\": [" READER("a", "z") "]}");
    for (int i = 0; i < 4; i++) {
        world_round(&w, "DLTPod", "x", &(bool){false});
        world_nature(&w);
    }
    assert_int_equal(json_object_size(w.datasets), 2);
    look_again(&w);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.jobs.1.dataset"), "team.y");
    w.away = true; /* not forgotten meanwhile */
    world_spec(&w, "DLTPod", "x",
               "{\"retention\": \"0s\", \"epochs\": 2, \"jobs\": [" READER("a", "z") "]}");
    world_round(&w, "DLTPod", "x", &(bool){false});
    w.away = false;
    json_object_del(w.jobs, "j-hand");
    world_settle(&w);
    assert_int_equal(json_object_size(w.datasets), 1);
    assert_string_equal(world_text(&w, "DLTPod", "x", "status.jobs.1.dataset"), "");
    /* deleted */
    read_by_hand(&w, "team.z");
    world_delete(&w, "DLTPod", "x");
    for (int i = 0; i < 4; i++) {
        world_round(&w, "DLTPod", "x", &(bool){false});
        world_nature(&w);
    }
    assert_non_null(strstr(world_text(&w, "DLTPod", "x", "status.message"), "jobs run on it"));
    assert_int_equal(world_count(&w, "Pod"), 0);
    look_again(&w);
    json_object_del(w.jobs, "j-hand");
    world_settle(&w);
    assert_int_equal(json_object_size(w.datasets) + world_count(&w, "DLTPod"), 0);
    world_release(&w);
}

/* Of two jobs, whose tenant is not there any more: one token. */
static void test_tenant_lost(void **state)
{
    struct actions a = ACTIONS_INIT;
    struct observed o;
    struct world w;
    char *said;

    (void)state;
    world_init(&w);
    world_dltpod(&w, "x", "{\"jobs\": [" READER("a", "x") ", " READER("b", "y") "]}");
    w.left = 1;
    world_round(&w, "DLTPod", "x", &(bool){false});
    w.left = -1;
    world_observe(&w, "DLTPod", "x", &o);
    response_refused(&o.jobs[0].data, 404, "there is no tenant team");
    response_refused(&o.jobs[1].data, 404, "there is no tenant team");
    reconcile(&o, &a);
    said = world_say(&a);
    assert_string_equal(said, "TENANT; MAKE_DATASET; MAKE_DATASET; again");
    assert_string_equal(a.v[0].key, "again");
    mem_free(&said);
    actions_release(&a);
    world_unobserve(&o);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rejected),       cmocka_unit_test(test_not_kept),
        cmocka_unit_test(test_long_retention), cmocka_unit_test(test_same_data),
        cmocka_unit_test(test_one_fails),      cmocka_unit_test(test_in_use),
        cmocka_unit_test(test_tenant_lost),    cmocka_unit_test(test_succeeded_rank),
        cmocka_unit_test(test_warm_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
