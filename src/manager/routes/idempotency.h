// SPDX-License-Identifier: Apache-2.0
/*
 * Idempotency keys: a request that is repeated because the first answer was lost gets the first
 * answer again. Answers are kept for a day, sealed, since that of a new tenant holds its token. A
 * key belongs to its caller: another caller with the same key sees nothing of it.
 */
#ifndef DLC_MANAGER_ROUTES_IDEMPOTENCY_H
#define DLC_MANAGER_ROUTES_IDEMPOTENCY_H

#include <stdbool.h>

#include "net/server.h"

struct api;

/*
 * True if this request was answered before (within 24 h): the reply is that answer again, or 422 if
 * the body differs, or 400 for an invalid key. Call it first, and idempotency_record() when the
 * reply is complete.
 */
bool idempotency_replay(struct api *api, const struct http_request *r, struct http_reply *reply);
void idempotency_record(struct api *api, const struct http_request *r,
                        const struct http_reply *reply);
void idempotency_purge(struct api *api); /* thread: forget answers that are too old */
void idempotency_forget(struct api *api, const char *tenant); /* its name may be reused soon */
/* An id for a new document: derived from the Idempotency-Key, if there is one, so that a request
 * repeated after a crash makes the same; else random. "j-0123456789abcdef" for prefix 'j'. */
void idempotency_new_id(const struct http_request *r, char prefix, char out[static 20]);

#endif
