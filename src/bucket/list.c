// SPDX-License-Identifier: Apache-2.0
/*
 * Listing. A listing works through levels: a level is a prefix, listed page by page. Where the
 * origin groups by folder, a level's folders become levels of their own when it is complete, and up
 * to LEVELS_FLYING levels are listed at once. All on one lane, so page() is never called twice at a
 * time.
 *
 * A level with very many folders is listed flat instead: a million folders with one object each
 * cost a thousand flat pages, but a million requests one by one. A flat page says the same objects
 * again that earlier pages by folder gave out; those are left out. This relies on origins listing
 * in the order of keys, as s3 and gs do.
 *
 * (BUCKET-LIST-1) Each object is given to page() once.
 * (BUCKET-LIST-2) At most FOLDERS_MAX levels come from folders, unless a LIST is free to the
 *                 origin.
 * (BUCKET-LIST-3) done() comes after the last page() has returned.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "bucket/bucket_i.h"

#define LEVELS_FLYING 32
#define LEVEL_FOLDERS 1024 /* more in one level: flat */
#define FOLDERS_MAX   4096 /* more in all: flat */

struct level {
    struct dlc_list link; /* listing: pending or flying */
    struct listing *owner;
    char *prefix, *continuation;
    bool flat;
    char *given; /* last key that pages by folder gave out before this level became flat */
    char **folders;
    size_t n_folders, cap_folders;
    struct op op;
};

struct listing {
    struct request req;
    struct bucket_list *l;
    struct dlc_list pending, flying; /* levels */
    unsigned n_flying;
    size_t n_folders; /* found so far */
};

static struct listing *listing_of(struct request *q)
{
    return dlc_container(q, struct listing, req);
}

/* ---- levels ---- */

static void on_page(struct op *op);

/* Takes prefix. */
static void level_add(struct listing *g, char *prefix, bool flat)
{
    struct level *v = mem_new(struct level);

    v->owner = g;
    v->prefix = prefix;
    v->flat = flat;
    dlc_list_push_tail(&g->pending, &v->link);
}

static void level_clear_folders(struct level *v)
{
    for (size_t i = 0; i < v->n_folders; i++)
        mem_free(&v->folders[i]);
    mem_free(&v->folders);
    v->n_folders = v->cap_folders = 0;
}

static void level_free(struct level *v)
{
    dlc_list_remove(&v->link);
    level_clear_folders(v);
    mem_free(&v->prefix);
    mem_free(&v->continuation);
    mem_free(&v->given);
    mem_free(&v);
}

static void level_submit(struct level *v)
{
    struct listing *g = v->owner;

    v->op.kind = ATTEMPT_LIST;
    v->op.prefix = v->prefix;
    v->op.continuation = v->continuation;
    v->op.by_folder = !v->flat;
    v->op.err = &g->l->err;
    v->op.ended = on_page;
    v->op.owner = v;
    op_submit(&v->op, g->req.lane);
}

static void levels_free(struct dlc_list *list)
{
    while (!dlc_list_empty(list)) {
        struct level *v = dlc_container(list->next, struct level, link);

        op_cancel(&v->op);
        level_free(v);
    }
}

static void listing_end(struct listing *g, int rc)
{
    struct bucket_list *l = g->l;

    levels_free(&g->flying);
    levels_free(&g->pending);
    l->rc = rc;
    if (rc == 0) {
        l->err.code = 0;
        l->err.text[0] = '\0';
    }
    l->done(l);
    request_end(&g->req);
}

/* So many folders were found that another level's would be too many: do not even look. */
static bool folders_used_up(const struct listing *g)
{
    return !g->req.lane->bucket->origin->ops->folders_free &&
           g->n_folders > FOLDERS_MAX - LEVEL_FOLDERS;
}

static void listing_pump(struct listing *g)
{
    while (g->n_flying < LEVELS_FLYING && !dlc_list_empty(&g->pending)) {
        struct level *v = dlc_container(dlc_list_pop_head(&g->pending), struct level, link);

        dlc_list_push_tail(&g->flying, &v->link);
        g->n_flying++;
        v->flat = v->flat || folders_used_up(g);
        level_submit(v);
    }
    if (g->n_flying == 0)
        listing_end(g, 0);
    else
        lane_pump(g->req.lane);
}

/* ---- pages ---- */

/* Objects that lie directly in the level and were given out by earlier pages by folder. */
static void leave_out_given(const struct level *v, struct attempt *a)
{
    size_t skip = strlen(v->prefix), kept = 0;

    if (!v->flat || v->given == NULL)
        return;
    for (size_t i = 0; i < a->n_objects; i++) {
        const char *key = a->objects[i].key;
        bool direct = strlen(key) >= skip && strchr(key + skip, '/') == NULL;

        if (!direct || strcmp(key, v->given) > 0)
            a->objects[kept++] = a->objects[i];
    }
    a->n_objects = kept;
}

/* Hand out a page; false: the caller wants no more. */
static bool give(struct level *v, struct attempt *a)
{
    struct bucket_list *l = v->owner->l;

    leave_out_given(v, a);
    l->n_pages++;
    if (a->n_objects == 0)
        return true;
    l->n_objects += a->n_objects;
    return l->page(l, a->objects, a->n_objects);
}

static bool too_many_folders(const struct level *v, const struct attempt *a)
{
    const struct listing *g = v->owner;

    if (a->n_folders == 0 || g->req.lane->bucket->origin->ops->folders_free)
        return false;
    return v->n_folders + a->n_folders > LEVEL_FOLDERS ||
           g->n_folders + v->n_folders + a->n_folders > FOLDERS_MAX;
}

static void turn_flat(struct level *v)
{
    v->flat = true;
    level_clear_folders(v);
    mem_free(&v->continuation);
    level_submit(v);
}

/* A server that repeats itself would keep us here for ever. */
static int check_page(const struct level *v, const struct attempt *a)
{
    struct dlc_err *err = &v->owner->l->err;
    size_t len = strlen(v->prefix);

    if (a->next != NULL && v->continuation != NULL && strcmp(a->next, v->continuation) == 0)
        return dlc_err_set(err, DLC_EBUCKET,
                           "listing %.200s: the bucket gives the same page again and again",
                           v->prefix);
    for (size_t i = 0; i < a->n_folders; i++) {
        if (!str_starts(a->folders[i], v->prefix) || strlen(a->folders[i]) <= len)
            return dlc_err_set(err, DLC_EBUCKET,
                               "listing %.120s: the bucket gives a folder that is not below it: "
                               "%.120s",
                               v->prefix, a->folders[i]);
    }
    return 0;
}

static void remember(struct level *v, const struct attempt *a)
{
    for (size_t i = 0; i < a->n_folders; i++) {
        mem_reserve(v->folders, v->n_folders, v->cap_folders);
        v->folders[v->n_folders++] = mem_str(a->folders[i]);
    }
    if (!v->flat && a->n_objects > 0) {
        mem_free(&v->given);
        v->given = mem_str(a->objects[a->n_objects - 1].key);
    }
}

/* The level is complete: its folders are next. */
static void descend(struct level *v)
{
    struct listing *g = v->owner;

    g->n_folders += v->n_folders;
    g->n_flying--;
    for (size_t i = 0; i < v->n_folders; i++) {
        level_add(g, v->folders[i], false);
        v->folders[i] = NULL;
    }
    level_free(v);
}

static void on_page(struct op *op)
{
    struct level *v = op->owner;
    struct listing *g = v->owner;
    struct attempt *a = op->answer;
    int rc = op->rc;

    if (rc == 0)
        rc = check_page(v, a);
    if (rc < 0) {
        listing_end(g, rc);
        return;
    }
    if (!v->flat && too_many_folders(v, a)) {
        turn_flat(v);
        listing_pump(g);
        return;
    }
    if (!v->flat)
        remember(v, a);
    if (!give(v, a)) {
        listing_end(g, 0);
        return;
    }
    mem_free(&v->continuation);
    v->continuation = a->next;
    a->next = NULL;
    if (v->continuation != NULL)
        level_submit(v);
    else
        descend(v);
    listing_pump(g);
}

/* ---- the request ---- */

static void listing_begin(struct request *q)
{
    struct listing *g = listing_of(q);
    struct bucket *b = q->lane->bucket;
    const char *prefix = g->l->prefix == NULL ? b->root : g->l->prefix;

    level_add(g, mem_str(prefix), !b->origin->ops->folders);
    listing_pump(g);
}

static void listing_abort(struct request *q, int code, const char *why)
{
    struct listing *g = listing_of(q);

    listing_end(g, dlc_err_set(&g->l->err, code, "listing: %s", why));
}

static void listing_free(struct request *q)
{
    struct listing *g = listing_of(q);

    mem_free(&g);
}

static const struct request_ops listing_ops = {
    .begin = listing_begin,
    .abort = listing_abort,
    .free = listing_free,
};

void bucket_list(struct bucket *b, struct bucket_list *l)
{
    struct listing *g = mem_new(struct listing);

    dlc_check(l->done != NULL && l->page != NULL);
    g->l = l;
    l->n_objects = l->n_pages = 0;
    dlc_list_init(&g->pending);
    dlc_list_init(&g->flying);
    request_submit(&g->req, b, &listing_ops);
}
