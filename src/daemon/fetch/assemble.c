// SPDX-License-Identifier: Apache-2.0
/*
 * Assembles samples from pieces (docs/design/0003): ranges of objects, ranges of an archive's
 * unpacked copy, and bytes of the catalog. The pieces are written one after the other into the
 * memory that a fetch has reserved.
 *
 * Lanes read ranges of objects, all at once; workers read ranges of unpacked copies from the disk
 * tier. A missing unpacked copy is made again, once for all samples that wait for it:
 *
 *     part --worker--> unpacked copy on disk? --yes--> read
 *                           |--no--> loop: join the one that makes it, or make it on a worker
 *                                    --> try again
 *
 * The node loop owns all state; a lane or worker touches only its own part and its own bytes.
 */
#include "daemon/fetch/assemble.h"

#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "catalog/listing/cataloguer.h"
#include "daemon/dataset.h"
#include "daemon/events.h"
#include "daemon/dataset_chunks.h"
#include "daemon/prefetch/disk_hints.h"
#include "daemon/state.h"

#define SUM_AT_ONCE (4u << 20) /* bytes: less than a millisecond */

struct parts;

struct part {
    struct parts *of;
    struct dlc_list link; /* in deriving.waiting */
    struct piece piece;
    struct catalog_entry object;
    char *dst;
    struct bucket_read read;
    struct work work;
    struct task task;
    bool derived_again;
    int rc;
    struct dlc_err err;
};

struct parts {
    struct dataset *ds;
    struct catalog_sample sample;
    unsigned pending;
    enum work_class reads; /* of unpacked copies */
    bool from_bucket;
    bool alone; /* the sample is one part: whoever brings it takes the checksum */
    bool summed;
    uint64_t checksum;
    int rc; /* of the first part that failed */
    struct dlc_err err;
    assemble_done_f *done;
    void *arg;
    struct part part[];
};

/* An unpacked copy that is being made. */
struct deriving {
    struct dlc_list link; /* in node.deriving */
    struct dlc_list waiting;
    struct dataset *ds;
    struct catalog_entry object;
    uint64_t number; /* of it */
    struct dlc_mono began;
    struct chunk_id id;
    struct cataloguer cataloguer;
    struct work work;
    struct task task;
    int rc;
    struct dlc_err err;
};

static void read_derived(struct part *p);

/* ---- the end ---- */

static void part_ended(struct part *p)
{
    struct parts *of = p->of;

    if (of->rc == 0) {
        of->rc = p->rc;
        of->err = p->err;
    }
    if (--of->pending > 0)
        return;
    of->done(of->arg, of->rc, &of->err, !of->from_bucket, of->summed ? &of->checksum : NULL);
    catalog_sample_release(&of->sample);
    mem_free(&of);
}

/* On the thread that brought the part. */
static void part_sum(struct part *p)
{
    if (!p->of->alone || p->piece.length > SUM_AT_ONCE)
        return;
    p->of->checksum = hash64(p->dst, p->piece.length);
    p->of->summed = true;
}

/* ---- ranges of objects ---- */

static void object_back(struct task *t)
{
    struct part *p = dlc_container(t, struct part, task);

    p->of->ds->node->pending--;
    p->rc = p->read.rc;
    p->err = p->read.err;
    part_ended(p);
}

static void on_object(struct bucket_read *r)
{
    struct part *p = r->priv;

    if (r->rc == 0)
        part_sum(p);
    loop_post(p->of->ds->node->loop, &p->task);
}

static void read_object(struct part *p)
{
    p->read = (struct bucket_read){
        .key = p->object.key,
        .etag = p->object.etag,
        .offset = p->piece.offset,
        .length = p->piece.length,
        .whole = p->piece.offset == 0 && p->piece.length == p->object.size,
        .dst = p->dst,
        .done = on_object,
        .priv = p,
    };
    p->of->from_bucket = true;
    p->task.run = object_back;
    p->of->ds->node->pending++;
    bucket_read(p->of->ds->bucket, &p->read);
}

/* ---- making an unpacked copy again ---- */

static void derive_work(struct work *w)
{
    struct deriving *g = dlc_container(w, struct deriving, work);

    g->rc = cataloguer_derive(&g->cataloguer, &g->object, &g->err);
    loop_post(g->ds->node->loop, &g->task);
}

static void derive_back(struct task *t)
{
    struct deriving *g = dlc_container(t, struct deriving, task);
    struct dlc_list *n;

    g->ds->node->pending--;
    dlc_list_remove(&g->link);
    if (g->rc == 0)
        dataset_derived(g->ds, g->number, dlc_mono_since(g->began), g->object.size);
    while ((n = dlc_list_pop_head(&g->waiting)) != NULL) {
        struct part *p = dlc_container(n, struct part, link);

        p->rc = g->rc;
        p->err = g->err;
        if (g->rc < 0)
            part_ended(p);
        else
            read_derived(p);
    }
    cataloguer_release(&g->cataloguer);
    dataset_put(&g->ds);
    mem_free(&g);
}

static struct deriving *find_deriving(struct node *n, struct chunk_id id)
{
    dlc_list_each (l, &n->deriving) {
        struct deriving *g = dlc_container(l, struct deriving, link);

        if (g->id.hi == id.hi && g->id.lo == id.lo)
            return g;
    }
    return NULL;
}

static void derive_again(struct part *p)
{
    struct dataset *ds = p->of->ds;
    struct chunk_id id = dataset_derived_chunk(ds, &p->object);
    struct deriving *g = find_deriving(ds->node, id);

    p->derived_again = true;
    if (g == NULL) {
        g = mem_new(struct deriving);
        g->ds = ds;
        g->object = p->object;
        g->number = p->piece.object;
        g->began = dlc_mono_now();
        g->id = id;
        cataloguer_init(&g->cataloguer);
        g->cataloguer.url = &ds->url;
        g->cataloguer.config = dataset_bucket_config(ds);
        g->cataloguer.disk = ds->node->disk;
        g->cataloguer.disk_id = ds->disk.id;
        g->cataloguer.group = ds->disk.group;
        g->work.run = derive_work;
        g->task.run = derive_back;
        dlc_list_init(&g->waiting);
        dlc_list_push_tail(&ds->node->deriving, &g->link);
        dataset_ref(ds);
        ds->node->pending++;
        log_info("making the unpacked copy of %s again", p->object.key);
        work_run(ds->node->work, WORK_CATALOG, &g->work);
    }
    dlc_list_push_tail(&g->waiting, &p->link);
}

/* What is being made for it ends soon. */
static void assemble_stop(struct dataset *ds)
{
    dlc_list_each (l, &ds->node->deriving) {
        struct deriving *g = dlc_container(l, struct deriving, link);

        if (g->ds == ds)
            cataloguer_stop(&g->cataloguer);
    }
}

/* ---- ranges of unpacked copies ---- */

static void derived_work(struct work *w)
{
    struct part *p = dlc_container(w, struct part, work);
    struct dataset *ds = p->of->ds;
    uint64_t size;

    p->rc = catalog_derived(ds->catalog, p->piece.object, &size, &p->err);
    if (p->rc == 0)
        p->rc = disk_read_range(ds->node->disk, dataset_derived_chunk(ds, &p->object), size,
                                p->piece.offset, p->dst, p->piece.length, &p->err);
    if (p->rc == 0)
        part_sum(p);
    loop_post(ds->node->loop, &p->task);
}

static void derived_back(struct task *t)
{
    struct part *p = dlc_container(t, struct part, task);
    struct node *n = p->of->ds->node;

    n->pending--;
    if ((p->rc == DLC_EMISS || p->rc == DLC_ECORRUPT) && !p->derived_again && !n->stopping)
        derive_again(p);
    else
        part_ended(p);
}

static void read_derived(struct part *p)
{
    struct node *n = p->of->ds->node;

    if (n->disk == NULL || disk_is_bypassed(n->disk)) {
        p->rc = dlc_err_set(&p->err, DLC_EBYPASS, "%s is compressed and there is no disk tier%s",
                            p->object.key, n->disk == NULL ? "" : " that answers");
        part_ended(p);
        return;
    }
    p->work.run = derived_work;
    p->task.run = derived_back;
    n->pending++;
    work_run(n->work, p->of->reads, &p->work);
}

/* ---- start ---- */

static void start_part(struct part *p)
{
    struct dataset *ds = p->of->ds;

    if (p->piece.kind == PIECE_INLINE) {
        memcpy(p->dst, p->piece.bytes, p->piece.length);
        part_ended(p);
        return;
    }
    p->rc = catalog_object(ds->catalog, p->piece.object, &p->object, &p->err);
    if (p->rc < 0)
        part_ended(p);
    else if (p->piece.kind == PIECE_OBJECT)
        read_object(p);
    else
        read_derived(p);
}

void assemble_read(struct dataset *ds, uint64_t sample, enum work_class reads, void *dst,
                   assemble_done_f *done, void *arg)
{
    struct catalog_sample s;
    struct dlc_err err = DLC_ERR_INIT;
    struct parts *of;
    char *at = dst;
    int rc = catalog_sample(ds->catalog, sample, &s, &err);
    size_t n = rc < 0 ? 0 : s.n_pieces;

    of = mem_zero(sizeof(*of) + n * sizeof(of->part[0]));
    *of = (struct parts){.ds = ds,
                         .reads = reads,
                         .alone = n == 1,
                         .pending = (unsigned)n + 1,
                         .rc = rc,
                         .err = err,
                         .done = done,
                         .arg = arg};
    for (size_t i = 0; i < n; i++) {
        of->part[i].of = of;
        of->part[i].piece = s.pieces[i];
        of->part[i].dst = at;
        dlc_list_init(&of->part[i].link);
        at += s.pieces[i].length;
    }
    catalog_sample_release(&s);
    for (size_t i = 0; i < n; i++)
        start_part(&of->part[i]);
    part_ended(&(struct part){.of = of}); /* the one that kept it alive until all had started */
}

const struct node_events assemble_events = {.dataset_stopping = assemble_stop};
