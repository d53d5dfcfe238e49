// SPDX-License-Identifier: Apache-2.0
/*
 * Server-sent events: a document each second, for the page. A stream ends after STREAM_LIFE: the
 * page connects again, and is asked for its token again.
 *
 * (EVENT-STREAM-1) At most EVENT_STREAMS streams of one owner; more get 503.
 * (EVENT-STREAM-2) The document is made once for each event, by the thread of the connection; while
 *                  the client does not read, none is made.
 */
#ifndef DLC_GATEWAY_PAGE_EVENT_STREAM_H
#define DLC_GATEWAY_PAGE_EVENT_STREAM_H

#include <stdatomic.h>

#include <jansson.h>

#include "net/server.h"

#define EVENT_STREAMS 32

struct event_stream_owner {
    _Atomic unsigned streams; /* relaxed: a limit */
};

/* Gives a document; NULL: none now, *err says why. X. */
typedef json_t *event_stream_f(void *arg, struct dlc_err *err);

/* Makes the reply a stream. Takes arg: release(arg) is called once, also when it is refused. */
void event_stream_begin(struct event_stream_owner *o, struct http_reply *reply,
                        event_stream_f *next, void (*release)(void *arg), void *arg);

#endif
