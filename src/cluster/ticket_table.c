// SPDX-License-Identifier: Apache-2.0
#include "cluster/ticket_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/counters.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"

#define TICKET_TABLE_TAG DLC_TAG4('t', 'k', 't', 's')
#define KEYS_MAX         4
#define SETS             1024
#define WAYS             4 /* tickets of one set */

struct verified {
    unsigned char digest[SHA256_LEN]; /* of its text */
    struct ticket ticket;             /* expires_ms 0: an empty slot */
};

/* A node that was revoked. */
struct revoked {
    char node[TICKET_NAME_MAX + 1];
    uint32_t generation; /* earlier certificates are refused */
    int64_t tickets_ms;  /* tickets that expire by then are, too */
};

struct ticket_table {
    uint32_t tag;
    struct dlc_dur grace;
    struct dlc_mtx mtx; /* rank LCK_tickets: leaf; no signature is checked under it */
    /* G: mtx */
    struct ticket_key keys[KEYS_MAX];
    size_t n_keys;
    uint64_t generation; /* grows when keys change */
    int64_t manager_ms;  /* its clock when it was heard ... */
    struct dlc_mono heard;
    struct dlc_mono second; /* TICKETS-4: when it began, */
    unsigned checks;        /* and checks since */
    struct verified (*sets)[WAYS];
    struct revoked *revoked; /* sorted by name */
    size_t n_revoked;
};

struct ticket_table *ticket_table_new(struct dlc_dur grace)
{
    struct ticket_table *t = mem_new(struct ticket_table);

    t->tag = TICKET_TABLE_TAG;
    t->grace = grace;
    t->sets = mem_zero(SETS * sizeof(t->sets[0]));
    dlc_mtx_init(&t->mtx, LCK_tickets);
    return t;
}

void ticket_table_free(struct ticket_table **tp)
{
    struct ticket_table *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    dlc_check(t->tag == TICKET_TABLE_TAG);
    dlc_mtx_release(&t->mtx);
    mem_free(&t->sets);
    mem_free(&t->revoked);
    t->tag = 0;
    mem_free(&t);
}

/* ---- what the manager says ---- */

static bool read_key(const json_t *v, struct ticket_key *out)
{
    const char *text = json_string_value(v);
    struct buf b = BUF_INIT;
    bool good = text != NULL && str_unbase64(text, &b) && b.len == sizeof(out->bytes);

    if (good)
        memcpy(out->bytes, b.data, sizeof(out->bytes));
    buf_release(&b);
    return good;
}

bool ticket_table_ready(struct ticket_table *t)
{
    bool ready;

    dlc_mtx_lock(&t->mtx);
    ready = t->n_keys > 0;
    dlc_mtx_unlock(&t->mtx);
    return ready;
}

void ticket_table_heard(struct ticket_table *t, const json_t *tickets)
{
    const json_t *list = json_object_get(tickets, "keys"), *v;
    json_int_t now = json_integer_value(json_object_get(tickets, "now_ms"));
    struct ticket_key keys[KEYS_MAX] = {0};
    size_t n = 0, i;

    json_array_foreach(list, i, v)
    {
        if (n < KEYS_MAX && read_key(v, &keys[n]))
            n++;
    }
    if (n == 0 || now <= 0)
        return;
    dlc_mtx_lock(&t->mtx);
    if (n != t->n_keys || memcmp(keys, t->keys, sizeof(keys)) != 0) {
        memcpy(t->keys, keys, sizeof(keys));
        t->n_keys = n;
        t->generation++;
        memset(t->sets, 0, SETS * sizeof(t->sets[0]));
    }
    t->manager_ms = now;
    t->heard = dlc_mono_now();
    dlc_mtx_unlock(&t->mtx);
}

/* ---- nodes that were revoked ---- */

static int by_node(const void *a, const void *b)
{
    return strcmp(((const struct revoked *)a)->node, ((const struct revoked *)b)->node);
}

static bool read_revoked(const json_t *row, struct revoked *out)
{
    const char *name = json_string_value(json_array_get(row, 0));
    json_int_t generation = json_integer_value(json_array_get(row, 1));

    if (name == NULL || strlen(name) > TICKET_NAME_MAX || generation < 0 || generation > UINT32_MAX)
        return false;
    memcpy(out->node, name, strlen(name) + 1);
    out->generation = (uint32_t)generation;
    out->tickets_ms = json_integer_value(json_array_get(row, 2));
    return true;
}

void ticket_table_revoked(struct ticket_table *t, const json_t *revoked)
{
    struct revoked *fresh = mem_zero((json_array_size(revoked) + 1) * sizeof(*fresh)), *old;
    const json_t *row;
    size_t n = 0, i;

    json_array_foreach(revoked, i, row) n += read_revoked(row, &fresh[n]);
    qsort(fresh, n, sizeof(*fresh), by_node);
    dlc_mtx_lock(&t->mtx);
    old = t->revoked;
    t->revoked = fresh;
    t->n_revoked = n;
    dlc_mtx_unlock(&t->mtx);
    mem_free(&old);
}

static const struct revoked *find_revoked_locked(const struct ticket_table *t, const char *node)
{
    struct revoked key = {.generation = 0};

    if (t->n_revoked == 0 || strlen(node) > TICKET_NAME_MAX)
        return NULL;
    memcpy(key.node, node, strlen(node) + 1);
    return bsearch(&key, t->revoked, t->n_revoked, sizeof(key), by_node);
}

static int revoked_error(const char *node, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EDENIED, "node %s was revoked: it must join again", node);
}

int ticket_table_check_node(struct ticket_table *t, const char *node, uint32_t generation,
                            struct dlc_err *err)
{
    const struct revoked *r;
    bool refuse;

    if (node == NULL)
        return 0;
    dlc_mtx_lock(&t->mtx);
    r = find_revoked_locked(t, node);
    refuse = r != NULL && generation < r->generation;
    dlc_mtx_unlock(&t->mtx);
    return refuse ? revoked_error(node, err) : 0;
}

/* ---- tickets ---- */

/* TICKETS-1, TICKETS-2, TICKETS-5 */
static int check_counts_locked(const struct ticket_table *t, const struct ticket *k,
                               struct dlc_err *err)
{
    const struct revoked *r = find_revoked_locked(t, k->node);
    struct dlc_dur silent = dlc_mono_since(t->heard);
    int64_t now = t->manager_ms + DLC_MIN(silent.ns, TICKET_SILENCE.ns) / 1000000;

    if (r != NULL && k->expires_ms <= r->tickets_ms)
        return revoked_error(k->node, err);
    if (t->grace.ns > 0 && silent.ns > t->grace.ns)
        return dlc_err_set(err, DLC_EDENIED,
                           "the manager is silent for longer than manager-grace: no ticket counts");
    if (now - TICKET_SKEW.ns / 1000000 > k->expires_ms)
        return dlc_err_set(err, DLC_EDENIED, "the ticket has expired: ask the manager for another");
    return 0;
}

static struct verified *set_of(struct ticket_table *t, const unsigned char digest[SHA256_LEN])
{
    return t->sets[(digest[0] << 8 | digest[1]) % SETS];
}

static const struct verified *find_locked(struct ticket_table *t,
                                          const unsigned char digest[SHA256_LEN])
{
    struct verified *set = set_of(t, digest);

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].ticket.expires_ms != 0 && memcmp(set[i].digest, digest, SHA256_LEN) == 0)
            return &set[i];
    return NULL;
}

/* In place of the one that expires first. */
static void remember_locked(struct ticket_table *t, const unsigned char digest[SHA256_LEN],
                            const struct ticket *k)
{
    struct verified *set = set_of(t, digest), *slot = &set[0];

    for (size_t i = 1; i < WAYS; i++)
        if (set[i].ticket.expires_ms < slot->ticket.expires_ms)
            slot = &set[i];
    memcpy(slot->digest, digest, SHA256_LEN);
    slot->ticket = *k;
}

/* May one more be checked now? (TICKETS-4) */
static bool may_check_locked(struct ticket_table *t)
{
    struct dlc_mono now = dlc_mono_now();

    if (t->second.ns == 0 || dlc_mono_sub(now, t->second).ns >= DLC_SEC(1).ns) {
        t->second = now;
        t->checks = 0;
    }
    return t->checks++ < TICKET_CHECKS;
}

/* The signature, without the lock; remembered if it is right. */
static int verify(struct ticket_table *t, const char *text,
                  const unsigned char digest[static SHA256_LEN], struct ticket *out,
                  struct dlc_err *err)
{
    struct ticket_key keys[KEYS_MAX];
    uint64_t generation;
    bool busy;
    size_t n;
    int rc;

    dlc_mtx_lock(&t->mtx);
    memcpy(keys, t->keys, sizeof(keys));
    n = t->n_keys;
    generation = t->generation;
    busy = n == 0 || !may_check_locked(t);
    dlc_mtx_unlock(&t->mtx);
    if (busy)
        return dlc_err_set(err, DLC_EBUSY,
                           n == 0 ? "this node has not heard the manager yet"
                                  : "too many new tickets in a second");
    count(peer_tickets_checked);
    rc = ticket_check(text, keys, n, out, err);
    dlc_mtx_lock(&t->mtx);
    if (rc == 0 && generation == t->generation)
        remember_locked(t, digest, out);
    if (rc == 0)
        rc = check_counts_locked(t, out, err);
    dlc_mtx_unlock(&t->mtx);
    return rc;
}

static int check_use(const struct ticket *k, const struct ticket_use *use, struct dlc_err *err)
{
    if (strcmp(k->dataset, use->dataset) != 0 ||
        (use->tenant != NULL && strcmp(k->tenant, use->tenant) != 0))
        return dlc_err_set(err, DLC_EDENIED, "the ticket is for another dataset");
    if (use->node != NULL && strcmp(k->node, use->node) != 0)
        return dlc_err_set(err, DLC_EDENIED,
                           "the ticket is for node %s, and the certificate of node %s", k->node,
                           use->node);
    return 0;
}

int ticket_table_check(struct ticket_table *t, const char *text, const struct ticket_use *use,
                       struct ticket *out, struct dlc_err *err)
{
    unsigned char digest[SHA256_LEN];
    const struct verified *v;
    int rc = 0;

    sha256(text, strlen(text), digest);
    dlc_mtx_lock(&t->mtx);
    v = find_locked(t, digest);
    if (v != NULL) {
        *out = v->ticket;
        rc = check_counts_locked(t, out, err);
    }
    dlc_mtx_unlock(&t->mtx);
    if (v == NULL)
        rc = verify(t, text, digest, out, err);
    return rc < 0 ? rc : check_use(out, use, err);
}
