// SPDX-License-Identifier: Apache-2.0
/*
 * `dlcache rebuild`: restores a lost store. Datasets are registered again from the catalogs of this
 * machine's daemon; every node is asked to join again, and then reports all that it holds.
 * Ownership of chunks does not change meanwhile.
 *
 * Beside a catalog may lie a record of its dataset's name and tenant (cluster/disk_inventory.c).
 *
 * (REBUILD-1) A dataset with a record is registered for its tenant, or not at all: never for
 *             another tenant.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "cli/manager_commands.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/resource_name.h"
#include "cli/table.h"
#include "bucket/url.h"
#include "cluster/disk_inventory.h"

#define COME_BACK DLC_SEC(60)

struct rebuilding {
    struct api *api;
    const struct config *config;
    const char *tenant; /* whose datasets without a note become; NULL: nobody's, or the caller's */
    json_t *notes;      /* {CATALOG: {"name", "tenant"}} */
    bool dry;
    json_t *known;            /* datasets that are registered */
    json_t *datasets, *nodes; /* what was done, for --json */
    unsigned failed;
    struct dlc_err first;
};

static void fail(struct rebuilding *r, const char *what, const struct dlc_err *err)
{
    if (r->failed++ == 0)
        dlc_err_set(&r->first, err->code, "%s: %s", what, err->text);
}

/* ---- datasets ---- */

static char *canonical(const char *text)
{
    struct url u = URL_INIT;
    char *out = mem_str(url_parse(&u, text, NULL) == 0 ? u.text : text);

    url_release(&u);
    return out;
}

/* tenant NULL: of any. */
static bool is_registered(const struct rebuilding *r, const char *url, const char *tenant)
{
    const json_t *d;
    size_t i;

    json_array_foreach(json_object_get(r->known, "items"), i, d)
    {
        char *its = canonical(json_text_at(d, "url"));
        bool same = strcmp(its, url) == 0 &&
                    (tenant == NULL || strcmp(json_text_at(d, "tenant"), tenant) == 0);

        mem_free(&its);
        if (same)
            return true;
    }
    return false;
}

static bool is_taken(const struct rebuilding *r, const char *name)
{
    const json_t *d;
    size_t i;

    json_array_foreach(json_object_get(r->known, "items"), i, d)
    {
        if (strcmp(json_text_at(d, "name"), name) == 0)
            return true;
    }
    return false;
}

/* imagenet, imagenet-2, imagenet-3 ... `was`: what it was called, or NULL. */
static void choose_name(const struct rebuilding *r, const char *url, const char *was,
                        char out[static NAME_LEN + 1])
{
    char first[NAME_LEN + 1];

    if (was != NULL && name_is_ok(was))
        snprintf(first, sizeof(first), "%s", was);
    else
        name_of_url(url, first);
    snprintf(out, NAME_LEN + 1, "%s", first);
    for (unsigned i = 2; is_taken(r, out); i++)
        snprintf(out, NAME_LEN + 1, "%.*s-%u", NAME_LEN - 11, first, i);
}

/* note: what is known of it, or NULL. */
static void add_dataset(struct rebuilding *r, const char *url, uint64_t samples, const json_t *note)
{
    const char *tenant = json_string_value(json_object_get(note, "tenant"));
    char name[NAME_LEN + 1];
    struct dlc_err err = DLC_ERR_INIT;
    json_t *body, *answer = NULL;

    if (is_registered(r, url, tenant))
        return;
    choose_name(r, url, json_string_value(json_object_get(note, "name")), name);
    body = json_pack("{s:s, s:s}", "name", name, "url", url);
    if (tenant == NULL)
        api_set(body, "tenant", r->tenant);
    else if (tenant[0] != '\0')
        api_set(body, "tenant", tenant);
    api_set_endpoint(body, r->config, url);
    if (!r->dry && api_call(r->api, "POST", "/v1/datasets", json_incref(body), &answer, &err) < 0) {
        fail(r, url, &err);
    } else {
        json_array_append_new(r->datasets,
                              json_pack("{s:s, s:s, s:s*, s:I}", "name", name, "url", url, "tenant",
                                        json_string_value(json_object_get(body, "tenant")),
                                        "samples", (json_int_t)samples));
        json_array_append(json_object_get(r->known, "items"), body);
    }
    json_decref(answer);
    json_decref(body);
}

static void add_catalog(struct rebuilding *r, const char *path, const json_t *note)
{
    struct catalog *c = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    if (catalog_open(path, &c, &err) == 0)
        add_dataset(r, catalog_url(c), catalog_count(c), note);
    else
        fail(r, "a catalog", &err);
    catalog_close(&c);
}

/* DIR/catalogs/NAME@TENANT.owner: cluster/disk_inventory.c writes it. */
static void read_note(struct rebuilding *r, const char *dir, const char *file)
{
    char *path = mem_fmt("%s/%s", dir, file), *name;
    json_t *note = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const char *catalog = json_string_value(json_object_get(note, "catalog"));
    const char *tenant = json_string_value(json_object_get(note, "tenant"));

    name = mem_strn(file, strcspn(file, "@"));
    if (catalog != NULL)
        json_object_set_new(r->notes, catalog,
                            json_pack("{s:s, s:s*}", "name", name, "tenant", tenant));
    json_decref(note);
    mem_free(&name);
    mem_free(&path);
}

/* ID.cat; ID.SNAPSHOT.cat is an older one of the same dataset. */
static bool is_newest(const char *file)
{
    const char *dot = strchr(file, '.');

    return dot != NULL && strcmp(dot, ".cat") == 0;
}

static int add_datasets(struct rebuilding *r, struct dlc_err *err)
{
    char *dir = mem_fmt("%s/catalogs", r->config->dir);
    struct dirent **files = NULL;
    int n = scandir(dir, &files, NULL, alphasort), rc = 0;

    if (n < 0 && errno != ENOENT)
        rc = dlc_err_sys(err, "cannot read %s", dir);
    for (int i = 0; i < n; i++)
        if (str_ends(files[i]->d_name, INVENTORY_SUFFIX))
            read_note(r, dir, files[i]->d_name);
    for (int i = 0; i < n; i++) {
        char *path = mem_fmt("%s/%s", dir, files[i]->d_name);

        if (is_newest(files[i]->d_name))
            add_catalog(r, path, json_object_get(r->notes, files[i]->d_name));
        mem_free(&path);
        free(files[i]);
    }
    free(files);
    mem_free(&dir);
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
    int rc = api_list(r->api, "/v1/datasets", &r->known, err);

    if (rc == 0)
        rc = add_datasets(r, err);
    progress_init(&bar, "nodes", quiet);
    if (rc == 0)
        rc = ask_nodes(r, &bar, err);
    progress_end(&bar);
    return rc;
}

static void print_result(const struct rebuilding *r)
{
    const json_t *v;
    char n[32];
    size_t i;

    json_array_foreach(r->datasets, i, v)
    {
        printf("dataset %s: %s samples, %s%s\n", json_text_at(v, "name"),
               table_count(json_u64_at(v, "samples"), n), json_text_at(v, "url"),
               r->dry ? " (would be registered)" : "");
    }
    json_array_foreach(r->nodes, i, v)
    {
        bool gone = strcmp(json_text_at(v, "result"), "gone") == 0;

        printf("node %s: %s\n", json_text_at(v, "node"),
               gone     ? "not heard of; left as it is (`dlcache node leave` forgets it)"
               : r->dry ? "would join again and tell what it has"
                        : "joined again, tells what it has");
    }
    if (json_array_size(r->datasets) + json_array_size(r->nodes) == 0)
        printf("nothing to rebuild: no catalogs that are not registered, and no nodes\n");
}

static int run(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    struct args a = ARGS_INIT;
    struct api api = API_INIT;
    struct rebuilding r = {.api = &api, .config = &a.config, .first = DLC_ERR_INIT};
    const struct args_option options[] = {
        {"tenant", 't', "NAME", "Whose datasets without a note are; for admins. Default: nobody's.",
         NULL, &r.tenant},
        {"dry-run", 0, NULL, "Only say what would be done.", &r.dry, NULL},
        {"json", 0, NULL, "Print a JSON object.", &json, NULL},
        API_END,
    };
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    r.notes = json_object();
    r.datasets = json_array();
    r.nodes = json_array();
    if (!args_parse(&a, cmd, options, argc, argv, &status))
        goto out;
    if (api_open(&api, &a.config, &err) < 0 || rebuild(&r, a.quiet || json, &err) < 0) {
        status = cli_fail(cmd, &err);
        goto out;
    }
    if (json)
        print_json(json_pack("{s:O, s:O, s:i}", "datasets", r.datasets, "nodes", r.nodes, "failed",
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
    json_decref(r.notes);
    json_decref(r.known);
    json_decref(r.datasets);
    json_decref(r.nodes);
    args_release(&a);
    return status;
}

const struct command cmd_rebuild = {
    .name = "rebuild",
    .synopsis = "[--dir DIR] [--tenant NAME] [--dry-run] [--json]",
    .summary = "Make the manager's records again from disks and catalogs.",
    .details =
        "For a manager whose store was lost or restored from an old copy. No data is lost with a "
        "store:\n"
        "nodes have it on disk, and the bucket has it. This registers the datasets whose catalogs "
        "are in\n"
        "--dir and that the manager does not know (run it on each machine that had some), and has "
        "every\n"
        "node join again and tell which chunks it holds. Training goes on meanwhile.\n"
        "\n"
        "Names and tenants are those that the nodes noted; without a note a name is made from the "
        "URL, and\n"
        "--tenant says whose it is. Tenants, their tokens and credentials cannot be made again: "
        "`dlcache\n"
        "tenant create` first. It may be repeated.",
    .examples = "  $ dlcache rebuild --dry-run\n"
                "  $ dlcache rebuild --dir /mnt/ssd/dlcache --tenant vision\n",
    .run = run,
};
