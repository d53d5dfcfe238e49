// SPDX-License-Identifier: Apache-2.0
/*
 * The Redis store: documents, locks, events (chunks: redis_chunks.c).
 *
 * All keys lie in one slot, {PREFIX}, so that a script can check the fence and write in one step
 * (MANAGER-STORE-2); the data is small, and only managers read it:
 *
 *     {P}:doc:KIND:ID           hash: v version, t tenant, b body
 *     {P}:ids:KIND[:TENANT]     sorted set of ids, by name: lists are ranges of it
 *     {P}:fence, {P}:granted    newest fence that wrote; newest that a lock gave
 *     {P}:lock:NAME             "FENCE HOLDER", expires by the server's clock
 *     {P}:event-number, {P}:events, {P}:events-of:TENANT   streams; the same number in both
 *     {P}:op:NUMBER             mark of a write that was done; lives for a minute
 *
 * The client repeats a request that got no answer (redis.h, R1). The mark makes that harmless: put,
 * delete and event find it and give the same answer as before.
 *
 * If there are replicas, a write succeeds once one of them has it: a fail-over loses it only if
 * both die. Until then it is repeated, and fails (DLC_EBUCKET) at its deadline. The same holds for
 * the lock, so that a manager that is cut off together with a master does not go on leading.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "manager/store/redis_store_i.h"
#include "manager/store/redis_chunks_i.h"

static const char *const lua[LUA_COUNT] = {
#define SCRIPT(name, text) text,
#include "manager/store/redis_lua.def"
#undef SCRIPT
};

struct redis_store *redis_store_of(struct store *m)
{
    dlc_check(m != NULL && m->tag == STORE_TAG);
    return (struct redis_store *)m;
}

int redis_store_odd(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECORRUPT,
                       "Redis holds something under our prefix that is not ours; choose another "
                       "prefix, or delete it and run 'dlcache rebuild'");
}

static const char *redis_kind(const struct store *m)
{
    return redis_is_cluster(((const struct redis_store *)m)->r) ? "redis cluster" : "redis";
}

/* ---- commands ---- */

/* Keys of the one slot: "{P}:" and what follows. */
static void add_key(struct redis_cmd *c, const struct redis_store *q, const char *a, const char *b,
                    const char *d)
{
    char *key = mem_fmt("{%s}:%s%s%s", q->prefix, a, b, d);

    redis_cmd_key(c, key);
    mem_free(&key);
}

static void add_mark(struct redis_cmd *c, const struct redis_store *q)
{
    char number[40];

    snprintf(number, sizeof(number), "%016" PRIx64 "%016" PRIx64, rng_seed(), rng_seed());
    add_key(c, q, "op:", number, "");
}

static void add_expected(struct redis_cmd *c, uint64_t expect)
{
    if (expect == STORE_ANY)
        redis_cmd_text(c, "any");
    else
        redis_cmd_number(c, expect);
}

static const char *kind_key(enum store_kind kind, const char *what, char out[static 32])
{
    snprintf(out, 32, "%s:%s", what, store_kind_name(kind));
    return out;
}

static bool is_text(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS;
}

/* What our writing scripts answer: {'ok', number} and others. */
static int answered(const struct redis_cmd *c, const char **word, const char **rest,
                    struct dlc_err *err)
{
    const redisReply *r = c->reply;

    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || !is_text(r->element[0]) ||
        !is_text(r->element[1]))
        return redis_store_odd(err);
    *word = r->element[0]->str;
    *rest = r->element[1]->str;
    return 0;
}

/* Runs c; *rest is what follows 'ok', and lives as long as c. */
static int run_write(struct redis_store *q, struct redis_cmd *c, uint64_t fence, const char **word,
                     const char **rest, struct dlc_err *err)
{
    int rc;

    *word = *rest = "";
    c->copied = true;
    rc = redis_run(q->r, c, 1, err);
    if (rc == 0)
        rc = answered(c, word, rest, err);
    if (rc == 0 && strcmp(*word, "fence") == 0 && strcmp(*rest, "lost") == 0)
        rc = store_err_lost(err);
    else if (rc == 0 && strcmp(*word, "fence") == 0)
        rc = store_err_fence(err, fence, strtoull(*rest, NULL, 10));
    return rc;
}

/* ---- documents ---- */

static bool raw_of_reply(redisReply *const *e, const char *id, struct store_raw *out)
{
    if (!is_text(e[0]) || !is_text(e[1]) || !is_text(e[2]))
        return false;
    out->id = mem_str(id);
    out->tenant = mem_strn(e[0]->str, e[0]->len);
    out->version = strtoull(e[1]->str, NULL, 10);
    out->body = mem_strn(e[2]->str, e[2]->len);
    out->body_len = e[2]->len;
    return true;
}

static int redis_get(struct store *m, enum store_kind kind, const char *id, struct store_raw *out,
                     struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct redis_cmd c;
    char key[32];
    int rc;

    redis_cmd_init(&c, "HMGET");
    add_key(&c, q, kind_key(kind, "doc", key), ":", id);
    redis_cmd_text(&c, "t");
    redis_cmd_text(&c, "v");
    redis_cmd_text(&c, "b");
    rc = redis_run(q->r, &c, 1, err);
    if (rc == 0 && (c.reply->type != REDIS_REPLY_ARRAY || c.reply->elements != 3))
        rc = redis_store_odd(err);
    else if (rc == 0 && c.reply->element[1]->type == REDIS_REPLY_NIL)
        rc = store_err_absent(err, kind, id);
    else if (rc == 0 && !raw_of_reply(c.reply->element, id, out))
        rc = redis_store_odd(err);
    redis_cmd_release(&c);
    return rc;
}

static int redis_put(struct store *m, enum store_kind kind, struct store_raw *d, uint64_t expect,
                     uint64_t fence, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    const char *word, *rest;
    struct redis_cmd c;
    char key[32];
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_put]);
    add_key(&c, q, "fence", "", "");
    add_key(&c, q, kind_key(kind, "doc", key), ":", d->id);
    add_mark(&c, q);
    add_key(&c, q, kind_key(kind, "ids", key), "", "");
    add_key(&c, q, key, ":", d->tenant);
    redis_cmd_number(&c, fence);
    redis_cmd_text(&c, d->id);
    redis_cmd_text(&c, d->tenant);
    add_expected(&c, expect);
    redis_cmd_arg(&c, d->body, d->body_len);
    rc = run_write(q, &c, fence, &word, &rest, err);
    if (rc == 0 && strcmp(word, "version") == 0)
        rc = store_err_version(err, kind, d->id, expect, strtoull(rest, NULL, 10));
    if (rc == 0)
        d->version = strtoull(rest, NULL, 10);
    redis_cmd_release(&c);
    return rc;
}

static int redis_delete(struct store *m, enum store_kind kind, const char *id, uint64_t expect,
                        uint64_t fence, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    const char *word, *rest;
    struct redis_cmd c;
    char key[32];
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_delete]);
    add_key(&c, q, "fence", "", "");
    add_key(&c, q, kind_key(kind, "doc", key), ":", id);
    add_mark(&c, q);
    add_key(&c, q, kind_key(kind, "ids", key), "", "");
    if (kind == STORE_TENANT)
        add_key(&c, q, "events-of:", id, "");
    redis_cmd_number(&c, fence);
    redis_cmd_text(&c, id);
    add_expected(&c, expect);
    rc = run_write(q, &c, fence, &word, &rest, err);
    if (rc == 0 && strcmp(word, "version") == 0)
        rc = store_err_version(err, kind, id, expect, strtoull(rest, NULL, 10));
    else if (rc == 0 && strcmp(word, "absent") == 0)
        rc = store_err_absent(err, kind, id);
    redis_cmd_release(&c);
    return rc;
}

static int redis_list(struct store *m, enum store_kind kind, const char *tenant, const char *after,
                      size_t max, struct store_raw *out, size_t *n, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct redis_cmd c;
    char *from = after == NULL ? mem_str("-") : mem_fmt("(%s", after), *docs, key[32];
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_list]);
    add_key(&c, q, kind_key(kind, "ids", key), tenant != NULL ? ":" : "",
            tenant != NULL ? tenant : "");
    redis_cmd_text(&c, from);
    redis_cmd_number(&c, max);
    docs = mem_fmt("{%s}:%s:", q->prefix, kind_key(kind, "doc", key));
    redis_cmd_text(&c, docs);
    rc = redis_run(q->r, &c, 1, err);
    if (rc == 0 && (c.reply->type != REDIS_REPLY_ARRAY || c.reply->elements > max))
        rc = redis_store_odd(err);
    for (size_t i = 0; rc == 0 && i < c.reply->elements; i++) {
        const redisReply *e = c.reply->element[i];

        if (e->type != REDIS_REPLY_ARRAY || e->elements != 4 || !is_text(e->element[0]) ||
            !raw_of_reply(e->element + 1, e->element[0]->str, &out[*n]))
            rc = redis_store_odd(err);
        else
            ++*n;
    }
    redis_cmd_release(&c);
    mem_free(&from);
    mem_free(&docs);
    return rc;
}

static int redis_ids(struct store *m, enum store_kind kind, const char *tenant, const char *after,
                     const char *before, size_t max, char **out, size_t *n, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    char *from = after == NULL ? mem_str("-") : mem_fmt("(%s", after), key[32];
    char *to = before == NULL ? mem_str("+") : mem_fmt("(%s", before);
    struct redis_cmd c;
    int rc;

    redis_cmd_init(&c, "ZRANGEBYLEX");
    add_key(&c, q, kind_key(kind, "ids", key), tenant != NULL ? ":" : "",
            tenant != NULL ? tenant : "");
    redis_cmd_text(&c, from);
    redis_cmd_text(&c, to);
    redis_cmd_text(&c, "LIMIT");
    redis_cmd_number(&c, 0);
    redis_cmd_number(&c, max);
    rc = redis_run(q->r, &c, 1, err);
    if (rc == 0 && (c.reply->type != REDIS_REPLY_ARRAY || c.reply->elements > max))
        rc = redis_store_odd(err);
    for (size_t i = 0; rc == 0 && i < c.reply->elements; i++) {
        const redisReply *e = c.reply->element[i];

        if (is_text(e))
            out[(*n)++] = mem_strn(e->str, e->len);
        else
            rc = redis_store_odd(err);
    }
    redis_cmd_release(&c);
    mem_free(&from);
    mem_free(&to);
    return rc;
}

static int redis_count(struct store *m, enum store_kind kind, const char *tenant, uint64_t *n,
                       struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct redis_cmd c;
    char key[32];
    int rc;

    redis_cmd_init(&c, "ZCARD");
    add_key(&c, q, kind_key(kind, "ids", key), tenant != NULL ? ":" : "",
            tenant != NULL ? tenant : "");
    rc = redis_run(q->r, &c, 1, err);
    if (rc == 0 && c.reply->type != REDIS_REPLY_INTEGER)
        rc = redis_store_odd(err);
    if (rc == 0)
        *n = (uint64_t)c.reply->integer;
    redis_cmd_release(&c);
    return rc;
}

/* ---- locks ---- */

static int redis_lock(struct store *m, const char *name, const char *holder, struct dlc_dur ttl,
                      uint64_t *fence, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    const char *word, *rest;
    struct redis_cmd c;
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_lock]);
    add_key(&c, q, "lock:", name, "");
    add_key(&c, q, "granted", "", "");
    add_key(&c, q, "fence", "", "");
    redis_cmd_text(&c, holder);
    redis_cmd_number(&c, (uint64_t)DLC_MAX(ttl.ns / 1000000, (int64_t)1));
    rc = run_write(q, &c, 0, &word, &rest, err);
    if (rc == 0 && strcmp(word, "held") == 0)
        rc = store_err_held(err, name, rest);
    if (rc == 0)
        *fence = strtoull(rest, NULL, 10);
    redis_cmd_release(&c);
    return rc;
}

static int redis_unlock(struct store *m, const char *name, const char *holder, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    const char *word, *rest;
    struct redis_cmd c;
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_unlock]);
    add_key(&c, q, "lock:", name, "");
    redis_cmd_text(&c, holder);
    rc = run_write(q, &c, 0, &word, &rest, err);
    if (rc == 0 && strcmp(word, "held") == 0)
        rc = store_err_held(err, name, rest);
    redis_cmd_release(&c);
    return rc;
}

static int redis_raise(struct store *m, uint64_t fence, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    const char *word, *rest;
    struct redis_cmd c;
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_raise]);
    add_key(&c, q, "fence", "", "");
    redis_cmd_number(&c, fence);
    rc = run_write(q, &c, fence, &word, &rest, err);
    redis_cmd_release(&c);
    return rc;
}

/* ---- events ---- */

static int redis_event(struct store *m, const char *tenant, const char *body, uint64_t fence,
                       struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    const char *word, *rest;
    struct redis_cmd c;
    int rc;

    redis_cmd_init_script(&c, &q->scripts[LUA_event]);
    add_key(&c, q, "fence", "", "");
    add_mark(&c, q);
    add_key(&c, q, "event-number", "", "");
    add_key(&c, q, "events", "", "");
    add_key(&c, q, "events-of:", tenant, "");
    redis_cmd_number(&c, fence);
    redis_cmd_text(&c, tenant);
    redis_cmd_text(&c, body);
    redis_cmd_number(&c, store_events_kept);
    rc = run_write(q, &c, fence, &word, &rest, err);
    redis_cmd_release(&c);
    return rc;
}

/* ["SEQ-0", ["m", time, "t", tenant, "b", body]] */
static bool event_of_reply(const redisReply *r, struct store_raw_event *out)
{
    const redisReply *f;

    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || !is_text(r->element[0]))
        return false;
    f = r->element[1];
    if (f->type != REDIS_REPLY_ARRAY || f->elements != 6)
        return false;
    for (size_t i = 0; i < 6; i++)
        if (!is_text(f->element[i]))
            return false;
    *out = (struct store_raw_event){strtoull(r->element[0]->str, NULL, 10),
                                    strtoll(f->element[1]->str, NULL, 10),
                                    mem_str(f->element[3]->str), mem_str(f->element[5]->str)};
    return true;
}

static int redis_events(struct store *m, const char *tenant, uint64_t after, size_t max,
                        struct store_raw_event *out, size_t *n, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct redis_cmd c;
    int rc;

    if (after >= (uint64_t)1 << 53) /* no event has such a number */
        return 0;
    redis_cmd_init_script(&c, &q->scripts[LUA_events]);
    add_key(&c, q, "event-number", "", "");
    add_key(&c, q, tenant != NULL ? "events-of:" : "events", tenant != NULL ? tenant : "", "");
    redis_cmd_number(&c, after + 1);
    redis_cmd_number(&c, max);
    redis_cmd_number(&c, store_events_kept);
    rc = redis_run(q->r, &c, 1, err);
    if (rc == 0 && (c.reply->type != REDIS_REPLY_ARRAY || c.reply->elements > max))
        rc = redis_store_odd(err);
    for (size_t i = 0; rc == 0 && i < c.reply->elements; i++) {
        if (event_of_reply(c.reply->element[i], &out[*n]))
            ++*n;
        else
            rc = redis_store_odd(err);
    }
    redis_cmd_release(&c);
    return rc;
}

/* ---- open and close ---- */

static void redis_store_close(struct store *m)
{
    struct redis_store *q = redis_store_of(m);

    redis_close(&q->r);
    mem_free(&q->prefix);
    q->m.tag = 0;
    mem_free(&q);
}

static const struct store_ops redis_ops = {
    .kind = redis_kind,
    .close = redis_store_close,
    .get = redis_get,
    .put = redis_put,
    .delete_ = redis_delete,
    .list = redis_list,
    .ids = redis_ids,
    .count = redis_count,
    .chunks_put = redis_chunks_put,
    .chunks_drop = redis_chunks_drop,
    .chunks_drop_keys = redis_chunks_drop_keys,
    .streams = redis_streams,
    .fetch = redis_fetch,
    .sums = redis_sums,
    .lock = redis_lock,
    .unlock = redis_unlock,
    .raise = redis_raise,
    .event = redis_event,
    .events = redis_events,
};

int redis_store_open(const char *url, struct store **out, struct dlc_err *err)
{
    struct redis_store *q = mem_new(struct redis_store);
    struct redis_url u;
    int rc = redis_url_parse(url, &u, err);

    q->m.tag = STORE_TAG;
    q->m.ops = &redis_ops;
    for (int i = 0; i < LUA_COUNT; i++)
        redis_script_init(&q->scripts[i], lua[i]);
    if (rc == 0) {
        q->prefix = mem_str(u.prefix != NULL ? u.prefix : "dlcache");
        rc = redis_open(&u, &q->r, err);
    }
    if (rc < 0)
        redis_store_close(&q->m);
    *out = rc < 0 ? NULL : &q->m;
    return rc;
}
