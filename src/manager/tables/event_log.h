// SPDX-License-Identifier: Apache-2.0
/* Writes events for people and programs that follow them (GET /v1/events). */
#ifndef DLC_MANAGER_TABLES_EVENT_LOG_H
#define DLC_MANAGER_TABLES_EVENT_LOG_H

#include <jansson.h>

#include "manager/store/store.h"

/* Takes details, an object or NULL; adds "type": "tenant.created". Never fails the caller: an event
 * that cannot be written is logged. */
void event_log(struct store *s, const char *tenant, const char *type, json_t *details);

#endif
