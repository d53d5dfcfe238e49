// SPDX-License-Identifier: Apache-2.0
/* Queued prefetches and warm-ups: datasets and warm-ups take turns, within their budgets. */
#include "daemon/prefetch/pump.h"

#include "daemon/backlog.h"
#include "daemon/dataset.h"
#include "daemon/fetch/fetch.h"
#include "daemon/prefetch/warm.h"
#include "daemon/state.h"

#define PUMP_TURN 256 /* fetches started before the loop looks at its clients again */

/* One prefetch of each dataset; of very many, of the next PUMP_TURN: each that had its turn goes to
 * the end of the list. */
static unsigned pump_backlogs(struct node *n)
{
    const struct dlc_list *last = n->backlogs.prev;
    unsigned started = 0;
    uint64_t sample;

    for (unsigned i = 0; i < PUMP_TURN && !dlc_list_empty(&n->backlogs); i++) {
        struct dlc_list *l = dlc_list_pop_head(&n->backlogs);
        struct dataset *ds = dlc_container(l, struct dataset, backlog.link);

        dlc_list_push_tail(&n->backlogs, l);
        if (budget_for_prefetch(ds) && dataset_backlog_next(ds, &sample)) {
            fetch_start(ds, sample, FETCH_MEMORY, NULL, NULL);
            started++;
        }
        if (l == last)
            break;
    }
    return started;
}

/* Start one prefetch of each dataset and one step of each warm-up. How many were started. */
static unsigned pump_round(struct node *n)
{
    unsigned started = pump_backlogs(n);

    dlc_list_each_safe (l, &n->warms) {
        struct warm *w = dlc_container(l, struct warm, link);

        if (budget_for_prefetch(w->ds) && warm_step(w))
            started++;
    }
    return started;
}

void prefetch_pump(struct node *n)
{
    unsigned left = PUMP_TURN, started = 1;

    if (n->pumping || n->stopping)
        return;
    n->pumping = true;
    while (left > 0 && started > 0) {
        started = pump_round(n);
        left -= DLC_MIN(started, left);
    }
    n->pumping = false;
    if (left == 0)
        loop_timer_set(n->loop, &n->pump, loop_now(n->loop));
}

void prefetch_pump_again(struct timer *t)
{
    prefetch_pump(dlc_container(t, struct node, pump));
}
