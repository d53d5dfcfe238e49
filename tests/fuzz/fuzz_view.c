// SPDX-License-Identifier: Apache-2.0
/*
 * What a manager answers its nodes: an array of views and of grants ({"url"...}), taken one after the
 * other, as over the life of a node. A view that is refused changes nothing; every question has an
 * answer; a share is a share.
 */
#include "fuzz_numbers.h"

#include <jansson.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/peer/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned skips;

static bool skip_some(const struct cluster_peer *peer, void *arg)
{
    (void)arg;
    dlc_check(peer->name != NULL && peer->address != NULL);
    return skips++ % 3 == 0;
}

static void ask(const struct cluster *c, const char *dataset)
{
    struct cluster_peer peer = {0};
    double share = cluster_share(c, dataset);

    dlc_check(share >= 0 && share <= 1);
    if (!cluster_owns(c, dataset, 1, skip_some, NULL, &peer))
        dlc_check(peer.name != NULL && strcmp(peer.name, "a") != 0);
    (void)cluster_use(c, dataset);
    (void)cluster_job(c, "j", dataset);
    for (size_t i = 0; cluster_peer_at(c, i, &peer); i++)
        dlc_check(peer.name != NULL && peer.address != NULL);
}

static void take_grant(struct cluster *c, const json_t *answer)
{
    struct dlc_mono now = {DLC_SEC(1000).ns};
    struct dlc_err err = DLC_ERR_INIT;
    const struct grant *g = NULL;

    if (cluster_grant(c, "token", "what", answer, now, &err) < 0) {
        dlc_check(err.text[0] != '\0');
        return;
    }
    dlc_check(cluster_granted(c, "token", "what", now, GRANT_LIFE, &g) == GRANT_FRESH);
    dlc_check(g->dataset != NULL && g->url != NULL && g->tenant != NULL);
    dlc_check(cluster_granted(c, "other", "what", now, GRANT_LIFE, &g) == GRANT_NONE);
    cluster_forget(c, "d");
    cluster_revoke(c, "token", "what");
    dlc_check(cluster_granted(c, "token", "what", now, GRANT_LIFE, &g) == GRANT_NONE);
}

static void take_view(struct cluster *c, const json_t *view)
{
    uint64_t version = cluster_version(c), owners = cluster_owners_version(c);
    struct dlc_err err = DLC_ERR_INIT;

    if (cluster_take_view(c, view, &err) < 0) {
        dlc_check(err.text[0] != '\0');
        dlc_check(cluster_version(c) == version && cluster_owners_version(c) == owners);
    }
    dlc_check(cluster_version(c) >= version);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster *c = cluster_new("a");
    struct buf text = BUF_INIT;
    json_t *all, *one;
    size_t i;

    fuzz_expand(data, size, &text);
    all = json_loadb(buf_str(&text), text.len, JSON_ALLOW_NUL, NULL);
    json_array_foreach(all, i, one)
    {
        if (json_object_get(one, "url") != NULL)
            take_grant(c, one);
        else
            take_view(c, one);
        ask(c, "d");
        ask(c, "");
    }
    json_decref(all);
    cluster_free(&c);
    buf_release(&text);
    return 0;
}
