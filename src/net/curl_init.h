// SPDX-License-Identifier: Apache-2.0
/* libcurl: once for the whole process, and what all transfers have in common. */
#ifndef DLC_NET_CURL_INIT_H
#define DLC_NET_CURL_INIT_H

#include <stdbool.h>

#include <curl/curl.h>

#include "base/err.h"

int http_begin(struct dlc_err *err); /* any thread, any number of times */

/*
 * The file of trusted certificates where libcurl's own does not exist: a libcurl of one
 * distribution in a wheel looks in vain on another. NULL: libcurl's own exists, or no other does.
 * After http_begin.
 */
const char *http_ca_file(void);

/* What all our transfers have in common: HTTP/1.1 and nothing else, no signals, paths as they are
 * written, connections that are kept alive; direct: through no proxy of the environment. */
void http_set_up(CURL *easy, bool direct);

#endif
