// SPDX-License-Identifier: Apache-2.0
/* Routes of jobs: list, show, heartbeat, deregister. Registering is in job_register.h. */
#ifndef DLC_MANAGER_ROUTES_JOBS_H
#define DLC_MANAGER_ROUTES_JOBS_H

#include <jansson.h>

#include "manager/store/store.h"
#include "net/server.h"

struct api;

/* A job as the API shows it, with its current figures. Gives. */
json_t *job_json(const struct store_doc *d);
void job_add_reason(struct api *api, json_t *out);
void job_add_live(struct api *api, json_t *out, const char *id, const json_t *body);

http_handler_f route_jobs_list, route_jobs_show, route_jobs_delete, route_jobs_heartbeat;

#endif
