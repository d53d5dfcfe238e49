// SPDX-License-Identifier: Apache-2.0
#include "base/dataset_name.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/short_name.h"
#include "base/str.h"

#define HASH_DIGITS 32
#define READABLE    30 /* characters before '_' and the digits */

static_assert(READABLE + 1 + HASH_DIGITS < DATASET_ID_LEN, "an id is a name");
static_assert(DATASET_ID_LEN == SHORT_NAME_LEN, "an id is a name");

/* ---- short names ---- */

static const char *after_prefix(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return str_starts(name, prefix) && name[len] == '.' && str_is_name(name + len + 1)
               ? name + len + 1
               : NULL;
}

const char *dataset_short_name(const char *name, const char *tenant)
{
    char brief[SHORT_NAME_LEN];
    const char *rest;

    if (tenant[0] == '\0')
        return name;
    rest = after_prefix(name, tenant);
    if (rest == NULL)
        rest = after_prefix(name, short_tenant(tenant, brief));
    return rest != NULL ? rest : name;
}

/* ---- ids ---- */

bool dataset_id_is_hashed(const char *id)
{
    size_t len = strlen(id), start = len - HASH_DIGITS;

    return len > HASH_DIGITS + 1 && id[start - 1] == '_' && strchr(id, '.') == NULL &&
           strspn(id + start, "0123456789abcdef") == HASH_DIGITS;
}

static void add_hashed(struct dataset_ids *ids, const char *tenant, const char *name)
{
    struct buf both = BUF_INIT;
    unsigned char hash[SHA256_LEN];
    char hex[HASH_DIGITS + 1];

    buf_addf(&both, "%s\n%s", tenant, name); /* no name has a line end */
    sha256(both.data, both.len, hash);
    str_hex(hash, HASH_DIGITS / 2, hex);
    for (size_t i = 0; i < both.len; i++)
        if (both.data[i] == '.' || both.data[i] == '\n')
            both.data[i] = '-'; /* every other id that a new dataset of a tenant gets has a dot */
    snprintf(ids->v[ids->n++], DATASET_ID_LEN, "%.*s_%s", READABLE, buf_str(&both), hex);
    buf_release(&both);
}

/* PREFIX.NAME, if that is a name. */
static bool add_joined(struct dataset_ids *ids, const char *prefix, const char *name)
{
    dlc_check(ids->n < DATASET_IDS);
    if (strlen(prefix) + 1 + strlen(name) >= DATASET_ID_LEN)
        return false;
    snprintf(ids->v[ids->n++], DATASET_ID_LEN, "%s.%s", prefix, name);
    return true;
}

void dataset_ids(const char *tenant, const char *name, struct dataset_ids *out)
{
    bool dots = strchr(tenant, '.') != NULL;
    char brief[SHORT_NAME_LEN];

    *out = (struct dataset_ids){0};
    dlc_check(str_is_name(name));
    if (tenant[0] != '\0') {
        short_tenant(tenant, brief);
        if (!dots && !add_joined(out, tenant, name))
            add_joined(out, brief, name);
        add_hashed(out, tenant, name);
        out->n_new = out->n;
        if (dots) {
            add_joined(out, tenant, name);
            if (strcmp(brief, tenant) != 0)
                add_joined(out, brief, name);
        }
    }
    snprintf(out->v[out->n++], DATASET_ID_LEN, "%s", name);
    if (tenant[0] == '\0')
        out->n_new = 1;
}
