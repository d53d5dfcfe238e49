// SPDX-License-Identifier: Apache-2.0
/*
 * What talks to Kubernetes, by itself: kube-probe [--kubeconfig FILE | --in-cluster DIR]
 *
 * Reads a JSON object per line, {"op": ..., ...}, and answers with one: {"answer": op, "rc": code,
 * "status": HTTP status, "text": error, "out": ...}. Between answers lines come of themselves:
 * {"change": "new" | "changed" | "deleted", "key": ..., "version": ...} and {"lease": held}. Ends
 * with its input. tests/lib/kubeprobe.py drives it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "operator/kube/kube_watch.h"
#include "operator/kube/lease.h"
#include "operator/kube/object_cache.h"

static struct kube_config config = KUBE_CONFIG_INIT;
static struct metrics figures;
static struct kube *kube;
static struct objects *objects;
static struct kube_watch *watches[KUBE_KINDS];
static struct lease *lease;
static bool fenced; /* writes only while we lead */

static void say(json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT);

    printf("%s\n", text); /* one call: lines of threads do not mix */
    fflush(stdout);
    free(text);
    json_decref(j);
}

static void on_change(enum kube_kind kind, const json_t *before, const json_t *after, void *arg)
{
    const json_t *now = after != NULL ? after : before;
    char *key = object_key_of(kind, now);

    (void)arg;
    say(json_pack("{s:s, s:s, s:s}", "change",
                  before == NULL  ? "new"
                  : after == NULL ? "deleted"
                                  : "changed",
                  "key", key, "version", kube_version(now)));
    mem_free(&key);
}

static void on_lease(bool held, void *arg)
{
    (void)arg;
    say(json_pack("{s:b}", "lease", held));
}

static bool may_write(void *arg)
{
    (void)arg;
    return !fenced || (lease != NULL && lease_held(lease));
}

/* -------- arguments -------- */

static const char *text(const json_t *in, const char *name)
{
    return json_string_value(json_object_get(in, name));
}

static enum kube_kind kind_of(const json_t *in)
{
    const char *name = text(in, "kind");

    for (int i = 0; name != NULL && i < KUBE_KINDS; i++) {
        if (strcmp(kube_kinds[i].kind, name) == 0)
            return (enum kube_kind)i;
    }
    fprintf(stderr, "kube-probe: no such kind\n");
    exit(2);
}

static struct dlc_dur dur(const json_t *in, const char *name)
{
    return dlc_dur_of_seconds(json_number_value(json_object_get(in, name)));
}

static struct kube_options options(const json_t *in)
{
    return (struct kube_options){.config = &config,
                                 .metrics = &figures,
                                 .timeout = dur(in, "timeout"),
                                 .may_write = may_write};
}

/* -------- operations -------- */

static bool on_listed(json_t **object, void *arg)
{
    json_array_append_new(arg, json_string(kube_name(*object)));
    return true;
}

static int op_list(const json_t *in, json_t **out, struct dlc_err *err)
{
    struct kube_query q = {text(in, "ns"), text(in, "labels"), text(in, "fields")};

    *out = json_array();
    return kube_list(kube, kind_of(in), &q, on_listed, *out, NULL, err);
}

static int op_write(const char *op, const json_t *in, json_t **out, struct dlc_err *err)
{
    const json_t *body = json_object_get(in, "body");
    const char *ns = text(in, "ns"), *name = text(in, "name");
    unsigned flags = (unsigned)json_integer_value(json_object_get(in, "flags"));
    struct kube_delete_options d = KUBE_DELETE_INIT;

    d.uid = text(in, "uid");
    d.version = text(in, "version");
    if (strcmp(op, "create") == 0)
        return kube_create(kube, kind_of(in), ns, body, out, err);
    if (strcmp(op, "apply") == 0)
        return kube_apply(kube, kind_of(in), ns, name, body, flags, out, err);
    if (strcmp(op, "patch") == 0)
        return kube_patch(kube, kind_of(in), ns, name, body, flags, out, err);
    if (strcmp(op, "replace") == 0)
        return kube_replace(kube, kind_of(in), ns, name, body, flags, out, err);
    if (strcmp(op, "delete") == 0)
        return kube_delete(kube, kind_of(in), ns, name, &d, err);
    if (strcmp(op, "event") == 0)
        return kube_event(kube, body, text(in, "type"), text(in, "reason"), err, "%s",
                          text(in, "message"));
    fprintf(stderr, "kube-probe: no such op: %s\n", op);
    exit(2);
}

static int op_watch(const json_t *in, struct dlc_err *err)
{
    enum kube_kind kind = kind_of(in);
    struct kube_watch_config c = {.kube = options(in),
                                  .kind = kind,
                                  .query = {text(in, "ns"), text(in, "labels"), NULL},
                                  .into = objects,
                                  .silence = dur(in, "silence")};

    kube_watch_stop(&watches[kind]);
    return kube_watch_start(&c, &watches[kind], err);
}

static int op_lease(const json_t *in, struct dlc_err *err)
{
    struct lease_config c = {.kube = options(in),
                             .ns = text(in, "ns"),
                             .name = text(in, "name"),
                             .who = text(in, "who"),
                             .duration = dur(in, "duration"),
                             .changed = on_lease};

    return lease_start(&c, &lease, err);
}

/* What the cache has: {"ns/name": version}. */
static json_t *cached(enum kube_kind kind)
{
    json_t *all = objects_all(objects, kind, NULL), *out = json_object(), *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        char *place = mem_fmt("%s/%s", kube_namespace(one), kube_name(one));

        json_object_set_new(out, place, json_string(kube_version(one)));
        mem_free(&place);
    }
    objects_put(objects, &all);
    return out;
}

static json_t *watch_figures(enum kube_kind kind)
{
    struct kube_watch_figures f;

    kube_watch_figures(watches[kind], &f);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s}", "lists", (json_int_t)f.lists,
                     "watches", (json_int_t)f.watches, "events", (json_int_t)f.events, "bookmarks",
                     (json_int_t)f.bookmarks, "expired", (json_int_t)f.expired, "failures",
                     (json_int_t)f.failures, "synced", f.synced, "last_error", f.last_error);
}

static json_t *lease_now(void)
{
    char *holder = lease_holder(lease);
    json_t *j =
        json_pack("{s:b, s:s, s:s, s:I}", "held", lease_held(lease), "holder", holder, "identity",
                  lease_identity(lease), "transitions", (json_int_t)lease_transitions(lease));

    mem_free(&holder);
    return j;
}

static json_t *request_figures(void)
{
    json_int_t lists = 0, throttled = 0;

    for (size_t c = 0; c < METRICS_CODES; c++)
        lists += (json_int_t)figures.calls[METRICS_list][c];
    for (size_t v = 0; v < METRICS_VERBS; v++)
        throttled += (json_int_t)figures.calls[v][429];
    return json_pack("{s:I, s:I}", "lists", lists, "throttled", throttled);
}

static int perform(const char *op, const json_t *in, json_t **out, struct dlc_err *err)
{
    if (strcmp(op, "get") == 0)
        return kube_get(kube, kind_of(in), text(in, "ns"), text(in, "name"), out, err);
    if (strcmp(op, "list") == 0)
        return op_list(in, out, err);
    if (strcmp(op, "raw") == 0)
        return kube_raw(kube, text(in, "method"), text(in, "path"), json_object_get(in, "body"),
                        out, err);
    if (strcmp(op, "watch") == 0)
        return op_watch(in, err);
    if (strcmp(op, "lease") == 0)
        return op_lease(in, err);
    if (strcmp(op, "leave") == 0)
        lease_stop(&lease);
    else if (strcmp(op, "fence") == 0)
        fenced = true;
    else if (strcmp(op, "cached") == 0)
        *out = cached(kind_of(in));
    else if (strcmp(op, "watched") == 0)
        *out = watch_figures(kind_of(in));
    else if (strcmp(op, "leads") == 0)
        *out = lease_now();
    else if (strcmp(op, "figures") == 0)
        *out = request_figures();
    else
        return op_write(op, in, out, err);
    return 0;
}

static void answer(const json_t *in)
{
    const char *op = text(in, "op");
    struct dlc_err err = DLC_ERR_INIT;
    json_t *out = NULL;
    int rc = perform(op != NULL ? op : "", in, &out, &err);

    say(json_pack("{s:s, s:s, s:i, s:f, s:s, s:o?}", "answer", op, "rc",
                  rc < 0 ? dlc_err_name(rc) : "", "status", kube_status(kube), "retry_after",
                  dlc_dur_seconds(kube_retry_after(kube)), "text", err.text, "out", out));
}

int main(int argc, char **argv)
{
    struct objects_config how = {.changed = on_change};
    struct kube_options o = {.config = &config, .metrics = &figures, .may_write = may_write};
    struct dlc_err err = DLC_ERR_INIT;
    char *line = NULL;
    size_t cap = 0;
    bool inside = argc == 3 && strcmp(argv[1], "--in-cluster") == 0;
    int rc = inside ? kube_config_in_cluster(&config, argv[2], &err)
                    : kube_config_load(&config, argc == 3 ? argv[2] : NULL, NULL, &err);

    log_threshold = LOG_DEBUG;
    if (rc == 0)
        rc = kube_open(&o, &kube, &err);
    if (rc < 0) {
        fprintf(stderr, "kube-probe: %s\n", err.text);
        return 1;
    }
    objects = objects_new(&how);
    while (getline(&line, &cap, stdin) > 0) {
        json_t *in = json_loads(line, 0, NULL);

        dlc_check(in != NULL);
        answer(in);
        json_decref(in);
    }
    free(line);
    for (int i = 0; i < KUBE_KINDS; i++)
        kube_watch_stop(&watches[i]);
    lease_stop(&lease);
    objects_free(&objects);
    kube_close(&kube);
    kube_config_release(&config);
    return 0;
}
