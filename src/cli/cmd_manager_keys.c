// SPDX-License-Identifier: Apache-2.0
/* `dlcache manager keys`, `rekey` and `rotate-authority`: the key ring of the cluster, the key that
 * signs certificates of nodes, and their change while managers run. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/manager_commands.h"
#include "cli/table.h"

static void add_key(struct table *t, const json_t *key)
{
    table_add(t, json_text_at(key, "id"));
    table_add(t, json_true_at(key, "seals") ? "seals" : "opens");
    table_addf(t, "%llu", (unsigned long long)json_u64_at(key, "records"));
    table_add(t, !json_true_at(key, "here")        ? "is missing here: its records cannot be read"
                 : json_true_at(key, "seals")      ? ""
                 : json_u64_at(key, "records") > 0 ? "in use"
                                                   : "unused: may be removed");
}

static void print_keys(const json_t *answer, void *arg)
{
    const json_t *key;
    struct table t;
    size_t i;

    (void)arg;
    table_init(&t, "key|use|>records|");
    json_array_foreach(json_object_get(answer, "items"), i, key) add_key(&t, key);
    table_print(&t, stdout);
    table_release(&t);
}

static int keys(const struct command *cmd, int argc, char **argv)
{
    struct api_view v = {false, NULL};
    const struct args_option options[] = {API_JSON(&v.json), API_END};
    struct args a = ARGS_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status))
        status = api_look(cmd, &a, &v, "/v1/keys", false, print_keys, NULL);
    args_release(&a);
    return status;
}

/* ---- rekey ---- */

struct rekeyed {
    uint64_t records, written, failed;
    char *key;
};

static int walk(struct api *api, struct rekeyed *out, struct dlc_err *err)
{
    char *next = NULL;
    int rc;

    do {
        json_t *answer = NULL, *body = json_object();

        api_set(body, "after", next);
        mem_free(&next);
        rc = api_call(api, "POST", "/v1/keys/rekey", body, &answer, err);
        if (rc == 0) {
            out->records += json_u64_at(answer, "records");
            out->written += json_u64_at(answer, "written");
            out->failed += json_u64_at(answer, "failed");
            mem_free(&out->key);
            out->key = mem_str(json_text_at(answer, "key"));
            next = mem_str(json_string_value(json_object_get(answer, "next")));
        }
        json_decref(answer);
    } while (rc == 0 && next != NULL);
    return rc;
}

/* What may be removed now. */
static void say_unused(const json_t *list, const struct rekeyed *r)
{
    const json_t *key;
    bool used = r->failed > 0;
    size_t i;

    json_array_foreach(json_object_get(list, "items"), i, key)
    {
        const char *id = json_text_at(key, "id");

        if (json_true_at(key, "seals"))
            continue;
        used |= json_u64_at(key, "records") > 0;
        if (json_u64_at(key, "records") > 0)
            printf("key %s is still used by %llu records: keep it, and run this again\n", id,
                   (unsigned long long)json_u64_at(key, "records"));
        else
            printf(
                "no record uses key %s any more: once every manager holds key %s, remove it from "
                "manager.key or DLCACHE_MANAGER_KEY of all\n",
                id, r->key);
    }
    if (!used && json_array_size(json_object_get(list, "items")) == 1)
        printf("there is no other key\n");
}

static int run_rekey(const struct args *a, bool json, struct dlc_err *err)
{
    struct rekeyed r = {0};
    struct api api = API_INIT;
    json_t *list = NULL;
    int rc = api_open(&api, &a->config, err);

    if (rc == 0)
        rc = walk(&api, &r, err);
    if (rc == 0)
        rc = api_call(&api, "GET", "/v1/keys", NULL, &list, err);
    if (rc == 0 && json) {
        json_dumpf(list, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (rc == 0) {
        printf("key %s seals; of %llu records %llu were sealed again\n", r.key,
               (unsigned long long)r.records, (unsigned long long)r.written);
        say_unused(list, &r);
    }
    if (rc == 0 && r.failed > 0)
        rc = dlc_err_set(err, DLC_ECORRUPT,
                         "%llu records could not be opened and stay as they are: the manager's log "
                         "names them; set those secrets again",
                         (unsigned long long)r.failed);
    json_decref(list);
    mem_free(&r.key);
    api_close(&api);
    return rc;
}

static int rekey(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const struct args_option options[] = {API_JSON(&json), API_END};
    struct args a = ARGS_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status)) {
        status = CLI_OK;
        if (run_rekey(&a, json, &err) < 0)
            status = cli_fail(cmd, &err);
    }
    args_release(&a);
    return status;
}

/* ---- rotate-authority ---- */

static void say_rotated(const json_t *answer, void *arg)
{
    (void)arg;
    printf("nodes trust the new key with their next certificates; it signs in %llu s\n",
           (unsigned long long)json_u64_at(answer, "signs_in_s"));
}

static int rotate_authority(const struct command *cmd, int argc, char **argv)
{
    bool json = false;
    const struct args_option options[] = {API_JSON(&json), API_END};
    struct args a = ARGS_INIT;
    int status;

    if (args_parse(&a, cmd, options, argc, argv, &status))
        status =
            api_do(cmd, &a, json, "POST", "/v1/authority/rotate", json_object(), say_rotated, NULL);
    args_release(&a);
    return status;
}

/* ---- help ---- */

static const struct command sub_keys = {
    .name = "manager keys",
    .synopsis = "[--json]",
    .summary = "List the keys that seal the store, and how many records use each.",
    .details = "Keys are shown by their fingerprints. The manager that answers may be any of the "
               "cluster.",
    .examples = "  $ dlcache manager keys\n",
    .run = keys,
};

static const struct command sub_rekey = {
    .name = "manager rekey",
    .synopsis = "[--json]",
    .summary = "Seal all records of the store with the first key of manager.key.",
    .details =
        "To replace the key of a cluster, managers go on meanwhile:\n"
        "\n"
        "1. Put the new key (openssl rand -hex 32) into the first line of manager.key of every\n"
        "   manager, and keep the old one below it. They read the file again within a second.\n"
        "2. Run this command. It says when no record uses the old key any more.\n"
        "3. Remove the old key from all files.\n"
        "\n"
        "It may be run again at any time, also after it was interrupted.",
    .examples =
        "  $ dlcache manager rekey --manager http://10.0.0.1:7070 --token-file admin.token\n",
    .run = rekey,
};

static const struct command sub_rotate_authority = {
    .name = "manager rotate-authority",
    .synopsis = "[--json]",
    .summary = "Begin to replace the key that signs certificates of nodes.",
    .details =
        "Nodes trust the new key with their next certificates. It signs after the manager's\n"
        "--certificate-life, when all have heard of it; nothing is interrupted. The old key\n"
        "is forgotten with the first rotation that comes later than twice that time, so a\n"
        "key that leaked is replaced by two rotations. While one is under way, another is\n"
        "refused.",
    .examples = "  $ dlcache manager rotate-authority\n",
    .run = rotate_authority,
};

const struct command *const manager_subs[] = {&sub_keys, &sub_rekey, &sub_rotate_authority, NULL};
