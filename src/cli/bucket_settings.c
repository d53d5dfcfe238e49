// SPDX-License-Identifier: Apache-2.0
#include "cli/bucket_settings.h"

#include "base/str.h"

struct bucket_config bucket_settings(const struct config *c)
{
    struct bucket_config b = BUCKET_CONFIG_INIT;
    bool path = false;

    b.endpoint = c->endpoint[0] != '\0' ? c->endpoint : NULL;
    b.region = c->region[0] != '\0' ? c->region : NULL;
    b.profile = c->profile[0] != '\0' ? c->profile : NULL;
    b.anonymous = c->anonymous;
    b.path_style = str_parse_bool(c->path_style, &path) ? path : -1;
    b.max_requests = (unsigned)c->max_requests;
    b.retries = (unsigned)c->retries;
    b.connect_timeout = c->connect_timeout;
    b.stall_timeout = c->stall_timeout;
    b.deadline = c->deadline;
    b.price_get = c->price_get;
    b.price_list = c->price_list;
    b.price_gb = c->price_gb;
    return b;
}
