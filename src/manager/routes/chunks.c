// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/chunks.h"

#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "cache/policy/lifecycle.h"
#include "manager/routes/api.h"
#include "manager/routes/datasets.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"

static bool read_state(const struct http_request *r, int *out, struct http_reply *reply)
{
    const char *s = http_query(r, "state");

    *out = -1;
    if (s == NULL)
        return true;
    for (int i = LIFE_PREPARE; i < LIFE_STATES; i++)
        if (strcasecmp(s, life_name((enum life_state)i)) == 0) {
            *out = i;
            return true;
        }
    refuse_field(reply, "", "state", "must be PREPARE, PENDING, ACTIVE, COOL_DOWN or INACTIVE");
    return false;
}

static json_t *chunk_json(const struct store_chunk *k)
{
    char *changed = wall_time_text(k->changed_ms);
    json_t *out = json_pack("{s:s, s:s, s:s, s:I, s:f, s:i, s:s, s:i, s:s}", "key", k->key, "etag",
                            k->etag, "node", k->node, "size", (json_int_t)k->size, "cost", k->cost,
                            "references", (int)k->references, "state",
                            k->state < LIFE_STATES ? life_name((enum life_state)k->state) : "?",
                            "jobs", (int)k->jobs, "changed", changed);

    mem_free(&changed);
    return out;
}

void route_dataset_chunks(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct store_chunk_page found = {0};
    struct store_chunk_query q = {.node = http_query(r, "node"), .prefix = http_query(r, "prefix")};
    struct page p;
    json_t *items;

    if (!dataset_read(api, r, &d, reply))
        return;
    if (!read_page(r, &p, reply) || !read_state(r, &q.state, reply))
        goto out;
    if (q.node != NULL && !str_is_name(q.node)) {
        refuse_field(reply, "", "node", "must be the name of a node");
        goto out;
    }
    q.dataset = d.id;
    q.after = p.after;
    q.max = p.limit;
    if (store_chunks_query(api->tables->store, &q, &found, &err) < 0) {
        if (err.code == DLC_EINVAL)
            refuse_field(reply, "", "after", "is not a cursor; take it from \"next\"");
        else
            reply_store_error(api, r, reply, &err);
        goto out;
    }
    items = json_array();
    for (size_t i = 0; i < found.n; i++) {
        json_t *one = chunk_json(&found.chunks[i]);

        if (one != NULL) /* a key that is not UTF-8 cannot be said in JSON */
            json_array_append_new(items, one);
    }
    reply_list(reply, items, found.next);
    store_chunk_page_release(&found);
out:
    store_doc_release(&d);
}
