// SPDX-License-Identifier: Apache-2.0
/* The importance weights of a job on a dataset: clients write them, the daemon reads them. */
#ifndef DLC_DAEMON_JOB_WEIGHTS_H
#define DLC_DAEMON_JOB_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "importance/weights.h"

struct dataset;
struct dlc_err;
struct mem_common;
struct node_events;
struct session;

/* State of the exchange of weights with other nodes: weight_exchange.c. */
struct sending {
    uint64_t number;            /* our id at the manager; 0: none yet */
    char after[36];             /* the newest update received, by the manager's id */
    struct dlc_mono last, next; /* time of the last send, and earliest time of the next */
    uint64_t place;             /* of the marks: where to go on */
    uint64_t round, stored;     /* weights_stored() when this round over them began, and the last */
    uint64_t *samples;          /* taken and not heard of yet, ascending */
    size_t n, cap;
    uint64_t sent, received; /* samples */
    bool refused;            /* the manager rejected them; already logged */
};

/* The weights of one job on a dataset: docs/design/0008. */
struct job_weights {
    struct dlc_list link; /* in dataset.job_weights */
    char *job;
    bool own; /* of a process without a job: it goes with its last session */
    unsigned char owner[SHA256_LEN];
    struct mem_common *memory;      /* written by clients */
    struct weights w;               /* over it */
    struct mem_common *uses_memory; /* sparse, and freed by a thread; no client has it */
    uint16_t *uses;        /* how often each sample was read, also of those that have left */
    uint64_t place, round; /* of the marks: where to go on; weights_stored() at 0 */
    double mean;           /* of the weights that are known; 0: none is */
    uint64_t learnt;       /* how many those are */
    struct {               /* the mean is counted a slice at a time */
        uint64_t at, stored, learnt;
        double sum;
    } count;
    struct sending send;
    unsigned users; /* sessions */
    struct dlc_mono last_used;
};

/* Find or make the session's: its own until another one is asked for. */
int job_weights_get(struct session *s, const char *job, bool own, struct dlc_err *err);
void job_weights_put(struct job_weights **wp);
/* An epoch ends, or its ranks do: send the weights to the other nodes soon. No-op if w is NULL. */
void job_weights_send_soon(struct job_weights *w);
#define SENDING_AT_LEAST                                                                           \
    DLC_MS(100) /* between two, however often a client says that an epoch ends */
/* The next sample whose weight has changed. False: no more for now, or *steps is used up. */
bool job_weights_take(struct job_weights *w, uint64_t *steps, uint64_t *sample);
void job_weights_measure(struct job_weights *w); /* updates the mean by a slice; at each look */
json_t *job_weights_all_json(const struct dataset *ds); /* Gives */

extern const struct node_events job_weights_events;

#endif
