// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks in Redis. The chunks of a dataset on a node are RUNS sorted sets, by a hash of the key,
 * each with the hash of its sums beside it in the same slot; so they spread over the servers of a
 * Cluster, and a script changes chunks and sums in one step.
 *
 *     {P:c:HASH:K}:z:DATASET:NODE   sorted set, all scores 0: members key NUL value, by bytes
 *     {P:c:HASH:K}:s:DATASET:NODE   hash: n chunks, b bytes
 *     {P:c:HASH:K}:f:DATASET:NODE   newest fence that wrote the run
 *     {P:d:HASH}:nodes:DATASET      set: nodes that may have something of it
 *     {P:n:HASH}:datasets:NODE      set: datasets it may have something of
 *
 * The value lies in the member, after the key: one structure instead of a set and a hash, half the
 * memory, and a page is one range (ZRANGEBYLEX: log n and what it returns). The chunk of a key is
 * the only member that begins with key NUL. A page of all nodes is the merge of their runs
 * (chunk_merge.c). Names are percent-encoded after the braces; HASH is of the names before
 * encoding.
 *
 * (REDIS-CHUNKS-1) Sums are changed by the script that changes chunks, by the difference. It
 *                  refuses a fence that is older than the run's.
 * (REDIS-CHUNKS-2) The two sets are written after the chunks, and a drop looks for chunks again
 *                  after it removed a name: so a name is missing only where there is nothing, or
 *                  where a writer died in between (its next batch, or a rebuild, repairs that).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "manager/store/redis_chunks_i.h"
#include "manager/store/chunk_merge_i.h"
#include "manager/store/redis_store_i.h"

#define RUNS       4
#define SCRIPT_MAX 500 /* chunks in one call of a script: it keeps the server for some ms */

/* ---- a chunk as text ---- */

void redis_chunk_write(struct buf *out, const struct store_chunk *c)
{
    buf_addf(out, "%" PRIu64 " %u %" PRIu32 " %" PRIu32 " %.17g %" PRId64 " %s", c->size, c->state,
             c->references, c->jobs, c->cost, c->changed_ms, c->etag != NULL ? c->etag : "");
}

/* A number of at most max, and the blank behind it. By hand: sscanf() took half of a page's time.
 */
static bool take_number(const char **s, const char *end, uint64_t max, uint64_t *out)
{
    const char *p = *s;
    uint64_t v = 0;

    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    if (p == *s || p == end || *p != ' ')
        return false;
    *s = p + 1;
    *out = v;
    return true;
}

static bool take_signed(const char **s, const char *end, int64_t *out)
{
    bool minus = *s < end && **s == '-';
    uint64_t v;

    *s += minus;
    if (!take_number(s, end, INT64_MAX, &v))
        return false;
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

static bool take_real(const char **s, const char *end, double *out)
{
    const char *blank = memchr(*s, ' ', (size_t)(end - *s));
    size_t n = blank == NULL ? 0 : (size_t)(blank - *s);
    char text[40], *rest;

    if (n == 0 || n >= sizeof(text))
        return false;
    memcpy(text, *s, n);
    text[n] = '\0';
    *out = strtod(text, &rest);
    *s = blank + 1;
    return *rest == '\0' && isfinite(*out);
}

bool redis_chunk_parse(const char *s, size_t len, struct store_chunk *out, const char **etag,
                       size_t *etag_len)
{
    const char *end = s + len;
    uint64_t size, state, refs, jobs;
    int64_t changed;
    double cost;

    if (!take_number(&s, end, UINT64_MAX, &size) || !take_number(&s, end, UINT8_MAX, &state) ||
        !take_number(&s, end, UINT32_MAX, &refs) || !take_number(&s, end, UINT32_MAX, &jobs) ||
        !take_real(&s, end, &cost) || !take_signed(&s, end, &changed))
        return false;
    *out = (struct store_chunk){.size = size,
                                .cost = cost,
                                .references = (uint32_t)refs,
                                .state = (uint8_t)state,
                                .jobs = (uint32_t)jobs,
                                .changed_ms = changed};
    *etag = s;
    *etag_len = (size_t)(end - s);
    return true;
}

/* ---- keys ---- */

/* "{P:c:HASH:K}:WHAT:DATASET:NODE" */
static void run_key(struct buf *out, const struct redis_store *q, const char *dataset,
                    const char *node, unsigned run, char what)
{
    uint64_t hash = hash64_str(dataset) * 31 + hash64_str(node);

    buf_clear(out);
    buf_addf(out, "{%s:c:%016" PRIx64 ":%u}:%c:", q->prefix, hash, run, what);
    str_uri_encode(dataset, strlen(dataset), false, out);
    buf_addc(out, ':');
    str_uri_encode(node, strlen(node), false, out);
}

static void add_run_keys(struct redis_cmd *c, const struct redis_store *q, const char *dataset,
                         const char *node, unsigned run)
{
    struct buf key = BUF_INIT;

    run_key(&key, q, dataset, node, run, 'z');
    redis_cmd_key(c, buf_str(&key));
    run_key(&key, q, dataset, node, run, 's');
    redis_cmd_key(c, buf_str(&key));
    buf_release(&key);
}

/* One that writes to a run, by a script. */
static void add_write(struct redis_cmd *c, struct redis_store *q, int script, const char *dataset,
                      const char *node, unsigned run, uint64_t fence)
{
    struct buf key = BUF_INIT;

    redis_cmd_init_script(c, &q->scripts[script]);
    add_run_keys(c, q, dataset, node, run);
    run_key(&key, q, dataset, node, run, 'f');
    redis_cmd_key(c, buf_str(&key));
    redis_cmd_number(c, fence);
    buf_release(&key);
}

/* The set of a dataset's nodes ('d') or of a node's datasets ('n'). */
static void add_set_key(struct redis_cmd *c, const struct redis_store *q, char what,
                        const char *name)
{
    struct buf key = BUF_INIT;

    buf_addf(&key, "{%s:%c:%016" PRIx64 "}:%s:", q->prefix, what, hash64_str(name),
             what == 'd' ? "nodes" : "datasets");
    str_uri_encode(name, strlen(name), false, &key);
    redis_cmd_key(c, buf_str(&key));
    buf_release(&key);
}

static unsigned run_of(const char *key)
{
    return (unsigned)(hash64_str(key) % RUNS);
}

/* ---- several commands ---- */

struct cmds {
    struct redis_cmd *c;
    size_t n, cap;
};

static struct redis_cmd *cmds_more(struct cmds *l)
{
    mem_reserve(l->c, l->n, l->cap);
    return &l->c[l->n++];
}

static void cmds_release(struct cmds *l)
{
    for (size_t i = 0; i < l->n; i++)
        redis_cmd_release(&l->c[i]);
    mem_free(&l->c);
    l->n = l->cap = 0;
}

static int cmds_run(struct cmds *l, struct redis_store *q, struct dlc_err *err)
{
    return l->n == 0 ? 0 : redis_run(q->r, l->c, l->n, err);
}

/* The same of writes: one that met a newer fence fails them. */
static int cmds_write(struct cmds *l, struct redis_store *q, uint64_t fence, struct dlc_err *err)
{
    int rc = cmds_run(l, q, err);

    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        const redisReply *r = l->c[i].reply;

        if (r->type == REDIS_REPLY_ARRAY && r->elements == 2 &&
            r->element[1]->type == REDIS_REPLY_STRING)
            rc = store_err_fence(err, fence, strtoull(r->element[1]->str, NULL, 10));
    }
    return rc;
}

/* name: "SADD" or "SREM" of the pair in both sets. */
static void add_pair(struct cmds *l, const struct redis_store *q, const char *name,
                     const char *dataset, const char *node)
{
    struct redis_cmd *c = cmds_more(l);

    redis_cmd_init(c, name);
    add_set_key(c, q, 'd', dataset);
    redis_cmd_text(c, node);
    c = cmds_more(l);
    redis_cmd_init(c, name);
    add_set_key(c, q, 'n', node);
    redis_cmd_text(c, dataset);
}

/* ---- writing ---- */

struct item {
    const struct store_chunk *c;
    unsigned run;
    size_t at; /* in the batch */
};

static int same_run(const struct item *a, const struct item *b)
{
    int order = strcmp(a->c->dataset, b->c->dataset);

    if (order == 0)
        order = strcmp(a->c->node, b->c->node);
    return order != 0 ? order : (a->run > b->run) - (a->run < b->run);
}

static int by_run(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = same_run(x, y);

    if (order == 0)
        order = strcmp(x->c->key, y->c->key);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* By run, and of each chunk only its last word: commands of a call have no order (REDIS-3). */
static size_t sort_items(const struct store_chunk *c, size_t n, struct item *items)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        items[i] = (struct item){&c[i], run_of(c[i].key), i};
    qsort(items, n, sizeof(*items), by_run);
    for (size_t i = 0; i < n; i++) {
        bool last = i + 1 == n || same_run(&items[i], &items[i + 1]) != 0 ||
                    strcmp(items[i].c->key, items[i + 1].c->key) != 0;

        if (last)
            items[kept++] = items[i];
    }
    return kept;
}

static void add_puts(struct cmds *l, struct redis_store *q, const struct item *items, size_t n,
                     uint64_t fence)
{
    struct buf value = BUF_INIT;
    struct redis_cmd *c = NULL;

    for (size_t i = 0, inside = 0; i < n; i++, inside++) {
        if (i == 0 || inside == SCRIPT_MAX || same_run(&items[i - 1], &items[i]) != 0) {
            c = cmds_more(l);
            add_write(c, q, LUA_chunks_put, items[i].c->dataset, items[i].c->node, items[i].run,
                      fence);
            inside = 0;
        }
        buf_clear(&value);
        redis_chunk_write(&value, items[i].c);
        redis_cmd_text(c, items[i].c->key);
        redis_cmd_arg(c, value.data, value.len);
    }
    buf_release(&value);
}

int redis_chunks_put(struct store *m, const struct store_chunk *c, size_t n, uint64_t fence,
                     struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct item *items = mem_alloc(n * sizeof(*items));
    size_t kept = sort_items(c, n, items);
    struct cmds puts = {0}, pairs = {0};
    int rc;

    add_puts(&puts, q, items, kept, fence);
    rc = cmds_write(&puts, q, fence, err);
    for (size_t i = 0; i < kept; i++)
        if (i == 0 || strcmp(items[i - 1].c->node, items[i].c->node) != 0 ||
            strcmp(items[i - 1].c->dataset, items[i].c->dataset) != 0)
            add_pair(&pairs, q, "SADD", items[i].c->dataset, items[i].c->node);
    if (rc == 0)
        rc = cmds_run(&pairs, q, err);
    cmds_release(&puts);
    cmds_release(&pairs);
    mem_free(&items);
    return rc;
}

int redis_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                           const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct cmds l = {0};
    int rc;

    for (unsigned run = 0; run < RUNS; run++) {
        struct redis_cmd *c = NULL;

        for (size_t i = 0, inside = 0; i < n; i++) {
            if (run_of(keys[i]) != run)
                continue;
            if (c == NULL || inside == SCRIPT_MAX) {
                c = cmds_more(&l);
                add_write(c, q, LUA_chunks_drop, dataset, node, run, fence);
                inside = 0;
            }
            redis_cmd_text(c, keys[i]);
            inside++;
        }
    }
    rc = cmds_write(&l, q, fence, err);
    cmds_release(&l);
    return rc;
}

/* ---- names ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_release(char ***names, size_t n)
{
    for (size_t i = 0; *names != NULL && i < n; i++)
        mem_free(&(*names)[i]);
    mem_free(names);
}

/* Sorted. Gives names. */
static int members(struct redis_store *q, char what, const char *name, char ***out, size_t *n,
                   struct dlc_err *err)
{
    struct redis_cmd c;
    int rc;

    redis_cmd_init(&c, "SMEMBERS");
    add_set_key(&c, q, what, name);
    rc = redis_run(q->r, &c, 1, err);
    if (rc == 0 && c.reply->type != REDIS_REPLY_ARRAY)
        rc = redis_store_odd(err);
    if (rc == 0) {
        *out = mem_zero((c.reply->elements + 1) * sizeof(char *));
        for (size_t i = 0; i < c.reply->elements; i++)
            if (c.reply->element[i]->type == REDIS_REPLY_STRING &&
                c.reply->element[i]->len <= STORE_ID_MAX)
                (*out)[(*n)++] = mem_str(c.reply->element[i]->str);
        qsort(*out, *n, sizeof(char *), by_text);
    }
    redis_cmd_release(&c);
    return rc;
}

/* ---- dropping ---- */

static int drop_pair(struct redis_store *q, const char *dataset, const char *node, uint64_t fence,
                     struct dlc_err *err)
{
    struct cmds l = {0};
    bool again = false;
    int rc;

    for (unsigned run = 0; run < RUNS; run++)
        add_write(cmds_more(&l), q, LUA_chunks_clear, dataset, node, run, fence);
    rc = cmds_write(&l, q, fence, err);
    cmds_release(&l);
    add_pair(&l, q, "SREM", dataset, node);
    if (rc == 0)
        rc = cmds_run(&l, q, err);
    cmds_release(&l);
    for (unsigned run = 0; run < RUNS; run++) { /* C2 */
        struct redis_cmd *c = cmds_more(&l);

        redis_cmd_init(c, "EXISTS");
        add_run_keys(c, q, dataset, node, run);
    }
    if (rc == 0)
        rc = cmds_run(&l, q, err);
    for (size_t i = 0; rc == 0 && i < l.n; i++)
        again = again || l.c[i].reply->type != REDIS_REPLY_INTEGER || l.c[i].reply->integer != 0;
    cmds_release(&l);
    if (again)
        add_pair(&l, q, "SADD", dataset, node);
    if (rc == 0)
        rc = cmds_run(&l, q, err);
    cmds_release(&l);
    return rc;
}

int redis_chunks_drop(struct store *m, const char *dataset, const char *node, uint64_t fence,
                      struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    char **names = NULL;
    size_t n = 0;
    int rc = 0;

    if (dataset != NULL && node != NULL)
        return drop_pair(q, dataset, node, fence, err);
    rc = members(q, dataset != NULL ? 'd' : 'n', dataset != NULL ? dataset : node, &names, &n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = drop_pair(q, dataset != NULL ? dataset : names[i], node != NULL ? node : names[i],
                       fence, err);
    names_release(&names, n);
    return rc;
}

/* ---- reading ---- */

static uint64_t number_of(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING ? strtoull(r->str, NULL, 10) : 0;
}

int redis_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max, size_t *n,
               struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct cmds l = {0};
    struct buf key = BUF_INIT;
    char **nodes = NULL;
    size_t count = 0;
    int rc = members(q, 'd', dataset, &nodes, &count, err);

    for (size_t i = 0; i < count * RUNS; i++) {
        struct redis_cmd *c = cmds_more(&l);

        redis_cmd_init(c, "HMGET");
        run_key(&key, q, dataset, nodes[i / RUNS], (unsigned)(i % RUNS), 's');
        redis_cmd_key(c, buf_str(&key));
        redis_cmd_text(c, "n");
        redis_cmd_text(c, "b");
    }
    if (rc == 0)
        rc = cmds_run(&l, q, err);
    for (size_t i = 0; rc == 0 && i < count && *n < max; i++) {
        struct store_sum sum = {.chunks = 0};

        for (size_t run = i * RUNS; run < (i + 1) * RUNS; run++) {
            const redisReply *r = l.c[run].reply;

            if (r->type != REDIS_REPLY_ARRAY || r->elements != 2) {
                rc = redis_store_odd(err);
                break;
            }
            sum.chunks += number_of(r->element[0]);
            sum.bytes += number_of(r->element[1]);
        }
        snprintf(sum.node, sizeof(sum.node), "%s", nodes[i]);
        if (rc == 0 && sum.chunks > 0)
            out[(*n)++] = sum;
    }
    cmds_release(&l);
    buf_release(&key);
    names_release(&nodes, count);
    return rc;
}

int redis_streams(struct store *m, const char *dataset, const char *node, struct chunk_stream **out,
                  size_t *n, struct dlc_err *err)
{
    char **nodes = NULL;
    size_t count = 0;
    int rc = 0;

    if (node == NULL) {
        rc = members(redis_store_of(m), 'd', dataset, &nodes, &count, err);
    } else {
        nodes = mem_zero(sizeof(char *));
        nodes[count++] = mem_str(node);
    }
    if (rc == 0) {
        *out = mem_zero((count * RUNS + 1) * sizeof(struct chunk_stream));
        for (*n = 0; *n < count * RUNS; ++*n)
            chunk_stream_init(&(*out)[*n], nodes[*n / RUNS], *n % RUNS);
    }
    names_release(&nodes, count);
    return rc;
}

static void add_range(struct cmds *l, const struct redis_store *q, const char *dataset,
                      const struct page_range *range, const struct chunk_stream *s, size_t limit)
{
    struct redis_cmd *c = cmds_more(l);
    struct buf b = BUF_INIT;

    redis_cmd_init(c, "ZRANGEBYLEX");
    run_key(&b, q, dataset, s->node, (unsigned)s->number, 'z');
    redis_cmd_key(c, buf_str(&b));
    buf_clear(&b);
    buf_addc(&b, '[');
    buf_add(&b, s->from.data, s->from.len);
    if (s->beyond)
        buf_addc(&b, '\1'); /* behind key NUL and all that follows it */
    redis_cmd_arg(c, b.data, b.len);
    buf_clear(&b);
    buf_addc(&b, '(');
    buf_add(&b, range->to, range->to_len);
    redis_cmd_arg(c, range->to != NULL ? b.data : "+", range->to != NULL ? b.len : 1);
    redis_cmd_text(c, "LIMIT");
    redis_cmd_number(c, 0);
    redis_cmd_number(c, limit);
    buf_release(&b);
}

static bool add_members(struct chunk_stream *s, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *e = reply->element[i];
        size_t key = e->type == REDIS_REPLY_STRING ? strlen(e->str) : 0, etag_len;
        const char *etag;
        struct store_chunk c;

        if (key == 0 || key >= e->len ||
            !redis_chunk_parse(e->str + key + 1, e->len - key - 1, &c, &etag, &etag_len))
            return false;
        chunk_stream_add(s, e->str, key, etag, etag_len, &c);
    }
    return true;
}

int redis_fetch(struct store *m, const char *dataset, const struct page_range *range,
                struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err)
{
    struct redis_store *q = redis_store_of(m);
    struct cmds l = {0};
    int rc;

    for (size_t i = 0; i < n; i++)
        add_range(&l, q, dataset, range, s[i], limit);
    rc = cmds_run(&l, q, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!add_members(s[i], l.c[i].reply))
            rc = redis_store_odd(err);
    cmds_release(&l);
    return rc;
}
