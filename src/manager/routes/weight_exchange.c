// SPDX-License-Identifier: Apache-2.0
/*
 * Weights of jobs on their way between nodes (docs/design/0008). A node posts what its ranks have
 * learnt and gets, with the answer, what other nodes have posted since. A post is a document of
 * kind STORE_WEIGHTS whose tenant is that of the dataset and whose id says the rest:
 *
 *     JOB/DATASET/SNAPSHOT/OWNER/NUMBER/SENDER/COUNT
 *
 * The first four say whose weights they are; OWNER tells apart users of a dataset that is nobody's.
 * NUMBER grows with each post of these (12 hexadecimal digits: it is the time in milliseconds,
 * unless that does not grow). SENDER is a node's memory of these weights: another one when the node
 * has been started again, which so gets back what it knew itself. COUNT is of pairs.
 *
 * (E1) Ids alone say which are new to whom and which are too many: nothing is kept in memory, and
 * the next leader goes on. (E2) At most SENDER_DOCS of a sender, GROUP_DOCS and GROUP_PAIRS of all,
 * TENANT_DOCS of a tenant are kept, none for longer than a day, none of a job or dataset that is
 * not there any more. What is gone costs others freshness, never correctness. (E3) Numbers are
 * given and written under one lock: who has seen a number has seen all before it.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "importance/wire.h"
#include "base/str.h"
#include "manager/routes/jobs_i.h"

#define SENDER_DOCS  64
#define GROUP_DOCS   1024
#define GROUP_PAIRS  ((size_t)2 << 20)
#define TENANT_DOCS  4096
#define ANSWER_PAIRS PAIRS_MAX /* an answer ends with the first document that reaches it */
#define KEPT_MS      (INT64_C(24) * 3600 * 1000)
#define SWEEP_PAGE   512

#define HEX_LEN    16 /* of snapshot, owner and sender */
#define NUMBER_LEN 12
#define COUNT_LEN  5
#define SUFFIX_LEN (NUMBER_LEN + 1 + HEX_LEN + 1 + COUNT_LEN)
#define PREFIX_MAX (2 * (NAME_MAX_LEN + 1) + 2 * (HEX_LEN + 1))
#define BASE64_MAX ((PAIRS_BYTES_MAX + 2) / 3 * 4)

/* ---- ids ---- */

static bool is_hex(const char *s, size_t len)
{
    return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

/* NUMBER/SENDER/COUNT */
static const char *suffix_of(const char *id)
{
    return id + strlen(id) - SUFFIX_LEN;
}

static bool is_suffix(const char *s)
{
    return strlen(s) == SUFFIX_LEN && strspn(s, "0123456789abcdef/") == SUFFIX_LEN &&
           s[NUMBER_LEN] == '/' && s[NUMBER_LEN + 1 + HEX_LEN] == '/';
}

static int64_t number_of(const char *id)
{
    return (int64_t)strtoull(suffix_of(id), NULL, 16);
}

static size_t count_of(const char *id)
{
    return strtoul(id + strlen(id) - COUNT_LEN, NULL, 16);
}

static bool is_of(const char *id, const char *sender)
{
    return memcmp(suffix_of(id) + NUMBER_LEN + 1, sender, HEX_LEN) == 0;
}

/* ---- what was asked ---- */

struct post {
    const char *job, *dataset, *tenant, *snapshot, *owner, *sender;
    const char *after; /* the newest that the sender has seen; "": none */
    const char *pairs; /* NULL: none */
    size_t count;      /* of pairs */
    char prefix[PREFIX_MAX + 1], beyond[PREFIX_MAX + 1]; /* all ids of these lie between */
};

static bool refuse_hex(struct http_reply *reply, const char *field)
{
    refuse_field(reply, "", field, "must be %d hexadecimal digits", HEX_LEN);
    return false;
}

static bool read_pairs(struct post *p, struct http_reply *reply)
{
    struct buf b = BUF_INIT;

    if (str_unbase64(p->pairs, &b))
        p->count = pairs_count(b.data, b.len);
    buf_release(&b);
    if (p->count == 0)
        refuse_field(reply, "", "pairs",
                     "must be 1 to %d pairs of sample and weight, ascending, in base64", PAIRS_MAX);
    return p->count > 0;
}

static bool read_post(const struct http_request *r, struct post *p, struct http_reply *reply)
{
    const struct field fields[] = {
        {"dataset", FIELD_NAME, true, 0, &p->dataset},
        {"tenant", FIELD_TEXT0, true, NAME_MAX_LEN, &p->tenant},
        {"snapshot", FIELD_TEXT, true, HEX_LEN, &p->snapshot},
        {"owner", FIELD_TEXT, true, HEX_LEN, &p->owner},
        {"sender", FIELD_TEXT, true, HEX_LEN, &p->sender},
        {"after", FIELD_TEXT0, false, SUFFIX_LEN, &p->after},
        {"pairs", FIELD_TEXT, false, BASE64_MAX, &p->pairs},
        {NULL},
    };

    p->job = read_name(r, 0, "job", reply);
    p->after = "";
    if (p->job == NULL || !read_body(r, fields, reply))
        return false;
    if (!is_hex(p->snapshot, HEX_LEN))
        return refuse_hex(reply, "snapshot");
    if (!is_hex(p->owner, HEX_LEN))
        return refuse_hex(reply, "owner");
    if (!is_hex(p->sender, HEX_LEN))
        return refuse_hex(reply, "sender");
    if (p->after[0] != '\0' && !is_suffix(p->after)) {
        refuse_field(reply, "", "after", "must be as the last answer had it, or \"\"");
        return false;
    }
    if (p->pairs != NULL && !read_pairs(p, reply))
        return false;
    snprintf(p->prefix, sizeof(p->prefix), "%s/%s/%s/%s/", p->job, p->dataset, p->snapshot,
             p->owner);
    memcpy(p->beyond, p->prefix, sizeof(p->beyond));
    p->beyond[strlen(p->beyond) - 1] = '/' + 1;
    return true;
}

/* As POST /v1/jobs names them. Other names are whatever ranks call their job. */
static bool is_registered(const char *job)
{
    return str_starts(job, "j-") && is_hex(job + 2, 16);
}

/* Is it a job of that dataset, as far as we can know? */
static bool job_fits(struct control *c, const char *job, const char *dataset)
{
    struct job j = {0};
    bool fits;

    if (!is_registered(job))
        return true;
    fits = jobs_find(c, job, &j) && strcmp(j.dataset, dataset) == 0;
    job_release(&j);
    return fits;
}

/* A name of a dataset alone says nothing: it may have been freed and taken by another tenant. */
static bool may_post(struct control *c, const struct http_request *r, const struct post *p,
                     struct http_reply *reply)
{
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc = store_get(c->store, STORE_DATASET, p->dataset, &d, &err);
    bool ok = rc == 0 && strcmp(d.tenant, p->tenant) == 0;

    if (rc < 0 && rc != DLC_ENOTFOUND)
        reply_store_error(c, r, reply, &err);
    else if (!ok)
        reply_absent(reply, "dataset", p->dataset);
    else if (!job_fits(c, p->job, p->dataset))
        reply_absent(reply, "job", p->job);
    store_doc_release(&d);
    return ok && reply->status == 0;
}

/* ---- what there is of these weights ---- */

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

static int group_list(struct control *c, const struct post *p, struct group *g, struct dlc_err *err)
{
    struct group all = {.ids = mem_zero(2 * GROUP_DOCS * sizeof(*all.ids))};
    int rc = store_ids(c->store, STORE_WEIGHTS, p->tenant, p->prefix, p->beyond, 2 * GROUP_DOCS,
                       all.ids, &all.n, err);

    *g = (struct group){.ids = all.ids};
    for (size_t i = 0; i < all.n; i++) /* what somebody else has written there is not ours */
        if (strlen(all.ids[i]) == strlen(p->prefix) + SUFFIX_LEN &&
            is_suffix(suffix_of(all.ids[i])))
            g->ids[g->n++] = all.ids[i];
        else
            mem_free(&all.ids[i]);
    return rc;
}

/* (E2), with room for one more of so many pairs. */
static void group_trim(struct control *c, const struct post *p, const struct group *g)
{
    size_t of_sender = 1, pairs = p->count;

    for (size_t i = g->n; i-- > 0;) {
        const char *id = g->ids[i];
        bool own = is_of(id, p->sender);

        of_sender += own;
        pairs += count_of(id);
        if ((own && of_sender > SENDER_DOCS) || g->n - i + 1 > GROUP_DOCS || pairs > GROUP_PAIRS)
            store_delete(c->store, STORE_WEIGHTS, id, STORE_ANY, NULL); /* or it is old one day */
    }
}

static bool tenant_has_room(struct control *c, const struct http_request *r, const struct post *p,
                            struct http_reply *reply)
{
    struct dlc_err err = DLC_ERR_INIT;
    uint64_t n = 0;

    if (store_count(c->store, STORE_WEIGHTS, p->tenant, &n, &err) < 0) {
        reply_store_error(c, r, reply, &err);
        return false;
    }
    if (n < TENANT_DOCS)
        return true;
    http_problem(reply, 429, "Too many weights",
                 "weights of too many jobs of this tenant were posted within a day; end some jobs");
    return false;
}

/* With c->posting held. */
static bool write_post(struct control *c, const struct http_request *r, const struct post *p,
                       const struct group *g, struct http_reply *reply)
{
    int64_t number = g->n > 0 ? number_of(g->ids[g->n - 1]) + 1 : 0;
    struct store_doc d = STORE_DOC_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    int rc;

    group_trim(c, p, g);
    if (!tenant_has_room(c, r, p, reply))
        return false;
    number = DLC_MAX(number, control_wall_ms());
    d.id = mem_fmt("%s%0*llx/%s/%0*zx", p->prefix, NUMBER_LEN, (unsigned long long)number,
                   p->sender, COUNT_LEN, p->count);
    d.tenant = mem_str(p->tenant);
    d.body = json_pack("{s:s}", "pairs", p->pairs);
    rc = store_put(c->store, STORE_WEIGHTS, &d, STORE_ANY, &err);
    if (rc < 0)
        reply_store_error(c, r, reply, &err);
    store_doc_release(&d);
    return rc == 0;
}

/* ---- what others have posted ---- */

/* The pairs of a document; 0: it is gone, which is no failure. */
static int add_item(struct control *c, const char *id, json_t *items, struct dlc_err *err)
{
    struct store_doc d = STORE_DOC_INIT;
    int rc = store_get(c->store, STORE_WEIGHTS, id, &d, err);
    json_t *pairs = json_object_get(d.body, "pairs");

    if (rc == 0 && json_is_string(pairs))
        json_array_append(items, pairs);
    store_doc_release(&d);
    return rc == DLC_ENOTFOUND ? 0 : rc;
}

static int answer(struct control *c, const struct post *p, const struct group *g, json_t **out,
                  struct dlc_err *err)
{
    const char *after = p->after;
    json_t *items = json_array();
    size_t pairs = 0, i = 0;
    bool lost = g->n > 0 && strcmp(after, suffix_of(g->ids[g->n - 1])) > 0;
    int rc = 0;

    if (lost) /* the store has forgotten some: begin anew, with the sender's own in their places */
        after = "";
    while (i < g->n && strcmp(suffix_of(g->ids[i]), after) <= 0)
        i++;
    for (; i < g->n && pairs < ANSWER_PAIRS && rc == 0; i++) {
        after = suffix_of(g->ids[i]);
        if (is_of(g->ids[i], p->sender) && !lost)
            continue;
        pairs += count_of(g->ids[i]);
        rc = add_item(c, g->ids[i], items, err);
    }
    *out = json_pack("{s:s, s:o, s:b}", "after", after, "items", items, "more", i < g->n);
    return rc;
}

void job_weights(struct http_request *r, struct http_reply *reply, void *ctx)
{
    struct control *c = control_of(ctx);
    struct post p = {0};
    struct group g = {0};
    struct dlc_err err = DLC_ERR_INIT;
    json_t *out = NULL;
    bool ok = true;
    int rc;

    if (!read_post(r, &p, reply) || !may_post(c, r, &p, reply))
        return;
    dlc_mtx_lock(&c->posting);
    rc = group_list(c, &p, &g, &err);
    if (rc == 0 && p.pairs != NULL)
        ok = write_post(c, r, &p, &g, reply);
    dlc_mtx_unlock(&c->posting);
    if (rc == 0 && ok)
        rc = answer(c, &p, &g, &out, &err);
    if (rc < 0)
        reply_store_error(c, r, reply, &err);
    else if (ok)
        reply_doc(reply, 200, json_incref(out), 0);
    json_decref(out);
    group_release(&g);
}

/* ---- what is of no use any more ---- */

/* The job and dataset that were looked at last. */
struct look {
    char job[NAME_MAX_LEN + 1], dataset[NAME_MAX_LEN + 1];
    bool there;
};

static bool is_there(struct control *c, const char *id, struct look *last)
{
    struct store_doc d = STORE_DOC_INIT;
    struct look l = {.there = false};

    if (sscanf(id, "%63[^/]/%63[^/]/", l.job, l.dataset) != 2)
        return false;
    if (strcmp(l.job, last->job) != 0 || strcmp(l.dataset, last->dataset) != 0) {
        l.there = job_fits(c, l.job, l.dataset) &&
                  store_get(c->store, STORE_DATASET, l.dataset, &d, NULL) != DLC_ENOTFOUND;
        *last = l;
        store_doc_release(&d);
    }
    return last->there;
}

static bool is_worth(struct control *c, const char *id, struct look *last)
{
    int64_t age;

    if (strlen(id) <= SUFFIX_LEN || !is_suffix(suffix_of(id)))
        return false;
    age = control_wall_ms() - number_of(id);
    return age < KEPT_MS && age > -KEPT_MS && is_there(c, id, last);
}

void weights_tick(struct control *c, struct dlc_mono now)
{
    char **ids, *after = NULL;
    struct look last = {.there = false};
    size_t n = SWEEP_PAGE;

    if (dlc_mono_sub(now, c->weights_swept).ns < c->job_ttl.ns)
        return;
    c->weights_swept = now;
    ids = mem_zero(SWEEP_PAGE * sizeof(*ids));
    while (n == SWEEP_PAGE && leader_holds(c)) {
        if (store_ids(c->store, STORE_WEIGHTS, NULL, after, NULL, SWEEP_PAGE, ids, &n, NULL) < 0)
            break;
        for (size_t i = 0; i < n; i++) {
            if (leader_holds(c) && !is_worth(c, ids[i], &last))
                store_delete(c->store, STORE_WEIGHTS, ids[i], STORE_ANY, NULL);
            mem_free(&after);
            after = ids[i];
        }
    }
    mem_free(&after);
    mem_free(&ids);
}

void weights_forget(struct control *c, const char *tenant)
{
    char *ids[16];
    struct dlc_err err = DLC_ERR_INIT;
    size_t n;
    int rc;

    do {
        rc = store_ids(c->store, STORE_WEIGHTS, tenant, NULL, NULL, DLC_COUNT(ids), ids, &n, &err);
        for (size_t i = 0; i < n; i++) {
            if (rc == 0)
                rc = store_delete(c->store, STORE_WEIGHTS, ids[i], STORE_ANY, &err);
            if (rc == DLC_ENOTFOUND)
                rc = 0;
            mem_free(&ids[i]);
        }
    } while (rc == 0 && n > 0);
    if (rc < 0)
        log_warn("weights of tenant %s are not forgotten: %s", tenant, err.text);
}
