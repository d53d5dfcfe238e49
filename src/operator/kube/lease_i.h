// SPDX-License-Identifier: Apache-2.0
/* Decisions about a Lease, without a clock or a server: for lease.c and its tests. */
#ifndef DLC_OPERATOR_KUBE_LEASE_I_H
#define DLC_OPERATOR_KUBE_LEASE_I_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"

/*
 * A lease, in twentieths of its duration: what a leader begins ends before another may take over,
 * and that is over before the duration is, however late the other saw the last renewal.
 *
 *     0 renewed ... 12 holds no more ... 16 the last request has ended ... 18 taken over ... 20
 */
static inline struct dlc_dur lease_share(struct dlc_dur duration, int twentieths)
{
    return (struct dlc_dur){duration.ns / 20 * twentieths};
}
#define LEASE_HOLDS    12 /* after the start of the last renewal */
#define LEASE_TIMEOUT  4  /* of a request */
#define LEASE_TAKEN    18 /* after it was seen */
#define LEASE_RENEWED  3  /* the leader's pace */
#define LEASE_FOLLOWED 1  /* the others' */

/* What we have seen of the record, and since when it is so on our clock. */
struct lease_view {
    const char *identity;    /* ours; borrowed */
    struct dlc_dur duration; /* ours */
    char *holder, *renewed;  /* as in the record; NULL: none seen */
    int64_t transitions;
    struct dlc_dur lasts; /* the holder's duration */
    struct dlc_mono since;
    struct dlc_mono held_from; /* the start of our last good renewal; 0: we do not lead */
};

enum lease_step {
    LEASE_WAIT,   /* another one leads */
    LEASE_CREATE, /* there is no record */
    LEASE_RENEW,  /* it is ours */
    LEASE_TAKE,   /* it is nobody's, or its holder is silent */
};

/* lease NULL: there is none. Remembers what it saw. */
enum lease_step lease_decide(struct lease_view *v, const json_t *lease, struct dlc_mono now);
/* The record that this step writes; `lease` is what it was decided on (NULL to create). Gives. */
json_t *lease_record(const struct lease_view *v, enum lease_step step, const json_t *lease,
                     const char *ns, const char *name, const char *now);
/* The record with nobody in it: another may take it at once. Gives. */
json_t *lease_farewell(const json_t *lease, const char *now);
bool lease_view_holds(const struct lease_view *v, struct dlc_mono now); /* (LEASE-2) */
/* When to look next. */
struct dlc_mono lease_next(const struct lease_view *v, struct dlc_mono now);
void lease_view_release(struct lease_view *v);

#endif
