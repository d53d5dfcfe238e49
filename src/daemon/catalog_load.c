// SPDX-License-Identifier: Apache-2.0
/*
 * Loads stored catalogs on a worker. The event loop touches no file: catalog_load() reads the whole
 * catalog into memory.
 */
#include "daemon/catalog_load.h"

#include "base/mem.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "base/thread_pool.h"
#include "catalog/catalog.h"
#include "daemon/state.h"
#include "daemon/work.h"

int load_catalog(const struct dataset *ds, uint64_t snapshot, struct catalog **out,
                 struct dlc_err *err)
{
    int rc = snapshot != 0 ? catalog_load_snapshot(ds->catalog_path, snapshot, out, err)
                           : catalog_load(ds->catalog_path, out, err);

    if (rc == 0)
        events_raise(ds->node, catalog_loaded, ds);
    return rc;
}

struct loading {
    struct work work;
    struct task task;
    struct dataset *ds;
    uint64_t pinned, wanted, stored;
    struct catalog *catalog;
    void (*done)(struct dataset *ds);
};

/* Without a manager's word any newest catalog counts. */
static void load_work(struct work *w)
{
    struct loading *l = dlc_container(w, struct loading, work);

    l->stored = catalog_stored_snapshot(l->ds->catalog_path);
    if (l->pinned != 0 || (l->stored != 0 && (l->wanted == 0 || l->stored == l->wanted)))
        load_catalog(l->ds, l->pinned, &l->catalog, NULL);
    loop_post(l->ds->node->loop, &l->task);
}

static void load_back(struct task *t)
{
    struct loading *l = dlc_container(t, struct loading, task);
    struct dataset *ds = l->ds;

    ds->node->pending--;
    ds->opening.loading = false;
    ds->opening.stored = l->stored;
    ds->catalog = l->catalog;
    l->done(ds);
    mem_free(&l);
    dataset_put(&ds);
}

void load_start(struct dataset *ds, void (*done)(struct dataset *ds))
{
    struct loading *l = mem_new(struct loading);

    *l = (struct loading){.work.run = load_work,
                          .task.run = load_back,
                          .ds = ds,
                          .pinned = ds->opening.pinned,
                          .wanted = ds->opening.wanted,
                          .done = done};
    ds->opening.loading = true;
    dataset_ref(ds);
    ds->node->pending++;
    work_run(ds->node->work, WORK_CATALOG, &l->work);
}
