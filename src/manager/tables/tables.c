// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/tables.h"

#include <string.h>

#include "manager/store/wall_time.h"
#include "manager/tables/command_results.h"
#include "manager/tables/job_scheduler.h"
#include "manager/tables/view_builder.h"

#define SLOW_EVERY DLC_SEC(1)

void tables_init(struct tables *t, struct store *store)
{
    memset(t, 0, sizeof(*t));
    t->store = store;
    t->leader.dir_lock = -1;
    dlc_mtx_init(&t->mtx, LCK_tables);
    dlc_mtx_init(&t->jobs.admit, LCK_jobs);
    dlc_mtx_init(&t->weights.mtx, LCK_posting);
    dlc_cond_init(&t->wake);
    dlc_cond_init(&t->view.built);
}

void tables_release(struct tables *t)
{
    leader_close(t);
    jobs_close(t);
    ended_jobs_close(t);
    nodes_close(t);
    view_put(&t->view.current);
    revocations_release(&t->revocations);
    datasets_index_release(&t->datasets);
    costs_clear(t);
    json_decref(t->placement.orphans);
    json_decref(t->spreads.due);
    json_decref(t->commands.finishing);
    dlc_cond_release(&t->wake);
    dlc_cond_release(&t->view.built);
    dlc_mtx_release(&t->mtx);
    dlc_mtx_release(&t->jobs.admit);
    dlc_mtx_release(&t->weights.mtx);
}

int tables_load(struct tables *t, uint64_t fence, struct dlc_err *err)
{
    int rc = nodes_load(t, err);

    if (rc == 0)
        rc = revocations_load(t, err);
    if (rc == 0)
        rc = view_load(t, fence, err);
    if (rc == 0)
        rc = jobs_load(t, err);
    if (rc == 0)
        rc = ended_jobs_load(t, err);
    if (rc == 0)
        rc = accounting_load_jobs(t, err);
    costs_clear(t);
    if (rc == 0)
        rc = accounting_load_costs(t, err);
    return rc;
}

void tables_tick(struct tables *t)
{
    struct dlc_mono now = dlc_mono_now();

    if (!leader_holds(t))
        return;
    nodes_tick(t, dlc_mono_now()); /* the lock may have taken time */
    if (now.ns >= t->slow_at.ns && leader_holds(t)) {
        jobs_tick(t, now);
        commands_tick(t);
        datasets_tick(t, now);
        spreads_tick(t, now);
        weights_tick(t, now);
        ended_jobs_tick(t, wall_ms());
        accounting_tick(t, now, wall_ms());
        t->slow_at = dlc_mono_add(now, SLOW_EVERY);
    }
    if (leader_holds(t))
        view_tick(t);
}
