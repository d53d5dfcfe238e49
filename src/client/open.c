// SPDX-License-Identifier: Apache-2.0
/* Opening and closing a dataset. */
#include <stdlib.h>
#include <string.h>

#include "base/api_token.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "bucket/bucket.h"
#include "catalog/catalog.h"
#include "base/secret.h"
#include "catalog/listing/list_here.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/bypass.h"
#include "client/dataset.h"
#include "client/fork.h"
#include "client/job_weights.h"
#include "bucket/azure_account.h"
#include "client/last_error.h"
#include "client/reading.h"
#include "ipc/node_marker.h"
#include "base/cancel.h"

#define DEFAULT_TIMEOUT DLC_SEC(300)
#define GREETING        DLC_SEC(5) /* which a daemon answers at once; else it hangs */
#define NODE_PAUSE      DLC_MS(250)
#define REOPEN_PAUSE    DLC_MS(100)
#define REOPEN_TRIES    10
#define START_TRIES     3 /* a daemon that ends as it starts may have been killed */

/* The daemon may have been started elsewhere: tell it the endpoint this environment means. */
static char *endpoint_of(const struct dlc_dataset *ds, const struct url *u)
{
    const char *e = ds->opt.endpoint != NULL ? ds->opt.endpoint : ds->config.endpoint;

    if (!url_is_cloud(u->scheme))
        return NULL;
    if (e[0] == '\0' && u->scheme == URL_AZ)
        return azure_endpoint_of_env(u);
    if (e[0] == '\0' && u->scheme == URL_S3 && (e = getenv("AWS_ENDPOINT_URL_S3")) == NULL)
        e = getenv("AWS_ENDPOINT_URL");
    return e != NULL && e[0] != '\0' ? mem_str(e) : NULL;
}

static int configure(struct dlc_dataset *ds, const struct dlc_options *opt, struct dlc_err *err)
{
    struct url u = URL_INIT;
    int rc = url_parse(&u, ds->url, err); /* a bad URL needs no daemon to be told so */

    if (rc == 0)
        rc = config_load(&ds->config, NULL, err);
    if (rc == 0 && opt != NULL)
        ds->opt = *opt;
    if (rc == 0 && ds->opt.socket != NULL)
        rc = config_set(&ds->config, "socket", ds->opt.socket, err);
    if (rc == 0)
        rc = token_load(&ds->config, ds->opt.token, &ds->token, err);
    if (rc == 0)
        ds->endpoint = endpoint_of(ds, &u);
    ds->shown = mem_str(u.shown);
    ds->opt.socket = ds->opt.endpoint = ds->opt.token = NULL;
    if (rc == 0 && ds->opt.snapshot != 0 && ds->opt.refresh != 0)
        rc = dlc_err_set(err, DLC_EINVAL,
                         "refresh and snapshot exclude each other: a refresh makes a snapshot");
    ds->timeout = ds->opt.timeout_ms != 0 ? DLC_MS(ds->opt.timeout_ms) : DEFAULT_TIMEOUT;
    url_release(&u);
    return rc;
}

/* The catalog, listed and made by this process. */
static int list_without_daemon(struct dlc_dataset *ds, struct dlc_err *err)
{
    const struct bucket_config bc = direct_config(ds);
    uint64_t wanted = ds->opt.snapshot;
    struct url u = URL_INIT;
    int rc = url_parse(&u, ds->url, err);

    if (rc == 0 && u.scheme == URL_NAMED)
        rc = dlc_err_set(err, DLC_ENODAEMON, "only a daemon knows where %s lies", ds->shown);
    if (rc == 0)
        rc = list_here(&u, &bc, NULL, NULL, &ds->catalog, err);
    url_release(&u);
    if (rc < 0)
        return rc;
    ds->n = catalog_count(ds->catalog);
    if (ds->n == 0)
        rc = dlc_err_set(err, DLC_ENOTFOUND, "%s holds no objects", ds->shown);
    else if (wanted != 0 && catalog_snapshot(ds->catalog) != wanted)
        rc = dlc_err_set(err, DLC_ECHANGED, "%s is at snapshot %016llx now, not at %016llx",
                         ds->shown, (unsigned long long)catalog_snapshot(ds->catalog),
                         (unsigned long long)wanted);
    if (rc < 0)
        catalog_close(&ds->catalog);
    return rc;
}

/* The daemon hangs or has ended, as *err says. Who can list the bucket does without it; who cannot
 * waits. */
static int open_past_daemon(struct dlc_dataset *ds, struct attach_how *how, struct attachment **out,
                            struct dlc_err *err)
{
    struct dlc_err why = DLC_ERR_INIT, hangs = *err;
    int rc;

    log_warn("listing %s in this process, since the daemon at %s %s: %s", ds->shown,
             ds->config.socket, hangs.code == DLC_ETIMEDOUT ? "hangs" : "has ended", hangs.text);
    if (list_without_daemon(ds, &why) == 0) {
        dataset_back_off(ds, &hangs);
        return 0;
    }
    if (why.code == DLC_ECANCELED) {
        *err = why;
        return why.code;
    }
    how->greeting = how->silence = ATTACH_SILENCE;
    rc = attachment_new(ds, how, out, err);
    if (rc == DLC_ETIMEDOUT || rc == DLC_ENODAEMON) {
        hangs = *err;
        dlc_err_set(err, rc, "%s; and without it: %s", hangs.text, why.text);
    }
    return rc;
}

/* The node of this machine is down, as *err says: it is started again or upgraded. */
static int await_node(struct dlc_dataset *ds, const struct attach_how *how, struct attachment **out,
                      struct dlc_err *err)
{
    struct dlc_mono end = dlc_mono_add(dlc_mono_now(), ds->timeout);
    int rc = DLC_ENODAEMON;

    log_warn("%s: waiting for the node of this machine: %s", ds->shown, err->text);
    while (rc == DLC_ENODAEMON && !dlc_mono_passed(end, dlc_mono_now())) {
        if (interrupted())
            return interrupt_err(err);
        dlc_sleep(NODE_PAUSE);
        rc = attachment_new(ds, how, out, err);
    }
    return rc;
}

/* The daemon has ended, while it opened the dataset or as it started: another one may be there, or
 * can be started. */
static int open_again(struct dlc_dataset *ds, const struct attach_how *how, struct attachment **out,
                      struct dlc_err *err)
{
    int rc = DLC_ENODAEMON;

    for (unsigned i = 0; rc == DLC_ENODAEMON && i < (*how->reached ? REOPEN_TRIES : START_TRIES);
         i++) {
        if (interrupted())
            return interrupt_err(err);
        dlc_sleep(REOPEN_PAUSE);
        *err = (struct dlc_err)DLC_ERR_INIT;
        rc = attachment_new(ds, how, out, err);
    }
    return rc;
}

/* *out stays NULL when it is open without a daemon, which hangs or has ended. */
static int open_dataset(struct dlc_dataset *ds, struct attachment **out, struct dlc_err *err)
{
    bool reached = false;
    struct attach_how how = {.may_spawn = ds->opt.no_spawn == 0,
                             .refresh = ds->opt.refresh != 0,
                             .greeting = GREETING,
                             .silence = ATTACH_SILENCE,
                             .deadline = NO_DEADLINE,
                             .reached = &reached};
    int rc = attachment_new(ds, &how, out, err);
    char *node = rc == DLC_ENODAEMON ? node_marker_read(ds->config.socket) : NULL;

    if (node != NULL)
        rc = await_node(ds, &how, out, err);
    else if (rc == DLC_ENODAEMON && (reached || how.may_spawn))
        rc = open_again(ds, &how, out, err);
    if (rc == DLC_ETIMEDOUT || (rc == DLC_ENODAEMON && reached && node == NULL))
        rc = open_past_daemon(ds, &how, out, err);
    mem_free(&node);
    return rc;
}

int dlc_open(const char *url, const struct dlc_options *opt, struct dlc_dataset **out)
{
    struct dlc_dataset *ds = mem_new(struct dlc_dataset);
    struct attachment *a = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    *out = NULL;
    client_init();
    ds->tag = DATASET_TAG;
    ds->url = mem_str(url != NULL ? url : "");
    dlc_mtx_init(&ds->mtx, LCK_dataset);
    dlc_mtx_init(&ds->direct_mtx, LCK_direct);
    importance_init(&ds->importance);
    dlc_list_init(&ds->retired);
    dlc_list_init(&ds->link);
    if (configure(ds, opt, &err) < 0 || open_dataset(ds, &a, &err) < 0) {
        dlc_close(&ds);
        return client_fail(&err);
    }
    dataset_enlist(ds);
    if (a != NULL)
        dataset_attach_to(ds, a);
    *out = ds;
    return 0;
}

void dlc_close(struct dlc_dataset **dsp)
{
    struct dlc_dataset *ds = *dsp;
    struct attachment *a;
    struct dlc_list *n;

    *dsp = NULL;
    if (ds == NULL)
        return;
    dlc_check(ds->tag == DATASET_TAG);
    dataset_delist(ds);
    a = atomic_load(&ds->cur);
    attachment_free(&a);
    while ((n = dlc_list_pop_head(&ds->retired)) != NULL) {
        a = dlc_container(n, struct attachment, link);
        attachment_free(&a);
    }
    reading_release(&ds->reading);
    importance_release(&ds->importance);
    dlc_mtx_release(&ds->importance.mtx);
    bucket_close(&ds->direct);
    catalog_close(&ds->catalog);
    config_release(&ds->config);
    dlc_mtx_release(&ds->mtx);
    dlc_mtx_release(&ds->direct_mtx);
    mem_free(&ds->url);
    mem_free(&ds->shown);
    mem_free(&ds->endpoint);
    mem_free(&ds->decoded);
    mem_free(&ds->place);
    mem_free(&ds->place_endpoint);
    secret_free(&ds->token);
    ds->tag = 0;
    mem_free(&ds);
}
