// SPDX-License-Identifier: Apache-2.0
/* What is known of each peer: its health, and figures. Any thread. */
#include "cluster/peer/peer_client_i.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

#define TOOK_FADE 4096

static struct peer *peer_new(struct peers *p, const char *name, uint64_t hash)
{
    struct peer *x = mem_new(struct peer);

    x->tag = PEER_TAG;
    x->name = mem_str(name);
    x->lane = &p->lanes[hash % p->n_lanes];
    for (int i = 0; i < CLASSES; i++)
        dlc_list_init(&x->waiting[i]);
    health_init(&x->health, p->least, p->most);
    hist_init(&x->took, TOOK_FADE);
    return x;
}

struct peer *peer_find_locked(struct peers *p, const char *name, bool make)
{
    uint64_t hash = hash64_str(name), key = hash;
    struct peer *x;

    dlc_mtx_assert_held(&p->mtx);
    while ((x = map_get(&p->table, key)) != NULL && strcmp(x->name, name) != 0)
        key++;
    if (x == NULL && make) {
        x = peer_new(p, name, hash);
        map_set(&p->table, key, x);
    }
    return x;
}

/* A peer that has come back under another address is not what failed before. */
void peer_moved_locked(struct peers *p, struct peer *x, uint64_t address)
{
    if (x->address != address)
        health_init(&x->health, p->least, p->most);
    x->address = address;
}

void peers_verified(struct peers *p, const struct peer_read *r, bool right)
{
    struct dlc_mono now = dlc_mono_now();
    struct peer *x;

    dlc_mtx_lock(&p->mtx);
    x = peer_find_locked(p, r->peer, true);
    x->failures += !right;
    if (x->address != hash64_str(r->address)) /* that says nothing of where it is now */
        right = true;
    else if (right)
        health_good(&x->health);
    if (!right && health_bad(&x->health, false, now))
        log_info("peer %s is left alone for %g s: its samples do not have their checksums", x->name,
                 dlc_dur_seconds(x->health.pause));
    dlc_mtx_unlock(&p->mtx);
}

bool peers_usable(struct peers *p, const char *peer, const char *address)
{
    const struct peer *x;
    bool usable;

    dlc_mtx_lock(&p->mtx);
    x = peer_find_locked(p, peer, false);
    usable =
        x == NULL || x->address != hash64_str(address) || health_usable(&x->health, dlc_mono_now());
    dlc_mtx_unlock(&p->mtx);
    return usable;
}

bool peers_left(struct peers *p, const char *peer, const char *address, struct dlc_mono *since)
{
    const struct peer *x;
    bool left;

    dlc_mtx_lock(&p->mtx);
    x = peer_find_locked(p, peer, false);
    left = x != NULL && x->address == hash64_str(address) && x->health.left.ns != 0;
    if (left)
        *since = x->health.left;
    dlc_mtx_unlock(&p->mtx);
    return left;
}

void peers_is_back(struct peers *p, const char *peer)
{
    struct peer *x;

    dlc_mtx_lock(&p->mtx);
    x = peer_find_locked(p, peer, false);
    if (x != NULL)
        health_init(&x->health, p->least, p->most);
    dlc_mtx_unlock(&p->mtx);
}

size_t peers_figures(struct peers *p, struct peer_figures *out, size_t max)
{
    size_t n = 0;

    dlc_mtx_lock(&p->mtx);
    map_each(e, &p->table)
    {
        const struct peer *x = e->value;
        struct peer_figures *f = &out[n];

        if (n == max)
            break;
        *f = (struct peer_figures){.reads = x->reads,
                                   .bytes = x->bytes,
                                   .failures = x->failures,
                                   .skipped = x->skipped,
                                   .p50_ms = (double)hist_percentile(&x->took, 0.5) / 1e6,
                                   .p99_ms = (double)hist_percentile(&x->took, 0.99) / 1e6,
                                   .skipping = health_skipping(&x->health)};
        snprintf(f->peer, sizeof(f->peer), "%s", x->name);
        n++;
    }
    dlc_mtx_unlock(&p->mtx);
    return n;
}
