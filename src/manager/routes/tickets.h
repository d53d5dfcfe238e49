// SPDX-License-Identifier: Apache-2.0
/*
 * Tickets that this manager signs (base/ticket.h): by them nodes ask each other for the samples and
 * catalogs of a dataset. A node gets one with each answer that lets it open the dataset, and the
 * public keys with each answer to a heartbeat.
 *
 * Expiry is a time of this manager's clock, which heartbeats bring to the nodes; their own clocks do
 * not matter. Managers whose clocks differ by more than TICKET_SKEW (cluster/ticket_table.h) make
 * peers refuse each other, and then nodes read the bucket.
 *
 * (SIGNER-1) All managers of a store sign with the same key, TICKET_KEYS_AGE after it changed at the
 *            latest: also if the store was lost and another manager made a new one.
 *
 * Any thread.
 */
#ifndef DLC_MANAGER_ROUTES_TICKETS_H
#define DLC_MANAGER_ROUTES_TICKETS_H

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"

struct api;

#define TICKET_LIFE     DLC_SEC(600)
#define TICKET_KEYS_AGE DLC_SEC(30) /* after which they are read again */

/* Sets api->tickets; its tables, store and seal are set. */
int tickets_open(struct api *api, struct dlc_dur life, struct dlc_err *err);
void tickets_close(struct api *api); /* also when tickets_open() failed or was not called */
/* Adds "ticket" and "ticket_life_ms" for `node` to an answer. */
void ticket_add(struct api *api, const char *dataset, const char *tenant, const char *node,
                json_t *answer);
struct dlc_dur ticket_life(const struct api *api);
/* {"keys": [public key in base64, ...], "now_ms": N}. Gives. */
json_t *ticket_keys_json(struct api *api);

#endif
