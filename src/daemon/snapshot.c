// SPDX-License-Identifier: Apache-2.0
/*
 * Snapshots: which listing of a bucket a session reads (docs/design/0010).
 *
 * (SNAP-1) A session reads one snapshot from its beginning to its end.
 * (SNAP-2) A client that names a snapshot gets that one or DLC_ECHANGED, never another.
 * (SNAP-3) Sessions of one job on one node read the same snapshot of a dataset: that of the
 *          sessions that are open, even when a later one asks for a refresh.
 * (SNAP-4) A catalog that a session reads stays on disk, for the daemon after this one.
 * (SNAP-5) Sessions of one registered job, on all nodes of a cluster, read the snapshot that the
 *          first of them opened, until the job ends. Those that name one get that one.
 */
#include "daemon/snapshot.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "daemon/dataset.h"
#include "daemon/state.h"
#include "base/thread_pool.h"
#include "catalog/catalog.h"
#include "daemon/work.h"

#define KEEP_BYTES                                                                                 \
    ((uint64_t)256 << 20) /* of old catalogs that nobody reads; or twice the newest */

int snapshot_refuse(const char *shown, uint64_t have, uint64_t wanted, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECHANGED,
                       "%.200s: snapshot %016llx is not stored any more; the newest, listed since, "
                       "is %016llx. Open the dataset without a snapshot in all ranks and workers; "
                       "a state that was saved with the old one cannot be resumed",
                       shown, (unsigned long long)wanted, (unsigned long long)have);
}

int snapshot_refuse_job(const char *shown, uint64_t have, uint64_t wanted, const char *job,
                        struct dlc_err *err)
{
    return dlc_err_set(
        err, DLC_ECHANGED,
        "%.200s: job %s reads snapshot %016llx, which its first rank has opened, and "
        "no node that answers has it any more; the newest is %016llx. Stop all ranks "
        "and start them with a new job (`dlcache job create`), which reads the "
        "newest; to go on with this job, start the node again where its first rank "
        "ran",
        shown, job, (unsigned long long)wanted, (unsigned long long)have);
}

int snapshot_check(const struct dataset *ds, uint64_t wanted, struct dlc_err *err)
{
    uint64_t have = catalog_snapshot(ds->catalog);

    return wanted == 0 || wanted == have ? 0 : snapshot_refuse(ds->url.shown, have, wanted, err);
}

int snapshot_install(const struct dataset *ds, const char *file, struct dlc_err *err)
{
    char *path;
    int rc;

    if (ds->opening.pinned == 0)
        return catalog_install(file, ds->catalog_path, err);
    path = catalog_snapshot_path(ds->catalog_path, ds->opening.pinned);
    rc = catalog_place(file, path, err);
    mem_free(&path);
    return rc;
}

/* ---- pruning ---- */

struct pruning {
    struct work work;
    struct task task;
    struct dataset *ds;
    uint64_t *used;
    size_t n, cap;
    uint64_t bytes;
    unsigned gone;
};

static void prune_work(struct work *w)
{
    struct pruning *p = dlc_container(w, struct pruning, work);

    p->gone = catalog_prune(p->ds->catalog_path, p->used, p->n, p->bytes);
    loop_post(p->ds->node->loop, &p->task);
}

static void pruned(struct task *t)
{
    struct pruning *p = dlc_container(t, struct pruning, task);

    if (p->gone > 0)
        log_info("%s: %u old catalogs removed", p->ds->url.shown, p->gone);
    p->ds->node->pending--;
    dataset_put(&p->ds);
    mem_free(&p->used);
    mem_free(&p);
}

void snapshot_prune(struct dataset *ds)
{
    const struct dlc_list *at = datasets_at(ds->node, ds->url.text);
    struct pruning *p = mem_new(struct pruning);

    p->ds = ds;
    p->bytes = DLC_MAX(KEEP_BYTES, 2 * catalog_file_size(ds->catalog));
    p->work.run = prune_work;
    p->task.run = pruned;
    dlc_list_each (l, at) { /* a catalog belongs to a URL */
        const struct dataset *o = dlc_container(l, struct dataset, same_url);

        if (o->catalog == NULL || strcmp(o->catalog_path, ds->catalog_path) != 0)
            continue;
        mem_reserve(p->used, p->n, p->cap);
        p->used[p->n++] = catalog_snapshot(o->catalog);
    }
    dataset_ref(ds);
    ds->node->pending++;
    work_run(ds->node->work, WORK_BACKGROUND, &p->work);
}
