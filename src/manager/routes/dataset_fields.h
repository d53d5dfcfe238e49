// SPDX-License-Identifier: Apache-2.0
/*
 * Validation of dataset fields in requests: names of splits, and URLs that nodes may be made to
 * read. Functions that return bool have filled the reply when it is false. Pure.
 */
#ifndef DLC_MANAGER_ROUTES_DATASET_FIELDS_H
#define DLC_MANAGER_ROUTES_DATASET_FIELDS_H

#include <stdbool.h>

#include <jansson.h>

#include "net/server.h"

struct address_rules;
struct caller;

/* Names of splits in a body: short, without '/', different. */
bool splits_ok(const json_t *splits, const char *field, struct http_reply *reply);
/* May this caller make nodes read from there? `rules`: where URLs of tenants may lead. */
bool dataset_url_ok(const struct caller *who, const struct address_rules *rules, const char *url,
                    const char *endpoint, struct http_reply *reply);
/* ... and from this http(s) address? `field` is the name of its field. */
bool dataset_web_ok(const struct caller *who, const struct address_rules *rules, const char *url,
                    const char *field, struct http_reply *reply);

#endif
