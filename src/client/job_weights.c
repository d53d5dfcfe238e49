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

static void weighed_free(struct weighed **wp)
{
    struct weighed *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    os_unmap(w->map, w->size);
    mem_free(&w);
}

struct weighed *weighed_get(struct dlc_dataset *ds)
{
    struct weighed *w;

    dlc_mtx_lock(&ds->importance.mtx);
    w = ds->importance.weighed;
    if (w != NULL)
        w->refs++;
    dlc_mtx_unlock(&ds->importance.mtx);
    return w;
}

void weighed_put(struct dlc_dataset *ds, struct weighed **wp)
{
    bool last;

    if (*wp == NULL)
        return;
    dlc_mtx_lock(&ds->importance.mtx);
    last = --(*wp)->refs == 0;
    dlc_mtx_unlock(&ds->importance.mtx);
    if (last)
        weighed_free(wp);
    *wp = NULL;
}

/* Map what the descriptor is of. Takes fd. Gives *out. */
static int weighed_map(int fd, uint64_t n, struct weighed **out, struct dlc_err *err)
{
    struct weighed *w = mem_new(struct weighed);
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

int weighed_own(const struct dlc_dataset *ds, struct weighed **out, struct dlc_err *err)
{
    int fd = os_memfd("dlcache-weights"), rc;

    *out = NULL;
    if (fd < 0 || os_ftruncate(fd, weights_size(ds->n)) < 0) {
        rc = dlc_err_sys(err, "no memory for the weights of %llu samples",
                         (unsigned long long)ds->n);
        os_close(&fd);
        return rc;
    }
    rc = weighed_map(fd, ds->n, out, err);
    if (rc == 0) {
        weights_format((*out)->map, ds->n, catalog_snapshot(ds->catalog));
        rc = weights_open(&(*out)->w, (*out)->map, (*out)->size, ds->n, err);
    }
    if (rc < 0)
        weighed_free(out);
    return rc;
}

int weighed_ask(struct dlc_dataset *ds, struct attachment *a, const char *job, bool own,
                struct weighed **out, struct dlc_err *err)
{
    json_t *ask = json_pack("{s:s, s:s, s:b}", "op", "weights", "job", job, "own", (int)own);
    struct msg m = MSG_INIT;
    int rc = attach_call(a, ask, -1, dlc_mono_add(dlc_mono_now(), ds->timeout), &m, err);

    *out = NULL;
    if (rc == 0)
        rc = weighed_map(msg_take_fd(&m, 0), ds->n, out, err);
    if (rc == 0)
        rc = weights_open(&(*out)->w, (*out)->map, (*out)->size, ds->n, err);
    if (rc == 0)
        (*out)->generation = a->generation;
    else
        weighed_free(out);
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

void weighed_install(struct dlc_dataset *ds, struct weighed *w, bool same_job)
{
    struct importance *im = &ds->importance;
    struct weighed *before;

    dlc_mtx_lock(&im->mtx);
    before = im->weighed;
    if (before != NULL && same_job)
        bring_along(&w->w, &before->w);
    client_lock();
    im->weighed = w;
    client_unlock();
    dlc_mtx_unlock(&im->mtx);
    weighed_put(ds, &before);
}

int importance_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err)
{
    const struct importance *im = &ds->importance;
    struct weighed *w;
    int rc;

    dlc_mtx_assert_held(&ds->mtx);
    if (im->job == NULL)
        return 0;
    rc = weighed_ask(ds, a, im->job, im->own, &w, err);
    if (rc == 0)
        weighed_install(ds, w, true);
    return rc;
}

void importance_init(struct importance *im)
{
    dlc_mtx_init(&im->mtx, LCK_weights);
}

void importance_release(struct importance *im)
{
    weighed_free(&im->weighed);
    mem_free(&im->job);
    mem_free(&im->samples);
    im->scale = (struct weights_scale){0};
}
