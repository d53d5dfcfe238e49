// SPDX-License-Identifier: Apache-2.0
/*
 * Rights of clients: who may ask for which operation of the socket (operations.def), and which
 * datasets a client may see.
 */
#ifndef DLC_DAEMON_CLIENT_RIGHTS_H
#define DLC_DAEMON_CLIENT_RIGHTS_H

#include <stdbool.h>

struct conn;
struct dataset;
struct msg;

enum right { RIGHT_OPEN, RIGHT_SESSION, RIGHT_FIGURES, RIGHT_DATASET, RIGHT_ADMIN };

struct operation {
    const char *name;
    enum right right;
    unsigned fds; /* it takes at most */
    void (*run)(struct conn *c, struct msg *m);
};

/* Run the operation if the caller has the right: at once, or when the manager has said whose the
 * token is. Otherwise the client is told why not. */
void client_authorise(struct conn *c, struct msg *m, const struct operation *op);
/* May the client of the operation that runs see this dataset? */
bool client_sees(const struct conn *c, const struct dataset *ds);

#endif
