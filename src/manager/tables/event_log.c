// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/event_log.h"

#include "base/err.h"
#include "base/log.h"

void event_log(struct store *s, const char *tenant, const char *type, json_t *details)
{
    json_t *body = details != NULL ? details : json_object();
    struct dlc_err err = DLC_ERR_INIT;

    json_object_set_new(body, "type", json_string(type));
    if (store_event(s, tenant, body, &err) < 0)
        log_warn("the event %s was not written: %s", type, err.text);
}
