// SPDX-License-Identifier: Apache-2.0
/*
 * Importance sampling: weights that the ranks of a job share through the daemon, and lists drawn by
 * them (docs/design/0008). importance/weights.h defines the meaning of losses, importance/sample.h
 * that of a list.
 *
 * The weights in use are the daemon's, mapped, or the process's own while there is no daemon. A new
 * daemon has no weights: this process sends its own for every sample that the daemon has no weight
 * for. So a lost daemon loses nothing that was learnt, and weights from other processes stay.
 */
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/str.h"
#include "client/attachment.h"
#include "client/dataset.h"
#include "client/job_weights.h"
#include "client/last_error.h"
#include "client/process.h"
#include "importance/sample.h"
#include "importance/weights.h"
#include "ipc/shm.h"

#define EVERY 4u /* epochs, unless it is said */

/* ---- beginning ---- */

static float weight_of(const void *arg, uint64_t place);

static int spec_of(struct dlc_dataset *ds, const struct dlc_importance *s, struct draw_spec *out,
                   struct dlc_err *err)
{
    uint64_t all = dlc_count(ds); /* without targets */
    uint64_t first = s->samples != NULL ? 0 : s->first;
    uint64_t n = s->samples != NULL ? s->n_samples
                 : s->count != 0    ? s->count
                                    : all - DLC_MIN(s->first, all);
    uint32_t every = s->every != 0 ? s->every : EVERY;
    uint64_t least = n / every + (n % every != 0);

    if (s->mode > DLC_SHADE || s->rule > DLC_RULE_PLAIN)
        return dlc_err_set(err, DLC_EINVAL,
                           "importance of mode %u and rule %u: modes are 0 coverage, 1 shade; "
                           "rules 0 rank, 1 plain",
                           s->mode, s->rule);
    if (s->samples == NULL && (first > ds->n || n > ds->n - first))
        return dlc_err_set(err, DLC_EINVAL, "samples %llu to %llu: the dataset has %llu",
                           (unsigned long long)first, (unsigned long long)(first + n),
                           (unsigned long long)ds->n);
    for (uint64_t k = 0; s->samples != NULL && k < n; k++)
        if (s->samples[k] >= ds->n)
            return dlc_err_set(err, DLC_EINVAL, "sample %llu, at place %llu: the dataset has %llu",
                               (unsigned long long)s->samples[k], (unsigned long long)k,
                               (unsigned long long)ds->n);
    *out = (struct draw_spec){.mode = s->mode == DLC_SHADE ? DRAW_SHADE : DRAW_COVERAGE,
                              .n = n,
                              .first = first,
                              .length = s->length,
                              .seed = s->seed,
                              .rank = s->rank,
                              .world = DLC_MAX(s->world, 1u),
                              .every = every,
                              .replication = s->replication != 0 ? s->replication : 1,
                              .prefer = s->prefer != 0 ? s->prefer : 1,
                              .weight = weight_of};
    if (s->length == 0)
        out->length = s->mode == DLC_SHADE ? n : DLC_MAX(n / 2, least);
    return draw_check(out, err);
}

/* A name that no other process has. */
static char *name_of_process(void)
{
    static uint64_t nonce; /* G: the process-wide lock */
    static pid_t of;       /* the same */
    uint64_t mine;

    client_lock();
    if (of != getpid()) { /* also in a child */
        of = getpid();
        if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != (ssize_t)sizeof(nonce))
            nonce = (uint64_t)dlc_mono_now().ns;
    }
    mine = nonce;
    client_unlock();
    return mem_fmt("own-%d-%016llx", (int)getpid(), (unsigned long long)mine);
}

/* Gives; NULL: *err. */
static char *job_of(const struct dlc_importance *s, bool *own, struct dlc_err *err)
{
    const char *job = s->job != NULL ? s->job : getenv("DLCACHE_JOB");

    *own = s->job == NULL && (job == NULL || job[0] == '\0');
    if (*own)
        return name_of_process();
    if (!str_is_name(job)) {
        dlc_err_set(err, DLC_EINVAL,
                    "importance: the job is called \"%.80s\"; it must be " STR_NAME_RULE "%s", job,
                    s->job == NULL ? " (see DLCACHE_JOB)" : "");
        return NULL;
    }
    return mem_str(job);
}

/* The job's weights: the daemon's, or our own where there is none or where it has no place for more
 * (then it is asked again when importance is begun again). NULL without an error: those in use are
 * the ones. */
static int mapped_weights_of(struct dlc_dataset *ds, const char *job, bool own,
                             struct mapped_weights **out, struct dlc_err *err)
{
    const struct importance *im = &ds->importance;
    bool same = im->job != NULL && strcmp(im->job, job) == 0;
    struct attachment *a = dataset_current(ds);
    int rc = DLC_ENODAEMON;

    *out = NULL;
    /* im->mapped changes under dataset.mtx only, which we hold */
    if (same && im->mapped != NULL && (a == NULL || im->mapped->generation == a->generation))
        rc = 0;
    else if (a != NULL)
        rc = mapped_weights_ask(ds, a, job, own, out, err);
    if (a != NULL && (rc == DLC_ENODAEMON || rc == DLC_ETIMEDOUT))
        dataset_lost(ds, a);
    if (a != NULL)
        dataset_detach(ds, a);
    if (rc != DLC_ENODAEMON && rc != DLC_ETIMEDOUT && rc != DLC_EBUSY)
        return rc;
    if (same && im->mapped != NULL)
        return 0;
    if (rc == DLC_EBUSY)
        log_warn("%s: this process weighs samples by itself, and shares it with no other: %s",
                 ds->shown, err->text);
    return mapped_weights_own(ds, out, err);
}

/* Takes job when it succeeds. */
static int begin_locked(struct dlc_dataset *ds, char **job, bool own, struct dlc_err *err)
{
    struct importance *im = &ds->importance;
    bool same = im->job != NULL && strcmp(im->job, *job) == 0;
    struct mapped_weights *w;
    char *before;
    int rc = mapped_weights_of(ds, *job, own, &w, err);

    if (rc < 0)
        return rc;
    if (w != NULL)
        mapped_weights_install(ds, w, same);
    if (same)
        return 0;
    client_lock();
    before = im->job;
    im->job = *job;
    client_unlock();
    *job = before;
    im->own = own;
    dlc_mtx_lock(&im->mtx);
    im->scale = (struct weights_scale){0};
    dlc_mtx_unlock(&im->mtx);
    return 0;
}

/* A copy of the list, or NULL where there is none. Gives *out. */
static int samples_of(const struct dlc_importance *s, uint64_t **out, struct dlc_err *err)
{
    *out = s->samples != NULL ? mem_try_alloc(s->n_samples * sizeof(**out)) : NULL;
    if (*out != NULL)
        memcpy(*out, s->samples, s->n_samples * sizeof(**out));
    else if (s->samples != NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory for a list of %llu samples",
                           (unsigned long long)s->n_samples);
    return 0;
}

static int begin(struct dlc_dataset *ds, const struct dlc_importance *s, struct dlc_err *err)
{
    uint64_t *samples = NULL;
    struct attachment *a;
    struct draw_spec spec;
    char *job = NULL;
    bool own;
    int rc = spec_of(ds, s, &spec, err);

    if (rc < 0)
        return rc;
    job = job_of(s, &own, err);
    rc = job != NULL ? samples_of(s, &samples, err) : err->code;
    if (rc < 0)
        goto out;
    a = dataset_checked(ds);
    if (a != NULL)
        dataset_detach(ds, a);
    dlc_mtx_lock(&ds->mtx);
    rc = begin_locked(ds, &job, own, err);
    dlc_mtx_unlock(&ds->mtx);
    if (rc < 0)
        goto out;
    ds->importance.spec = spec;
    mem_free(&ds->importance.samples);
    ds->importance.samples = samples;
    samples = NULL;
    dlc_mtx_lock(&ds->importance.mtx);
    ds->importance.rule = s->rule == DLC_RULE_PLAIN ? WEIGHTS_PLAIN : WEIGHTS_RANK;
    dlc_mtx_unlock(&ds->importance.mtx);
out:
    mem_free(&samples);
    mem_free(&job);
    return rc;
}

int dlc_importance(struct dlc_dataset *ds, const struct dlc_importance *spec)
{
    struct dlc_err err = DLC_ERR_INIT;

    return begin(ds, spec, &err) < 0 ? client_fail(&err) : 0;
}

/* ---- learning ---- */

static int none_begun(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "no weights: call dlc_importance() first");
}

int dlc_learn(struct dlc_dataset *ds, uint64_t epoch, const uint64_t *samples, const float *losses,
              size_t n, struct dlc_learnt *out)
{
    struct importance *im = &ds->importance;
    struct dlc_err err = DLC_ERR_INIT;
    struct weights_learnt learnt = {0};
    int rc;

    dlc_mtx_lock(&im->mtx);
    rc = im->mapped == NULL ? none_begun(&err)
                            : weights_learn(&im->mapped->w, im->rule, &im->scale, epoch, samples,
                                            losses, n, &learnt, &err);
    dlc_mtx_unlock(&im->mtx);
    if (out != NULL)
        *out = (struct dlc_learnt){
            .used = learnt.used, .ignored = learnt.ignored, .mean = learnt.mean};
    return rc < 0 ? client_fail(&err) : 0;
}

/* ---- drawing ---- */

struct seen {
    const struct weights *w;
    const struct shm_slot *slots;
    const uint64_t *samples; /* NULL: places are samples */
};

static uint64_t sample_at(const struct seen *seen, uint64_t place)
{
    return seen->samples != NULL ? seen->samples[place] : place;
}

static float weight_of(const void *arg, uint64_t place)
{
    const struct seen *seen = arg;

    return weights_get(seen->w, sample_at(seen, place));
}

static bool is_resident(const void *arg, uint64_t place)
{
    const struct seen *seen = arg;
    const struct shm_slot *slot = &seen->slots[sample_at(seen, place)];

    /* relaxed: it may change at any time, and only decides what is drawn */
    return shm_where_state(atomic_load_explicit(&slot->where, memory_order_relaxed)) == SHM_READY;
}

static int64_t draw(struct dlc_dataset *ds, uint64_t epoch, uint64_t *list, uint64_t cap,
                    struct draw_figures *out, struct dlc_err *err)
{
    struct attachment *a = dataset_checked(ds); /* the weights are those of the daemon there is */
    struct mapped_weights *w = mapped_weights_get(ds);
    struct seen seen = {.slots = a != NULL ? a->slots : NULL, .samples = ds->importance.samples};
    struct draw_spec spec = ds->importance.spec;
    int64_t got;

    if (w == NULL) {
        got = none_begun(err);
        goto out;
    }
    seen.w = &w->w;
    spec.epoch = epoch;
    spec.resident = a != NULL ? is_resident : NULL;
    spec.arg = &seen;
    got = (int64_t)draw_length(&spec);
    if ((uint64_t)got <= cap) {
        int rc = draw_epoch(&spec, list, out, err);

        got = rc < 0 ? rc : got;
    }
out:
    mapped_weights_put(ds, &w);
    if (a != NULL)
        dataset_detach(ds, a);
    return got;
}

int64_t dlc_draw(struct dlc_dataset *ds, uint64_t epoch, uint64_t *list, uint64_t cap,
                 struct dlc_drawn *out)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct draw_figures f = {0};
    int64_t got = draw(ds, epoch, list, cap, &f, &err);

    if (out != NULL)
        *out = (struct dlc_drawn){.distinct = f.distinct,
                                  .forced = f.forced,
                                  .resident = f.resident,
                                  .part = f.part,
                                  .effective = f.effective};
    return got < 0 ? client_fail(&err) : got;
}

/* ---- saving and bringing back ---- */

/* The weights, if there are some and samples [first, first + n) of them. Gives; NULL: *err. */
static struct mapped_weights *mapped_weights_range(struct dlc_dataset *ds, uint64_t first,
                                                   uint64_t n, struct dlc_err *err)
{
    struct mapped_weights *w = mapped_weights_get(ds);

    if (w == NULL) {
        none_begun(err);
    } else if (first > w->w.n || n > w->w.n - first) {
        dlc_err_set(err, DLC_EINVAL, "weights of %llu samples from %llu on: the dataset has %llu",
                    (unsigned long long)n, (unsigned long long)first, (unsigned long long)w->w.n);
        mapped_weights_put(ds, &w);
    }
    return w;
}

int dlc_weights(struct dlc_dataset *ds, uint64_t first, uint64_t n, float *out)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct mapped_weights *w = mapped_weights_range(ds, first, n, &err);

    if (w == NULL)
        return client_fail(&err);
    for (uint64_t i = 0; i < n; i++)
        out[i] = weights_get(&w->w, first + i);
    mapped_weights_put(ds, &w);
    return 0;
}

static int check_weights(uint64_t first, uint64_t n, const float *in)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(in[i]) || in[i] < 0)
            return client_failf(DLC_EINVAL,
                                "the weight of sample %llu is %g: it must be finite and not "
                                "negative, 0 for one that was never learnt",
                                (unsigned long long)(first + i), (double)in[i]);
    return 0;
}

int dlc_set_weights(struct dlc_dataset *ds, uint64_t first, uint64_t n, const float *in)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct mapped_weights *w = mapped_weights_range(ds, first, n, &err);
    int rc;

    if (w == NULL)
        return client_fail(&err);
    rc = check_weights(first, n, in);
    mapped_weights_put(ds, &w);
    if (rc < 0)
        return rc;
    dlc_mtx_lock(&ds->importance.mtx); /* (LEARN-1) */
    for (uint64_t i = 0; i < n; i++)
        weights_set(&ds->importance.mapped->w, first + i, in[i]);
    dlc_mtx_unlock(&ds->importance.mtx);
    return 0;
}

int dlc_scale(struct dlc_dataset *ds, struct dlc_scale *out)
{
    struct weights_scale s;

    dlc_mtx_lock(&ds->importance.mtx);
    s = ds->importance.scale;
    dlc_mtx_unlock(&ds->importance.mtx);
    *out = (struct dlc_scale){
        .first = s.first, .mean = s.mean, .sum = s.sum, .count = s.count, .epoch = s.epoch};
    return 0;
}

int dlc_set_scale(struct dlc_dataset *ds, const struct dlc_scale *in)
{
    if (!isfinite(in->first) || !isfinite(in->mean) || !isfinite(in->sum))
        return client_failf(DLC_EINVAL, "the scale to bring back is not finite");
    dlc_mtx_lock(&ds->importance.mtx);
    ds->importance.scale = (struct weights_scale){.first = in->first,
                                                  .mean = in->mean,
                                                  .sum = in->sum,
                                                  .count = in->count,
                                                  .epoch = in->epoch};
    dlc_mtx_unlock(&ds->importance.mtx);
    return 0;
}
