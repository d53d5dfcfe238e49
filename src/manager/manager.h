// SPDX-License-Identifier: Apache-2.0
/*
 * The manager: it knows which tenant may read which dataset, which chunks lie on which node, and
 * which jobs may run. It answers HTTP (routes/openapi.json), keeps its records in a store and is
 * never on the data path.
 *
 *     manager.c    opens and wires everything; the manager's own thread
 *     routes/      the HTTP API: reads requests, calls tables, answers
 *     tables/      what the leader knows and decides; no HTTP
 *     store/       documents, chunks, locks and events, in SQLite or Redis
 *
 * Calls go downwards only (tools/layers.txt).
 */
#ifndef DLC_MANAGER_MANAGER_H
#define DLC_MANAGER_MANAGER_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "manager/routes/node_reviewer.h"

struct manager;

struct manager_config {
    const char *dir;       /* keys and tokens; made when missing, mode 0700 */
    const char *store;     /* as store_open(); NULL: sqlite:DIR/manager.db */
    const char *listen;    /* "HOST:PORT"; NULL: only the Unix socket */
    const char *unix_path; /* NULL: none */
    const char *tls_cert, *tls_key;
    const char *advertise;       /* address for nodes and other managers; NULL: that of listen */
    const char *tenant_networks; /* as address_rules_parse(); NULL: none */
    const char *audit_log;       /* as audit_log_open(); NULL: none */
    struct dlc_dur ticket_life;  /* of tickets by which nodes ask each other; 0: 10 min */
    struct dlc_dur rebalance_interval; /* of changes of shares for room; 0: none */
    struct dlc_dur node_ttl;   /* time without a heartbeat after which a node is gone; 0: 10 s */
    struct dlc_dur job_ttl;    /* 0: 60 s */
    struct dlc_dur keep_ended; /* 0: 7 days */
    struct dlc_dur keep_accounting;  /* 0: 400 days */
    struct dlc_dur lock_ttl;         /* 0: 10 s */
    struct dlc_dur certificate_life; /* of certificates of nodes; 0: 48 h */
    bool no_shared_node_token;       /* DIR/node.token opens nothing */
    struct node_reviewer reviewer;   /* of tokens that are not the manager's */
};

int manager_open(const struct manager_config *c, struct manager **out, struct dlc_err *err);
void manager_close(struct manager **cp);
const char *manager_address(const struct manager *c); /* TCP address; NULL: none */

#endif
