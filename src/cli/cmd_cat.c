// SPDX-License-Identifier: Apache-2.0
/* `dlcache cat`: bytes of samples to standard output, through the cache. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "cli/commands.h"
#include "dlcache/core.h"
#include "bucket/url.h"

static int library_error(int code, struct dlc_err *err)
{
    return dlc_err_set(err, code, "%s", dlc_last_error());
}

/* ---- which samples ---- */

/* "#17", or a key, whole or below the dataset's prefix. */
static int find_sample(struct dlc_dataset *ds, const struct url *u, const char *name, uint64_t *i,
                       struct dlc_err *err)
{
    char *whole;
    int rc;

    if (name[0] == '#' && str_parse_u64(name + 1, i)) {
        if (*i < dlc_count(ds))
            return 0;
        return dlc_err_set(err, DLC_ENOTFOUND, "there is no sample %s: %s has %llu, from #0", name,
                           u->shown, (unsigned long long)dlc_count(ds));
    }
    rc = dlc_find(ds, name, i);
    if (rc != DLC_ENOTFOUND)
        return rc < 0 ? library_error(rc, err) : 0;
    whole = mem_fmt("%s%s", u->prefix, name);
    rc = dlc_find(ds, whole, i);
    mem_free(&whole);
    if (rc == DLC_ENOTFOUND)
        return dlc_err_set(err, rc, "%s has no sample \"%.300s\"; `dlcache ls` shows the keys",
                           u->shown, name);
    return rc < 0 ? library_error(rc, err) : 0;
}

/* A URL that names one object: the dataset is that object, or the directory it lies in. */
struct target {
    char *url; /* of the dataset to open */
    char *key; /* NULL: the URL is the dataset's */
};

static void target_release(struct target *t)
{
    mem_free(&t->url);
    mem_free(&t->key);
}

static void target_of(struct target *t, const char *text, const struct url *u, bool has_keys)
{
    const char *slash = strrchr(u->prefix, '/'), *query;
    struct stat st;

    *t = (struct target){mem_str(text), NULL};
    if (has_keys)
        return;
    if (u->scheme != URL_FILE) {
        t->key = mem_str(u->prefix);
        return;
    }
    if (slash == NULL || stat(u->prefix, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    query = u->shape.active ? strrchr(text, '?') : "";
    mem_free(&t->url);
    t->url = mem_fmt("file://%.*s%s", (int)(slash - u->prefix + 1), u->prefix, query);
    t->key = mem_str(slash + 1);
}

/* ---- bytes ---- */

static int write_sample(struct dlc_dataset *ds, uint64_t i, struct dlc_err *err)
{
    struct dlc_view v;
    int rc = dlc_get(ds, i, &v);

    if (rc < 0)
        return library_error(rc, err);
    if (os_write_all(STDOUT_FILENO, v.data, v.len) < 0)
        rc = dlc_err_set(err, DLC_EIO, "cannot write to standard output: %s", strerror(errno));
    dlc_put(ds, &v);
    return rc;
}

/* The one sample of a dataset that is one object. */
static int write_object(struct dlc_dataset *ds, const struct url *u, const struct target *t,
                        struct dlc_err *err)
{
    uint64_t i = 0;

    if (dlc_count(ds) == 1 || (t->key != NULL && dlc_find(ds, t->key, &i) == 0))
        return write_sample(ds, i, err);
    if (dlc_count(ds) == 0)
        return dlc_err_set(err, DLC_ENOTFOUND, "there is nothing at %s", u->shown);
    return dlc_err_set(err, DLC_EINVAL,
                       "%s is a dataset of %llu samples; say which: a key or a number such as '#0'",
                       u->shown, (unsigned long long)dlc_count(ds));
}

static int cat(const struct args *a, const struct url *u, struct dlc_err *err)
{
    struct dlc_dataset *ds = NULL;
    struct target t;
    uint64_t i;
    int rc;

    target_of(&t, a->operands[0], u, a->n > 1);
    rc = dlc_open(t.url, NULL, &ds);
    if (rc < 0)
        library_error(rc, err);
    else if (a->n == 1)
        rc = write_object(ds, u, &t, err);
    for (int k = 1; k < a->n && rc == 0; k++) {
        rc = find_sample(ds, u, a->operands[k], &i, err);
        if (rc == 0)
            rc = write_sample(ds, i, err);
    }
    dlc_close(&ds);
    target_release(&t);
    return rc;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct args a = ARGS_INIT;
    struct url u = URL_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int status;

    if (args_parse(&a, cmd, NULL, argc, argv, &status)) {
        status = CLI_OK;
        if (url_parse(&u, a.operands[0], &err) < 0 || cat(&a, &u, &err) < 0)
            status = cli_fail(cmd, &err);
    }
    url_release(&u);
    args_release(&a);
    return status;
}

const struct command cmd_cat = {
    .name = "cat",
    .synopsis = "URL [KEY | '#N' ...]",
    .summary = "Write samples to standard output.",
    .details = "Each sample is named by its key, or by its number as `dlcache ls` shows it (in "
               "quotes: # begins\n"
               "a comment for the shell). Without either, the URL itself names one object. The "
               "bytes come\n"
               "through the cache and stay there.",
    .examples = "  $ dlcache cat s3://my-bucket/train/ '#0' > first.jpg\n"
                "  $ dlcache cat s3://my-bucket/train/ cat/001.jpg cat/002.jpg | wc -c\n"
                "  $ dlcache cat s3://my-bucket/train/labels.csv | head\n",
    .min = 1,
    .max = -1,
    .missing = "the URL of a dataset",
    .run = run,
};
