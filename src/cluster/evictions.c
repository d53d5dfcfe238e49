// SPDX-License-Identifier: Apache-2.0
#include "cluster/evictions.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

#define SETTLE DLC_SEC(30) /* a node that was silent for so long is away */

static uint64_t key_of(const char *cid, const char *tenant)
{
    const uint64_t parts[2] = {hash64_str(tenant != NULL ? tenant : ""), hash64_str(cid)};

    return hash64(parts, sizeof(parts)) | 1;
}

static const struct eviction *eviction_of(const struct node *n, const struct dataset *ds)
{
    uint64_t key = key_of(ds->cid, ds->tenant);
    const struct eviction *e = &n->member->evictions[key % EVICTIONS];

    return e->dataset == key ? e : NULL;
}

void evictions_heard(struct node *n, const char *cid, const char *tenant, const char *mark)
{
    uint64_t key = key_of(cid, tenant);
    struct eviction *e = &n->member->evictions[key % EVICTIONS];

    if (mark[0] == '\0' || strlen(mark) >= sizeof(e->mark))
        return;
    *e = (struct eviction){.dataset = key, .heard = loop_now(n->loop)};
    memcpy(e->mark, mark, strlen(mark) + 1);
}

const char *evictions_mark(const struct node *n, const struct dataset *ds)
{
    const struct eviction *e = eviction_of(n, ds);

    return e != NULL ? e->mark : "";
}

bool evictions_forbid(const struct node *n, const struct dataset *ds, const char *mark)
{
    const struct eviction *e = eviction_of(n, ds);

    return e != NULL && strcmp(e->mark, mark) != 0 &&
           dlc_mono_sub(loop_now(n->loop), e->heard).ns < SETTLE.ns;
}
