// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/jobs/{id}/weights: a node posts what its ranks have learnt and gets, with the answer, what
 * other nodes have posted since (tables/weight_posts.h).
 */
#ifndef DLC_MANAGER_ROUTES_WEIGHT_EXCHANGE_H
#define DLC_MANAGER_ROUTES_WEIGHT_EXCHANGE_H

#include "net/server.h"

http_handler_f route_jobs_weights;

#endif
