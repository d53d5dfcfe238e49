// SPDX-License-Identifier: Apache-2.0
/* TLS between nodes, on libcurl: which certificate to show, whom to trust, and which node must
 * answer. */
#ifndef DLC_NET_CURL_TLS_H
#define DLC_NET_CURL_TLS_H

#include <stdbool.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/tls_identity.h"

/* Can this libcurl take certificates from memory? DLC_EINVAL says what is needed. */
int curl_tls_check(struct dlc_err *err);

/* Show this certificate, and trust its authorities and nobody else. Borrows id until the handle
 * gets another one, or is freed. */
void curl_tls_use(CURL *easy, const struct tls_identity *id);

/*
 * How to reach a node at an address ("https://HOST:PORT"): *url begins with the node's name, which
 * the certificate is compared with, and *connect_to is for CURLOPT_CONNECT_TO. Adds to both. False:
 * it is not such an address.
 */
bool curl_tls_node_url(const char *address, const char *node, struct buf *url,
                       struct buf *connect_to);

#endif
