// SPDX-License-Identifier: Apache-2.0
#include "manager/store/store_common_i.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

uint64_t store_events_kept = STORE_EVENTS_MAX;

/* ---- words ---- */

const char *store_kind_name(enum store_kind kind)
{
    static const char *const names[STORE_KINDS] = {
        [STORE_TENANT] = "tenant", [STORE_DATASET] = "dataset", [STORE_JOB] = "job",
        [STORE_NODE] = "node",     [STORE_MANAGER] = "manager", [STORE_WEIGHTS] = "weights",
        [STORE_USAGE] = "usage",   [STORE_ENDED] = "ended",
    };

    dlc_check((unsigned)kind < STORE_KINDS && names[kind] != NULL);
    return names[kind];
}

int store_err_version(struct dlc_err *err, enum store_kind kind, const char *id, uint64_t expect,
                      uint64_t there)
{
    const char *name = store_kind_name(kind);

    if (expect == STORE_NEW)
        return dlc_err_set(err, DLC_EBUSY, "%s '%s' exists already", name, id);
    if (there == 0)
        return dlc_err_set(err, DLC_EBUSY, "%s '%s' is not there any more", name, id);
    return dlc_err_set(err, DLC_EBUSY,
                       "%s '%s' has version %" PRIu64 ", not %" PRIu64
                       ": somebody changed it; read it again",
                       name, id, there, expect);
}

int store_err_fence(struct dlc_err *err, uint64_t fence, uint64_t newest)
{
    return dlc_err_set(err, DLC_EBUSY,
                       "another manager took over (fence %" PRIu64 ", ours is %" PRIu64
                       "): nothing was written",
                       newest, fence);
}

int store_err_lost(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECHANGED,
                       "the store was emptied, and nothing was written: " STORE_LOST_REMEDY);
}

int store_err_held(struct dlc_err *err, const char *name, const char *holder)
{
    return dlc_err_set(err, DLC_EBUSY, "lock '%s' is held by %s", name, holder);
}

int store_err_absent(struct dlc_err *err, enum store_kind kind, const char *id)
{
    return dlc_err_set(err, DLC_ENOTFOUND, "there is no %s '%s'", store_kind_name(kind), id);
}

void store_raw_release(struct store_raw *r)
{
    mem_free(&r->id);
    mem_free(&r->tenant);
    mem_free(&r->body);
    *r = (struct store_raw){0};
}

int store_check_text(const char *what, const char *s, size_t min, size_t max, struct dlc_err *err)
{
    size_t len = s == NULL ? 0 : strlen(s);

    if (s != NULL && len >= min && len <= max)
        return 0;
    return dlc_err_set(err, DLC_EINVAL, "store: %s of %zu bytes; allowed are %zu to %zu", what, len,
                       min, max);
}

int store_check_chunk(const struct store_chunk *c, struct dlc_err *err)
{
    int rc = store_check_text("a dataset", c->dataset, 1, STORE_ID_MAX, err);

    if (rc == 0)
        rc = store_check_text("a node", c->node, 1, STORE_ID_MAX, err);
    if (rc == 0)
        rc = store_check_text("a key", c->key, 1, STORE_KEY_MAX, err);
    if (rc == 0 && c->etag != NULL)
        rc = store_check_text("an ETag", c->etag, 0, STORE_KEY_MAX, err);
    if (rc == 0 && (c->size > STORE_SIZE_MAX || !isfinite(c->cost)))
        rc = dlc_err_set(err, DLC_EINVAL, "store: chunk '%s': size %" PRIu64 ", cost %g", c->key,
                         c->size, c->cost);
    return rc;
}
