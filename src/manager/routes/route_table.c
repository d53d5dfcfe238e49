// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/route_table.h"

#include "manager/routes/accounting_route.h"
#include "manager/routes/auth.h"
#include "manager/routes/chunks.h"
#include "manager/routes/dataset_move_route.h"
#include "manager/routes/dataset_ops.h"
#include "manager/routes/datasets.h"
#include "manager/routes/events.h"
#include "manager/routes/heartbeat.h"
#include "manager/routes/job_register.h"
#include "manager/routes/jobs.h"
#include "manager/routes/keys.h"
#include "manager/routes/node_certificate.h"
#include "manager/routes/node_join_token.h"
#include "manager/routes/node_revoke.h"
#include "manager/routes/nodes.h"
#include "manager/routes/openapi.h"
#include "manager/routes/rebuild.h"
#include "manager/routes/resolve.h"
#include "manager/routes/status.h"
#include "manager/routes/tenants.h"
#include "manager/routes/weight_exchange.h"

#define OWNER (ROLE_ADMIN | ROLE_TENANT)

const struct http_route route_table[] = {
    {"GET", "/v1/health", 0, route_health},
    {"GET", "/v1/status", ROLE_ANY | ROUTE_ANYWAY, route_status},
    {"GET", "/v1/rebuild", ROLE_ADMIN | ROUTE_ANYWAY, route_rebuild_show},
    {"POST", "/v1/rebuild", ROLE_ADMIN | ROUTE_READS | ROUTE_ANYWAY, route_rebuild},
    {"GET", "/v1/tenants", ROLE_ADMIN, route_tenants_list},
    {"POST", "/v1/tenants", ROLE_ADMIN, route_tenants_create},
    {"GET", "/v1/tenants/{name}", ROLE_ADMIN, route_tenants_show},
    {"DELETE", "/v1/tenants/{name}", ROLE_ADMIN, route_tenants_delete},
    {"POST", "/v1/tenants/{name}/token", ROLE_ADMIN | ROLE_TENANT, route_tenants_rotate_token},
    {"PUT", "/v1/tenants/{name}/credentials", ROLE_ADMIN | ROLE_TENANT,
     route_tenants_put_credentials},
    {"DELETE", "/v1/tenants/{name}/credentials", ROLE_ADMIN | ROLE_TENANT,
     route_tenants_delete_credentials},
    {"GET", "/v1/datasets", OWNER, route_datasets_list},
    {"POST", "/v1/datasets", OWNER, route_datasets_create},
    {"GET", "/v1/datasets/{name}", OWNER, route_datasets_show},
    {"DELETE", "/v1/datasets/{name}", OWNER, route_datasets_delete},
    {"GET", "/v1/datasets/{name}/chunks", OWNER, route_dataset_chunks},
    {"POST", "/v1/datasets/{name}/snapshot", OWNER, route_dataset_snapshot},
    {"POST", "/v1/datasets/{name}/warm", OWNER, route_dataset_warm},
    {"POST", "/v1/datasets/{name}/evict", OWNER, route_dataset_evict},
    {"POST", "/v1/datasets/{name}/move", OWNER, route_dataset_move},
    {"GET", "/v1/jobs", OWNER, route_jobs_list},
    {"POST", "/v1/jobs", OWNER, route_jobs_create},
    {"GET", "/v1/jobs/{id}", OWNER, route_jobs_show},
    {"DELETE", "/v1/jobs/{id}", OWNER, route_jobs_delete},
    {"POST", "/v1/jobs/{id}/heartbeat", ROLE_ANY, route_jobs_heartbeat},
    {"POST", "/v1/jobs/{id}/weights", ROLE_NODE, route_jobs_weights},
    {"GET", "/v1/accounting", OWNER, route_accounting},
    {"GET", "/v1/nodes", ROLE_ANY, route_nodes_list},
    {"GET", "/v1/nodes/{name}", ROLE_ANY, route_nodes_show},
    {"PUT", "/v1/nodes/{name}", ROLE_NODE | ROLE_ADMIN | ROUTE_JOINS, route_nodes_join},
    {"DELETE", "/v1/nodes/{name}", ROLE_NODE | ROLE_ADMIN, route_nodes_leave},
    {"POST", "/v1/nodes/{name}/drain", ROLE_ADMIN, route_nodes_drain},
    {"POST", "/v1/nodes/{name}/rejoin", ROLE_ADMIN, route_nodes_rejoin},
    {"POST", "/v1/nodes/{name}/join-token", ROLE_ADMIN, route_nodes_join_token},
    {"POST", "/v1/nodes/{name}/revoke", ROLE_ADMIN, route_nodes_revoke},
    {"POST", "/v1/nodes/{name}/heartbeat", ROLE_NODE, route_nodes_heartbeat},
    {"POST", "/v1/nodes/{name}/inventory", ROLE_NODE, route_nodes_inventory},
    {"POST", "/v1/nodes/{name}/certificate", ROLE_NODE, route_nodes_certificate},
    {"GET", "/v1/events", ROLE_ANY, route_events},
    {"POST", "/v1/authority/rotate", ROLE_ADMIN, route_authority_rotate},
    {"GET", "/v1/keys", ROLE_ADMIN, route_keys_list},
    {"POST", "/v1/keys/rekey", ROLE_ADMIN, route_keys_rekey},
    {"GET", "/v1/openapi.json", 0, route_openapi},
    {"POST", "/v1/resolve", ROLE_NODE | ROUTE_READS, route_resolve},
    {"POST", "/v1/identify", ROLE_NODE | ROUTE_READS, route_identify},
    {NULL, NULL, 0, NULL},
};
