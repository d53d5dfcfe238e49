// SPDX-License-Identifier: Apache-2.0
/*
 * Credentials of a tenant's dataset: the keys that came with the manager's grant, the requests that
 * wait for new ones, and the ticket by which this node asks its peers for the dataset. Calls nothing
 * else of the daemon.
 */
#ifndef DLC_DAEMON_CREDENTIALS_H
#define DLC_DAEMON_CREDENTIALS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/list.h"

struct bucket_keys;
struct dataset;
struct grant;

struct dataset_credentials {
    struct bucket_keys *keys; /* NULL: the dataset has no keys of its own */
    unsigned version;         /* grows when they change */
    /* Waiting for the manager after the bucket refused the keys: cluster/access.c. */
    struct dlc_list retries; /* struct credential_retry.link */
    bool renewing;
    struct dlc_mono renewed; /* when the manager was asked last; 0: never */
};

/* cluster/tickets.c renews it. */
struct dataset_ticket {
    char *text; /* NULL: none yet: peers are not asked */
    struct dlc_mono renew, asked;
    bool asking;
};

/* Take over the ticket of a grant, unless it is older. */
void dataset_ticket_take(struct dataset_ticket *t, const struct grant *g);
/* A peer refused it: the next one is due. */
void dataset_ticket_refused(struct dataset_ticket *t);
void dataset_ticket_release(struct dataset_ticket *t);

/* g: the first grant; NULL: not in a cluster. */
void dataset_credentials_init(struct dataset_credentials *c, const struct grant *g);
void dataset_credentials_release(struct dataset_credentials *c);
/* Take over the keys of a new grant. True: they changed, also if there were none before. A dataset
 * that was opened without keys stays without them; new keys open another dataset. */
bool dataset_credentials_take(struct dataset_credentials *c, const struct grant *g);
/* Does it belong to a tenant whose credentials are missing here? The node's own credentials must
 * not replace them: a tenant could read whatever the node may. A dataset without a tenant was
 * registered by an admin. */
bool dataset_lacks_credentials(const struct dataset *ds);

#endif
