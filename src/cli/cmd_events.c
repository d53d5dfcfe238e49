// SPDX-License-Identifier: Apache-2.0
/* `dlcache events`: what happened in the cluster, line by line. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"

struct shown {
    bool json;
    bool broken; /* nobody reads what we write */
};

static bool is_known(const char *name)
{
    static const char *const known[] = {"seq", "time", "type", "tenant"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return false;
}

/* Details as name=value; texts without quotes, anything else as JSON. */
static void add_details(struct buf *out, const json_t *event)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)event, name, v)
    {
        char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        const char *s = text != NULL ? text : json_string_value(v);

        if (!is_known(name) && s != NULL) {
            buf_addf(out, "  %s=", name);
            str_printable(s, strlen(s), out);
        }
        free(text);
    }
}

static void print_event(const json_t *e)
{
    struct buf line = BUF_INIT;
    const char *tenant = json_text_at(e, "tenant");
    char when[24];

    buf_addf(&line, "%llu  %s  %-22s", (unsigned long long)json_u64_at(e, "seq"),
             api_time(e, "time", when), json_text_at(e, "type"));
    if (tenant[0] != '\0')
        buf_addf(&line, "  tenant=%s", tenant);
    add_details(&line, e);
    printf("%s\n", buf_str(&line));
    buf_release(&line);
}

static bool on_line(const char *text, void *arg)
{
    struct shown *s = arg;
    json_t *e = json_loads(text, 0, NULL);

    if (e != NULL && s->json)
        printf("%s\n", text);
    else if (e != NULL)
        print_event(e);
    json_decref(e);
    s->broken = fflush(stdout) != 0;
    return !s->broken;
}

static int print(const struct args *a, const char *path, struct shown *s, struct dlc_err *err)
{
    struct api api = API_INIT;
    int rc = api_open(&api, &a->config, err);

    if (rc == 0)
        rc = api_lines(&api, path, on_line, s, err);
    api_close(&api);
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct shown s = {false, false};
    const char *after = NULL, *limit = NULL;
    bool follow = false;
    const struct args_option options[] = {
        {"follow", 'f', NULL, "Go on as events come.", &follow, NULL},
        {"after", 'a', "N", "Only those with a larger number.", NULL, &after},
        {"limit", 'n', "N", "At most so many.", NULL, &limit},
        {"json", 0, NULL, "Print the API's JSON, an object a line.", &s.json, NULL},
        API_END,
    };
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct buf path = BUF_INIT;
    int status;

    buf_adds(&path, "/v1/events");
    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        api_query(&path, "after", after);
        api_query(&path, "limit", limit);
        api_query(&path, "follow", follow ? "1" : NULL);
        status = print(&a, buf_str(&path), &s, &err) < 0 ? cli_fail(cmd, &err) : end_output(cmd);
    }
    buf_release(&path);
    args_release(&a);
    return status;
}

const struct command cmd_events = {
    .name = "events",
    .synopsis = "[--follow] [--after N] [--limit N] [--json]",
    .summary = "What happened in the cluster.",
    .details = "Tenants, datasets, jobs and nodes that came, went and changed; the newest 100,000 "
               "are kept. A\n"
               "tenant sees its own. The first number is that for --after.",
    .examples = "  $ dlcache events --follow\n"
                "  $ dlcache events --json | jq 'select(.type == \"job.started\")'\n",
    .run = run,
};
