// SPDX-License-Identifier: Apache-2.0
/* GET /v1/openapi.json: the description of the API, from routes/openapi.json. */
#ifndef DLC_MANAGER_ROUTES_OPENAPI_H
#define DLC_MANAGER_ROUTES_OPENAPI_H

#include <stddef.h>

#include "net/server.h"

extern const unsigned char openapi_json[]; /* openapi.json, by tools/embed */
extern const size_t openapi_json_len;

http_handler_f route_openapi;

#endif
