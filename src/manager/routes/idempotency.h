// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that are sent twice because the first answer was lost: with an Idempotency-Key the second
 * gets the first one's answer. Answers are remembered for a day, sealed, since that of a new tenant
 * holds its token. A key is the caller's own: another caller with the same key sees nothing of it.
 */
#ifndef DLC_MANAGER_ROUTES_IDEMPOTENCY_H
#define DLC_MANAGER_ROUTES_IDEMPOTENCY_H

#include <stdbool.h>

#include "net/server.h"

struct api;

/*
 * True when this request was answered before (within 24 h): the reply is that answer again, or 422
 * when the body was another, or 400 for a key that cannot be one. Call it first, and
 * idempotency_record() when the reply stands.
 */
bool idempotency_replay(struct api *api, const struct http_request *r, struct http_reply *reply);
void idempotency_record(struct api *api, const struct http_request *r,
                        const struct http_reply *reply);
void idempotency_purge(struct api *api); /* thread: forget answers that are too old */
void idempotency_forget(struct api *api, const char *tenant); /* its name may be another's soon */
/* A name for a new document: from the Idempotency-Key, where there is one, so that a request
 * repeated after a crash makes the same; else random. "j-0123456789abcdef" for prefix 'j'. */
void idempotency_new_id(const struct http_request *r, char prefix, char out[static 20]);

#endif
