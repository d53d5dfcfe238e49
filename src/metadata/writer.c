// SPDX-License-Identifier: Apache-2.0
/*
 * Write-behind for chunks.
 *
 *     put, gone --> queue (oldest first, one entry per chunk) --> a batch --> store
 *                     ^                                             |
 *                     +------------- the store failed --------------+
 *
 * (W1) An entry's number is that of the first word in it that is not yet written; the queue is
 * sorted by number, and what is in a batch is older than the queue. So a flush waits for numbers.
 * (W2) A chunk is at most once in the queue; a batch that comes back yields to what the queue has.
 * (W3) Queue and batch hold at most `most` entries: the oldest of the queue goes first.
 *
 * The thread lets a moment pass before it writes a batch that is not full, so that many small
 * changes make one transaction. The lock is never held while the store is called.
 */
#include "metadata/writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/mtx.h"
#include "metadata/meta_i.h"

#define LINGER      DLC_MS(50)
#define PAUSE_FIRST DLC_MS(100) /* after a failure; doubles up to PAUSE_MOST */
#define PAUSE_MOST  DLC_SEC(5)

struct entry {
    struct dlc_list link;
    struct entry *same; /* next with the same hash */
    uint64_t hash, number;
    bool gone;
    struct meta_chunk c; /* texts lie behind the entry */
    char texts[];
};

#define WRITER_TAG DLC_TAG4('m', 'w', 'r', 't')
struct meta_writer {
    uint32_t tag;
    struct meta *m;
    size_t batch, most;
    pthread_t thread;
    _Atomic bool stop; /* also read by the store, meta_thread_stop() */
    struct dlc_mtx mtx;
    struct dlc_cond work, written; /* for the thread; for flush */
    /* G: mtx */
    struct dlc_list queue;
    struct map by_hash;
    uint64_t next_number, batch_first; /* batch_first: number of the oldest in the batch; 0: none */
    size_t n_queue, n_batch;
    unsigned flushing; /* callers that wait: no lingering */
    struct meta_writer_figures figures;
    struct dlc_err last;
};

/* ---- entries ---- */

static struct entry *entry_new(const struct meta_chunk *c, bool gone)
{
    const char *etag = c->etag != NULL ? c->etag : "";
    size_t d = strlen(c->dataset) + 1, n = strlen(c->node) + 1, k = strlen(c->key) + 1;
    size_t e = strlen(etag) + 1;
    struct entry *x = mem_alloc(sizeof(*x) + d + n + k + e);

    *x = (struct entry){.gone = gone, .c = *c};
    memcpy(x->texts, c->dataset, d);
    memcpy(x->texts + d, c->node, n);
    memcpy(x->texts + d + n, c->key, k);
    memcpy(x->texts + d + n + k, etag, e);
    x->c.dataset = x->texts;
    x->c.node = x->texts + d;
    x->c.key = x->texts + d + n;
    x->c.etag = x->texts + d + n + k;
    x->hash = hash64(x->texts, d + n + k);
    return x;
}

static bool entry_same(const struct entry *a, const struct entry *b)
{
    return a->hash == b->hash && strcmp(a->c.key, b->c.key) == 0 &&
           strcmp(a->c.node, b->c.node) == 0 && strcmp(a->c.dataset, b->c.dataset) == 0;
}

static struct entry *entry_of(struct dlc_list *l)
{
    return dlc_container(l, struct entry, link);
}

static struct entry *find_locked(struct meta_writer *w, const struct entry *like)
{
    struct entry *x = map_get(&w->by_hash, like->hash);

    while (x != NULL && !entry_same(x, like))
        x = x->same;
    return x;
}

static void index_locked(struct meta_writer *w, struct entry *x)
{
    x->same = map_get(&w->by_hash, x->hash);
    map_set(&w->by_hash, x->hash, x);
    w->n_queue++;
}

/* Out of the queue. */
static void take_locked(struct meta_writer *w, struct entry *x)
{
    struct entry *first = map_get(&w->by_hash, x->hash);

    if (first == x) {
        map_remove(&w->by_hash, x->hash);
        if (x->same != NULL)
            map_set(&w->by_hash, x->hash, x->same);
    } else {
        while (first->same != x)
            first = first->same;
        first->same = x->same;
    }
    x->same = NULL;
    dlc_list_remove(&x->link);
    w->n_queue--;
}

static void forget_locked(struct meta_writer *w)
{
    while (w->n_queue > 0 && w->n_queue + w->n_batch > w->most) {
        struct entry *x = entry_of(w->queue.next);

        take_locked(w, x);
        mem_free(&x);
        if (w->figures.forgotten++ == 0)
            log_warn("metadata: the store does not keep up and %zu changes wait: the oldest are "
                     "forgotten; 'dlcache rebuild' finds them again",
                     w->most);
        dlc_cond_broadcast(&w->written);
    }
}

static void add(struct meta_writer *w, const struct meta_chunk *c, bool gone)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct entry *x, *old;

    if (meta_check_chunk(c, &err) < 0) {
        log_warn("%s", err.text);
        return;
    }
    x = entry_new(c, gone);
    dlc_mtx_lock(&w->mtx);
    old = find_locked(w, x);
    if (old != NULL) { /* its place and number, the new word */
        struct dlc_list *before = old->link.prev;

        x->number = old->number;
        take_locked(w, old);
        mem_free(&old);
        dlc_list_push_head(before, &x->link);
    } else {
        x->number = w->next_number++;
        dlc_list_push_tail(&w->queue, &x->link);
    }
    index_locked(w, x);
    forget_locked(w);
    if (w->n_queue == 1 || w->n_queue == w->batch)
        dlc_cond_signal(&w->work);
    dlc_mtx_unlock(&w->mtx);
}

void meta_writer_put(struct meta_writer *w, const struct meta_chunk *c)
{
    add(w, c, false);
}

void meta_writer_gone(struct meta_writer *w, const char *dataset, const char *node, const char *key)
{
    add(w, &(struct meta_chunk){.dataset = dataset, .node = node, .key = key}, true);
}

/* ---- the thread ---- */

/* The oldest entries, at most a batch, in the order of their numbers. */
static size_t gather_locked(struct meta_writer *w, struct entry **batch)
{
    size_t n = 0;

    while (n < w->batch && w->n_queue > 0) {
        struct entry *x = entry_of(w->queue.next);

        take_locked(w, x);
        batch[n++] = x;
    }
    w->n_batch = n;
    w->batch_first = n > 0 ? batch[0]->number : 0;
    return n;
}

static int write_gone(struct meta_writer *w, struct entry **batch, size_t n, struct dlc_err *err)
{
    const char **keys = mem_alloc(n * sizeof(char *));
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n;) {
        const struct meta_chunk *first = &batch[i]->c;
        size_t k = 0;

        if (!batch[i]->gone) {
            i++;
            continue;
        }
        for (; i < n && batch[i]->gone && strcmp(batch[i]->c.dataset, first->dataset) == 0 &&
               strcmp(batch[i]->c.node, first->node) == 0;
             i++)
            keys[k++] = batch[i]->c.key;
        rc = meta_chunks_drop_keys(w->m, first->dataset, first->node, keys, k, err);
    }
    mem_free(&keys);
    return rc;
}

/* Each chunk is in the batch once, so the order within it is free. */
static int write_batch(struct meta_writer *w, struct entry **batch, size_t n, struct dlc_err *err)
{
    struct meta_chunk *puts = mem_alloc(n * sizeof(*puts));
    size_t k = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        if (!batch[i]->gone)
            puts[k++] = batch[i]->c;
    rc = meta_chunks_put(w->m, puts, k, err);
    if (rc == 0)
        rc = write_gone(w, batch, n, err);
    mem_free(&puts);
    return rc;
}

static void settle_locked(struct meta_writer *w, struct entry **batch, size_t n, int rc)
{
    for (size_t i = n; i-- > 0;) { /* backwards: each goes before the one that follows it */
        struct entry *x = batch[i];
        /* What the store refuses for what it is would be refused for ever. */
        bool again = rc < 0 && rc != DLC_EINVAL && find_locked(w, x) == NULL;

        if (again) {
            dlc_list_push_head(&w->queue, &x->link);
            index_locked(w, x);
        } else {
            w->figures.written += rc == 0;
            w->figures.forgotten += rc == DLC_EINVAL;
            mem_free(&x);
        }
    }
    w->figures.failures += rc < 0;
    w->n_batch = 0;
    w->batch_first = 0;
    forget_locked(w);
    dlc_cond_broadcast(&w->written);
}

/* Until there is enough to write, or it has waited long enough. */
static void wait_locked(struct meta_writer *w, struct dlc_dur pause)
{
    struct dlc_mono until;

    while (w->n_queue == 0 && !w->stop)
        dlc_cond_wait(&w->work, &w->mtx);
    until = dlc_mono_add(dlc_mono_now(), pause.ns > 0 ? pause : LINGER);
    while (!w->stop && (pause.ns > 0 || (w->n_queue < w->batch && w->flushing == 0))) {
        struct dlc_dur left = dlc_mono_sub(until, dlc_mono_now());

        /* A flush shortens a long pause: the store may be back. */
        if (w->flushing > 0 && left.ns > PAUSE_FIRST.ns)
            left = PAUSE_FIRST;
        if (left.ns <= 0 || (dlc_cond_wait_for(&w->work, &w->mtx, left) != 0 && w->flushing > 0))
            break;
    }
}

static void *writer_main(void *arg)
{
    struct meta_writer *w = arg;
    struct entry **batch = mem_alloc(w->batch * sizeof(struct entry *));
    struct dlc_dur pause = {0};

    dlc_check(w->tag == WRITER_TAG);
    meta_thread_stop(&w->stop);
    dlc_mtx_lock(&w->mtx);
    for (;;) {
        struct dlc_err err = DLC_ERR_INIT;
        size_t n;
        int rc;

        wait_locked(w, pause);
        if (w->stop)
            break;
        n = gather_locked(w, batch);
        dlc_mtx_unlock(&w->mtx);
        rc = n == 0 ? 0 : write_batch(w, batch, n, &err);
        dlc_mtx_lock(&w->mtx);
        settle_locked(w, batch, n, rc);
        if (rc < 0 && pause.ns == 0 && rc != DLC_ECANCELED)
            log_warn("metadata: chunks wait to be written: %s", err.text);
        if (rc < 0)
            w->last = err;
        pause.ns = rc == 0 ? 0 : DLC_CLAMP(pause.ns * 2, PAUSE_FIRST.ns, PAUSE_MOST.ns);
    }
    dlc_mtx_unlock(&w->mtx);
    mem_free(&batch);
    return NULL;
}

/* ---- the rest ---- */

struct meta_writer *meta_writer_new(struct meta *m, size_t batch, size_t most)
{
    struct meta_writer *w = mem_new(struct meta_writer);

    dlc_check(batch > 0 && most >= batch);
    *w = (struct meta_writer){
        .tag = WRITER_TAG, .m = m, .batch = batch, .most = most, .next_number = 1};
    dlc_mtx_init(&w->mtx, LCK_meta_writer);
    dlc_cond_init(&w->work);
    dlc_cond_init(&w->written);
    dlc_list_init(&w->queue);
    dlc_check(pthread_create(&w->thread, NULL, writer_main, w) == 0);
    return w;
}

static bool flushed_locked(const struct meta_writer *w, uint64_t upto)
{
    if (w->batch_first != 0 && w->batch_first < upto)
        return false;
    return w->n_queue == 0 || entry_of(w->queue.next)->number >= upto;
}

int meta_writer_flush(struct meta_writer *w, struct dlc_dur limit, struct dlc_err *err)
{
    struct dlc_mono until = dlc_mono_add(dlc_mono_now(), limit);
    uint64_t upto;
    int rc = 0;

    dlc_mtx_lock(&w->mtx);
    upto = w->next_number;
    w->flushing++;
    dlc_cond_signal(&w->work);
    while (rc == 0 && !flushed_locked(w, upto)) {
        struct dlc_dur left = dlc_mono_sub(until, dlc_mono_now());

        if (left.ns <= 0)
            rc = dlc_err_set(err, DLC_ETIMEDOUT, "metadata: %zu chunks are not written yet%s%s",
                             w->n_queue + w->n_batch, w->last.text[0] != '\0' ? ": " : "",
                             w->last.text);
        else
            (void)dlc_cond_wait_for(&w->written, &w->mtx, left);
    }
    w->flushing--;
    dlc_mtx_unlock(&w->mtx);
    return rc;
}

void meta_writer_free(struct meta_writer **wp)
{
    struct meta_writer *w = *wp;
    struct dlc_err err = DLC_ERR_INIT;

    *wp = NULL;
    if (w == NULL)
        return;
    if (meta_writer_flush(w, DLC_SEC(1), &err) < 0)
        log_warn("%s; 'dlcache rebuild' finds them again", err.text);
    dlc_mtx_lock(&w->mtx);
    w->stop = true;
    dlc_cond_signal(&w->work);
    dlc_mtx_unlock(&w->mtx);
    dlc_check(pthread_join(w->thread, NULL) == 0);
    while (w->n_queue > 0) {
        struct entry *x = entry_of(w->queue.next);

        dlc_mtx_lock(&w->mtx);
        take_locked(w, x);
        dlc_mtx_unlock(&w->mtx);
        mem_free(&x);
    }
    map_release(&w->by_hash);
    dlc_cond_release(&w->work);
    dlc_cond_release(&w->written);
    dlc_mtx_release(&w->mtx);
    w->tag = 0;
    mem_free(&w);
}

void meta_writer_figures(struct meta_writer *w, struct meta_writer_figures *out)
{
    dlc_mtx_lock(&w->mtx);
    *out = w->figures;
    out->waiting = w->n_queue + w->n_batch;
    dlc_mtx_unlock(&w->mtx);
}
