// SPDX-License-Identifier: Apache-2.0
#include "daemon/order_limits.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "cache/memory/memory.h"
#include "catalog/catalog.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/session.h"
#include "daemon/state.h"
#include "order/schedule.h"

#define LISTS_OF_USER ((uint64_t)256 << 20) /* bytes that each may have in any case */

int order_length_check(uint64_t length, uint64_t samples, struct dlc_err *err)
{
    uint64_t most = schedule_list_max(samples);

    if (length >= 1 && length <= most)
        return 0;
    return dlc_err_set(err, DLC_EINVAL,
                       "order: an explicit order is a list of 1 to %llu numbers of 8 bytes, for a "
                       "dataset of %llu samples; split a longer one into several epochs",
                       (unsigned long long)most, (unsigned long long)samples);
}

/* The lists that a session follows. */
static uint64_t bytes_kept(const struct session *s)
{
    uint64_t sum = 0;

    if (s == NULL || !s->reader.active)
        return 0;
    for (unsigned i = 0; i < DLC_COUNT(s->reader.schedule->lists); i++) {
        const struct schedule_list *l = s->reader.schedule->lists[i];

        if (l != NULL)
            sum += schedule_list_bytes(l->length, catalog_count(s->ds->catalog));
    }
    return sum;
}

/* "": of none. */
static const char *tenant_of(const struct conn *c)
{
    const char *tenant = c->session != NULL ? c->session->ds->tenant : NULL;

    return tenant != NULL ? tenant : "";
}

int order_budget_check(const struct conn *c, bool more, uint64_t bytes, struct dlc_err *err)
{
    uint64_t budget = DLC_MAX(LISTS_OF_USER, c->node->memories.ceiling / 4), used = 0;

    dlc_list_each (l, &c->node->conns) {
        const struct conn *o = dlc_container(l, struct conn, link);

        if (o->uid != c->uid || strcmp(tenant_of(o), tenant_of(c)) != 0)
            continue;
        used += o->lists;
        if (o != c || more)
            used += bytes_kept(o->session);
    }
    if (used + bytes <= budget)
        return 0;
    return dlc_err_set(err, DLC_ENOMEM,
                       "order: the list takes %llu bytes, and those of this user's other orders "
                       "%llu: the daemon keeps at most %llu (a quarter of --memory); end jobs, or "
                       "use shuffled orders, which take none",
                       (unsigned long long)bytes, (unsigned long long)used,
                       (unsigned long long)budget);
}
