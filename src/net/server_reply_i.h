// SPDX-License-Identifier: Apache-2.0
/* Replies, as all servers here handle them (server_reply.c). */
#ifndef DLC_NET_SERVER_REPLY_I_H
#define DLC_NET_SERVER_REPLY_I_H

#include "net/server.h"

/* Cut a reply of data or of a file to the part that a Range header (NULL: none) asks for. With
 * If-Range there is nothing that we could compare: it stays whole. */
void reply_cut_range(struct http_reply *reply, const char *text, bool if_range);
/* Its texts and JSON; not data, file and done. */
void reply_release(struct http_reply *reply);

#endif
