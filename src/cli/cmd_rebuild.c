// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache rebuild`: restores records of the manager. The manager makes the plan and carries it out
 * (manager/routes/rebuild.h); this asks it to, shows what it did, and has every node join again, so
 * that it reports all that it holds. Ownership of chunks does not change meanwhile.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/table.h"

#define COME_BACK DLC_SEC(60)
#define TELL_WAIT DLC_SEC(20) /* for nodes to tell what they have records of */

struct rebuilding {
    struct api *api;
    bool dry;
    json_t *plan;  /* the manager's answer */
    json_t *nodes; /* what was done, for --json */
    unsigned failed;
    struct dlc_err first;
};

static void fail(struct rebuilding *r, const char *what, const struct dlc_err *err)
{
    if (r->failed++ == 0)
        dlc_err_set(&r->first, err->code, "%s: %s", what, err->text);
}

static bool is_lost(const struct rebuilding *r)
{
    return strcmp(json_text_at(r->plan, "store"), "lost") == 0;
}

/* ---- the plan ---- */

static int ask(struct rebuilding *r, const char *method, json_t *body, struct dlc_err *err)
{
    json_t *answer = NULL;
    int rc = api_call(r->api, method, "/v1/rebuild", body, &answer, err);

    if (rc == 0) {
        json_decref(r->plan);
        r->plan = answer;
    }
    return rc;
}

/* Has every node that is there told what it has records of? A manager that has just begun to lead
 * has not heard of all of them yet. */
static bool all_told(const struct rebuilding *r)
{
    json_t *n;
    size_t i;

    if (!json_true_at(r->plan, "settled"))
        return false;
    json_array_foreach(json_object_get(r->plan, "nodes"), i, n)
    {
        if (strcmp(json_text_at(n, "state"), "gone") != 0 && !json_true_at(n, "told"))
            return false;
    }
    return true;
}

static void count_failures(struct rebuilding *r)
{
    const char *const kinds[] = {"tenants", "datasets"};
    struct dlc_err err = DLC_ERR_INIT;
    json_t *v;
    size_t i;

    for (size_t k = 0; k < 2; k++)
        json_array_foreach(json_object_get(r->plan, kinds[k]), i, v)
        {
            if (strcmp(json_text_at(v, "action"), "failed") != 0)
                continue;
            dlc_err_set(&err, DLC_EBUCKET, "%s", json_text_at(v, "reason"));
            fail(r, json_text_at(v, "name"), &err);
        }
    json_array_foreach(json_object_get(r->plan, "nodes"), i, v)
    {
        if (strcmp(json_text_at(v, "state"), "gone") == 0 || json_true_at(v, "told"))
            continue;
        dlc_err_set(&err, DLC_ETIMEDOUT,
                    "it does not tell what it has records of; is it of an older version? Datasets "
                    "that only it knows are not restored");
        fail(r, json_text_at(v, "node"), &err);
    }
}

static int make_plan(struct rebuilding *r, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();
    int rc = ask(r, "POST", json_pack("{s:b}", "ask", 1), err);

    while (rc == 0 && !is_lost(r) && !all_told(r) && dlc_mono_since(start).ns < TELL_WAIT.ns) {
        dlc_sleep(DLC_MS(100));
        rc = ask(r, "GET", NULL, err);
    }
    if (rc == 0 && !r->dry)
        rc = ask(r, "POST", json_pack("{s:b}", "apply", 1), err);
    if (rc == 0)
        count_failures(r);
    return rc;
}

/* ---- nodes ---- */

static int wait_joined(struct rebuilding *r, const char *path, struct dlc_err *err)
{
    struct dlc_mono start = dlc_mono_now();

    while (dlc_mono_since(start).ns < COME_BACK.ns) {
        json_t *n = NULL;
        int rc = api_call(r->api, "GET", path, NULL, &n, err);
        bool waits = json_true_at(n, "rejoin");

        json_decref(n);
        if (rc < 0 || !waits)
            return rc;
        dlc_sleep(DLC_MS(100));
    }
    return dlc_err_set(err, DLC_ETIMEDOUT, "it did not join again within a minute; is it running?");
}

static int join_again(struct rebuilding *r, const char *path, struct dlc_err *err)
{
    char *rejoin = mem_fmt("%s/rejoin", path);
    json_t *answer = NULL;
    int rc = api_call(r->api, "POST", rejoin, json_object(), &answer, err);

    json_decref(answer);
    mem_free(&rejoin);
    return rc < 0 ? rc : wait_joined(r, path, err);
}

/* One after the other: the store gets the chunks of one at a time. */
static int ask_nodes(struct rebuilding *r, struct progress *bar, struct dlc_err *err)
{
    json_t *all = NULL, *n;
    int rc = api_list(r->api, "/v1/nodes", &all, err);
    const json_t *items = json_object_get(all, "items");
    size_t i;

    json_array_foreach((json_t *)items, i, n)
    {
        const char *name = json_text_at(n, "name"), *state = json_text_at(n, "state");
        char *path = mem_fmt("/v1/nodes/%s", name);
        struct dlc_err mine = DLC_ERR_INIT;

        progress_update(bar, "asking", i, json_array_size(items), 0, 0);
        if (strcmp(state, "gone") == 0)
            json_array_append_new(r->nodes,
                                  json_pack("{s:s, s:s}", "node", name, "result", "gone"));
        else if (!r->dry && join_again(r, path, &mine) < 0)
            fail(r, name, &mine);
        else
            json_array_append_new(r->nodes,
                                  json_pack("{s:s, s:s}", "node", name, "result", "joined"));
        mem_free(&path);
    }
    json_decref(all);
    return rc;
}

/* ---- all ---- */

static int rebuild(struct rebuilding *r, bool quiet, struct dlc_err *err)
{
    struct progress bar;
    int rc = make_plan(r, err);

    progress_init(&bar, "nodes", quiet);
    if (rc == 0 && !(r->dry && is_lost(r)))
        rc = ask_nodes(r, &bar, err);
    progress_end(&bar);
    return rc;
}

static void print_dataset(const struct rebuilding *r, const json_t *v)
{
    const char *action = json_text_at(v, "action");

    printf("dataset %s: ", json_text_at(v, "name"));
    if (strcmp(action, "failed") == 0)
        printf("not registered: %s\n", json_text_at(v, "reason"));
    else if (strcmp(action, "deleted") == 0)
        printf("was deleted, and stays so\n");
    else
        printf("%s, %s\n", json_text_at(v, "url"),
               r->dry ? "would be registered as it was" : "registered as it was");
}

static void print_result(const struct rebuilding *r)
{
    const json_t *datasets = json_object_get(r->plan, "datasets"), *v;
    size_t i;

    if (is_lost(r))
        printf("the store was emptied: %s from the manager's copy of %s: %zu tenants, with tokens "
               "and credentials\n",
               r->dry ? "it would be filled again" : "it was filled again",
               json_text_at(r->plan, "copy"), json_array_size(json_object_get(r->plan, "tenants")));
    json_array_foreach((json_t *)datasets, i, v) print_dataset(r, v);
    json_array_foreach(r->nodes, i, v)
    {
        bool gone = strcmp(json_text_at(v, "result"), "gone") == 0;

        printf("node %s: %s\n", json_text_at(v, "node"),
               gone     ? "not heard of; left as it is (`dlcache node leave` forgets it)"
               : r->dry ? "would join again and tell what it has"
                        : "joined again, tells what it has");
    }
    if (json_array_size(datasets) + json_array_size(r->nodes) == 0 && !is_lost(r))
        printf("nothing to rebuild: no records that the manager lacks, and no nodes\n");
}

static int run(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    struct args a = ARGS_INIT;
    struct api api = API_INIT;
    struct rebuilding r = {.api = &api, .first = DLC_ERR_INIT};
    const struct args_option options[] = {
        {"dry-run", 0, NULL, "Only say what would be done.", &r.dry, NULL},
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        API_END,
    };
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    r.nodes = json_array();
    if (!args_parse(&a, cmd, options, argc, argv, &status))
        goto out;
    if (api_open(&api, &a.config, &err) < 0 || rebuild(&r, a.quiet || json, &err) < 0) {
        status = cli_fail(cmd, &err);
        goto out;
    }
    if (json)
        print_json(json_pack("{s:O, s:O, s:O, s:O, s:i}", "store", json_object_get(r.plan, "store"),
                             "tenants", json_object_get(r.plan, "tenants"), "datasets",
                             json_object_get(r.plan, "datasets"), "nodes", r.nodes, "failed",
                             (int)r.failed),
                   true);
    else
        print_result(&r);
    status = end_output(cmd);
    if (r.failed > 0) {
        dlc_err_set(&err, DLC_EBUCKET, "%u failed; the first: %s", r.failed, r.first.text);
        status = cli_fail(cmd, &err);
    }
out:
    api_close(&api);
    json_decref(r.plan);
    json_decref(r.nodes);
    args_release(&a);
    return status;
}

const struct command cmd_rebuild = {
    .name = "rebuild",
    .synopsis = "[--dry-run] [--json]",
    .summary = "Make the manager's records again.",
    .details =
        "For a manager whose store was emptied, lost, or restored from an old copy. Run it "
        "anywhere "
        "with\n"
        "the token of admins: the manager does all of it, for all nodes. Training goes on "
        "meanwhile.\n"
        "\n"
        "A store that was emptied is filled again from the manager's own copy: tenants with tokens "
        "and\n"
        "credentials, datasets, jobs and nodes. Otherwise every node tells which datasets it has "
        "records of,\n"
        "and those that the manager does not know are registered as they were: name, tenant, URL, "
        "endpoint,\n"
        "splits and placement. Their tenants must exist (`dlcache tenant create`). What was "
        "deleted "
        "stays so.\n"
        "Then every node joins again and tells which chunks it holds. It may be repeated.",
    .examples = "  $ dlcache rebuild --dry-run\n"
                "  $ dlcache rebuild --manager http://10.0.0.1:7070 --token-file admin.token\n",
    .run = run,
};
