// SPDX-License-Identifier: Apache-2.0
/*
 * The operator: connects watches, queue, workers, Lease, housekeeping and HTTP.
 *
 *     watch (one thread per kind) -> object cache -> enqueue -> work queue -> worker: one pass
 *
 * Every replica watches everything and answers HTTP; only the leader runs passes. A replica that
 * becomes leader enqueues every object once.
 *
 * (OPERATOR-1) A write to Kubernetes needs the Lease (kube_options.may_write), except for the
 *              Secret of the installation, which any replica may create at the start.
 * (OPERATOR-2) No pass runs before every kind was listed: an object that was not seen yet would
 *              look absent.
 */
#ifndef DLC_OPERATOR_OPERATOR_H
#define DLC_OPERATOR_OPERATOR_H

#include "base/config.h"
#include "base/err.h"
#include "operator/kube/kube_config.h"

#define OPERATOR_LEASE "dlcache-operator"

struct dlc_operator;

struct operator_config {
    const struct kube_config *kube; /* borrowed, as all here, until operator_stop() */
    const struct config *config;    /* manager, token */
    const char *ns;                 /* the installation's */
    const char *name;               /* in the Lease; NULL: the host's */
    const char *listen, *webhook;   /* HOST:PORT; webhook NULL: none */
    struct dlc_dur lease;           /* whole seconds */
    unsigned workers;
};

int operator_start(const struct operator_config *c, struct dlc_operator **out, struct dlc_err *err);
/* The Lease is given up last, when nothing writes any more. */
void operator_stop(struct dlc_operator **op);

const char *operator_address(const struct dlc_operator *o); /* "127.0.0.1:40123" */

#endif
