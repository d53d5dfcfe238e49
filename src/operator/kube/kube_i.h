// SPDX-License-Identifier: Apache-2.0
/* The handle and requests of kube.h, between kube_open.c, kube_http.c (which sends them), kube.c
 * and kube_list.c. */
#ifndef DLC_OPERATOR_KUBE_KUBE_I_H
#define DLC_OPERATOR_KUBE_KUBE_I_H

#include <sys/stat.h>

#include "base/check.h"
#include "net/sync_call.h"
#include "operator/kube/kube.h"

#define KUBE_TAG DLC_TAG4('k', 'u', 'b', 'e')

struct kube {
    uint32_t tag;
    struct kube_options o;
    struct sync_handle *handle;
    char *url;                     /* the server, or tls-server-name in its place */
    char *host_line;               /* "Host: ..." and */
    struct curl_slist *connect_to; /* where that name really is; NULL: neither */
    char *token_line;              /* "Authorization: Bearer ...", NULL: none */
    struct stat token_stat;        /* of the file that it is from */
    int status;
    struct dlc_dur retry_after;
};

/* One request and what comes back. */
struct kube_call {
    struct kube *kube;
    const char *method;
    bool list;             /* GET of many */
    const char *path;      /* with query */
    const char *type;      /* Content-Type of the text */
    char *text;            /* owned; NULL: none */
    struct sync_call http; /* the owner may set: most, and of a stream each, arg and silence */
};

/* Sends it and waits. *err says what the server said; kube_status() and the rest are set. The body
 * is whole when 0 is returned. */
int kube_call(struct kube_call *c, struct dlc_err *err);
/* The body as JSON; gives. */
int kube_call_json(struct kube_call *c, json_t **out, struct dlc_err *err);
void kube_call_release(struct kube_call *c); /* wipes: there may be secrets in it */

int kube_refresh_token(struct kube *k, struct dlc_err *err); /* before each request */
void kube_forget(struct kube *k);                            /* the last answer */

#endif
