// SPDX-License-Identifier: Apache-2.0
/*
 * Leader election among replicas: the holder of a Lease object leads.
 *
 *     FOLLOWING --free, or unchanged for 9/10 of its duration on our clock--> LEADING
 *     LEADING --renewed every 3/20 of the duration--> LEADING
 *     LEADING --another holder, or 3/5 of it without a renewal--> FOLLOWING
 *
 * (LEASE-1) Clocks of two machines are never compared: a candidate waits until the record has not
 *           changed for 9/10 of the duration on its own monotonic clock; renewTime is only a text
 *           that changes.
 * (LEASE-2) A replica leads until 3/5 of the duration after the start of its last successful
 *           renewal; requests under way end within 1/5 (kube_options.timeout is lease_timeout());
 *           other replicas begin 9/10 after they saw the record, which was later, by at most 1/20
 *           and a request. So fail-over takes no longer than the duration.
 * (LEASE-3) Every write to the Lease carries the version that it was decided on: of two candidates
 *           one wins.
 * (LEASE-4) An identity is used by one start only, so that a restarted process does not believe
 *           that it leads.
 */
#ifndef DLC_OPERATOR_KUBE_LEASE_H
#define DLC_OPERATOR_KUBE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/kube/kube.h"

struct lease;

struct lease_config {
    struct kube_options kube; /* may_write is not used; timeout: lease_timeout() */
    const char *ns, *name;    /* copied */
    const char *who;          /* a pod's name; NULL: the host's. A random part is added */
    struct dlc_dur duration;  /* whole seconds; 0: 15 s */
    /* On the lease's thread. held == false comes when that thread finds that lease_held() has
     * become false: after a request under way, so up to two fifths of the duration later. May be
     * NULL. */
    void (*changed)(bool held, void *arg);
    void *arg;
};

int lease_start(const struct lease_config *c, struct lease **out, struct dlc_err *err);
/* So that another takes over at once. First end what writes. lease_held() is false from now on. */
void lease_give_up(struct lease *l);
void lease_stop(struct lease **lp); /* gives it up, if that was not done, and frees */

/* Any thread; cheap. kube_options.may_write can be lease_may_write with the lease as arg. */
bool lease_held(const struct lease *l);
bool lease_may_write(void *lease);
uint64_t lease_transitions(const struct lease *l); /* as in the Lease: grows with each change */
const char *lease_identity(const struct lease *l); /* our name in it */
char *lease_holder(struct lease *l);               /* gives: who leads, as last seen; "" nobody */
struct dlc_dur lease_timeout(struct dlc_dur duration); /* longest for a write: a fifth of it */

#endif
