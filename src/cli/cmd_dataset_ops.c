// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache dataset snapshot|warm|evict|move`: commands that the manager sends to nodes. Each waits
 * for the nodes, unless --background is given.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/cmd_dataset.h"
#include "cli/wait_nodes.h"
#include "cli/table.h"

#define BACKGROUND(on)                                                                             \
    {                                                                                              \
        "background", 'b', NULL, "Do not wait for the nodes.", on, NULL                            \
    }

struct dataset_command {
    const char *name, *op;
    const char *what; /* for the bar: "samples" */
    json_t *body;
    bool json, background;
    bool by_state; /* over when the dataset's state says so, not events */
};

static char *path_of(const char *name, const char *op)
{
    return op != NULL ? mem_fmt("/v1/datasets/%s/%s", name, op) : mem_fmt("/v1/datasets/%s", name);
}

/* A move is over when the dataset is not moving any more. */
static int wait_state(struct api *api, const char *name, struct progress *bar, struct dlc_err *err)
{
    char *path = path_of(name, NULL);
    bool moving = true;
    int rc = 0;

    while (rc == 0 && moving) {
        uint64_t done = 0, total = 0, bytes = 0;
        json_t *d = NULL, *p;
        size_t i;

        rc = api_call(api, "GET", path, NULL, &d, err);
        json_array_foreach(json_object_get(d, "preparation"), i, p)
        {
            done += json_u64_at(p, "done");
            total += json_u64_at(p, "total");
            bytes += json_u64_at(p, "bytes");
        }
        moving = strcmp(json_text_at(d, "state"), "moving") == 0;
        json_decref(d);
        if (rc == 0 && moving) {
            progress_update(bar, "moving", done, total, bytes, 0);
            dlc_sleep(DLC_MS(200));
        }
    }
    mem_free(&path);
    return rc;
}

/* How many samples there are to warm, as far as the dataset was listed. */
static uint64_t samples_of(struct api *api, const struct dataset_command *c)
{
    const char *split = json_text_at(c->body, "split");
    char *path = path_of(c->name, NULL);
    struct dlc_err err = DLC_ERR_INIT;
    json_t *d = NULL, *s;
    uint64_t n;
    size_t i;

    api_call(api, "GET", path, NULL, &d, &err);
    n = split[0] == '\0' ? json_u64_at(d, "snapshot.samples") : 0;
    json_array_foreach(json_at(d, "snapshot.splits"), i, s)
    {
        if (split[0] != '\0' && strcmp(json_text_at(s, "name"), split) == 0)
            n = json_u64_at(s, "samples");
    }
    json_decref(d);
    mem_free(&path);
    return n;
}

/* Send the command, wait for the nodes, and fetch the dataset as it is then. */
static int send_and_wait(struct api *api, const struct dataset_command *c, struct progress *bar,
                         json_t **answer, struct dlc_err *err)
{
    struct wait_nodes w = {.api = api};
    char *path = path_of(c->name, c->op), *shown = path_of(c->name, NULL);
    bool waits = !c->background && !c->by_state;
    int rc = waits ? wait_nodes_begin(&w, api, c->name, c->op, err) : 0;

    if (rc == 0)
        rc = api_call(api, "POST", path, json_incref(c->body), answer, err);
    if (rc < 0 || c->background)
        goto out;
    if (waits) {
        wait_nodes_set_dataset(&w, json_text_at(*answer, "dataset"));
        w.total = strcmp(c->op, "warm") == 0 ? samples_of(api, c) : 0;
        rc = wait_nodes_run(&w, json_object_get(*answer, "nodes"), bar, err);
        if (rc == 0)
            rc = wait_nodes_result(&w, err);
    } else {
        rc = wait_state(api, c->name, bar, err);
    }
    if (rc == 0) {
        json_decref(*answer);
        rc = api_call(api, "GET", shown, NULL, answer, err);
    }
out:
    wait_nodes_release(&w);
    mem_free(&path);
    mem_free(&shown);
    return rc;
}

/* Takes c->body. */
static int run_dataset_command(const struct command *cmd, const struct args *a,
                               const struct dataset_command *c, api_print_f *print)
{
    struct api api = API_INIT;
    struct progress bar;
    struct dlc_err err = DLC_ERR_INIT;
    json_t *answer = NULL;
    int rc = api_open(&api, &a->config, &err);

    progress_init(&bar, c->what, a->quiet || c->json);
    if (rc == 0)
        rc = send_and_wait(&api, c, &bar, &answer, &err);
    progress_end(&bar);
    api_close(&api);
    json_decref(c->body);
    if (rc == 0 && c->json)
        print_json(json_incref(answer), true);
    else if (rc == 0 && c->background)
        printf("asked for; `dlcache dataset show %s` shows how far it is\n", c->name);
    else if (rc == 0)
        print(answer, NULL);
    json_decref(answer);
    return rc < 0 ? cli_fail(cmd, &err) : end_output(cmd);
}

/* ---- snapshot ---- */

static void say_listed(const json_t *d, void *arg)
{
    char n[32], size[24];

    (void)arg;
    printf("dataset %s: %s samples, %s\n", json_text_at(d, "name"),
           table_count(json_u64_at(d, "snapshot.samples"), n),
           str_size(json_u64_at(d, "snapshot.bytes"), size));
}

static int snapshot(const struct command *cmd, int argc, char **argv)
{
    struct dataset_command c = {.op = "snapshot", .what = "objects"};
    const struct args_option options[] = {BACKGROUND(&c.background), API_JSON(&c.json), API_END};
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "", &path, &status)) {
        c.name = a.operands[0];
        status = run_dataset_command(cmd, &a, &c, say_listed);
    }
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- warm ---- */

static void say_warm(const json_t *d, void *arg)
{
    const json_t *nodes = json_at(d, "cached.nodes");
    char n[32], size[24];

    (void)arg;
    printf("dataset %s is warm: %s samples, %s cached on %zu node%s\n", json_text_at(d, "name"),
           table_count(json_u64_at(d, "snapshot.samples"), n),
           str_size(json_u64_at(d, "cached.bytes"), size), json_array_size(nodes),
           json_array_size(nodes) == 1 ? "" : "s");
}

int cli_dataset_warm(const struct command *cmd, const struct args *a,
                     const struct dataset_warming *w)
{
    const struct dataset_command c = {
        .name = w->name,
        .op = "warm",
        .what = "samples",
        .body = json_pack("{s:s, s:s*}", "tier", w->tier, "split", w->split),
        .json = w->json,
        .background = w->background,
    };

    return run_dataset_command(cmd, a, &c, say_warm);
}

static int warm(const struct command *cmd, int argc, char **argv)
{
    struct dataset_warming w = {.tier = "memory"};
    const struct args_option options[] = {
        {"split", 's', "NAME", "One split only.", NULL, &w.split},
        {"tier", 't', "TIER", "Where to: memory (default) or disk.", NULL, &w.tier},
        BACKGROUND(&w.background),
        API_JSON(&w.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "", &path, &status) &&
        args_choice(cmd, "tier", w.tier, "memory|disk", &status)) {
        w.name = a.operands[0];
        status = cli_dataset_warm(cmd, &a, &w);
    }
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- evict ---- */

static void say_evicted(const json_t *d, void *arg)
{
    char size[24];

    (void)arg;
    printf("dataset %s is evicted; %s stay cached\n", json_text_at(d, "name"),
           str_size(json_u64_at(d, "cached.bytes"), size));
}

static int evict(const struct command *cmd, int argc, char **argv)
{
    struct dataset_command c = {.op = "evict", .what = "nodes"};
    const char *tier = "all";
    bool force = false;
    const struct args_option options[] = {
        {"tier", 't', "TIER", "From where: memory, disk or all (default).", NULL, &tier},
        {"force", 'f', NULL, "Also when jobs run on it.", &force, NULL},
        BACKGROUND(&c.background),
        API_JSON(&c.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "", &path, &status) &&
        args_choice(cmd, "tier", tier, "memory|disk|all", &status)) {
        c.name = a.operands[0];
        c.body = json_pack("{s:s, s:b}", "tier", tier, "force", force);
        status = run_dataset_command(cmd, &a, &c, say_evicted);
    }
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- move ---- */

static void say_moved(const json_t *d, void *arg)
{
    char *nodes = api_joined(json_object_get(d, "nodes"), "all nodes");

    (void)arg;
    printf("dataset %s lies on %s\n", json_text_at(d, "name"), nodes);
    mem_free(&nodes);
}

static int move_body(const struct args *a, const char *count, bool all, json_t **out,
                     struct dlc_err *err)
{
    json_t *names;

    if ((a->n > 1) + (count != NULL) + all != 1)
        return dlc_err_set(err, DLC_EINVAL, "say where to: names of nodes, or --count, or --all");
    *out = json_object();
    if (count != NULL)
        return api_set_number(*out, "node_count", "count", count, 1000, err);
    names = json_array();
    for (int i = 1; i < a->n; i++)
        json_array_append_new(names, json_string(a->operands[i]));
    json_object_set_new(*out, "nodes", names);
    return 0;
}

static int move(const struct command *cmd, int argc, char **argv)
{
    struct dataset_command c = {.op = "move", .what = "samples", .by_state = true};
    const char *count = NULL;
    bool all = false;
    const struct args_option options[] = {
        {"count", 'n', "N", "Let the manager choose N nodes.", NULL, &count},
        {"all", 'a', NULL, "To all nodes.", &all, NULL},
        BACKGROUND(&c.background),
        API_JSON(&c.json),
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char *path;
    int status;

    if (kind_begin(&a, cmd, options, argc, argv, "", &path, &status)) {
        c.name = a.operands[0];
        if (move_body(&a, count, all, &c.body, &err) == 0) {
            status = run_dataset_command(cmd, &a, &c, say_moved);
        } else {
            json_decref(c.body);
            status = cli_fail(cmd, &err);
        }
    }
    mem_free(&path);
    args_release(&a);
    return status;
}

/* ---- help ---- */

const struct command cmd_dataset_snapshot = {
    .name = "dataset snapshot",
    .synopsis = "NAME [--background] [--json]",
    .summary = "List its bucket again.",
    .details = "One node lists it; the others take its catalog over. Jobs that run keep the one "
               "they began with.",
    .examples = "  $ dlcache dataset snapshot imagenet\n",
    ONE_OPERAND(DATASET_MISSING),
    .kind = &kind_dataset,
    .run = snapshot,
};

const struct command cmd_dataset_warm = {
    .name = "dataset warm",
    .synopsis = "NAME [--split NAME] [--tier memory|disk] [--background] [--json]",
    .summary = "Fetch it to its nodes, each its own part.",
    .details = "Shows one bar for the whole cluster. Interrupting it does not stop the nodes.\n"
               "`dlcache warm NAME` is the same.",
    .examples = "  $ dlcache dataset warm imagenet --split train\n"
                "  $ dlcache dataset warm imagenet --tier disk --background\n",
    ONE_OPERAND(DATASET_MISSING),
    .kind = &kind_dataset,
    .run = warm,
};

const struct command cmd_dataset_evict = {
    .name = "dataset evict",
    .synopsis = "NAME [--tier memory|disk|all] [--force] [--background] [--json]",
    .summary = "Have all nodes forget what they cached of it.",
    .details = "Refused while jobs run on it, unless --force. The bucket is not touched.",
    .examples = "  $ dlcache dataset evict imagenet --tier memory\n",
    ONE_OPERAND(DATASET_MISSING),
    .kind = &kind_dataset,
    .run = evict,
};

const struct command cmd_dataset_move = {
    .name = "dataset move",
    .synopsis = "NAME NODE... | --count N | --all [--background] [--json]",
    .summary = "Have it lie on other nodes.",
    .details = "The new nodes fetch their parts first; then those that are left forget theirs. "
               "Jobs read on\n"
               "meanwhile.",
    .examples = "  $ dlcache dataset move imagenet gpu1 gpu2\n"
                "  $ dlcache dataset move imagenet --count 4\n",
    .min = 1,
    .max = -1,
    .missing = DATASET_MISSING,
    .kind = &kind_dataset,
    .run = move,
};
