// SPDX-License-Identifier: Apache-2.0
/*
 * The operator: watches, queue, workers, Lease, keeper and HTTP put together.
 *
 *     watch (one thread per kind) -> objects -> wake -> queue -> worker: turn -> both worlds
 *
 * Every replica follows everything and answers HTTP; only the one that leads works. What it did not
 * lead for is not in its queue: who begins to lead looks at everything once.
 *
 * (N1) A write to Kubernetes needs the Lease (kube_options.may_write), but for the Secret of the
 *      installation, which anybody may make at the start. (N2) Nothing is worked on before every
 *      kind was listed: what is not seen yet would look as if it were not there.
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
