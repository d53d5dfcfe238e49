// SPDX-License-Identifier: Apache-2.0
/*
 * The front of the store: checks arguments, converts JSON to text and back, and calls the backend.
 */
#include "manager/store/store.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/store/record_auth_i.h"
#include "manager/store/seal.h"
#include "manager/store/store_i.h"
#include "manager/store/chunk_merge_i.h"

#define EACH_PAGE 256
#define PUT_TRIES 16

/* ---- open and close ---- */

int store_open(const char *url, struct store **out, struct dlc_err *err)
{
    *out = NULL;
    if (str_starts(url, "sqlite:") && url[7] != '\0')
        return sqlite_store_open(url + 7, out, err);
    if (str_starts(url, "redis://") || str_starts(url, "rediss://"))
#ifdef DLC_REDIS
        return redis_store_open(url, out, err);
#else
        return dlc_err_set(err, DLC_EINVAL,
                           "this dlcache was built without Redis (meson -Dredis=enabled)");
#endif
    return dlc_err_set(
        err, DLC_EINVAL,
        "a store is sqlite:PATH or redis[s]://[USER:PASSWORD@]HOST:PORT[,...][/PREFIX]");
}

static struct store *checked(struct store *m)
{
    dlc_check(m != NULL && m->tag == STORE_TAG);
    return m;
}

void store_close(struct store **mp)
{
    struct store *m = *mp;

    *mp = NULL;
    if (m != NULL)
        checked(m)->ops->close(m);
}

int store_reopen(struct store *m, bool make, struct dlc_err *err)
{
    return checked(m)->ops->reopen != NULL ? m->ops->reopen(m, make, err) : 0;
}

const char *store_backend(const struct store *m)
{
    return m->ops->kind(m);
}

void store_authenticate(struct store *m, const struct seal *seal, store_forged_f *forged, void *arg)
{
    checked(m)->seal = seal;
    m->forged = forged;
    m->forged_arg = arg;
}

/* ---- arguments ---- */

static int check_id(const char *id, struct dlc_err *err)
{
    return store_check_text("an id", id, 1, STORE_ID_MAX, err);
}

static int check_optional(const char *what, const char *s, struct dlc_err *err)
{
    return s == NULL ? 0 : store_check_text(what, s, 0, STORE_ID_MAX, err);
}

/* ---- documents ---- */

void store_doc_release(struct store_doc *d)
{
    mem_free(&d->id);
    mem_free(&d->tenant);
    json_decref(d->body);
    *d = (struct store_doc)STORE_DOC_INIT;
}

/* tenant: the one whose documents were asked for; NULL: any. */
static int authenticate(struct store *m, enum store_kind kind, const char *tenant,
                        struct store_raw *raw, char key[static SEAL_KEY_ID_LEN + 1],
                        struct dlc_err *err)
{
    struct dlc_err why = DLC_ERR_INIT;
    int rc;

    if (m->seal == NULL)
        return 0;
    rc = record_open(m->seal, kind, raw, key, &why);
    if (rc == 0 && tenant != NULL && strcmp(tenant, raw->tenant) != 0)
        rc = dlc_err_set(&why, DLC_ECORRUPT, "store: %s '%s' is listed under another tenant",
                         store_kind_name(kind), raw->id);
    if (rc == 0)
        return 0;
    log_error("%s", why.text);
    if (m->forged != NULL)
        m->forged(store_kind_name(kind), raw->id, why.text, m->forged_arg);
    if (err != NULL)
        *err = why;
    return rc;
}

/* Takes raw's texts. */
static int doc_of_raw(struct store *m, enum store_kind kind, const char *tenant,
                      struct store_raw *raw, struct store_doc *out, struct dlc_err *err)
{
    char key[SEAL_KEY_ID_LEN + 1] = "";
    int rc = authenticate(m, kind, tenant, raw, key, err);
    json_error_t why;
    json_t *body;

    if (rc < 0) {
        store_raw_release(raw);
        return rc;
    }
    body = json_loadb(raw->body, raw->body_len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (body == NULL) {
        rc = dlc_err_set(err, DLC_ECORRUPT,
                         "store: %s '%s' is not JSON in the store (%s); delete it, or run "
                         "'dlcache rebuild'",
                         store_kind_name(kind), raw->id, why.text);
    } else {
        *out = (struct store_doc){
            .id = raw->id, .tenant = raw->tenant, .body = body, .version = raw->version};
        memcpy(out->key, key, sizeof(key));
        raw->id = raw->tenant = NULL;
    }
    store_raw_release(raw);
    return rc;
}

int store_get(struct store *m, enum store_kind kind, const char *id, struct store_doc *out,
              struct dlc_err *err)
{
    struct store_raw raw = {0};
    int rc = check_id(id, err);

    *out = (struct store_doc)STORE_DOC_INIT;
    if (rc == 0)
        rc = checked(m)->ops->get(m, kind, id, &raw, err);
    return rc < 0 ? rc : doc_of_raw(m, kind, NULL, &raw, out, err);
}

bool store_is_marked(struct store *m, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(m, STORE_MANAGER, STORE_MARK, &d, err);

    store_doc_release(&d);
    if (rc == DLC_ENOTFOUND)
        store_err_lost(err);
    return rc == 0;
}

/* The version that is there; 0: none. */
static int version_of(struct store *m, enum store_kind kind, const char *id, uint64_t *version,
                      struct dlc_err *err)
{
    struct store_raw there = {0};
    int rc = m->ops->get(m, kind, id, &there, err);

    *version = rc == 0 ? there.version : 0;
    store_raw_release(&there);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

/* The MAC is over the version that the write makes, so the one before must be known. */
static int put_known(struct store *m, enum store_kind kind, struct store_raw *raw, uint64_t expect,
                     struct dlc_err *err)
{
    struct store_raw sealed = *raw;
    int rc;

    sealed.body = record_seal(m->seal, kind, raw, expect + 1, &sealed.body_len);
    rc = m->ops->put(m, kind, &sealed, expect, m->fence, err);
    mem_free(&sealed.body);
    raw->version = sealed.version;
    return rc;
}

static int put_any(struct store *m, enum store_kind kind, struct store_raw *raw,
                   struct dlc_err *err)
{
    uint64_t there = 0, again;
    int rc = version_of(m, kind, raw->id, &there, err);

    for (int i = 0; rc == 0 && i < PUT_TRIES; i++) {
        rc = put_known(m, kind, raw, there, err);
        if (rc != DLC_EBUSY)
            break;
        if (version_of(m, kind, raw->id, &again, NULL) < 0 || again == there)
            break; /* not the version: another manager took over */
        there = again;
        rc = 0;
    }
    return rc;
}

static int put_raw(struct store *m, enum store_kind kind, struct store_raw *raw, uint64_t expect,
                   struct dlc_err *err)
{
    if (m->seal == NULL)
        return m->ops->put(m, kind, raw, expect, m->fence, err);
    return expect == STORE_ANY ? put_any(m, kind, raw, err) : put_known(m, kind, raw, expect, err);
}

int store_put(struct store *m, enum store_kind kind, struct store_doc *d, uint64_t expect,
              struct dlc_err *err)
{
    char empty[] = "";
    struct store_raw raw = {.id = d->id, .tenant = d->tenant != NULL ? d->tenant : empty};
    int rc = check_id(d->id, err);

    if (rc == 0)
        rc = check_optional("a tenant", d->tenant, err);
    if (rc < 0)
        return rc;
    dlc_check(d->body != NULL);
    raw.body = json_dumps(d->body, JSON_COMPACT | JSON_ENCODE_ANY);
    if (raw.body == NULL)
        return dlc_err_set(err, DLC_EINVAL, "store: %s '%s' cannot be written as JSON",
                           store_kind_name(kind), d->id);
    raw.body_len = strlen(raw.body);
    if (raw.body_len > STORE_BODY_MAX)
        rc = dlc_err_set(err, DLC_EINVAL, "store: %s '%s' has %zu bytes; allowed are %u",
                         store_kind_name(kind), d->id, raw.body_len, STORE_BODY_MAX);
    else
        rc = put_raw(checked(m), kind, &raw, expect, err);
    if (rc == 0)
        d->version = raw.version;
    if (rc == 0 && kind != STORE_WEIGHTS)
        m->changes++;
    free(raw.body);
    return rc;
}

int store_delete(struct store *m, enum store_kind kind, const char *id, uint64_t expect,
                 struct dlc_err *err)
{
    int rc = check_id(id, err);

    if (rc == 0)
        rc = checked(m)->ops->delete_(m, kind, id, expect, m->fence, err);
    if (rc == 0 && kind != STORE_WEIGHTS)
        m->changes++;
    return rc;
}

uint64_t store_changes(const struct store *m)
{
    return m->changes;
}

/*
 * A page of documents. leave_out: those that are not authentic, else they are errors. *last: gives
 * the last id of the page, whether it was left out or not; NULL: there is no further page.
 */
static int list_page(struct store *m, enum store_kind kind, const char *tenant, const char *after,
                     size_t max, bool leave_out, struct store_doc *docs, size_t *n, char **last,
                     struct dlc_err *err)
{
    struct store_raw *raw = mem_zero(max * sizeof(*raw));
    size_t got = 0, made = 0;
    int rc = checked(m)->ops->list(m, kind, tenant, after, max, raw, &got, err);

    *last = rc == 0 && got == max ? mem_str(raw[got - 1].id) : NULL;
    for (size_t i = 0; i < got; i++) {
        if (rc == 0) {
            rc = doc_of_raw(m, kind, tenant, &raw[i], &docs[made], err);
            made += rc == 0;
            if (rc == DLC_ECORRUPT && leave_out)
                rc = 0;
        } else {
            store_raw_release(&raw[i]);
        }
    }
    for (size_t i = 0; rc < 0 && i < made; i++)
        store_doc_release(&docs[i]);
    if (rc < 0)
        mem_free(last);
    mem_free(&raw);
    *n = rc == 0 ? made : 0;
    return rc;
}

int store_list(struct store *m, enum store_kind kind, const char *tenant, const char *after,
               size_t max, struct store_doc *docs, size_t *n, struct dlc_err *err)
{
    int rc = check_optional("a tenant", tenant, err);
    char *last = NULL;

    *n = 0;
    if (rc == 0)
        rc = check_optional("an id", after, err);
    if (rc == 0 && max > 0)
        rc = list_page(m, kind, tenant, after, max, false, docs, n, &last, err);
    mem_free(&last);
    return rc;
}

int store_each(struct store *m, enum store_kind kind, const char *tenant,
               bool (*each)(struct store_doc *d, void *arg), void *arg, struct dlc_err *err)
{
    struct store_doc *docs = mem_zero(EACH_PAGE * sizeof(*docs));
    bool leave_out = m->seal != NULL;
    char *after = NULL, *last;
    bool more = true;
    size_t n;
    int rc = check_optional("a tenant", tenant, err);

    while (rc == 0 && more) {
        rc = list_page(m, kind, tenant, after, EACH_PAGE, leave_out, docs, &n, &last, err);
        mem_free(&after);
        after = last;
        for (size_t i = 0; rc == 0 && i < n; i++) {
            more = more && each(&docs[i], arg);
            store_doc_release(&docs[i]);
        }
        more = more && after != NULL;
    }
    mem_free(&after);
    mem_free(&docs);
    return rc;
}

int store_ids(struct store *m, enum store_kind kind, const char *tenant, const char *after,
              const char *before, size_t max, char **ids, size_t *n, struct dlc_err *err)
{
    int rc = check_optional("a tenant", tenant, err);

    *n = 0;
    if (rc == 0)
        rc = check_optional("an id", after, err);
    if (rc == 0)
        rc = check_optional("an id", before, err);
    if (rc < 0 || max == 0)
        return rc;
    rc = checked(m)->ops->ids(m, kind, tenant, after, before, max, ids, n, err);
    for (; rc < 0 && *n > 0; --*n)
        mem_free(&ids[*n - 1]);
    return rc;
}

int store_count(struct store *m, enum store_kind kind, const char *tenant, uint64_t *n,
                struct dlc_err *err)
{
    int rc = check_optional("a tenant", tenant, err);

    *n = 0;
    return rc < 0 ? rc : checked(m)->ops->count(m, kind, tenant, n, err);
}

/* ---- documents as text ---- */

json_t *store_doc_export(struct store *m, enum store_kind kind, const struct store_doc *d)
{
    char *body = json_dumps(d->body, JSON_COMPACT | JSON_ENCODE_ANY), *sealed;
    struct store_raw raw = {.id = d->id, .tenant = d->tenant, .body = body};
    json_t *out;
    size_t len;

    dlc_check(checked(m)->seal != NULL && body != NULL);
    raw.body_len = strlen(body);
    sealed = record_seal(m->seal, kind, &raw, d->version, &len);
    out = json_pack("{s:s, s:s, s:I, s:s%}", "id", d->id, "tenant", d->tenant, "version",
                    (json_int_t)d->version, "sealed", sealed, len);
    mem_free(&sealed);
    free(body);
    return out;
}

int store_doc_import(struct store *m, enum store_kind kind, const json_t *text,
                     struct store_doc *out, struct dlc_err *err)
{
    const char *id = json_string_value(json_object_get(text, "id"));
    const char *tenant = json_string_value(json_object_get(text, "tenant"));
    const json_t *sealed = json_object_get(text, "sealed"),
                 *version = json_object_get(text, "version");
    struct store_raw raw = {0};

    *out = (struct store_doc)STORE_DOC_INIT;
    dlc_check(checked(m)->seal != NULL);
    if (id == NULL || tenant == NULL || !json_is_string(sealed) || !json_is_integer(version) ||
        json_integer_value(version) < 1 || check_id(id, NULL) < 0)
        return dlc_err_set(err, DLC_ECORRUPT, "a copy of a %s lacks a field",
                           store_kind_name(kind));
    raw.id = mem_str(id);
    raw.tenant = mem_str(tenant);
    raw.version = (uint64_t)json_integer_value(version);
    raw.body_len = json_string_length(sealed);
    raw.body = mem_strn(json_string_value(sealed), raw.body_len);
    return doc_of_raw(m, kind, NULL, &raw, out, err);
}

/* ---- chunks ---- */

int store_chunks_put(struct store *m, const struct store_chunk *c, size_t n, struct dlc_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = store_check_chunk(&c[i], err);
    return rc < 0 || n == 0 ? rc : checked(m)->ops->chunks_put(m, c, n, m->fence, err);
}

int store_chunks_drop(struct store *m, const char *dataset, const char *node, struct dlc_err *err)
{
    int rc = check_optional("a dataset", dataset, err);

    dlc_check(dataset != NULL || node != NULL);
    if (rc == 0)
        rc = check_optional("a node", node, err);
    return rc < 0 ? rc : checked(m)->ops->chunks_drop(m, dataset, node, m->fence, err);
}

int store_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                           const char *const *keys, size_t n, struct dlc_err *err)
{
    int rc = store_check_text("a dataset", dataset, 1, STORE_ID_MAX, err);

    if (rc == 0)
        rc = store_check_text("a node", node, 1, STORE_ID_MAX, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = store_check_text("a key", keys[i], 1, STORE_KEY_MAX, err);
    return rc < 0 || n == 0
               ? rc
               : checked(m)->ops->chunks_drop_keys(m, dataset, node, keys, n, m->fence, err);
}

int store_chunks_query(struct store *m, const struct store_chunk_query *q,
                       struct store_chunk_page *out, struct dlc_err *err)
{
    struct store_chunk_query bounded = *q;
    int rc = store_check_text("a dataset", q->dataset, 1, STORE_ID_MAX, err);

    *out = (struct store_chunk_page){0};
    if (rc == 0)
        rc = check_optional("a node", q->node, err);
    if (rc == 0 && q->prefix != NULL)
        rc = store_check_text("a prefix", q->prefix, 0, STORE_KEY_MAX, err);
    if (rc < 0)
        return rc;
    bounded.max = DLC_CLAMP(q->max, (size_t)1, (size_t)PAGE_SCAN);
    return page_query(checked(m), &bounded, out, err);
}

int store_chunks_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max,
                      size_t *n, struct dlc_err *err)
{
    int rc = store_check_text("a dataset", dataset, 1, STORE_ID_MAX, err);

    *n = 0;
    return rc < 0 ? rc : checked(m)->ops->sums(m, dataset, out, max, n, err);
}

/* ---- locks ---- */

int store_lock(struct store *m, const char *name, const char *holder, struct dlc_dur ttl,
               uint64_t *fence, struct dlc_err *err)
{
    int rc = store_check_text("the name of a lock", name, 1, STORE_ID_MAX, err);

    if (rc == 0)
        rc = store_check_text("the holder of a lock", holder, 1, STORE_ID_MAX, err);
    dlc_check(ttl.ns > 0);
    return rc < 0 ? rc : checked(m)->ops->lock(m, name, holder, ttl, fence, err);
}

int store_unlock(struct store *m, const char *name, const char *holder, struct dlc_err *err)
{
    int rc = store_check_text("the name of a lock", name, 1, STORE_ID_MAX, err);

    return rc < 0 ? rc : checked(m)->ops->unlock(m, name, holder, err);
}

void store_set_fence(struct store *m, uint64_t fence)
{
    struct dlc_err err = DLC_ERR_INIT;

    checked(m)->fence = fence;
    /* Should this not reach the store, the next write brings it. */
    if (fence != 0 && m->ops->raise(m, fence, &err) < 0)
        log_info("store: fence %" PRIu64 " not told yet: %s", fence, err.text);
}

/* ---- events ---- */

int store_event(struct store *m, const char *tenant, json_t *body, struct dlc_err *err)
{
    const char *whose = tenant != NULL ? tenant : "";
    char *text = json_dumps(body, JSON_COMPACT);
    int rc = check_optional("a tenant", tenant, err);

    json_decref(body);
    if (rc == 0 && text == NULL)
        rc = dlc_err_set(err, DLC_EINVAL, "store: an event that is not a JSON object");
    if (rc == 0)
        rc = checked(m)->ops->event(m, whose, text, m->fence, err);
    free(text);
    return rc;
}

static json_t *event_json(const struct store_raw_event *e)
{
    json_t *o = json_object(), *body = json_loads(e->body, JSON_ALLOW_NUL, NULL);

    json_object_set_new(o, "seq", json_integer((json_int_t)e->seq));
    json_object_set_new(o, "time_ms", json_integer(e->time_ms));
    json_object_set_new(o, "tenant", json_string(e->tenant));
    if (json_is_object(body))
        json_object_update_missing(o, body);
    json_decref(body);
    return o;
}

int store_events(struct store *m, const char *tenant, uint64_t after, size_t max, json_t **out,
                 struct dlc_err *err)
{
    struct store_raw_event *raw;
    size_t n = 0;
    int rc = check_optional("a tenant", tenant, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    max = DLC_CLAMP(max, (size_t)1, (size_t)STORE_EVENTS_MAX);
    raw = mem_zero(max * sizeof(*raw));
    rc = checked(m)->ops->events(m, tenant, after, max, raw, &n, err);
    if (rc == 0)
        *out = json_array();
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            json_array_append_new(*out, event_json(&raw[i]));
        mem_free(&raw[i].tenant);
        mem_free(&raw[i].body);
    }
    mem_free(&raw);
    return rc;
}
