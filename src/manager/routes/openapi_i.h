// SPDX-License-Identifier: Apache-2.0
#ifndef DLC_MANAGER_ROUTES_OPENAPI_I_H
#define DLC_MANAGER_ROUTES_OPENAPI_I_H

#include "net/server.h"

extern const unsigned char openapi_json[]; /* openapi.json, by tools/embed */
extern const size_t openapi_json_len;

http_handler_f control_openapi;

#endif
