// SPDX-License-Identifier: Apache-2.0
/* Routes of datasets: create, list, show, delete. Operations on them are in dataset_ops.h. */
#ifndef DLC_MANAGER_ROUTES_DATASETS_H
#define DLC_MANAGER_ROUTES_DATASETS_H

#include <stdbool.h>

#include <jansson.h>

#include "manager/store/store.h"
#include "net/server.h"

struct api;

/* The dataset of the path's first parameter, if the caller may see it; else 404 and false. */
bool dataset_read(struct api *api, const struct http_request *r, struct store_doc *out,
                  struct http_reply *reply);
/* Names of nodes that must exist, in a body. */
bool nodes_known(struct api *api, const json_t *nodes, const char *field, struct http_reply *reply);

http_handler_f route_datasets_list, route_datasets_create, route_datasets_show,
    route_datasets_delete;

#endif
