// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/weight_posts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/job_id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "importance/wire.h"
#include "manager/store/wall_time.h"
#include "manager/tables/job_table.h"
#include "manager/tables/leader.h"
#include "manager/tables/tables.h"

#define SENDER_DOCS  64
#define GROUP_DOCS   1024
#define GROUP_PAIRS  ((size_t)2 << 20)
#define TENANT_DOCS  4096
#define ANSWER_PAIRS PAIRS_MAX /* an answer ends with the first document that reaches it */
#define KEPT_MS      (INT64_C(24) * 3600 * 1000)
#define SWEEP_PAGE   512

/* ---- ids ---- */

bool weights_is_hex(const char *s, size_t len)
{
    return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

/* NUMBER/SENDER/COUNT */
static const char *suffix_of(const char *id)
{
    return id + strlen(id) - WEIGHTS_SUFFIX_LEN;
}

bool weights_is_cursor(const char *s)
{
    return strlen(s) == WEIGHTS_SUFFIX_LEN &&
           strspn(s, "0123456789abcdef/") == WEIGHTS_SUFFIX_LEN && s[WEIGHTS_NUMBER_LEN] == '/' &&
           s[WEIGHTS_NUMBER_LEN + 1 + WEIGHTS_HEX_LEN] == '/';
}

static int64_t number_of(const char *id)
{
    return (int64_t)strtoull(suffix_of(id), NULL, 16);
}

static size_t count_of(const char *id)
{
    return strtoul(id + strlen(id) - WEIGHTS_COUNT_LEN, NULL, 16);
}

static bool is_of(const char *id, const char *sender)
{
    return memcmp(suffix_of(id) + WEIGHTS_NUMBER_LEN + 1, sender, WEIGHTS_HEX_LEN) == 0;
}

/* Is it a job of that dataset, as far as we can know? */
bool weights_job_fits(struct tables *t, const char *job, const char *dataset)
{
    struct job j = {0};
    bool fits;

    if (!job_id_is_registered(job)) /* whatever ranks call their job */
        return true;
    fits = jobs_find(t, job, &j) && strcmp(j.dataset, dataset) == 0;
    job_release(&j);
    return fits;
}

/* ---- what there is of these weights ---- */

/* All ids of one group lie between the two. */
struct group_range {
    char prefix[WEIGHTS_PREFIX_MAX + 1], beyond[WEIGHTS_PREFIX_MAX + 1];
};

static struct group_range range_of(const struct weight_post *p)
{
    struct group_range g;

    snprintf(g.prefix, sizeof(g.prefix), "%s/%s/%s/%s/", p->job, p->dataset, p->snapshot, p->owner);
    memcpy(g.beyond, g.prefix, sizeof(g.beyond));
    g.beyond[strlen(g.beyond) - 1] = '/' + 1;
    return g;
}

struct group {
    char **ids; /* ascending */
    size_t n;
};

static void group_release(struct group *g)
{
    for (size_t i = 0; i < g->n; i++)
        mem_free(&g->ids[i]);
    mem_free(&g->ids);
    g->n = 0;
}

static int group_list(struct tables *t, const struct weight_post *p, struct group *g,
                      struct dlc_err *err)
{
    const struct group_range range = range_of(p);
    struct group all = {.ids = mem_zero(2 * GROUP_DOCS * sizeof(*all.ids))};
    int rc = store_ids(t->store, STORE_WEIGHTS, p->tenant, range.prefix, range.beyond,
                       2 * GROUP_DOCS, all.ids, &all.n, err);

    *g = (struct group){.ids = all.ids};
    for (size_t i = 0; i < all.n; i++) /* what somebody else has written there is not ours */
        if (strlen(all.ids[i]) == strlen(range.prefix) + WEIGHTS_SUFFIX_LEN &&
            weights_is_cursor(suffix_of(all.ids[i])))
            g->ids[g->n++] = all.ids[i];
        else
            mem_free(&all.ids[i]);
    return rc;
}

/* (POST-2), with room for one more of so many pairs. */
static void group_trim(struct tables *t, const struct weight_post *p, const struct group *g)
{
    size_t of_sender = 1, pairs = p->count;

    for (size_t i = g->n; i-- > 0;) {
        const char *id = g->ids[i];
        bool own = is_of(id, p->sender);

        of_sender += own;
        pairs += count_of(id);
        if ((own && of_sender > SENDER_DOCS) || g->n - i + 1 > GROUP_DOCS || pairs > GROUP_PAIRS)
            store_delete(t->store, STORE_WEIGHTS, id, STORE_ANY, NULL); /* or it is old one day */
    }
}

/* 1: the tenant has posted too many. */
static int check_room(struct tables *t, const char *tenant, struct dlc_err *err)
{
    uint64_t n = 0;
    int rc = store_count(t->store, STORE_WEIGHTS, tenant, &n, err);

    return rc == 0 && n >= TENANT_DOCS ? 1 : rc;
}

/* With weights.mtx held. 1: as check_room(). */
static int write_post(struct tables *t, const struct weight_post *p, const struct group *g,
                      struct dlc_err *err)
{
    int64_t number = g->n > 0 ? number_of(g->ids[g->n - 1]) + 1 : 0;
    const struct group_range range = range_of(p);
    struct store_doc d = STORE_DOC_INIT;
    int rc;

    group_trim(t, p, g);
    rc = check_room(t, p->tenant, err);
    if (rc != 0)
        return rc;
    number = DLC_MAX(number, wall_ms());
    d.id = mem_fmt("%s%0*llx/%s/%0*zx", range.prefix, WEIGHTS_NUMBER_LEN,
                   (unsigned long long)number, p->sender, WEIGHTS_COUNT_LEN, p->count);
    d.tenant = mem_str(p->tenant);
    d.body = json_pack("{s:s}", "pairs", p->pairs);
    rc = store_put(t->store, STORE_WEIGHTS, &d, STORE_ANY, err);
    store_doc_release(&d);
    return rc;
}

/* ---- what others have posted ---- */

/* The pairs of a document; 0: it is gone, which is no failure. */
static int add_item(struct tables *t, const char *id, json_t *items, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(t->store, STORE_WEIGHTS, id, &d, err);
    json_t *pairs = json_object_get(d.body, "pairs");

    if (rc == 0 && json_is_string(pairs))
        json_array_append(items, pairs);
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

static int answer(struct tables *t, const struct weight_post *p, const struct group *g,
                  json_t **out, struct dlc_err *err)
{
    const char *after = p->after;
    json_t *items = json_array();
    size_t pairs = 0, i = 0;
    bool lost = g->n > 0 && strcmp(after, suffix_of(g->ids[g->n - 1])) > 0;
    int rc = 0;

    if (lost) /* the store has forgotten some: begin again, with the sender's own in their places */
        after = "";
    while (i < g->n && strcmp(suffix_of(g->ids[i]), after) <= 0)
        i++;
    for (; i < g->n && pairs < ANSWER_PAIRS && rc == 0; i++) {
        after = suffix_of(g->ids[i]);
        if (is_of(g->ids[i], p->sender) && !lost)
            continue;
        pairs += count_of(g->ids[i]);
        rc = add_item(t, g->ids[i], items, err);
    }
    *out = json_pack("{s:s, s:o, s:b}", "after", after, "items", items, "more", i < g->n);
    return rc;
}

int weights_exchange(struct tables *t, const struct weight_post *p, json_t **out,
                     struct dlc_err *err)
{
    struct group g = {0};
    int rc;

    *out = NULL;
    dlc_mtx_lock(&t->weights.mtx);
    rc = group_list(t, p, &g, err);
    if (rc == 0 && p->pairs != NULL)
        rc = write_post(t, p, &g, err);
    dlc_mtx_unlock(&t->weights.mtx);
    if (rc == 0)
        rc = answer(t, p, &g, out, err);
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    group_release(&g);
    return rc;
}

/* ---- what is of no use any more ---- */

/* The job and dataset that were looked at last. */
struct last_group {
    char job[NAME_MAX_LEN + 1], dataset[NAME_MAX_LEN + 1];
    bool there;
};

static bool is_there(struct tables *t, const char *id, struct last_group *last)
{
    struct store_doc d = STORE_DOC_INIT;
    struct last_group l = {.there = false};

    if (sscanf(id, "%63[^/]/%63[^/]/", l.job, l.dataset) != 2)
        return false;
    if (strcmp(l.job, last->job) != 0 || strcmp(l.dataset, last->dataset) != 0) {
        l.there = weights_job_fits(t, l.job, l.dataset) &&
                  store_get(t->store, STORE_DATASET, l.dataset, &d, NULL) != DLC_ENOTFOUND;
        *last = l;
        store_doc_release(&d);
    }
    return last->there;
}

static bool is_worth(struct tables *t, const char *id, struct last_group *last)
{
    int64_t age;

    if (strlen(id) <= WEIGHTS_SUFFIX_LEN || !weights_is_cursor(suffix_of(id)))
        return false;
    age = wall_ms() - number_of(id);
    return age < KEPT_MS && age > -KEPT_MS && is_there(t, id, last);
}

void weights_tick(struct tables *t, struct dlc_mono now)
{
    char **ids, *after = NULL;
    struct last_group last = {.there = false};
    size_t n = SWEEP_PAGE;

    if (dlc_mono_sub(now, t->weights.swept).ns < t->job_ttl.ns)
        return;
    t->weights.swept = now;
    ids = mem_zero(SWEEP_PAGE * sizeof(*ids));
    while (n == SWEEP_PAGE && leader_holds(t)) {
        if (store_ids(t->store, STORE_WEIGHTS, NULL, after, NULL, SWEEP_PAGE, ids, &n, NULL) < 0)
            break;
        for (size_t i = 0; i < n; i++) {
            if (leader_holds(t) && !is_worth(t, ids[i], &last))
                store_delete(t->store, STORE_WEIGHTS, ids[i], STORE_ANY, NULL);
            mem_free(&after);
            after = ids[i];
        }
    }
    mem_free(&after);
    mem_free(&ids);
}

void weights_forget(struct tables *t, const char *tenant)
{
    char *ids[16];
    struct dlc_err err = DLC_ERR_INIT;
    size_t n;
    int rc;

    do {
        rc = store_ids(t->store, STORE_WEIGHTS, tenant, NULL, NULL, DLC_COUNT(ids), ids, &n, &err);
        for (size_t i = 0; i < n; i++) {
            if (rc == 0)
                rc = store_delete(t->store, STORE_WEIGHTS, ids[i], STORE_ANY, &err);
            if (rc == DLC_ENOTFOUND)
                rc = 0;
            mem_free(&ids[i]);
        }
    } while (rc == 0 && n > 0);
    if (rc < 0)
        log_warn("weights of tenant %s are not forgotten: %s", tenant, err.text);
}
