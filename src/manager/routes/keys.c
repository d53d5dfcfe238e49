// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/keys.h"

#include <string.h>

#include "base/mem.h"
#include "manager/routes/api.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/tables/event_log.h"
#include "manager/tables/rekey.h"

#define STEP       DLC_SEC(2)
#define CURSOR_MAX 300

static json_t *key_json(const char *id, const char *sealing, const json_t *counts, bool here)
{
    json_t *n = json_object_get(counts, id);

    return json_pack("{s:s, s:b, s:b, s:I}", "id", id, "seals", strcmp(id, sealing) == 0, "here",
                     here, "records", (json_int_t)json_integer_value(n));
}

void route_keys_list(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    char ids[SEAL_KEYS_MAX][SEAL_KEY_ID_LEN + 1], sealing[SEAL_KEY_ID_LEN + 1];
    size_t n = seal_key_ids(api->seal, ids);
    json_t *counts = NULL, *items, *v;
    struct dlc_err err = DLC_ERR_INIT;
    const char *id;

    seal_key_id(api->seal, sealing);
    if (rekey_count(api->tables, &counts, &err) < 0) {
        reply_store_error(api, r, reply, &err);
        return;
    }
    items = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(items, key_json(ids[i], sealing, counts, true));
        json_object_del(counts, ids[i]);
    }
    json_object_foreach(counts, id, v)
        json_array_append_new(items, key_json(id, sealing, counts, false));
    json_decref(counts);
    reply_list(reply, items, NULL);
}

void route_keys_rekey(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct api *api = api_of(ctx);
    char sealing[SEAL_KEY_ID_LEN + 1];
    struct dlc_err err = DLC_ERR_INIT;
    const char *after = NULL;
    const struct field fields[] = {{"after", FIELD_TEXT, false, CURSOR_MAX, &after}, {NULL}};
    struct rekey_step step = {0};
    json_t *out;

    if (!read_body(r, fields, reply))
        return;
    if (rekey_begin(api->tables, api->seal, &err) < 0 ||
        rekey_some(api->tables, api->seal, after, STEP, &step, &err) < 0) {
        reply_store_error(api, r, reply, &err);
        return;
    }
    seal_key_id(api->seal, sealing);
    out = json_pack("{s:s, s:I, s:I, s:I, s:s*}", "key", sealing, "records",
                    (json_int_t)step.looked_at, "written", (json_int_t)step.written, "failed",
                    (json_int_t)step.failed, "next", step.next);
    if (step.next == NULL)
        event_log(api->tables->store, "", "keys.rekeyed", json_pack("{s:s}", "key", sealing));
    mem_free(&step.next);
    reply_doc(reply, 200, out, 0);
}
