// SPDX-License-Identifier: Apache-2.0
/* GET /v1/datasets/{name}/chunks: the known chunks of a dataset, page by page. */
#ifndef DLC_MANAGER_ROUTES_CHUNKS_H
#define DLC_MANAGER_ROUTES_CHUNKS_H

#include "net/server.h"

http_handler_f route_dataset_chunks;

#endif
