// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP endpoints of the operator:
 *
 *     GET  /healthz       200 while it is alive, else 503: the kubelet then restarts it
 *     GET  /readyz        200 when every cache is filled, leader or not, else 503
 *     GET  /metrics       Prometheus (metrics.h)
 *     POST /mutate-pods   the webhook, over TLS, at an address of its own
 *
 * (ENDPOINTS-1) A replica that does not lead is ready too: it answers the webhook, and takes over.
 *               One that is configured to answer the webhook is ready when it does.
 * (ENDPOINTS-2) serve_tls() changes the certificate without refusing a client: connections that are
 *               open are served until the next change after this one.
 * (ENDPOINTS-3) No response needs a lock of the operator's for longer than state() does.
 */
#ifndef DLC_OPERATOR_WEBHOOK_ENDPOINTS_H
#define DLC_OPERATOR_WEBHOOK_ENDPOINTS_H

#include <stdbool.h>

#include "base/err.h"
#include "operator/metrics.h"

struct serve;

struct serve_state {
    const char *sick; /* why it is to be restarted; NULL: it is well */
    bool ending;      /* ask the others */
    struct metrics_now now;
};

struct serve_config {
    const char *listen;      /* HOST:PORT of the first three; port 0: any */
    const char *webhook;     /* HOST:PORT; NULL: none */
    struct metrics *metrics; /* borrowed until serve_close() */
    /* The present: any thread. Texts that it gives live until serve_close(). */
    void (*state)(struct serve_state *out, void *arg);
    void *arg;
};

int serve_open(const struct serve_config *c, struct serve **out, struct dlc_err *err);
void serve_close(struct serve **sp);

/* Begin to answer the webhook, or go on with another certificate. PEM texts, borrowed for the call.
 * The same texts again do nothing. On failure all is as before. One thread. */
int serve_tls(struct serve *s, const char *cert, const char *key, struct dlc_err *err);

const char *serve_address(const struct serve *s); /* "127.0.0.1:40123" */
const char *serve_webhook(const struct serve *s); /* likewise; NULL: it does not answer yet */

#endif
