// SPDX-License-Identifier: Apache-2.0
/*
 * The page: static files of web/, which are part of the program. Daemon and manager serve the same
 * ones; what the page shows depends on the figures it gets (GET /v1/stream).
 *
 * (PAGE-1) The files have no figures and no name of anything: they need no token.
 * (PAGE-2) The policy of the page forbids scripts, styles and requests from anywhere else, inline
 *          ones too. Strings of others become text nodes, never HTML.
 */
#ifndef DLC_GATEWAY_PAGE_PAGE_H
#define DLC_GATEWAY_PAGE_PAGE_H

#include "net/server.h"

/* Handlers: GET / and GET /web/{name}. */
void page_index(struct http_request *r, struct http_reply *reply, void *ctx);
void page_file(struct http_request *r, struct http_reply *reply, void *ctx);

#endif
