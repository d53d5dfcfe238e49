// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/tickets.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/str.h"
#include "base/ticket.h"
#include "manager/routes/api.h"
#include "manager/store/wall_time.h"

int tickets_open(struct api *api, struct dlc_err *err)
{
    return cluster_keys_get(api->tables->store, api->seal, CLUSTER_KEY_TICKETS, &api->ticket_keys,
                            err);
}

void tickets_close(struct api *api)
{
    cluster_keys_release(&api->ticket_keys);
}

void ticket_add(struct api *api, const char *dataset, const char *tenant, const char *node,
                json_t *answer)
{
    int64_t life = api->ticket_life.ns / 1000000;
    struct ticket t = {.expires_ms = wall_ms() + life};
    struct buf text = BUF_INIT;

    snprintf(t.dataset, sizeof(t.dataset), "%s", dataset);
    snprintf(t.tenant, sizeof(t.tenant), "%s", tenant);
    snprintf(t.node, sizeof(t.node), "%s", node);
    ticket_sign(cluster_keys_signer(&api->ticket_keys)->pair, &t, &text);
    json_object_set_new(answer, "ticket", json_string(buf_str(&text)));
    json_object_set_new(answer, "ticket_life_ms", json_integer(life));
    buf_release(&text);
}

json_t *ticket_keys_json(struct api *api)
{
    json_t *keys = json_array();

    for (size_t i = 0; i < api->ticket_keys.n; i++) {
        struct buf text = BUF_INIT;
        struct ticket_key k;

        ticket_key_of(api->ticket_keys.v[i].pair, &k);
        str_base64(k.bytes, sizeof(k.bytes), &text);
        json_array_append_new(keys, json_string(buf_str(&text)));
        buf_release(&text);
    }
    return json_pack("{s:o, s:I}", "keys", keys, "now_ms", (json_int_t)wall_ms());
}
