// SPDX-License-Identifier: Apache-2.0
/*
 * This node as a member of its cluster: the state of src/cluster, one struct per process.
 * membership.c creates it as node.member; it belongs to the node loop unless marked otherwise. Each
 * part belongs to the module that is named with it.
 */
#ifndef DLC_CLUSTER_MEMBER_H
#define DLC_CLUSTER_MEMBER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/event_loop.h"
#include "base/hash.h"
#include "base/list.h"
#include "cluster/evictions.h"

struct agent;
struct batch;
struct certificate;
struct handover;
struct node;
struct past_job;
struct peer_server;
struct record_names;
struct dataset_cost;
struct usage_report;

#define REFUSED_TOKENS 256
#define KNOWN_TOKENS   1024

/* A token that the manager does not know. */
struct refused_token {
    unsigned char digest[SHA256_LEN];
    struct dlc_mono until;
};

/* job_check.c: a job that reads a dataset. */
#define CHECKED_JOBS 64
struct checked_job {
    char *key;         /* "JOB TENANT/DATASET"; NULL: none */
    uint64_t snapshot; /* that its ranks read; 0: none has opened it yet */
    struct dlc_mono until;
};

/* report.c: the figures of a heartbeat, in the making. */
struct figures {
    json_t *datasets, *jobs, *spent; /* NULL: not begun */
    json_t *progress;                /* of listings */
    uint64_t at;                     /* dataset_step() */
};

struct member {
    struct node *node;
    struct agent *agent;             /* set until the node closes */
    struct certificate *certificate; /* NULL: the manager is not at https:// */
    struct peer_server *peer_server; /* NULL: no other node can read from this one */

    /* membership.c */
    bool leaving;    /* a thread leaves the cluster; then the daemon ends */
    bool left;       /* it has left, or never joined */
    bool stop_again; /* the daemon is to end, but no thread could be started: the tick retries */
    bool inventory;  /* inventory_open() was called */
    /* disk_inventory.c */
    bool inventory_read;          /* datasets on disk are open, or being opened */
    struct record_names *records; /* of datasets that were not opened; NULL: not read yet */
    unsigned not_seen;            /* datasets that lie on the disk and could not be opened */
    struct dlc_err why_not_seen;
    bool telling; /* dataset_records.c: the manager is being told */
    pthread_t leaver;
    struct task left_task;

    struct dlc_list requests; /* peer_server.c: struct peer_request.link */
    struct dlc_list resolves; /* access.c: struct resolve_call.link */
    unsigned n_resolves;
    unsigned n_stranger_resolves; /* of them, those of the peer server's clients */
    struct refused_token refused_tokens[REFUSED_TOKENS];  /* access.c: by digest */
    unsigned char known_tokens[KNOWN_TOKENS][SHA256_LEN]; /* the same: those that were granted */
    /* revocation.c */
    struct dlc_mono heard;    /* the manager's last answer to a heartbeat; 0: none */
    bool lists_sessions;      /* the manager takes lists of sessions */
    uint64_t listed_to;       /* connections up to this id were listed; 0: begin again */
    uint64_t unlisted_to;     /* those up to this id are of a store that was lost */
    struct dlc_list commands; /* commands.c: struct node_command.link */
    struct eviction evictions[EVICTIONS]; /* evictions.c */
    bool sending_weights;                 /* weight_exchange.c: a call is on its way */
    struct batch *batch;        /* report.c: rows in flight to the manager, or being collected */
    uint64_t report_generation; /* report.c: stores of the manager that it has begun with */
    struct past_job *past_jobs; /* report.c: reads of ended sessions, by job */
    size_t n_past_jobs, cap_past_jobs;
    struct figures figures;
    uint64_t walked, ticketed;  /* dataset_step() of report.c and of tickets.c */
    uint64_t weighed;           /* the same, of weight_exchange.c */
    struct timer view_timer;    /* view_change.c, and this: */
    uint64_t view_at;           /* dataset_step() */
    struct handover *handover;  /* handover.c; NULL: nothing was looked at yet */
    struct dataset_cost *costs; /* cost.c: on datasets that have been freed */
    size_t n_costs, cap_costs;
    struct usage_report *usage; /* usage.c */
    struct checked_job checked_jobs[CHECKED_JOBS];
    size_t next_checked;
};

#endif
