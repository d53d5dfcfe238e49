// SPDX-License-Identifier: Apache-2.0
/*
 * A CA of our own and a server certificate (EC P-256), for the webhook and for managers, as PEM
 * texts. Pure: nothing of Kubernetes, files or the clock; the caller stores the texts (in a Secret),
 * publishes the bundle to clients, and calls again periodically.
 *
 *     (nothing) --renew--> GOOD --CERTS_RENEW before its end--> DUE --renew--> GOOD
 *
 * (CERTS-1) certs_renew() changes what is due and nothing else: the server certificate when its end
 *           is near or its names differ; the CA, and the server certificate with it, when the CA's
 *           end is near or the parts do not match.
 * (CERTS-2) After the CA has changed, the bundle also holds the previous one until that expires: a
 *           server certificate of the old CA stays valid, and the order in which replicas, bundle
 *           and server change does not matter.
 * (CERTS-3) No certificate outlives its CA.
 */
#ifndef DLC_OPERATOR_WEBHOOK_CERTS_H
#define DLC_OPERATOR_WEBHOOK_CERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CERTS_DAY        86400
#define CERTS_DAYS       90   /* of a server certificate */
#define CERTS_RENEW_DAYS 30   /* before its end */
#define CERTS_CA_DAYS    1825 /* five years */
#define CERTS_CA_RENEW   365
#define CERTS_NAMES_MAX  16

/* PEM texts, owned; NULL: not there. */
struct certs {
    char *bundle; /* the CA, then the one before it */
    char *ca_key, *cert, *key;
};
#define CERTS_INIT                                                                                 \
    {                                                                                              \
        NULL, NULL, NULL, NULL                                                                     \
    }
void certs_release(struct certs *c); /* keys are wiped */

/* Host names and addresses that the server certificate is for. The first one is its subject. */
struct certs_names {
    const char *const *v;
    size_t n;
    int days; /* life of the certificate and of a CA made for it; 0: CERTS_DAYS, CERTS_CA_DAYS */
};

enum certs_state { CERTS_GOOD, CERTS_DUE, CERTS_CA_DUE };

/* What is due at `now` (Unix time)? why (may be NULL) says it in words. */
enum certs_state certs_check(const struct certs *c, const struct certs_names *names, int64_t now,
                             struct dlc_err *why);
/* Do what is due. *changed (may be NULL): the texts are new ones. On failure they are as before. */
int certs_renew(struct certs *c, const struct certs_names *names, int64_t now, bool *changed,
                struct dlc_err *err);

/* The end of the first certificate of a PEM text, as Unix time; 0: it holds none. */
int64_t certs_end(const char *pem);

#endif
