// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/events.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/routes/api.h"
#include "manager/routes/dataset_names.h"
#include "manager/routes/json_fields.h"
#include "manager/routes/route_util.h"
#include "manager/store/wall_time.h"

#define STREAM_TAG DLC_TAG4('e', 'v', 's', 't')
#define AT_ONCE    256
#define LOOK_EVERY DLC_MS(200)
#define CHECK_MS   5000
#define STREAMS    8 /* of one tenant, of all admins, of all nodes */

struct stream {
    uint32_t tag;
    struct api *api;
    struct dlc_list link; /* in api->streams.list, when `listed` */
    enum role role;
    char tenant[NAME_MAX_LEN + 1];
    bool all, follow, listed; /* all: of every tenant */
    char *token;              /* NULL: came through the Unix socket */
    uint64_t after, left;
    struct dlc_mono checked;
    struct buf lines;
    size_t given; /* of lines */
};

void event_streams_init(struct event_streams *s)
{
    dlc_mtx_init(&s->mtx, LCK_streams);
    dlc_list_init(&s->list);
}

void event_streams_release(struct event_streams *s)
{
    dlc_check(dlc_list_empty(&s->list));
    dlc_mtx_release(&s->mtx);
}

static struct stream *stream_of(void *arg)
{
    struct stream *s = arg;

    dlc_check(s != NULL && s->tag == STREAM_TAG);
    return s;
}

static void done(void *arg)
{
    struct stream *s = stream_of(arg);

    if (s->listed) {
        dlc_mtx_lock(&s->api->streams.mtx);
        dlc_list_remove(&s->link);
        dlc_mtx_unlock(&s->api->streams.mtx);
    }
    if (s->token != NULL)
        OPENSSL_cleanse(s->token, strlen(s->token));
    mem_free(&s->token);
    buf_release(&s->lines);
    s->tag = 0;
    free(s);
}

static void add_line(struct stream *s, json_t *event)
{
    json_t *ms = json_object_get(event, "time_ms");
    char *time = wall_time_text((int64_t)json_integer_value(ms)), *text;
    struct caller who = {.role = s->role};

    s->after = (uint64_t)json_integer_value(json_object_get(event, "seq"));
    json_object_set_new(event, "time", json_string(time));
    json_object_del(event, "time_ms");
    memcpy(who.tenant, s->tenant, sizeof(who.tenant));
    names_show(s->api, &who, event, "dataset");
    text = json_dumps(event, JSON_COMPACT);
    if (text != NULL) {
        buf_adds(&s->lines, text);
        buf_addc(&s->lines, '\n');
    }
    free(text);
    mem_free(&time);
}

/* The next lines from the store. */
static int more(struct stream *s, struct dlc_err *err)
{
    json_t *events = NULL;
    int rc = 0;

    buf_clear(&s->lines);
    s->given = 0;
    if (s->left > 0)
        rc = store_events(s->api->tables->store, s->all ? NULL : s->tenant, s->after,
                          (size_t)DLC_MIN(s->left, AT_ONCE), &events, err);
    for (size_t i = 0; rc == 0 && i < json_array_size(events); i++) {
        add_line(s, json_array_get(events, i));
        s->left--;
    }
    json_decref(events);
    return rc;
}

static bool still_allowed(struct stream *s)
{
    struct caller who;
    struct dlc_err err = DLC_ERR_INIT;

    if (s->token == NULL || dlc_mono_since(s->checked).ns < CHECK_MS * INT64_C(1000000))
        return true;
    s->checked = dlc_mono_now();
    return token_caller(s->api, s->token, &who, &err) != DLC_EDENIED;
}

static long next(void *arg, char *buf, size_t cap)
{
    struct stream *s = stream_of(arg);
    struct dlc_err err = DLC_ERR_INIT;
    size_t n;

    if (!still_allowed(s))
        return -1;
    if (s->given == s->lines.len && s->left > 0 && more(s, &err) < 0) {
        log_warn("events: %s", err.text);
        if (!s->follow)
            return -1;
    }
    n = DLC_MIN(s->lines.len - s->given, cap);
    if (n == 0 && s->follow && s->left > 0) {
        dlc_sleep(LOOK_EVERY);
        return 0;
    }
    if (n == 0)
        return -1;
    memcpy(buf, s->lines.data + s->given, n);
    s->given += n;
    return (long)n;
}

/* False: the caller has enough of them. */
static bool enlist(struct stream *s, struct http_reply *reply)
{
    size_t n = 0;

    dlc_mtx_lock(&s->api->streams.mtx);
    dlc_list_each (l, &s->api->streams.list) {
        const struct stream *o = dlc_container(l, struct stream, link);

        n += o->role == s->role && strcmp(o->tenant, s->tenant) == 0;
    }
    s->listed = n < STREAMS;
    if (s->listed)
        dlc_list_push_tail(&s->api->streams.list, &s->link);
    dlc_mtx_unlock(&s->api->streams.mtx);
    if (!s->listed)
        http_problem(reply, 429, "Too many streams",
                     "%zu answers with follow=1 go on for this caller already; end one first", n);
    return s->listed;
}

static bool read_number(const struct http_request *r, const char *name, uint64_t *out,
                        struct http_reply *reply)
{
    const char *s = http_query(r, name);

    if (s == NULL || (str_parse_u64(s, out) && *out <= UINT64_C(1) << 53))
        return true;
    refuse_field(reply, "", name, "must be a whole number");
    return false;
}

void route_events(struct http_request *r, struct http_reply *reply, void *ctx)
{
    const struct caller *who = caller_of(r);
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t after = 0, limit = UINT64_MAX;
    const char *follow = http_query(r, "follow");
    bool goes_on = false;
    struct stream *s;

    if (!read_number(r, "after", &after, reply) || !read_number(r, "limit", &limit, reply))
        return;
    if (follow != NULL && !str_parse_bool(follow, &goes_on)) {
        refuse_field(reply, "", "follow", "must be 1 or 0");
        return;
    }
    s = mem_new(struct stream);
    *s = (struct stream){.tag = STREAM_TAG,
                         .api = api_of(ctx),
                         .role = who->role,
                         .all = who->role == ROLE_ADMIN,
                         .follow = goes_on,
                         .token = r->token != NULL && !r->local ? mem_str(r->token) : NULL,
                         .after = after,
                         .left = limit,
                         .checked = dlc_mono_now(),
                         .lines = BUF_INIT};
    memcpy(s->tenant, who->tenant, sizeof(s->tenant)); /* of a node: "", what is nobody's */
    if (goes_on && !enlist(s, reply)) {
        done(s);
        return;
    }
    if (more(s, &err) < 0) {
        done(s);
        reply_store_error(api_of(ctx), r, reply, &err);
        return;
    }
    reply->type = "application/jsonl";
    reply->next = next;
    reply->done = done;
    reply->arg = s;
}
