// SPDX-License-Identifier: Apache-2.0
/* What handlers do alike: names in paths, pages, versions, answers, changes to documents, events.
 */
#include "manager/manager_i.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#define PAGE_DEFAULT 100
#define PAGE_MOST    1000
#define CHANGE_TRIES 16
#define EACH_PAGE    256

/* ---- what was asked ---- */

const char *read_name(const struct http_request *r, int i, const char *what,
                      struct http_reply *reply)
{
    const char *name = r->params[i];

    dlc_check(i < HTTP_PARAMS && name != NULL);
    if (name_ok(name))
        return name;
    http_problem(reply, 404, "Not found",
                 "there is no such %s: names are [a-z0-9][a-z0-9._-]{0,62}", what);
    return NULL;
}

bool read_page(const struct http_request *r, struct page *out, struct http_reply *reply)
{
    const char *limit = http_query(r, "limit");
    uint64_t n = PAGE_DEFAULT;

    out->after = http_query(r, "after");
    if (limit != NULL && (!str_parse_u64(limit, &n) || n < 1 || n > PAGE_MOST)) {
        refuse_field(reply, "", "limit", "must be a whole number from 1 to %d", PAGE_MOST);
        return false;
    }
    if (out->after != NULL && strlen(out->after) > 4096) {
        refuse_field(reply, "", "after", "is too long; take it from \"next\"");
        return false;
    }
    if (out->after != NULL && out->after[0] == '\0')
        out->after = NULL;
    out->limit = (size_t)n;
    return true;
}

bool read_if_match(const struct http_request *r, uint64_t *expect, struct http_reply *reply)
{
    const char *s = http_header(r, "If-Match");
    size_t len = s != NULL ? strlen(s) : 0;
    char digits[24];

    *expect = STORE_ANY;
    if (s == NULL || strcmp(s, "*") == 0)
        return true;
    if (len >= 2 && s[0] == '"' && s[len - 1] == '"') {
        s++;
        len -= 2;
    }
    if (len < sizeof(digits)) {
        memcpy(digits, s, len);
        digits[len] = '\0';
        if (str_parse_u64(digits, expect) && *expect != 0 && *expect != STORE_ANY)
            return true;
    }
    http_problem(reply, 400, "Bad If-Match",
                 "If-Match must be a version as ETag gave it, or *, not a list");
    return false;
}

/* ---- answers ---- */

void reply_doc(struct http_reply *reply, int status, json_t *body, uint64_t version)
{
    reply->status = status;
    reply->body = body;
    if (version != 0)
        reply->etag = mem_fmt("\"%llu\"", (unsigned long long)version);
}

void reply_list(struct http_reply *reply, json_t *items, const char *next)
{
    json_t *body = json_pack("{s:o}", "items", items);

    if (next != NULL)
        json_object_set_new(body, "next", json_string(next));
    reply_doc(reply, 200, body, 0);
}

void reply_absent(struct http_reply *reply, const char *what, const char *name)
{
    http_problem(reply, 404, "Not found", "there is no %s %s", what, name);
}

void reply_store_error(struct control *c, const struct http_request *r, struct http_reply *reply,
                       const struct dlc_err *err)
{
    bool matched = http_header(r, "If-Match") != NULL;

    if (err->code == DLC_EBUSY && !control_leads(c))
        reply_not_leading(c, reply);
    else if (err->code == DLC_EBUSY && matched)
        http_problem(reply, 412, "Another version",
                     "the document has another version than If-Match says; read it again");
    else if (err->code == DLC_EBUSY)
        http_problem(reply, 409, "Conflict",
                     "another request changed it at the same time; "
                     "repeat yours");
    else if (err->code == DLC_ENOTFOUND)
        http_problem(reply, 404, "Not found", "%s", err->text);
    else if (err->code == DLC_EBUCKET) {
        log_warn("the store: %s", err->text);
        http_problem(reply, 503, "Store away", "the store does not answer; try again");
        reply->retry_after = mem_str("1");
    } else {
        log_error("the store: %s", err->text);
        http_problem_err(reply, err);
    }
}

/* ---- documents ---- */

int control_change(struct control *c, enum store_kind kind, const char *id, uint64_t expect,
                   change_f *f, void *arg, struct store_doc *out, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = 0;

    for (int i = 0; i < CHANGE_TRIES; i++) {
        rc = store_get(c->store, kind, id, &d, err);
        if (rc == 0 && expect != STORE_ANY && d.version != expect)
            rc = dlc_err_set(err, DLC_EBUSY, "%s has version %llu, not %llu", id,
                             (unsigned long long)d.version, (unsigned long long)expect);
        else if (rc == 0)
            rc = f(&d, arg, err);
        else
            break;
        if (rc != 0)
            break;
        rc = store_put(c->store, kind, &d, d.version, err);
        if (kind == STORE_DATASET)
            dataset_written(c, rc, &d);
        if (rc != DLC_EBUSY || expect != STORE_ANY || !control_leads(c))
            break;
        store_doc_release(&d);
    }
    rc = rc > 0 ? 0 : rc;
    if (rc == 0 && err != NULL)
        *err = (struct dlc_err)DLC_ERR_INIT; /* of a try before */
    if (rc == 0 && out != NULL) {
        *out = d;
        return 0;
    }
    store_doc_release(&d);
    return rc;
}

int control_each(struct control *c, enum store_kind kind, const char *tenant,
                 bool (*each)(struct store_doc *d, void *arg), void *arg, struct dlc_err *err)
{
    struct store_doc *docs = mem_zero(EACH_PAGE * sizeof(*docs));
    char *after = NULL;
    size_t n = EACH_PAGE;
    bool more = true;
    int rc = 0;

    while (more && n == EACH_PAGE) {
        n = 0;
        rc = store_list(c->store, kind, tenant, after, EACH_PAGE, docs, &n, err);
        if (rc < 0)
            break;
        mem_free(&after);
        after = n > 0 ? mem_str(docs[n - 1].id) : NULL;
        for (size_t i = 0; i < n; i++) {
            more = more && each(&docs[i], arg);
            store_doc_release(&docs[i]);
        }
    }
    mem_free(&after);
    mem_free(&docs);
    return rc;
}

void reply_page(struct control *c, const struct http_request *r, enum store_kind kind,
                const char *tenant, show_f *show, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct store_doc *docs;
    struct page p;
    json_t *items;
    size_t n = 0;

    if (!read_page(r, &p, reply))
        return;
    docs = mem_zero((p.limit + 1) * sizeof(*docs));
    if (store_list(c->store, kind, tenant, p.after, p.limit + 1, docs, &n, &err) < 0) {
        reply_store_error(c, r, reply, &err);
    } else {
        items = json_array();
        for (size_t i = 0; i < n && i < p.limit; i++)
            json_array_append_new(items, show(c, &docs[i], caller_of(r)));
        reply_list(reply, items, n > p.limit ? docs[p.limit - 1].id : NULL);
    }
    for (size_t i = 0; i < n; i++)
        store_doc_release(&docs[i]);
    mem_free(&docs);
}

/* ---- events and time ---- */

int64_t control_wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

char *control_time(int64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char day[32];

    gmtime_r(&s, &tm);
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    return mem_fmt("%s.%03dZ", day, (int)(ms % 1000));
}

void control_event(struct control *c, const char *tenant, const char *type, json_t *details)
{
    json_t *body = details != NULL ? details : json_object();
    struct dlc_err err = DLC_ERR_INIT;

    json_object_set_new(body, "type", json_string(type));
    if (store_event(c->store, tenant, body, &err) < 0)
        log_warn("the event %s was not written: %s", type, err.text);
}
