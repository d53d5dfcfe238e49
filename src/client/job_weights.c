// SPDX-License-Identifier: Apache-2.0
#include "client/job_weights.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "client/attach.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/process.h"
#include "importance/weights.h"
#include "ipc/frame.h"

static void mapped_weights_free(struct mapped_weights **wp)
{
    struct mapped_weights *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    os_unmap(w->map, w->size);
    mem_free(&w);
}

struct mapped_weights *mapped_weights_get(struct dlc_dataset *ds)
{
    struct mapped_weights *w;

    dlc_mtx_lock(&ds->importance.mtx);
    w = ds->importance.mapped;
    if (w != NULL)
        w->refs++;
    dlc_mtx_unlock(&ds->importance.mtx);
    return w;
}

void mapped_weights_put(struct dlc_dataset *ds, struct mapped_weights **wp)
{
    bool last;

    if (*wp == NULL)
        return;
    dlc_mtx_lock(&ds->importance.mtx);
    last = --(*wp)->refs == 0;
    dlc_mtx_unlock(&ds->importance.mtx);
    if (last)
        mapped_weights_free(wp);
    *wp = NULL;
}

/* Map what the descriptor is of. Takes fd. Gives *out. */
static int mapped_weights_map(int fd, uint64_t n, struct mapped_weights **out, struct dlc_err *err)
{
    struct mapped_weights *w = mem_new(struct mapped_weights);
    struct stat st;
    int rc;

    w->refs = 1;
    w->size = weights_size(n);
    if (fd < 0 || os_fstat(fd, &st) < 0 || (uint64_t)st.st_size != w->size)
        rc = dlc_err_set(err, DLC_EPROTO, "the daemon handed over weights of the wrong size");
    else if ((w->map = os_map(fd, 0, w->size, true)) == NULL)
        rc = dlc_err_sys(err, "cannot map the weights of %llu samples", (unsigned long long)n);
    else
        rc = 0;
    os_close(&fd);
    *out = w;
    return rc;
}

int mapped_weights_own(const struct dlc_dataset *ds, struct mapped_weights **out,
                       struct dlc_err *err)
{
    int fd = os_memfd("dlcache-weights"), rc;

    *out = NULL;
    if (fd < 0 || os_ftruncate(fd, weights_size(ds->n)) < 0) {
        rc = dlc_err_sys(err, "no memory for the weights of %llu samples",
                         (unsigned long long)ds->n);
        os_close(&fd);
        return rc;
    }
    rc = mapped_weights_map(fd, ds->n, out, err);
    if (rc == 0) {
        weights_format((*out)->map, ds->n, catalog_snapshot(ds->catalog));
        rc = weights_open(&(*out)->w, (*out)->map, (*out)->size, ds->n, err);
    }
    if (rc < 0)
        mapped_weights_free(out);
    return rc;
}

int mapped_weights_ask(struct dlc_dataset *ds, struct attachment *a, const char *job, bool own,
                       struct mapped_weights **out, struct dlc_err *err)
{
    json_t *ask = json_pack("{s:s, s:s, s:b}", "op", "weights", "job", job, "own", (int)own);
    struct msg m = MSG_INIT;
    int rc = attach_call(a, ask, -1, dlc_mono_add(dlc_mono_now(), ds->timeout), &m, err);

    *out = NULL;
    if (rc == 0)
        rc = mapped_weights_map(msg_take_fd(&m, 0), ds->n, out, err);
    if (rc == 0)
        rc = weights_open(&(*out)->w, (*out)->map, (*out)->size, ds->n, err);
    if (rc == 0)
        (*out)->generation = a->generation;
    else
        mapped_weights_free(out);
    json_decref(ask);
    msg_release(&m);
    return rc;
}

static void bring_along(struct weights *to, const struct weights *from)
{
    for (uint64_t i = 0; i < to->n; i++) {
        float weight = weights_get(from, i);

        if (weight > 0 && weights_get(to, i) <= 0)
            weights_set(to, i, weight);
    }
}

void mapped_weights_install(struct dlc_dataset *ds, struct mapped_weights *w, bool same_job)
{
    struct importance *im = &ds->importance;
    struct mapped_weights *before;

    dlc_mtx_lock(&im->mtx);
    before = im->mapped;
    if (before != NULL && same_job)
        bring_along(&w->w, &before->w);
    client_lock();
    im->mapped = w;
    client_unlock();
    dlc_mtx_unlock(&im->mtx);
    mapped_weights_put(ds, &before);
}

int importance_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    const struct importance *im = &ds->importance;
    struct mapped_weights *w;
    int rc;

    dlc_mtx_assert_held(&ds->mtx);
    if (im->job == NULL)
        return 0;
    rc = mapped_weights_ask(ds, a, im->job, im->own, &w, err);
    if (rc == 0)
        mapped_weights_install(ds, w, true);
    return rc;
}

void importance_init(struct importance *im)
{
    dlc_mtx_init(&im->mtx, LCK_weights);
}

void importance_release(struct importance *im)
{
    mapped_weights_free(&im->mapped);
    mem_free(&im->job);
    mem_free(&im->samples);
    im->scale = (struct weights_scale){0};
}
