// SPDX-License-Identifier: Apache-2.0
/*
 * The calls of the manager's API that the operator makes, typed, on net/manager_client.h.
 *
 * Every call has one of four results:
 *
 *     OK       2xx
 *     ABSENT   404
 *     REFUSED  another 4xx, or 507: the manager will not do it, and says why
 *     AWAY     no response, 5xx, or an invalid token: try later
 *
 * The operator is an admin. What users of a namespace wrote (datasets, credentials) it sends with
 * the rights of their tenant only, so that the manager's rules for tenants hold: no files of the
 * nodes, no addresses inside the cluster. 403 is REFUSED then.
 *
 * With REFUSED and AWAY *err says why, and manager_client_status() is the HTTP status.
 */
#ifndef DLC_OPERATOR_MANAGER_CALLS_H
#define DLC_OPERATOR_MANAGER_CALLS_H

#include <jansson.h>

#include "base/err.h"
#include "net/manager_client.h"

enum manager_said { MANAGER_OK, MANAGER_ABSENT, MANAGER_REFUSED, MANAGER_AWAY };

/* Each gives *out, NULL unless OK. */
enum manager_said manager_dataset(struct manager_client *m, const char *name, json_t **out,
                                  struct dlc_err *err);
enum manager_said manager_job(struct manager_client *m, const char *id, json_t **out,
                              struct dlc_err *err);
/* One that is not there any more, with its last figures. */
enum manager_said manager_ended_job(struct manager_client *m, const char *id, json_t **out,
                                    struct dlc_err *err);
enum manager_said manager_nodes(struct manager_client *m, json_t **out,
                                struct dlc_err *err); /* array */
/* Sent twice it makes one. */
enum manager_said manager_make_dataset(struct manager_client *m, const json_t *body, json_t **out,
                                       struct dlc_err *err);
enum manager_said manager_make_job(struct manager_client *m, const char *key, const json_t *body,
                                   json_t **out, struct dlc_err *err);

enum manager_said manager_end_dataset(struct manager_client *m, const char *name,
                                      struct dlc_err *err);
enum manager_said manager_end_job(struct manager_client *m, const char *id, struct dlc_err *err);
enum manager_said manager_heartbeat(struct manager_client *m, const char *id, struct dlc_err *err);
/* what: "warm", "evict", "snapshot". body may be NULL. */
enum manager_said manager_order(struct manager_client *m, const char *dataset, const char *what,
                                const json_t *body, struct dlc_err *err);

/* Make a tenant; or let one that is there have a new token, and forget its credentials: whoever
 * had them is not known any more. Gives *token: secret_free(). */
enum manager_said manager_tenant(struct manager_client *m, const char *name, char **token,
                                 struct dlc_err *err);
enum manager_said manager_credentials(struct manager_client *m, const char *tenant,
                                      const json_t *body, struct dlc_err *err);

#endif
