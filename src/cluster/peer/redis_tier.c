// SPDX-License-Identifier: Apache-2.0
/*
 * Threads of the Redis tier. They take waiting requests in batches, reads before puts, and send
 * each batch as pipelines. The Redis client (net/redis/redis.h) blocks, follows redirections and
 * reconnects, all until the deadline.
 *
 *     waiting --batch--> asked --reply--> hit or miss
 *     waiting --deadline, Redis is left alone, close--> miss
 */
#include "cluster/peer/redis_tier.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "net/redis/redis.h"
#include "cluster/peer/peer_health.h"
#include "cluster/peer/redis_value.h"

#define SHARED_TAG  DLC_TAG4('s', 'h', 'r', 'd')
#define THREADS_MAX 16
#define BATCH       16
#define BATCH_BYTES (4u << 20)
#define SUM         REDIS_VALUE_SUM
#define TOOK_FADE   4096

/* A sample on its way to Redis. */
struct put {
    struct dlc_list link;
    char *key;
    uint64_t life_ms;
    uint64_t length; /* of data */
    unsigned char data[];
};

struct shared {
    uint32_t tag;
    char *url; /* has the password */
    char *prefix;
    uint64_t keep_ms;
    struct dlc_dur deadline;
    size_t value_max, queue_max;
    pthread_t threads[THREADS_MAX];
    unsigned n_threads;

    struct dlc_mtx mtx; /* rank LCK_shared; what follows is under it */
    struct dlc_cond wake;
    bool closing, opening;
    struct redis *redis; /* NULL: not yet */
    struct dlc_list reads, puts;
    size_t put_bytes;
    struct health health;
    struct hist took; /* ns */
    struct shared_figures figures;
};

/* What one thread has taken. */
struct batch { /* reads or puts, not both */
    struct shared_read *reads[BATCH];
    struct put *puts[BATCH];
    struct redis_cmd cmds[2 * BATCH]; /* of reads: the questions, then what gives new lives */
    size_t n_reads, n_puts;
    bool trial;
};

static char *key_of(const struct shared *s, const char *dataset, uint64_t snapshot, uint64_t sample)
{
    return mem_fmt("%s:sample:%s:%016llx:%llu", s->prefix, dataset, (unsigned long long)snapshot,
                   (unsigned long long)sample);
}

/* A sample that is never read again has a 32nd of the life of one that surely is. */
static uint64_t life_ms(const struct shared *s, double likely)
{
    double share = (1 + 31 * fmin(fmax(likely, 0), 1)) / 32;

    return DLC_MAX((uint64_t)(share * (double)s->keep_ms), 1);
}

/* -------- the end of a read -------- */

static void end_read(struct shared *s, struct shared_read *r, int rc, bool answered)
{
    r->rc = rc;
    r->took = dlc_mono_since(r->asked);
    dlc_mtx_lock(&s->mtx);
    s->figures.hits += rc == 0;
    s->figures.misses += rc != 0;
    s->figures.bytes_read += rc == 0 ? r->length : 0;
    if (answered)
        hist_add(&s->took, (uint64_t)DLC_MAX(r->took.ns, 1));
    dlc_mtx_unlock(&s->mtx);
    r->done(r);
}

/* Is this the sample? Then dst holds it. */
static bool take_value(struct shared *s, struct shared_read *r, const redisReply *reply)
{
    bool good;
    char *key;

    if (reply->type != REDIS_REPLY_STRING)
        return false;
    key = key_of(s, r->dataset, r->snapshot, r->sample);
    good = redis_value_take(key, reply->str, reply->len, r->dst, r->length, &r->checksum);
    mem_free(&key);
    if (good)
        return true;
    dlc_mtx_lock(&s->mtx);
    s->figures.damaged++;
    dlc_mtx_unlock(&s->mtx);
    return false;
}

/* -------- batches -------- */

static void fill_read(struct shared *s, struct batch *b, struct shared_read *r)
{
    struct redis_cmd *c = &b->cmds[b->n_reads];
    char *key = key_of(s, r->dataset, r->snapshot, r->sample);

    redis_cmd_init(c, "GET");
    redis_cmd_key(c, key);
    mem_free(&key);
    b->reads[b->n_reads++] = r;
}

/* After all questions. PEXPIRE and not GETEX, which Redis has since 6.2 only. */
static void fill_lives(struct shared *s, struct batch *b)
{
    for (size_t i = 0; i < b->n_reads; i++) {
        const struct shared_read *r = b->reads[i];
        char *key = key_of(s, r->dataset, r->snapshot, r->sample);

        redis_cmd_init(&b->cmds[b->n_reads + i], "PEXPIRE");
        redis_cmd_key(&b->cmds[b->n_reads + i], key);
        redis_cmd_number(&b->cmds[b->n_reads + i], life_ms(s, r->likely));
        mem_free(&key);
    }
}

static void fill_put(struct batch *b, struct put *p)
{
    struct redis_cmd *c = &b->cmds[b->n_puts];

    redis_cmd_init(c, "SET");
    redis_cmd_key(c, p->key);
    redis_cmd_arg(c, p->data, p->length);
    redis_cmd_text(c, "PX");
    redis_cmd_number(c, p->life_ms);
    b->puts[b->n_puts++] = p;
}

/* Take reads, or puts when nobody reads. False: there is nothing. */
static bool take_locked(struct shared *s, struct dlc_list *reads, struct dlc_list *puts)
{
    struct dlc_list *n;
    size_t taken = 0, bytes = 0;

    while (taken < BATCH && bytes < BATCH_BYTES && (n = dlc_list_pop_head(&s->reads)) != NULL) {
        bytes += dlc_container(n, struct shared_read, link)->length;
        dlc_list_push_tail(reads, n);
        taken++;
    }
    while (dlc_list_empty(reads) && taken < BATCH && bytes < BATCH_BYTES &&
           (n = dlc_list_pop_head(&s->puts)) != NULL) {
        bytes += dlc_container(n, struct put, link)->length;
        dlc_list_push_tail(puts, n);
        taken++;
    }
    s->put_bytes -= dlc_list_empty(puts) ? 0 : bytes;
    return taken > 0;
}

static void drop_put(struct shared *s, struct put *p)
{
    dlc_mtx_lock(&s->mtx);
    s->figures.dropped++;
    dlc_mtx_unlock(&s->mtx);
    mem_free(&p->key);
    mem_free(&p);
}

/* Make commands of what may still be asked; the rest ends here. */
static void sort_out(struct shared *s, struct batch *b, struct dlc_list *reads,
                     struct dlc_list *puts, bool skip)
{
    struct dlc_list *n;

    while ((n = dlc_list_pop_head(reads)) != NULL) {
        struct shared_read *r = dlc_container(n, struct shared_read, link);

        if (skip || dlc_mono_since(r->asked).ns > s->deadline.ns)
            end_read(s, r, DLC_EMISS, false);
        else
            fill_read(s, b, r);
    }
    fill_lives(s, b);
    while ((n = dlc_list_pop_head(puts)) != NULL) {
        struct put *p = dlc_container(n, struct put, link);

        if (skip)
            drop_put(s, p);
        else
            fill_put(b, p);
    }
}

/* By what does it evict? "" if it has no limit or does not say. */
static void ask_policy(struct redis *r, char *out, size_t size)
{
    struct redis_cmd c;
    struct dlc_err err = DLC_ERR_INIT;
    const char *at;

    out[0] = '\0';
    redis_cmd_init(&c, "INFO");
    redis_cmd_text(&c, "memory");
    if (redis_run(r, &c, 1, &err) == 0 && c.reply != NULL && c.reply->type == REDIS_REPLY_STRING &&
        strstr(c.reply->str, "\nmaxmemory:0\r") == NULL &&
        (at = strstr(c.reply->str, "\nmaxmemory_policy:")) != NULL)
        snprintf(out, size, "%.*s", (int)strcspn(at + 18, "\r\n"), at + 18);
    redis_cmd_release(&c);
    if (out[0] != '\0' && strcmp(out, "volatile-ttl") != 0)
        log_warn("the Redis of the shared tier evicts by %s, not by expected use: set its "
                 "maxmemory-policy to volatile-ttl",
                 out);
}

/* The thread that comes first makes the connection; others take nothing meanwhile. */
static struct redis *connection(struct shared *s, struct dlc_err *err)
{
    struct redis_url url = {0};
    char evicts[sizeof(s->figures.evicts)] = "";
    struct redis *r;

    dlc_mtx_lock(&s->mtx);
    while (s->opening) /* it took its batch before the opening began */
        dlc_cond_wait(&s->wake, &s->mtx);
    r = s->redis;
    s->opening = r == NULL;
    dlc_mtx_unlock(&s->mtx);
    if (r != NULL)
        return r;
    if (redis_url_parse(s->url, &url, err) == 0) {
        url.timeout = s->deadline;
        if (redis_open(&url, &r, err) < 0)
            r = NULL;
    }
    redis_url_release(&url);
    if (r != NULL)
        ask_policy(r, evicts, sizeof(evicts));
    dlc_mtx_lock(&s->mtx);
    memcpy(s->figures.evicts, evicts, sizeof(evicts));
    s->redis = r;
    s->opening = false;
    dlc_cond_broadcast(&s->wake);
    dlc_mtx_unlock(&s->mtx);
    return r;
}

static void note_locked(struct shared *s, const struct batch *b, int rc, const struct dlc_err *err)
{
    if (b->n_reads + b->n_puts == 0) { /* nothing was asked */
        health_neither(&s->health, b->trial);
        return;
    }
    if (rc < 0) {
        s->figures.failures++;
        snprintf(s->figures.why, sizeof(s->figures.why), "%.199s", err->text);
    }
    if (rc == 0 || rc == DLC_ENOSPACE) /* full is not ill */
        health_good(&s->health);
    else if (health_bad(&s->health, b->trial, dlc_mono_now()))
        log_warn("the shared tier is left alone for %g s: %s", dlc_dur_seconds(s->health.pause),
                 err->text);
}

static void finish_batch(struct shared *s, struct batch *b)
{
    for (size_t i = 0; i < b->n_reads; i++) {
        const redisReply *reply = b->cmds[i].reply;
        bool hit = reply != NULL && take_value(s, b->reads[i], reply);

        redis_cmd_release(&b->cmds[i]);
        redis_cmd_release(&b->cmds[b->n_reads + i]);
        end_read(s, b->reads[i], hit ? 0 : DLC_EMISS, reply != NULL);
    }
    for (size_t i = 0; i < b->n_puts; i++) {
        struct put *p = b->puts[i];
        bool stored = b->cmds[i].reply != NULL;

        redis_cmd_release(&b->cmds[i]);
        if (!stored) {
            drop_put(s, p);
            continue;
        }
        dlc_mtx_lock(&s->mtx);
        s->figures.puts++;
        s->figures.bytes_put += p->length - SUM;
        dlc_mtx_unlock(&s->mtx);
        mem_free(&p->key);
        mem_free(&p);
    }
}

static void run_batch(struct shared *s, struct dlc_list *reads, struct dlc_list *puts,
                      enum health_verdict v)
{
    struct batch b = {.trial = v == HEALTH_TRY};
    struct dlc_err err = DLC_ERR_INIT;
    struct redis *r;
    int rc = 0;

    sort_out(s, &b, reads, puts, v == HEALTH_SKIP);
    if (b.n_reads + b.n_puts > 0) {
        r = connection(s, &err);
        rc = r != NULL ? redis_run(r, b.cmds, 2 * b.n_reads + b.n_puts, &err) : err.code;
    }
    dlc_mtx_lock(&s->mtx);
    if (v != HEALTH_SKIP)
        note_locked(s, &b, rc, &err);
    dlc_mtx_unlock(&s->mtx);
    finish_batch(s, &b);
}

static void *run(void *arg)
{
    struct shared *s = arg;

    dlc_mtx_lock(&s->mtx);
    while (!s->closing) {
        struct dlc_list reads, puts;
        enum health_verdict v;

        dlc_list_init(&reads);
        dlc_list_init(&puts);
        if (s->opening || !take_locked(s, &reads, &puts)) {
            dlc_cond_wait(&s->wake, &s->mtx);
            continue;
        }
        v = health_admit(&s->health, dlc_mono_now());
        dlc_mtx_unlock(&s->mtx);
        run_batch(s, &reads, &puts, v);
        dlc_mtx_lock(&s->mtx);
    }
    dlc_mtx_unlock(&s->mtx);
    return NULL;
}

/* -------- the front -------- */

bool shared_takes(const struct shared *s, uint64_t length)
{
    return length <= s->value_max;
}

void shared_read(struct shared *s, struct shared_read *r)
{
    dlc_check(s->tag == SHARED_TAG);
    r->asked = dlc_mono_now();
    r->rc = DLC_EMISS;
    dlc_mtx_lock(&s->mtx);
    dlc_list_push_tail(&s->reads, &r->link);
    dlc_cond_signal(&s->wake);
    dlc_mtx_unlock(&s->mtx);
}

static struct put *put_new(struct shared *s, const char *dataset, uint64_t snapshot,
                           uint64_t sample, const void *data, uint64_t length, uint64_t checksum,
                           double likely)
{
    struct put *p = mem_try_alloc(sizeof(*p) + SUM + length);

    if (p == NULL)
        return NULL;
    p->key = key_of(s, dataset, snapshot, sample);
    p->life_ms = life_ms(s, likely);
    p->length = SUM + length;
    redis_value_make(p->key, checksum, data, length, p->data);
    return p;
}

void shared_put(struct shared *s, const char *dataset, uint64_t snapshot, uint64_t sample,
                const void *data, uint64_t length, uint64_t checksum, double likely)
{
    struct put *p = NULL;
    bool room;

    dlc_check(s->tag == SHARED_TAG);
    dlc_mtx_lock(&s->mtx);
    room = shared_takes(s, length) && s->put_bytes + SUM + length <= s->queue_max &&
           health_usable(&s->health, dlc_mono_now());
    s->put_bytes += room ? SUM + length : 0;
    dlc_mtx_unlock(&s->mtx);
    if (room)
        p = put_new(s, dataset, snapshot, sample, data, length, checksum, likely);
    dlc_mtx_lock(&s->mtx);
    if (p != NULL) {
        dlc_list_push_tail(&s->puts, &p->link);
        dlc_cond_signal(&s->wake);
    } else {
        s->put_bytes -= room ? SUM + length : 0;
        s->figures.dropped++;
    }
    dlc_mtx_unlock(&s->mtx);
}

void shared_figures(struct shared *s, struct shared_figures *out)
{
    dlc_mtx_lock(&s->mtx);
    *out = s->figures;
    out->p50_ms = (double)hist_percentile(&s->took, 0.5) / 1e6;
    out->p99_ms = (double)hist_percentile(&s->took, 0.99) / 1e6;
    out->skipping = health_skipping(&s->health);
    dlc_mtx_unlock(&s->mtx);
}

/* -------- life -------- */

static int start(struct shared *s, unsigned threads, struct dlc_err *err)
{
    threads = threads == 0 ? 4 : DLC_MIN(threads, (unsigned)THREADS_MAX);
    for (; s->n_threads < threads; s->n_threads++) {
        errno = os_thread(&s->threads[s->n_threads], run, s);
        if (errno != 0)
            return dlc_err_sys(err, "cannot start the threads of the shared tier");
        pthread_setname_np(s->threads[s->n_threads], "dlc-shared");
    }
    return 0;
}

int shared_new(const struct shared_config *c, struct shared **out, struct dlc_err *err)
{
    struct redis_url url = {0};
    struct shared *s;
    int rc = redis_url_parse(c->url, &url, err);

    *out = NULL;
    if (rc < 0)
        return rc;
    s = mem_new(struct shared);
    s->tag = SHARED_TAG;
    s->url = mem_str(c->url);
    s->prefix = mem_str(url.prefix != NULL ? url.prefix : "dlcache");
    redis_url_release(&url);
    s->deadline = c->deadline.ns != 0 ? c->deadline : DLC_MS(200);
    s->keep_ms = (uint64_t)DLC_MAX((c->keep.ns != 0 ? c->keep.ns : DLC_SEC(86400).ns) / 1000000, 1);
    s->value_max = c->value_max != 0 ? c->value_max : 8u << 20;
    s->queue_max = c->queue_max != 0 ? c->queue_max : 64u << 20;
    dlc_mtx_init(&s->mtx, LCK_shared);
    dlc_cond_init(&s->wake);
    dlc_list_init(&s->reads);
    dlc_list_init(&s->puts);
    health_init(&s->health, s->deadline, s->deadline);
    hist_init(&s->took, TOOK_FADE);
    rc = start(s, c->threads, err);
    if (rc < 0)
        shared_free(&s);
    *out = s;
    return rc;
}

void shared_free(struct shared **sp)
{
    struct shared *s = *sp;
    struct batch none = {0};

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_check(s->tag == SHARED_TAG);
    dlc_mtx_lock(&s->mtx);
    s->closing = true;
    dlc_cond_broadcast(&s->wake);
    dlc_mtx_unlock(&s->mtx);
    for (unsigned i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    sort_out(s, &none, &s->reads, &s->puts, true);
    redis_close(&s->redis);
    dlc_cond_release(&s->wake);
    dlc_mtx_release(&s->mtx);
    explicit_bzero(s->url, strlen(s->url));
    mem_free(&s->url);
    mem_free(&s->prefix);
    s->tag = 0;
    mem_free(&s);
}
