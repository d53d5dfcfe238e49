// SPDX-License-Identifier: Apache-2.0
/*
 * What a tenant's dataset is read with: the keys that the manager gave with its grant, and who
 * waits for other ones. Calls nothing else of the daemon.
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
    struct bucket_keys *keys; /* NULL: it has none of its own */
    unsigned version;         /* grows when they change */
    /* The bucket refused them, and the manager is asked: cluster/access.c. */
    struct dlc_list retries; /* struct credential_retry.link */
    bool renewing;
    struct dlc_mono renewed; /* when it was asked last; 0: never */
};

/* g: the first grant; NULL: of no cluster. */
void dataset_credentials_init(struct dataset_credentials *c, const struct grant *g);
void dataset_credentials_release(struct dataset_credentials *c);
/* The manager was asked. True: they have changed, also when they were none before. A dataset that
 * began without keys has none for as long as it is open: another one is opened for them. */
bool dataset_credentials_take(struct dataset_credentials *c, const struct grant *g);
/* Is it a tenant's, to be read with credentials that it has not? Those of the node are its own:
 * else a tenant would read whatever the node may. What belongs to nobody an admin has registered. */
bool dataset_lacks_credentials(const struct dataset *ds);

#endif
