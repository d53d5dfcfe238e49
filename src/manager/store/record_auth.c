// SPDX-License-Identifier: Apache-2.0
#include "manager/store/record_auth_i.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#define MAGIC      "dlc1:"
#define MAGIC_LEN  5
#define MAC_HEX    (2 * SEAL_MAC_LEN)
#define KEY_AT     MAGIC_LEN
#define MAC_AT     (KEY_AT + SEAL_KEY_ID_LEN + 1)
#define PREFIX_LEN (MAC_AT + MAC_HEX + 1)

/* Each part after its length: no two lists of parts give the same bytes. */
static void add_part(struct buf *b, const void *data, size_t len)
{
    unsigned char n[8];

    for (size_t i = 0; i < sizeof(n); i++)
        n[i] = (unsigned char)((uint64_t)len >> (8 * i));
    buf_add(b, n, sizeof(n));
    buf_add(b, data, len);
}

static struct buf parts_of(enum store_kind kind, const struct store_raw *r, uint64_t version,
                           const char *json, size_t len)
{
    const char *name = store_kind_name(kind);
    struct buf b = BUF_INIT;
    char number[24];

    snprintf(number, sizeof(number), "%llu", (unsigned long long)version);
    add_part(&b, name, strlen(name));
    add_part(&b, r->id, strlen(r->id));
    add_part(&b, r->tenant, strlen(r->tenant));
    add_part(&b, number, strlen(number));
    add_part(&b, json, len);
    return b;
}

char *record_seal(const struct seal *seal, enum store_kind kind, const struct store_raw *r,
                  uint64_t version, size_t *len)
{
    struct buf parts = parts_of(kind, r, version, r->body, r->body_len), out = BUF_INIT;
    unsigned char mac[SEAL_MAC_LEN];
    char key[SEAL_KEY_ID_LEN + 1], hex[MAC_HEX + 1];

    seal_mac(seal, parts.data, parts.len, key, mac);
    str_hex(mac, sizeof(mac), hex);
    buf_reserve(&out, PREFIX_LEN + r->body_len + 1);
    buf_addf(&out, MAGIC "%s:%s:", key, hex);
    buf_add(&out, r->body, r->body_len);
    buf_release(&parts);
    *len = out.len;
    return buf_take(&out);
}

static bool has_prefix(const struct store_raw *r)
{
    return r->body_len > PREFIX_LEN && memcmp(r->body, MAGIC, MAGIC_LEN) == 0 &&
           r->body[MAC_AT - 1] == ':' && r->body[PREFIX_LEN - 1] == ':';
}

int record_open(const struct seal *seal, enum store_kind kind, struct store_raw *r,
                char key[static SEAL_KEY_ID_LEN + 1], struct dlc_err *err)
{
    const char *name = store_kind_name(kind);
    unsigned char mac[SEAL_MAC_LEN];
    struct buf parts;
    int rc;

    if (!has_prefix(r) || !str_unhex(r->body + MAC_AT, MAC_HEX, mac))
        return dlc_err_set(
            err, DLC_ECORRUPT,
            "store: %s '%s' is not authenticated: an older version or another "
            "program wrote it; use a new store, or delete it there and make it again",
            name, r->id);
    memcpy(key, r->body + KEY_AT, SEAL_KEY_ID_LEN);
    key[SEAL_KEY_ID_LEN] = '\0';
    parts = parts_of(kind, r, r->version, r->body + PREFIX_LEN, r->body_len - PREFIX_LEN);
    rc = seal_check_mac(seal, parts.data, parts.len, key, mac);
    buf_release(&parts);
    if (rc == DLC_EDENIED)
        return dlc_err_set(
            err, rc,
            "store: %s '%s' was written with key %s, which %s does not hold: give the "
            "manager that key (copy manager.key, or set DLCACHE_MANAGER_KEY)",
            name, r->id, str_is_name(key) ? key : "?", seal_source(seal));
    if (rc < 0)
        return dlc_err_set(err, rc,
                           "store: %s '%s' was changed by somebody without the manager's key; find "
                           "out who writes to the store, then delete it there and make it again",
                           name, r->id);
    r->body_len -= PREFIX_LEN;
    memmove(r->body, r->body + PREFIX_LEN, r->body_len);
    r->body[r->body_len] = '\0';
    return 0;
}
