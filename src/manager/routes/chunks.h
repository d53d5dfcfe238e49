// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/datasets/{name}/chunks: what is known of a dataset's chunks, page by page.
 */
#ifndef DLC_MANAGER_ROUTES_CHUNKS_H
#define DLC_MANAGER_ROUTES_CHUNKS_H

#include "net/server.h"

http_handler_f route_dataset_chunks;

#endif
