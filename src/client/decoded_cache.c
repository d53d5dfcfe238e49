// SPDX-License-Identifier: Apache-2.0
/*
 * The client of the decoded cache: a second attachment, whose index is that of decoded samples.
 * Pins, views, the loss of a daemon and fork() work as for samples; only uploads are new: upload
 * slot k is memory that client and daemon map, and cell k says whose turn it is.
 *
 *     free --reserve--> filled by a thread --upload--> ASKED: the daemon copies --DONE--> free
 *                                          --cancel--> free
 */
#include "client/decoded_cache.h"

#include <stdio.h>

#include "base/config.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "cache/decoded/decoded_header.h"
#include "catalog/catalog.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/heartbeat.h"
#include "client/miss.h"
#include "ipc/shm.h"

struct decoded_handle {
    struct dlc_dataset *ds; /* our own */
    uint64_t policy;
    _Atomic uint64_t unsound; /* relaxed: statistics */
};

/* ---- life ---- */

static struct dlc_dataset *beside(struct dlc_dataset *of, uint64_t policy, struct dlc_err *err)
{
    struct dlc_dataset *ds = mem_new(struct dlc_dataset);

    ds->tag = DATASET_TAG;
    ds->url = mem_str(of->url);
    ds->shown = mem_str(of->shown);
    ds->endpoint = mem_str(of->endpoint);
    ds->token = mem_str(of->token);
    ds->decoded = mem_fmt("%016llx", (unsigned long long)policy);
    ds->opt = of->opt;
    ds->opt.no_spawn = 1;
    ds->opt.snapshot = catalog_snapshot(of->catalog);
    ds->timeout = of->timeout;
    dlc_mtx_init(&ds->mtx, LCK_dataset);
    dlc_mtx_init(&ds->direct_mtx, LCK_direct);
    dlc_list_init(&ds->retired);
    dlc_list_init(&ds->link);
    if (config_load(&ds->config, NULL, err) < 0 ||
        config_set(&ds->config, "socket", of->config.socket, err) < 0)
        dlc_close(&ds);
    return ds;
}

int decoded_handle_open(struct dlc_dataset *of, uint64_t policy, struct decoded_handle **out,
                        struct dlc_err *err)
{
    struct dlc_dataset *ds = beside(of, policy, err);
    const struct attach_how how = {
        .greeting = ATTACH_SILENCE, .silence = ATTACH_SILENCE, .deadline = NO_DEADLINE};
    struct attachment *a = NULL;
    int rc = ds != NULL ? attachment_new(ds, &how, &a, err) : err->code;

    *out = NULL;
    if (rc < 0) {
        dlc_close(&ds);
        return rc;
    }
    dataset_enlist(ds);
    dataset_attach_to(ds, a);
    *out = mem_new(struct decoded_handle);
    (*out)->ds = ds;
    (*out)->policy = policy;
    return 0;
}

void decoded_handle_close(struct decoded_handle **sp)
{
    struct decoded_handle *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    dlc_close(&s->ds);
    mem_free(&s);
}

/* ---- reading ---- */

bool decoded_handle_get(struct decoded_handle *s, uint64_t sample, struct dlc_view *out)
{
    if (dlc_try_get(s->ds, sample, out) < 0)
        return false;
    if (decoded_is_for(out->data, out->len, sample, s->policy)) {
        out->data = (const char *)out->data + sizeof(struct shm_decoded_hdr);
        out->len -= sizeof(struct shm_decoded_hdr);
        return true;
    }
    atomic_fetch_add_explicit(&s->unsound, 1, memory_order_relaxed); /* statistics */
    dlc_put(s->ds, out);
    return false;
}

void decoded_handle_put(struct decoded_handle *s, struct dlc_view *v)
{
    dlc_put(s->ds, v);
}

/* ---- uploads ---- */

static const struct shm_index_hdr *index_of(const struct attachment *a)
{
    return a->index_map;
}

static int take_upload_slot(struct attachment *a)
{
    int k = -1;

    dlc_mtx_lock(&a->mtx);
    for (int i = 0; k < 0 && i < (int)SHM_UPLOAD_SLOTS; i++) {
        /* acquire: pairs with the daemon's release once it has copied */
        if (a->upload_used[i] == 0 &&
            atomic_load_explicit(&a->cells[i].state, memory_order_acquire) != SHM_CELL_ASKED)
            k = i;
    }
    if (k >= 0)
        a->upload_used[k] = 1;
    dlc_mtx_unlock(&a->mtx);
    return k;
}

bool decoded_handle_reserve(struct decoded_handle *s, size_t len, struct upload *out)
{
    struct attachment *a = dataset_attached(s->ds);
    uint64_t size = sizeof(struct shm_decoded_hdr) + len;
    int k = -1;

    *out = (struct upload){0};
    if (a == NULL)
        return false;
    if (attachment_lost(a))
        dataset_lost(s->ds, a);
    /* relaxed: a hint, the daemon decides */
    else if (size <= SHM_UPLOAD_SIZE &&
             size <= atomic_load_explicit(&index_of(a)->decoded_room, memory_order_relaxed))
        k = take_upload_slot(a);
    if (k < 0) {
        dataset_detach(s->ds, a);
        return false;
    }
    *out = (struct upload){.data = a->uploads + (uint64_t)k * SHM_UPLOAD_SIZE +
                                   sizeof(struct shm_decoded_hdr),
                           .a = a,
                           .number = (uint32_t)k};
    return true;
}

/* The slot is the daemon's, or free. */
static void let_go(struct decoded_handle *s, struct upload *g)
{
    dlc_mtx_lock(&g->a->mtx);
    g->a->upload_used[g->number] = 0;
    dlc_mtx_unlock(&g->a->mtx);
    dataset_detach(s->ds, g->a);
    *g = (struct upload){0};
}

void decoded_handle_upload(struct decoded_handle *s, struct upload *g, uint64_t sample, size_t len)
{
    struct shm_cell *c = &g->a->cells[g->number];

    decoded_seal((char *)g->data - sizeof(struct shm_decoded_hdr), sample, s->policy, len);
    c->op = SHM_OP_UPLOAD;
    c->sample = sample;
    c->len = sizeof(struct shm_decoded_hdr) + len;
    atomic_store_explicit(&c->state, SHM_CELL_ASKED, memory_order_relaxed); /* before the ring */
    miss_submit(g->a, (int)g->number);
    let_go(s, g);
}

void decoded_handle_cancel(struct decoded_handle *s, struct upload *g)
{
    let_go(s, g);
}

void decoded_handle_figures(struct decoded_handle *s, struct decoded_handle_figures *out)
{
    struct attachment *a = dataset_current(s->ds);

    *out = (struct decoded_handle_figures){
        .unsound = atomic_load_explicit(&s->unsound, memory_order_relaxed)}; /* as all here */
    if (a == NULL)
        return;
    out->samples = atomic_load_explicit(&index_of(a)->decoded, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&index_of(a)->decoded_bytes, memory_order_relaxed);
    out->room = atomic_load_explicit(&index_of(a)->decoded_room, memory_order_relaxed);
    dataset_detach(s->ds, a);
}
