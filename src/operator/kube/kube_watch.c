// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/kube_watch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "base/str.h"

#define WATCH_TAG  DLC_TAG4('k', 'w', 't', 'c')
#define SILENCE    DLC_SEC(150)
#define FIRST_WAIT DLC_MS(50)
#define MOST_WAIT  DLC_SEC(30)
#define LASTED     DLC_SEC(1) /* a watch that was open for so long was one */
#define PAGE_TIME  DLC_SEC(30)

struct kube_watch {
    uint32_t tag;
    struct kube *kube;
    struct objects *into;
    enum kube_kind kind;
    char *ns, *labels, *fields; /* NULL: any */
    struct dlc_dur silence;
    pthread_t thread;
    struct rng rng;
    char *version;                  /* up to which we have seen all; NULL: list first */
    bool relist;                    /* the stream said that the version is of no use */
    struct dlc_err said;            /* what it said */
    unsigned failures;              /* in a row */
    struct dlc_mtx mtx;             /* rank LCK_watch */
    struct dlc_cond woken;          /* when `stop` is set */
    bool stop;                      /* G: mtx */
    struct kube_watch_figures told; /* G: mtx */
};

static struct kube_watch *watch_of(void *priv)
{
    struct kube_watch *w = priv;

    dlc_check(w != NULL && w->tag == WATCH_TAG);
    return w;
}

/* -------- one line -------- */

static bool type_of(const char *name, enum watch_type *out)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};

    for (size_t i = 0; name != NULL && i < DLC_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum watch_type)i;
            return true;
        }
    }
    return false;
}

int watch_event_parse(const char *line, size_t len, struct watch_event *e, struct dlc_err *err)
{
    json_t *j = json_loadb(line, len, 0, NULL);
    json_t *object = json_object_get(j, "object");
    int rc = 0;

    memset(e, 0, sizeof(*e));
    if (!json_is_object(object) ||
        !type_of(json_string_value(json_object_get(j, "type")), &e->type))
        rc = dlc_err_set(err, DLC_EPROTO, "a line of the watch is not an event");
    else if (e->type != WATCH_ERROR && *kube_version(object) == '\0')
        rc = dlc_err_set(err, DLC_EPROTO, "an event of the watch has no version");
    else if (e->type <= WATCH_DELETED && *kube_name(object) == '\0')
        rc = dlc_err_set(err, DLC_EPROTO, "an event of the watch is about nothing");
    if (rc == 0) {
        e->object = json_incref(object); /* the line lets go of it below: it is ours alone */
        e->code = e->type == WATCH_ERROR ? (int)json_int_at(object, "code") : 0;
    }
    json_decref(j);
    return rc;
}

void watch_event_release(struct watch_event *e)
{
    json_decref(e->object);
    e->object = NULL;
}

/* -------- figures -------- */

static void heard(struct kube_watch *w, const struct watch_event *e)
{
    dlc_mtx_lock(&w->mtx);
    w->told.heard = dlc_mono_now();
    w->told.last_error[0] = '\0';
    if (e != NULL && e->type == WATCH_BOOKMARK)
        w->told.bookmarks++;
    else if (e != NULL && e->type != WATCH_ERROR)
        w->told.events++;
    dlc_mtx_unlock(&w->mtx);
}

void kube_watch_figures(struct kube_watch *w, struct kube_watch_figures *out)
{
    dlc_mtx_lock(&watch_of(w)->mtx);
    *out = w->told;
    dlc_mtx_unlock(&w->mtx);
    out->synced = objects_synced(w->into, w->kind);
}

/* -------- list, then watch -------- */

static bool on_listed(json_t **object, void *arg)
{
    struct kube_watch *w = watch_of(arg);

    objects_seen(w->into, w->kind, object);
    return true;
}

static int list(struct kube_watch *w, struct dlc_err *err)
{
    struct kube_query q = {w->ns, w->labels, w->fields};
    char *version;
    int rc;

    dlc_mtx_lock(&w->mtx);
    w->told.lists++;
    dlc_mtx_unlock(&w->mtx);
    objects_list_begin(w->into, w->kind);
    rc = kube_list(w->kube, w->kind, &q, on_listed, w, &version, err);
    if (rc < 0)
        return rc;
    if (!objects_list_end(w->into, w->kind, version)) {
        log_warn("versions of %s went backwards: was the store of the API server restored? "
                 "Listing them again",
                 kube_kinds[w->kind].plural);
        mem_free(&version);
        return 0;
    }
    mem_free(&w->version);
    w->version = version;
    w->relist = false;
    heard(w, NULL);
    return 0;
}

static void keep_version(struct kube_watch *w, const json_t *object)
{
    mem_free(&w->version);
    w->version = mem_str(kube_version(object));
}

/* The watch says that it cannot go on. */
static void on_error(struct kube_watch *w, const struct watch_event *e)
{
    const char *message = json_string_value(json_object_get(e->object, "message"));

    dlc_mtx_lock(&w->mtx);
    w->told.expired += e->code == 410;
    dlc_mtx_unlock(&w->mtx);
    w->relist = true;
    if (e->code != 410)
        dlc_err_set(&w->said, DLC_EBUCKET, "the watch of %s ended: %.300s (status %d)",
                    kube_kinds[w->kind].plural, message != NULL ? message : "no reason", e->code);
}

/* False ends the stream. */
static bool on_line(const char *line, size_t len, void *arg)
{
    struct kube_watch *w = watch_of(arg);
    struct watch_event e;

    if (len == 0)
        return true;
    if (watch_event_parse(line, len, &e, &w->said) < 0) {
        w->relist = true;
        return false;
    }
    heard(w, &e);
    if (e.type == WATCH_ERROR) {
        on_error(w, &e);
    } else {
        w->failures = 0;
        keep_version(w, e.object); /* ours alone: it is applied before anybody looks */
    }
    if (e.type == WATCH_DELETED)
        objects_gone(w->into, w->kind, &e.object);
    else if (e.type == WATCH_BOOKMARK)
        objects_upto(w->into, w->kind, w->version);
    else if (e.type != WATCH_ERROR)
        objects_seen(w->into, w->kind, &e.object);
    watch_event_release(&e);
    return !w->relist;
}

unsigned kube_watch_open_seconds(struct dlc_dur silence, struct rng *rng)
{
    unsigned s = (unsigned)(silence.ns / 1000000000);

    return DLC_MAX(1u, s / 2 + (unsigned)rng_below(rng, s / 4 + 1));
}

static char *watch_path(struct kube_watch *w)
{
    char *all = kube_path(w->kind, w->ns);
    struct buf b = BUF_INIT;

    buf_addf(&b, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=", all,
             kube_watch_open_seconds(w->silence, &w->rng));
    str_uri_encode(w->version, strlen(w->version), false, &b);
    if (w->labels != NULL) {
        buf_adds(&b, "&labelSelector=");
        str_uri_encode(w->labels, strlen(w->labels), false, &b);
    }
    if (w->fields != NULL) {
        buf_adds(&b, "&fieldSelector=");
        str_uri_encode(w->fields, strlen(w->fields), false, &b);
    }
    mem_free(&all);
    return buf_take(&b);
}

static int follow(struct kube_watch *w, struct dlc_err *err)
{
    char *path = watch_path(w);
    int rc, status;

    dlc_mtx_lock(&w->mtx);
    w->told.watches++;
    dlc_mtx_unlock(&w->mtx);
    w->said = (struct dlc_err)DLC_ERR_INIT;
    rc = kube_lines(w->kube, path, w->silence, on_line, w, err);
    status = kube_status(w->kube);
    if (rc < 0 && status == 410) {
        dlc_mtx_lock(&w->mtx);
        w->told.expired++;
        dlc_mtx_unlock(&w->mtx);
        w->relist = true;
        rc = 0;
    } else if (rc < 0 && status >= 400 && status != 429 && status != 503) {
        w->relist = true; /* whatever it has against this version, a list shows what there is */
    } else if (rc == 0 && w->said.code < 0) {
        *err = w->said;
        rc = err->code;
    }
    mem_free(&path);
    return rc;
}

/* -------- the thread -------- */

/* Wait before the next attempt. A list that went well does not reset the back-off: a server that
 * refuses watches would be asked for lists in circles. */
static void pause_for(struct kube_watch *w, struct dlc_dur least)
{
    struct dlc_dur wait =
        backoff_jitter(backoff_after(w->failures, FIRST_WAIT, MOST_WAIT), 0.5, &w->rng);
    struct dlc_mono until =
        dlc_mono_add(dlc_mono_now(), (struct dlc_dur){DLC_MAX(wait.ns, least.ns)});

    dlc_mtx_lock(&w->mtx);
    while (!w->stop && dlc_mono_now().ns < until.ns)
        dlc_cond_wait_for(&w->woken, &w->mtx, dlc_mono_sub(until, dlc_mono_now()));
    dlc_mtx_unlock(&w->mtx);
}

static void note_failure(struct kube_watch *w, const struct dlc_err *err)
{
    w->failures++;
    dlc_mtx_lock(&w->mtx);
    w->told.failures++;
    snprintf(w->told.last_error, sizeof(w->told.last_error), "%.255s", err->text);
    dlc_mtx_unlock(&w->mtx);
    log_at(w->failures == 1 || w->failures == 6 ? LOG_WARN : LOG_DEBUG, "following %s: %s",
           kube_kinds[w->kind].plural, err->text);
}

static bool stops(struct kube_watch *w)
{
    bool stop;

    dlc_mtx_lock(&w->mtx);
    stop = w->stop;
    dlc_mtx_unlock(&w->mtx);
    return stop;
}

static void *run(void *priv)
{
    struct kube_watch *w = watch_of(priv);

    while (!stops(w)) {
        struct dlc_err err = DLC_ERR_INIT;
        bool listing = w->version == NULL || w->relist;
        struct dlc_mono begin = dlc_mono_now();
        int rc = listing ? list(w, &err) : follow(w, &err);

        if (rc < 0 && stops(w))
            break;
        if (rc < 0)
            note_failure(w, &err);
        else if (!listing && dlc_mono_since(begin).ns > LASTED.ns)
            w->failures = 0;
        else if (!listing)
            w->failures++; /* it closes as soon as it opens */
        if (rc < 0 || !listing)
            pause_for(w, kube_retry_after(w->kube));
    }
    return NULL;
}

static void free_watch(struct kube_watch *w)
{
    kube_close(&w->kube);
    dlc_cond_release(&w->woken);
    dlc_mtx_release(&w->mtx);
    mem_free(&w->ns);
    mem_free(&w->labels);
    mem_free(&w->fields);
    mem_free(&w->version);
    w->tag = 0;
    mem_free(&w);
}

int kube_watch_start(const struct kube_watch_config *c, struct kube_watch **out,
                     struct dlc_err *err)
{
    struct kube_watch *w = mem_new(struct kube_watch);
    struct kube_options o = c->kube;
    int rc;

    *out = NULL;
    w->tag = WATCH_TAG;
    w->into = c->into;
    w->kind = c->kind;
    w->ns = mem_str(c->query.ns);
    w->labels = mem_str(c->query.labels);
    w->fields = mem_str(c->query.fields);
    w->silence = c->silence.ns > 0 ? c->silence : SILENCE;
    w->rng.state = rng_seed();
    dlc_mtx_init(&w->mtx, LCK_watch);
    dlc_cond_init(&w->woken);
    if (o.timeout.ns <= 0)
        o.timeout = PAGE_TIME; /* reading takes its time; no lease ends meanwhile */
    rc = kube_open(&o, &w->kube, err);
    if (rc == 0 && os_thread(&w->thread, run, w) != 0)
        rc = dlc_err_set(err, DLC_ENOMEM, "no thread to follow %s", kube_kinds[w->kind].plural);
    if (rc < 0) {
        free_watch(w);
        return rc;
    }
    *out = w;
    return 0;
}

void kube_watch_stop(struct kube_watch **wp)
{
    struct kube_watch *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    dlc_mtx_lock(&watch_of(w)->mtx);
    w->stop = true;
    dlc_cond_broadcast(&w->woken);
    dlc_mtx_unlock(&w->mtx);
    kube_interrupt(w->kube);
    pthread_join(w->thread, NULL);
    free_watch(w);
}
