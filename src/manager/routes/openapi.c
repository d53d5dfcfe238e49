// SPDX-License-Identifier: Apache-2.0
/* The description of the API (openapi.json), embedded in the program. */
#include "manager/routes/openapi.h"

void route_openapi(struct http_request *r, struct http_reply *reply, void *ctx)
{
    (void)r;
    (void)ctx;
    reply->type = "application/json";
    reply->data = openapi_json;
    reply->data_len = openapi_json_len;
}
