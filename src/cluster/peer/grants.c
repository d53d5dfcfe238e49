// SPDX-License-Identifier: Apache-2.0
/* What the manager has said of datasets, and whom it said it to. */
#include "cluster/peer/view_i.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/dataset_name.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"

#define GRANTS_MAX 4096

static void grant_release(struct grant *g)
{
    mem_free(&g->dataset);
    mem_free(&g->tenant);
    mem_free(&g->name);
    mem_free(&g->url);
    mem_free(&g->endpoint);
    mem_free(&g->region);
    secret_free(&g->access_key);
    secret_free(&g->secret_key);
    secret_free(&g->session_token);
    secret_free(&g->ticket);
    mem_free(&g->record);
    *g = (struct grant){0};
}

static void key_of(const char *token, const char *what, unsigned char out[static SHA256_LEN])
{
    unsigned char both[2 * SHA256_LEN] = {0};

    if (token != NULL) /* nobody has a token whose digest is zeros */
        sha256(token, strlen(token), both);
    sha256(what, strlen(what), both + SHA256_LEN);
    sha256(both, sizeof(both), out);
}

static struct known *find(const struct cluster *c, const unsigned char key[static SHA256_LEN])
{
    for (size_t i = 0; i < c->n_known; i++)
        if (memcmp(c->known[i].key, key, SHA256_LEN) == 0)
            return &c->known[i];
    return NULL;
}

enum grant_age cluster_granted(const struct cluster *c, const char *token, const char *what,
                               struct dlc_mono now, struct dlc_dur life, const struct grant **out)
{
    unsigned char key[SHA256_LEN];
    const struct known *k;

    key_of(token, what, key);
    k = find(c, key);
    *out = k != NULL ? &k->grant : NULL;
    if (k == NULL)
        return GRANT_NONE;
    return dlc_mono_sub(now, k->given).ns < life.ns ? GRANT_FRESH : GRANT_OLD;
}

/* NULL when it is absent, null or "". */
static char *text_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));

    return s != NULL && s[0] != '\0' ? mem_str(s) : NULL;
}

/* {"id": "0123456789abcdef", ...} */
static uint64_t snapshot_of(const json_t *answer)
{
    const char *id = json_string_value(json_object_get(json_object_get(answer, "snapshot"), "id"));
    uint64_t n;

    return str_parse_hex64(id, &n) ? n : 0;
}

/* Gives the text of the record; NULL: none. */
static char *record_of(const json_t *answer)
{
    const json_t *record = json_object_get(answer, "record");
    char *text = json_is_object(record) ? json_dumps(record, JSON_COMPACT) : NULL, *out;

    out = mem_str(text);
    free(text);
    return out;
}

static int grant_read(struct grant *g, const json_t *answer, struct dlc_mono now,
                      struct dlc_err *err)
{
    const json_t *keys = json_object_get(answer, "credentials");
    json_int_t life = json_integer_value(json_object_get(answer, "ticket_life_ms"));

    *g = (struct grant){
        .dataset = text_of(answer, "dataset"),
        .tenant = text_of(answer, "tenant"),
        .name = text_of(answer, "name"),
        .url = text_of(answer, "url"),
        .endpoint = text_of(answer, "endpoint"),
        .region = text_of(answer, "region"),
        .anonymous = json_is_true(json_object_get(answer, "anonymous")),
        .snapshot = snapshot_of(answer),
        .access_key = text_of(keys, "access_key"),
        .secret_key = text_of(keys, "secret_key"),
        .session_token = text_of(keys, "session_token"),
        .ticket = text_of(answer, "ticket"),
        .ticket_renew = dlc_mono_add(now, DLC_MS(DLC_CLAMP(life, 0, 1 << 30) / 2)),
        .record = record_of(answer),
    };
    if (g->tenant == NULL)
        g->tenant = mem_str("");
    if (g->name == NULL && g->dataset != NULL) /* an older manager does not say it */
        g->name = mem_str(dataset_short_name(g->dataset, g->tenant));
    if (g->dataset != NULL && g->url != NULL)
        return 0;
    grant_release(g);
    return dlc_err_set(
        err, DLC_EPROTO,
        "the manager's answer does not say which dataset of which tenant lies where: "
        "use the same version of dlcache on all machines");
}

static struct known *oldest(struct cluster *c)
{
    struct known *k = &c->known[0];

    for (size_t i = 1; i < c->n_known; i++)
        if (c->known[i].given.ns < k->given.ns)
            k = &c->known[i];
    return k;
}

int cluster_grant(struct cluster *c, const char *token, const char *what, const json_t *answer,
                  struct dlc_mono now, struct dlc_err *err)
{
    unsigned char key[SHA256_LEN];
    struct known *k;
    struct grant g;
    int rc = grant_read(&g, answer, now, err);

    if (rc < 0)
        return rc;
    key_of(token, what, key);
    k = find(c, key);
    if (k == NULL && c->n_known == GRANTS_MAX) {
        k = oldest(c);
    } else if (k == NULL) {
        mem_reserve(c->known, c->n_known, c->cap_known);
        k = &c->known[c->n_known++];
        *k = (struct known){0};
    }
    grant_release(&k->grant);
    k->grant = g;
    k->given = now;
    memcpy(k->key, key, SHA256_LEN);
    return 0;
}

void cluster_forget(struct cluster *c, const char *dataset)
{
    for (size_t i = 0; i < c->n_known; i++)
        if (strcmp(c->known[i].grant.dataset, dataset) == 0)
            c->known[i].given.ns -= GRANT_LIFE.ns;
}

void cluster_revoke(struct cluster *c, const char *token, const char *what)
{
    unsigned char key[SHA256_LEN];
    struct known *k;

    key_of(token, what, key);
    k = find(c, key);
    if (k == NULL)
        return;
    grant_release(&k->grant);
    *k = c->known[--c->n_known];
}

void grants_release(struct cluster *c)
{
    for (size_t i = 0; i < c->n_known; i++)
        grant_release(&c->known[i].grant);
    mem_free(&c->known);
    c->n_known = c->cap_known = 0;
}
