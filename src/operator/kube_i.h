// SPDX-License-Identifier: Apache-2.0
/* Requests of kube.h, between kube_call.c (which sends them), kube.c and kube_list.c. */
#ifndef DLC_OPERATOR_KUBE_I_H
#define DLC_OPERATOR_KUBE_I_H

#include "base/buf.h"
#include "operator/kube.h"

/* One request and what comes back. */
struct kube_call {
    struct kube *kube;
    const char *method;
    const char *path; /* with query */
    const char *type; /* Content-Type of the text */
    char *text;       /* owned; NULL: none */
    struct buf body;
    size_t most; /* bytes of an answer, or of one line */
    /* A stream: */
    bool (*each)(const char *line, size_t len, void *arg); /* NULL: none */
    void *arg;
    struct dlc_dur silence;
    struct dlc_mono heard;
    bool stopped, too_long;
};

/* Sends it and waits. *err says what the server said; kube_status() and the rest are set. The body
 * is whole when 0 is returned. */
int kube_call(struct kube_call *c, struct dlc_err *err);
/* The body as JSON; gives. */
int kube_call_json(struct kube_call *c, json_t **out, struct dlc_err *err);
void kube_call_release(struct kube_call *c); /* wipes: there may be secrets in it */

void kube_forget(struct kube *k);                           /* the last answer */
struct kube_figures *kube_figures_of(struct kube *k);       /* never NULL */
int kube_ask_to_write(struct kube *k, struct dlc_err *err); /* 0, or DLC_ECANCELED */

#endif
