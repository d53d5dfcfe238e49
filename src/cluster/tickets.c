// SPDX-License-Identifier: Apache-2.0
#include "cluster/tickets.h"

#include "base/log.h"
#include "base/mem.h"
#include "cluster/access.h"
#include "cluster/agent.h"
#include "cluster/member.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

#define LOOKS     512u       /* datasets looked at in one tick */
#define ASK_PAUSE DLC_SEC(2) /* between two questions about one dataset */

static void ticket_came(struct node *n, const struct grant *g, const struct dlc_err *err, void *arg)
{
    struct dataset *ds = arg;

    (void)n;
    ds->ticket.asking = false;
    if (g != NULL)
        dataset_take_grant(ds, g);
    else
        log_debug("no ticket for %s: %s", ds->cid, err->text);
    dataset_put(&ds);
}

static bool is_due(const struct dataset *ds, struct dlc_mono now)
{
    const struct dataset_ticket *t = &ds->ticket;

    return ds->cid != NULL && !ds->stale && ds->state != DATASET_FAILED && !t->asking &&
           (t->text == NULL || dlc_mono_passed(t->renew, now)) &&
           (t->asked.ns == 0 || dlc_mono_sub(now, t->asked).ns >= ASK_PAUSE.ns);
}

static void ask_for_ticket(struct dataset *ds, struct dlc_mono now)
{
    char *url = mem_fmt("dlcache://%s", ds->cid);

    ds->ticket.asking = true;
    ds->ticket.asked = now;
    dataset_ref(ds);
    resolve(ds->node, NULL, url, NULL, DLC_MS(0), ticket_came, ds);
    mem_free(&url);
}

void tickets_tick(struct node *n)
{
    struct dlc_mono now = dlc_mono_now();

    if (n->peers == NULL || n->stopping || agent_manager_away(n->member->agent))
        return;
    for (unsigned i = 0; i < LOOKS; i++) {
        struct dataset *ds = dataset_step(n, &n->member->ticketed);

        if (ds == NULL)
            break;
        if (is_due(ds, now))
            ask_for_ticket(ds, now);
    }
}
