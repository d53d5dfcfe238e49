// SPDX-License-Identifier: Apache-2.0
/* The command line's client of a daemon's figures: GET /v1/figures at its HTTP address. */
#ifndef DLC_CLI_FIGURES_CLIENT_H
#define DLC_CLI_FIGURES_CLIENT_H

#include <jansson.h>

#include "base/config.h"
#include "base/err.h"

struct http_client;

/* at: http://HOST:PORT or unix:PATH; NULL: that of the daemon of this configuration. Gives *out. */
int figures_client_open(const struct config *config, const char *at, struct http_client **out,
                        struct dlc_err *err);
/* Gives *out. */
int figures_fetch(struct http_client *c, json_t **out, struct dlc_err *err);
/* Twice, a second apart, if the daemon has not looked at its readers before: shares of time need two
 * looks. Gives *out. */
int figures_fetch_recent(struct http_client *c, json_t **out, struct dlc_err *err);

#endif
