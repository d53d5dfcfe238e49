// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/jobs/{id}/weights: a node posts the weights that its ranks have learnt; the answer has
 * the posts of other nodes since its last call (tables/weight_posts.h).
 */
#ifndef DLC_MANAGER_ROUTES_WEIGHT_EXCHANGE_H
#define DLC_MANAGER_ROUTES_WEIGHT_EXCHANGE_H

#include "net/server.h"

http_handler_f route_jobs_weights;

#endif
