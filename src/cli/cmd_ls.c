// SPDX-License-Identifier: Apache-2.0
/*
 * Lists a catalog: the daemon's, whose descriptor comes with `open`, or with --no-daemon one made
 * here from a listing of the bucket. Both are sorted by key, so the numbers are the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "cli/bucket_settings.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/table.h"
#include "catalog/listing/list_here.h"
#include "bucket/bucket.h"

struct options {
    bool json, details, no_daemon, refresh, classes, splits;
    uint64_t limit;
};

/* ---- a catalog without a daemon ---- */

static void show_listed(void *bar, uint64_t objects)
{
    progress_update(bar, "listing", objects, 0, 0, 0);
}

static int catalog_here(const struct config *c, const char *url, struct progress *bar,
                        struct catalog **out, struct dlc_err *err)
{
    const struct bucket_config bc = bucket_settings(c);
    struct url u = URL_INIT;
    int rc = url_parse(&u, url, err);

    if (rc == 0)
        rc = list_here(&u, &bc, show_listed, bar, out, err);
    url_release(&u);
    return rc;
}

/* ---- the daemon's catalog ---- */

static int catalog_there(const struct config *c, const char *url, bool refresh,
                         struct progress *bar, struct catalog **out, struct dlc_err *err)
{
    struct ctl ctl = CTL_INIT;
    struct msg opened = MSG_INIT;
    int rc = ctl_check_url(url, err), fd = -1;

    if (rc == 0)
        rc = ctl_open(&ctl, c, true, err);
    if (rc == 0)
        rc = ctl_open_dataset(&ctl, c, url, refresh, show_progress, bar, &opened, err);
    if (rc == 0) {
        fd = msg_take_fd(&opened, CTL_FD_CATALOG);
        rc = fd >= 0 ? catalog_open_fd(fd, out, err)
                     : dlc_err_set(err, DLC_EPROTO, "the daemon sent no catalog");
    }
    os_close(&fd);
    msg_release(&opened);
    ctl_close(&ctl);
    return rc;
}

/* ---- printing ---- */

/* For a terminal without what could control it. */
static void add_shown(struct buf *out, const char *text, size_t len, bool terminal)
{
    if (terminal)
        str_printable(text, len, out);
    else
        buf_add(out, text, len);
}

/* The name of sample i's class; "" when it has none. */
static int label_of(const struct catalog *c, uint64_t i, uint32_t *label, struct catalog_text *name,
                    struct dlc_err *err)
{
    int rc = catalog_label(c, i, label, err);

    *name = (struct catalog_text){"", 0};
    if (rc == 0 && *label != SAMPLE_NO_LABEL)
        rc = catalog_class_name(c, *label, name, err);
    return rc;
}

static json_t *json_text(struct catalog_text t)
{
    char *s = mem_strn(t.s, t.len);
    json_t *j = msg_string(s);

    mem_free(&s);
    return j;
}

static int print_json_entry(const struct catalog *c, uint64_t i, const struct catalog_entry *e,
                            struct dlc_err *err)
{
    json_t *o =
        json_pack("{s:I, s:o, s:I, s:o}", "sample", (json_int_t)i, "key", msg_string(e->key),
                  "size", (json_int_t)e->size, "etag", msg_string(e->etag));
    struct catalog_text t;
    uint32_t label;
    int rc = label_of(c, i, &label, &t, err);

    if (rc == 0 && label != SAMPLE_NO_LABEL) {
        json_object_set_new(o, "label", json_integer(label));
        json_object_set_new(o, "class", json_text(t));
    }
    for (unsigned k = 0; k < catalog_columns(c) && rc == 0; k++) {
        json_t *columns = json_object_get(o, "columns");

        rc = catalog_cell(c, i, k, &t, err);
        if (columns == NULL) {
            columns = json_object();
            json_object_set_new(o, "columns", columns);
        }
        json_object_set_new(columns, catalog_column_name(c, k), json_text(t));
    }
    print_json(o, false);
    return rc;
}

static int print_entry(const struct catalog *c, const struct options *o, uint64_t i, int digits,
                       const struct catalog_entry *e, bool terminal, struct dlc_err *err)
{
    struct buf line = BUF_INIT;
    struct catalog_text name;
    uint32_t label;
    char size[24];
    int rc;

    if (o->json)
        return print_json_entry(c, i, e, err);
    rc = label_of(c, i, &label, &name, err);
    add_shown(&line, e->key, strlen(e->key), terminal);
    if (label != SAMPLE_NO_LABEL) {
        buf_adds(&line, "  ");
        add_shown(&line, name.s, name.len, terminal);
    }
    if (o->details)
        printf("%*llu  %13llu  %-34s  %s\n", digits, (unsigned long long)i,
               (unsigned long long)e->size, e->etag[0] != '\0' ? e->etag : "-", buf_str(&line));
    else
        printf("%*llu  %8s  %s\n", digits, (unsigned long long)i, str_size(e->size, size),
               buf_str(&line));
    buf_release(&line);
    return rc;
}

static int print_samples(const struct catalog *c, const struct options *o, bool quiet,
                         struct dlc_err *err)
{
    struct catalog_entry *e = mem_new(struct catalog_entry);
    uint64_t n = catalog_visible(c), shown = DLC_MIN(n, o->limit);
    bool terminal = isatty(STDOUT_FILENO) == 1;
    char count[32], size[24];
    int digits = snprintf(NULL, 0, "%llu", (unsigned long long)(shown > 0 ? shown - 1 : 0)), rc = 0;

    for (uint64_t i = 0; i < shown && rc == 0 && !ferror(stdout); i++) {
        rc = catalog_get(c, i, e, err);
        if (rc == 0)
            rc = print_entry(c, o, i, digits, e, terminal, err);
    }
    if (rc == 0 && !quiet && !o->json) {
        fflush(stdout);
        fprintf(stderr, "snapshot %016llx: %s samples, %s\n",
                (unsigned long long)catalog_snapshot(c), table_count(n, count),
                str_size(catalog_bytes(c), size));
    }
    mem_free(&e);
    return rc;
}

static int print_classes(const struct catalog *c, const struct options *o, struct dlc_err *err)
{
    uint64_t n = DLC_MIN(catalog_classes(c), o->limit);
    bool terminal = isatty(STDOUT_FILENO) == 1;
    int rc = 0;

    for (uint64_t k = 0; k < n && rc == 0; k++) {
        struct buf line = BUF_INIT;
        struct catalog_text t;

        rc = catalog_class_name(c, k, &t, err);
        add_shown(&line, t.s, t.len, terminal);
        if (rc == 0 && o->json)
            print_json(json_pack("{s:I, s:o}", "label", (json_int_t)k, "class", json_text(t)),
                       false);
        else if (rc == 0)
            printf("%llu  %s\n", (unsigned long long)k, buf_str(&line));
        buf_release(&line);
    }
    return rc;
}

static void print_splits(const struct catalog *c, const struct options *o)
{
    for (unsigned k = 0; k < catalog_splits(c); k++) {
        const struct catalog_split *s = catalog_split_at(c, k);

        if (o->json)
            print_json(json_pack("{s:o, s:I, s:I}", "split", msg_string(s->name), "first",
                                 (json_int_t)s->first, "samples", (json_int_t)s->count),
                       false);
        else
            printf("%-12s  %12llu samples from %llu\n", s->name, (unsigned long long)s->count,
                   (unsigned long long)s->first);
    }
}

static int print_catalog(const struct catalog *c, const struct options *o, bool quiet,
                         struct dlc_err *err)
{
    int rc = 0;

    if (o->splits)
        print_splits(c, o);
    if (o->classes)
        rc = print_classes(c, o, err);
    return o->splits || o->classes ? rc : print_samples(c, o, quiet, err);
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct options o = {.limit = UINT64_MAX};
    const char *limit = NULL;
    const struct args_option options[] = {
        {"long", 'l', NULL, "Exact sizes, and ETags.", &o.details, NULL},
        {"limit", 'n', "N", "Only the first N samples.", NULL, &limit},
        {"classes", 0, NULL, "The classes and their numbers instead.", &o.classes, NULL},
        {"splits", 0, NULL, "The splits instead.", &o.splits, NULL},
        {"refresh", 0, NULL, "List the bucket again.", &o.refresh, NULL},
        {"no-daemon", 0, NULL, "List straight from the bucket.", &o.no_daemon, NULL},
        {"json", 0, NULL, "Print one JSON object per line.", &o.json, NULL},
        {NULL, 0, NULL, NULL, NULL, NULL},
    };
    struct args a = ARGS_INIT;
    struct catalog *catalog = NULL;
    struct progress bar;
    struct dlc_err err = DLC_ERR_INIT;
    int status, rc;

    if (!args_parse(&a, cmd, options, argc, argv, &status))
        goto out;
    if (limit != NULL && !str_parse_u64(limit, &o.limit)) {
        dlc_err_set(&err, DLC_EINVAL, "--limit: \"%.60s\" is not a whole number", limit);
        status = cli_fail(cmd, &err);
        goto out;
    }
    progress_init(&bar, "objects", a.quiet || o.json);
    rc = o.no_daemon ? catalog_here(&a.config, a.operands[0], &bar, &catalog, &err)
                     : catalog_there(&a.config, a.operands[0], o.refresh, &bar, &catalog, &err);
    progress_end(&bar);
    if (rc == 0)
        rc = print_catalog(catalog, &o, a.quiet, &err);
    status = rc < 0 ? cli_fail(cmd, &err) : end_output(cmd);
out:
    catalog_close(&catalog);
    args_release(&a);
    return status;
}

const struct command cmd_ls = {
    .name = "ls",
    .synopsis = "URL [-l] [-n N] [--classes] [--splits] [--refresh] [--no-daemon] [--json]",
    .summary = "List the samples of a dataset.",
    .details =
        "Prints number, size, key and class of every sample. The first listing of a URL asks the\n"
        "bucket; the daemon stores it, and later ones, also of other programs, take that. "
        "--refresh\n"
        "asks the bucket again.",
    .examples = "  $ dlcache ls s3://my-bucket/train/\n"
                "  $ dlcache ls -l -n 10 gs://my-bucket/train/\n"
                "  $ dlcache ls --json file:///data/images | jq .key\n",
    ONE_OPERAND("the URL of a dataset"),
    .run = run,
};
