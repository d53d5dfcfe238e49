// SPDX-License-Identifier: Apache-2.0
/* libcurl for the whole process, once. */
#ifndef DLC_NET_CURL_INIT_H
#define DLC_NET_CURL_INIT_H

#include "base/err.h"

int http_begin(struct dlc_err *err); /* any thread, any number of times */

/*
 * The file of trusted certificates where libcurl's own does not exist: a libcurl of one
 * distribution in a wheel looks in vain on another. NULL: libcurl's own exists, or no other does.
 * After http_begin.
 */
const char *http_ca_file(void);

#endif
