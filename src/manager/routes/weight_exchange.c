// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/weight_exchange.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "importance/wire.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/weight_posts.h"

#define BASE64_MAX ((PAIRS_BYTES_MAX + 2) / 3 * 4)

static bool refuse_hex(struct http_reply *reply, const char *field)
{
    refuse_field(reply, "", field, "must be %d hexadecimal digits", WEIGHTS_HEX_LEN);
    return false;
}

static bool read_pairs(struct weight_post *p, struct http_reply *reply)
{
    struct buf b = BUF_INIT;

    if (str_unbase64(p->pairs, &b))
        p->count = pairs_count(b.data, b.len);
    buf_release(&b);
    if (p->count == 0)
        refuse_field(reply, "", "pairs",
                     "must be 1 to %d pairs of sample and weight, ascending, in base64", PAIRS_MAX);
    return p->count > 0;
}

static bool read_post(const struct http_request *r, struct weight_post *p, struct http_reply *reply)
{
    const struct field fields[] = {
        {"dataset", FIELD_NAME, true, 0, &p->dataset},
        {"tenant", FIELD_TEXT0, true, NAME_MAX_LEN, &p->tenant},
        {"snapshot", FIELD_TEXT, true, WEIGHTS_HEX_LEN, &p->snapshot},
        {"owner", FIELD_TEXT, true, WEIGHTS_HEX_LEN, &p->owner},
        {"sender", FIELD_TEXT, true, WEIGHTS_HEX_LEN, &p->sender},
        {"after", FIELD_TEXT0, false, WEIGHTS_SUFFIX_LEN, &p->after},
        {"pairs", FIELD_TEXT, false, BASE64_MAX, &p->pairs},
        {NULL},
    };

    p->job = read_name(r, 0, "job", reply);
    p->after = "";
    if (p->job == NULL || !read_node_body(r, fields, reply))
        return false;
    if (!weights_is_hex(p->snapshot, WEIGHTS_HEX_LEN))
        return refuse_hex(reply, "snapshot");
    if (!weights_is_hex(p->owner, WEIGHTS_HEX_LEN))
        return refuse_hex(reply, "owner");
    if (!weights_is_hex(p->sender, WEIGHTS_HEX_LEN))
        return refuse_hex(reply, "sender");
    if (p->after[0] != '\0' && !weights_is_cursor(p->after)) {
        refuse_field(reply, "", "after", "must be as the last answer had it, or \"\"");
        return false;
    }
    if (p->pairs != NULL && !read_pairs(p, reply))
        return false;
    return true;
}

/* A name of a dataset alone says nothing: it may have been freed and taken by another tenant. */
static bool may_post(struct api *api, const struct http_request *r, const struct weight_post *p,
                     struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = store_get(api->tables->store, STORE_DATASET, p->dataset, &d, &err);
    bool ok = rc == 0 && strcmp(d.tenant, p->tenant) == 0;

    if (rc < 0 && rc != DLC_ENOTFOUND)
        reply_store_error(api, r, reply, &err);
    else if (!ok)
        reply_absent(reply, "dataset", p->dataset);
    else if (!weights_job_fits(api->tables, p->job, p->dataset))
        reply_absent(reply, "job", p->job);
    store_doc_release(&d);
    return ok && reply->status == 0;
}

void route_jobs_weights(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct weight_post p = {0};
    struct dlc_err err = DLC_ERR_INIT;
    json_t *answer = NULL;
    int rc;

    if (!read_post(r, &p, reply) || !may_post(api, r, &p, reply))
        return;
    rc = weights_exchange(api->tables, &p, &answer, &err);
    if (rc > 0)
        http_problem(reply, 429, "Too many weights",
                     "weights of too many jobs of this tenant were posted within a day; end some "
                     "jobs");
    else if (rc < 0)
        reply_store_error(api, r, reply, &err);
    else
        reply_doc(reply, 200, answer, 0);
}
