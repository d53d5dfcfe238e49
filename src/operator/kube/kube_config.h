// SPDX-License-Identifier: Apache-2.0
/*
 * The address of the API server and our identity, from the first of: the file that was given,
 * $KUBECONFIG (its first file), the service account of this pod, ~/.kube/config.
 *
 * Supported in a kubeconfig: the current or a named context; tokens (text or file), client
 * certificates and authorities (file or inline), tls-server-name, insecure-skip-tls-verify.
 * Programs that return a token (exec, auth-provider) and passwords are refused with a message that
 * says what to use.
 */
#ifndef DLC_OPERATOR_KUBE_KUBE_CONFIG_H
#define DLC_OPERATOR_KUBE_KUBE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct kube_config {
    char *from;                 /* for people: the file, or "the service account" */
    char *server;               /* "https://host:port[/path]", no slash at its end */
    char *namespace;            /* of the context or the service account; "default" */
    char *ca_file, *ca_pem;     /* at most one of the two; none: the system's authorities */
    char *cert_file, *cert_pem; /* a client certificate; at most one */
    char *key_file, *key_pem;   /* its key, exactly when there is a certificate */
    char *token, *token_file;   /* token_file wins and is read again when it changes */
    char *server_name;          /* the certificate is checked for this instead of the host */
    bool insecure;              /* the certificate is not checked */
};

#define KUBE_CONFIG_INIT                                                                           \
    {                                                                                              \
        NULL                                                                                       \
    }

/* *c was KUBE_CONFIG_INIT, and is again on failure. file and context may be NULL. */
int kube_config_load(struct kube_config *c, const char *file, const char *context,
                     struct dlc_err *err);
/* The text of a kubeconfig. `name` is its path: other files are relative to its directory. */
int kube_config_parse(struct kube_config *c, const char *name, const char *text, size_t len,
                      const char *context, struct dlc_err *err);
/* In a pod: KUBERNETES_SERVICE_HOST and _PORT, and token, ca.crt and namespace in `dir` (NULL:
 * where the kubelet puts them). */
int kube_config_in_cluster(struct kube_config *c, const char *dir, struct dlc_err *err);
void kube_config_release(struct kube_config *c); /* wipes secrets */

#endif
