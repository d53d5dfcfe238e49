// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/route_util.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/store/wall_time.h"

#define PAGE_DEFAULT 100
#define PAGE_MOST    1000

/* ---- what was asked ---- */

const char *read_name(const struct http_request *r, int i, const char *what,
                      struct http_reply *reply)
{
    const char *name = r->params[i];

    dlc_check(i < HTTP_PARAMS && name != NULL);
    if (str_is_name(name))
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

void reply_not_leading(struct api *api, struct http_reply *reply)
{
    char *leader = leader_elsewhere(api->tables), *lost = leader_store_lost(api->tables);

    if (lost != NULL)
        http_problem(reply, 503, "Store lost", "%s", lost);
    else if (leader != NULL)
        http_problem(reply, 503, "Not leading", "this manager does not lead: ask %s", leader);
    else
        http_problem(reply, 503, "Not leading",
                     "no manager leads at the moment; try again in a second");
    if (reply->body != NULL && leader != NULL && lost == NULL)
        json_object_set_new(reply->body, "leader", json_string(leader));
    reply->retry_after = mem_str("1");
    mem_free(&leader);
    mem_free(&lost);
}

bool api_lock_jobs(struct api *api, struct http_reply *reply)
{
    bool locked = jobs_lock(api->tables);

    if (!locked)
        reply_not_leading(api, reply);
    return locked;
}

void reply_store_error(struct api *api, const struct http_request *r, struct http_reply *reply,
                       const struct dlc_err *err)
{
    bool matched = http_header(r, "If-Match") != NULL;

    if (err->code == DLC_EBUSY && !leader_leads(api->tables))
        reply_not_leading(api, reply);
    else if (err->code == DLC_EBUSY && matched)
        http_problem(reply, 412, "Another version",
                     "the document has another version than If-Match says; read it again");
    else if (err->code == DLC_EBUSY)
        http_problem(reply, 409, "Conflict",
                     "another request changed it at the same time; "
                     "repeat yours");
    else if (err->code == DLC_ENOTFOUND)
        http_problem(reply, 404, "Not found", "%s", err->text);
    else if (err->code == DLC_ECHANGED)
        http_problem(reply, 503, "Store lost", "%s", err->text);
    else if (err->code == DLC_EBUCKET) {
        log_warn("the store: %s", err->text);
        http_problem(reply, 503, "Store away", "the store does not answer; try again");
        reply->retry_after = mem_str("1");
    } else {
        log_error("the store: %s", err->text);
        http_problem_err(reply, err);
    }
}

void reply_page(struct api *api, const struct http_request *r, const struct caller *who,
                enum store_kind kind, const char *tenant, show_f *show, struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct store_doc *docs;
    struct page p;
    json_t *items;
    size_t n = 0;

    if (!read_page(r, &p, reply))
        return;
    docs = mem_zero((p.limit + 1) * sizeof(*docs));
    if (store_list(api->tables->store, kind, tenant, p.after, p.limit + 1, docs, &n, &err) < 0) {
        reply_store_error(api, r, reply, &err);
    } else {
        items = json_array();
        for (size_t i = 0; i < n && i < p.limit; i++)
            json_array_append_new(items, show(api, &docs[i], who));
        reply_list(reply, items, n > p.limit ? docs[p.limit - 1].id : NULL);
    }
    for (size_t i = 0; i < n; i++)
        store_doc_release(&docs[i]);
    mem_free(&docs);
}

void add_time(json_t *out, const char *name, int64_t ms)
{
    char *text = wall_time_text(ms);

    json_object_set_new(out, name, json_string(text));
    mem_free(&text);
}
