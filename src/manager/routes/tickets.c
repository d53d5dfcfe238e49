// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/tickets.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"
#include "base/ticket.h"
#include "manager/routes/api.h"
#include "manager/store/wall_time.h"
#include "manager/tables/cluster_keys.h"

struct ticket_signer {
    struct dlc_dur life;
    struct dlc_mtx mtx;       /* rank LCK_ticket_keys: leaf */
    struct cluster_keys keys; /* G: mtx */
    struct dlc_mono read;     /* G: mtx: when they were read, or are being read */
};

int tickets_open(struct api *api, struct dlc_dur life, struct dlc_err *err)
{
    struct ticket_signer *s = api->tickets = mem_new(struct ticket_signer);

    s->life = life;
    s->read = dlc_mono_now();
    dlc_mtx_init(&s->mtx, LCK_ticket_keys);
    return cluster_keys_get(api->tables->store, api->seal, CLUSTER_KEY_TICKETS, &s->keys, err);
}

void tickets_close(struct api *api)
{
    struct ticket_signer *s = api->tickets;

    if (s == NULL)
        return;
    cluster_keys_release(&s->keys);
    dlc_mtx_release(&s->mtx);
    mem_free(&api->tickets);
}

/* (SIGNER-1) A store that does not answer leaves the keys as they are. */
static void read_again(struct api *api)
{
    struct ticket_signer *s = api->tickets;
    struct cluster_keys now, old;
    struct dlc_err err = DLC_ERR_INIT;
    bool due;

    dlc_mtx_lock(&s->mtx);
    due = dlc_mono_since(s->read).ns >= TICKET_KEYS_AGE.ns;
    if (due)
        s->read = dlc_mono_now();
    dlc_mtx_unlock(&s->mtx);
    if (!due)
        return;
    if (cluster_keys_get(api->tables->store, api->seal, CLUSTER_KEY_TICKETS, &now, &err) < 0) {
        log_warn("the keys of tickets cannot be read again: %s", err.text);
        return;
    }
    dlc_mtx_lock(&s->mtx);
    old = s->keys;
    s->keys = now;
    dlc_mtx_unlock(&s->mtx);
    cluster_keys_release(&old);
}

/* The key that signs now; free it. */
static EVP_PKEY *signer(struct api *api)
{
    struct ticket_signer *s = api->tickets;
    EVP_PKEY *pair;

    read_again(api);
    dlc_mtx_lock(&s->mtx);
    pair = cluster_keys_signer(&s->keys)->pair;
    dlc_check(EVP_PKEY_up_ref(pair) == 1);
    dlc_mtx_unlock(&s->mtx);
    return pair;
}

void ticket_add(struct api *api, const char *dataset, const char *tenant, const char *node,
                json_t *answer)
{
    int64_t life = api->tickets->life.ns / 1000000;
    struct ticket t = {.expires_ms = wall_ms() + life};
    EVP_PKEY *pair = signer(api);
    struct buf text = BUF_INIT;

    snprintf(t.dataset, sizeof(t.dataset), "%s", dataset);
    snprintf(t.tenant, sizeof(t.tenant), "%s", tenant);
    snprintf(t.node, sizeof(t.node), "%s", node);
    ticket_sign(pair, &t, &text);
    EVP_PKEY_free(pair);
    json_object_set_new(answer, "ticket", json_string(buf_str(&text)));
    json_object_set_new(answer, "ticket_life_ms", json_integer(life));
    buf_release(&text);
}

struct dlc_dur ticket_life(const struct api *api)
{
    return api->tickets->life;
}

json_t *ticket_keys_json(struct api *api)
{
    struct ticket_signer *s = api->tickets;
    json_t *keys = json_array();

    read_again(api);
    dlc_mtx_lock(&s->mtx);
    for (size_t i = 0; i < s->keys.n; i++) {
        struct buf text = BUF_INIT;
        struct ticket_key k;

        ticket_key_of(s->keys.v[i].pair, &k);
        str_base64(k.bytes, sizeof(k.bytes), &text);
        json_array_append_new(keys, json_string(buf_str(&text)));
        buf_release(&text);
    }
    dlc_mtx_unlock(&s->mtx);
    return json_pack("{s:o, s:I}", "keys", keys, "now_ms", (json_int_t)wall_ms());
}
