// SPDX-License-Identifier: Apache-2.0
/*
 * Helpers that handlers share: names in paths, pages, versions, answers. Functions that return bool
 * have filled the reply when it is false.
 */
#ifndef DLC_MANAGER_ROUTES_ROUTE_UTIL_H
#define DLC_MANAGER_ROUTES_ROUTE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"
#include "net/server.h"

struct api;
struct caller;

/* Path parameter i as a name; 404 when it cannot be one. `what`: "tenant". */
const char *read_name(const struct http_request *r, int i, const char *what,
                      struct http_reply *reply);

struct page {
    size_t limit;
    const char *after; /* NULL: from the first; a name, unless the route says otherwise */
};
bool read_page(const struct http_request *r, struct page *out, struct http_reply *reply);
/* The version that a write expects: If-Match, or STORE_ANY. */
bool read_if_match(const struct http_request *r, uint64_t *expect, struct http_reply *reply);

/* Takes body. 200 when status is 0. version 0: no ETag. */
void reply_doc(struct http_reply *reply, int status, json_t *body, uint64_t version);
/* Takes items. next: the cursor of the next page; NULL: this was the last. */
void reply_list(struct http_reply *reply, json_t *items, const char *next);
/* Reply with the requested page of the documents of a kind, each rendered by show(). tenant NULL:
 * of all. */
typedef json_t *show_f(struct api *api, const struct store_doc *d, const struct caller *who);
void reply_page(struct api *api, const struct http_request *r, const struct caller *who,
                enum store_kind kind, const char *tenant, show_f *show, struct http_reply *reply);
void reply_absent(struct http_reply *reply, const char *what, const char *name); /* 404 */
void reply_not_leading(struct api *api, struct http_reply *reply); /* 503, the leader's address */
/* jobs_lock(); false: this manager does not lead. */
bool api_lock_jobs(struct api *api, struct http_reply *reply);
/* A failed call to the store: 404, 412 (If-Match was given), 409, or 503 if this manager does not
 * lead any more or the store is unreachable. */
void reply_store_error(struct api *api, const struct http_request *r, struct http_reply *reply,
                       const struct dlc_err *err);
/* out[name] = a time as text. */
void add_time(json_t *out, const char *name, int64_t ms);

#endif
