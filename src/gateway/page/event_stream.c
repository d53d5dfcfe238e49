// SPDX-License-Identifier: Apache-2.0
#include "gateway/page/event_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

#define STREAM_TAG  DLC_TAG4('s', 's', 'e', 'v')
#define STREAM_LIFE DLC_SEC(60)
#define EVERY       DLC_SEC(1)
#define LOOK        DLC_MS(100) /* a server that closes does not wait longer */

struct event_stream {
    uint32_t tag;
    struct event_stream_owner *owner;
    event_stream_f *next;
    void (*release)(void *arg);
    void *arg;
    struct dlc_mono ends, due;
    struct buf text;
    size_t given; /* of text */
};

static struct event_stream *stream_of(void *arg)
{
    struct event_stream *s = arg;

    dlc_check(s != NULL && s->tag == STREAM_TAG);
    return s;
}

static void stream_done(void *arg)
{
    struct event_stream *s = stream_of(arg);

    s->release(s->arg);
    atomic_fetch_sub_explicit(&s->owner->streams, 1, memory_order_relaxed);
    buf_release(&s->text);
    s->tag = 0;
    mem_free(&s);
}

/* One line of JSON has no line end in it. */
static void make_event(struct event_stream *s)
{
    struct dlc_err err = DLC_ERR_INIT;
    json_t *doc = s->next(s->arg, &err);
    char *text;

    buf_clear(&s->text);
    s->given = 0;
    if (doc == NULL)
        doc = json_pack("{s:s, s:s}", "kind", "error", "text", err.text);
    text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    if (text != NULL)
        buf_addf(&s->text, "data: %s\n\n", text);
    free(text); /* of jansson */
    json_decref(doc);
}

static long stream_next(void *arg, char *buf, size_t cap)
{
    struct event_stream *s = stream_of(arg);
    struct dlc_mono now = dlc_mono_now();
    size_t n = DLC_MIN(s->text.len - s->given, cap);

    if (n == 0 && dlc_mono_passed(s->ends, now))
        return -1;
    if (n == 0 && !dlc_mono_passed(s->due, now)) {
        dlc_sleep(LOOK);
        return 0;
    }
    if (n == 0) {
        s->due = dlc_mono_add(now, EVERY);
        make_event(s);
        n = DLC_MIN(s->text.len, cap);
    }
    memcpy(buf, s->text.data + s->given, n);
    s->given += n;
    return (long)n;
}

void event_stream_begin(struct event_stream_owner *o, struct http_reply *reply,
                        event_stream_f *next, void (*release)(void *arg), void *arg)
{
    struct event_stream *s;

    if (atomic_fetch_add_explicit(&o->streams, 1, memory_order_relaxed) >= EVENT_STREAMS) {
        atomic_fetch_sub_explicit(&o->streams, 1, memory_order_relaxed);
        release(arg);
        http_problem(reply, 503, "Too many viewers",
                     "%d pages are open already: close some, or wait", EVENT_STREAMS);
        return;
    }
    s = mem_new(struct event_stream);
    *s = (struct event_stream){.tag = STREAM_TAG,
                               .owner = o,
                               .next = next,
                               .release = release,
                               .arg = arg,
                               .ends = dlc_mono_add(dlc_mono_now(), STREAM_LIFE),
                               .due = dlc_mono_now()};
    reply->type = "text/event-stream";
    reply->next = stream_next;
    reply->done = stream_done;
    reply->arg = s;
}
