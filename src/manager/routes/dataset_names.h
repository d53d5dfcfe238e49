// SPDX-License-Identifier: Apache-2.0
/*
 * Names of datasets at the edge of the API. Callers say and see names; documents, tables and nodes
 * have ids (base/dataset_name.h). All that maps one to the other for callers is here.
 *
 *     a tenant   says NAME, TENANT.NAME or an id of its own; sees NAME
 *     an admin   says an id, or NAME where one dataset has it; sees ids, beside "tenant"
 *     a node     says ids, or NAME for a program that may read all, as an admin does; sees ids
 *
 * (NAMES-1) A tenant's lookup reads ids that follow from its own name and what it said. A document
 *           of another tenant there counts as absent, also when a new dataset looks for an id: what
 *           others have changes no answer.
 * (NAMES-2) An id that the caller may use goes before a name: what had a name before names were
 *           tenants' keeps it.
 */
#ifndef DLC_MANAGER_ROUTES_DATASET_NAMES_H
#define DLC_MANAGER_ROUTES_DATASET_NAMES_H

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "manager/store/store.h"
#include "net/server.h"

struct api;
struct caller;

/* The tenant's dataset ("": nobody's) of that name. DLC_ENOTFOUND: it has none. Gives *out. */
int names_find(struct api *api, const char *tenant, const char *name, struct store_doc *out,
               struct dlc_err *err);
/* The same for admins and nodes: by id, or by a name that one dataset has. DLC_EINVAL: several have
 * it, and *err lists their ids. */
int names_find_any(struct api *api, const char *name, struct store_doc *out, struct dlc_err *err);
/* The dataset that the caller means. False: the reply says why not, 404 or 409. Gives *out. */
bool names_read(struct api *api, const struct http_request *r, const char *name,
                struct store_doc *out, struct http_reply *reply);
/* o[field] is an id: for a tenant it becomes the name. */
void names_show(struct api *api, const struct caller *who, json_t *o, const char *field);

#endif
