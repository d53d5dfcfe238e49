// SPDX-License-Identifier: Apache-2.0
/*
 * The manager: who may read what, what lies where, who may run. It answers HTTP (openapi.json
 * beside this file), keeps its records in the store and is never on the data path.
 */
#ifndef DLC_MANAGER_MANAGER_H
#define DLC_MANAGER_MANAGER_H

#include "base/clock.h"
#include "base/err.h"

struct control;

struct control_config {
    const char *dir;       /* keys and tokens; made when missing, mode 0700 */
    const char *store;     /* as store_open(); NULL: sqlite:DIR/manager.db */
    const char *listen;    /* "HOST:PORT"; NULL: only the Unix socket */
    const char *unix_path; /* NULL: none */
    const char *tls_cert, *tls_key;
    const char *advertise;   /* address that others are told to use; NULL: that of listen */
    struct dlc_dur node_ttl; /* a node that is silent for so long is gone; 0: 10 s */
    struct dlc_dur job_ttl;  /* 0: 60 s */
    struct dlc_dur lock_ttl; /* 0: 10 s */
};

int control_open(const struct control_config *c, struct control **out, struct dlc_err *err);
void control_close(struct control **cp);
const char *control_address(const struct control *c); /* of TCP; NULL: none */

#endif
