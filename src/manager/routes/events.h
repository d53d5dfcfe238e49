// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/events: events as JSON lines. With follow=1 the answer continues for as long as the
 * client listens and its token is valid, which is checked again every few seconds. Each such answer
 * takes a thread, so a caller may have only a few of them.
 */
#ifndef DLC_MANAGER_ROUTES_EVENTS_H
#define DLC_MANAGER_ROUTES_EVENTS_H

#include "base/list.h"
#include "base/mutex.h"
#include "net/server.h"

struct event_streams {
    struct dlc_mtx mtx;   /* rank LCK_streams */
    struct dlc_list list; /* G: mtx; open answers with follow=1 */
};

void event_streams_init(struct event_streams *s);
void event_streams_release(struct event_streams *s); /* the server has ended them */

http_handler_f route_events;

#endif
