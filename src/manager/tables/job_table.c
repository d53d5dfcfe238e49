// SPDX-License-Identifier: Apache-2.0
#include "manager/tables/job_table.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sorted.h"
#include "manager/tables/dataset_doc.h"
#include "manager/tables/documents.h"
#include "manager/tables/tables.h"

static int by_id(const void *job, const void *id)
{
    return strcmp(((const struct job *)job)->id, id);
}

/* Where it is, or where it would go. */
static size_t place_of(const struct job_table *js, const char *id, bool *found)
{
    return sorted_find(js->jobs, js->n, sizeof(*js->jobs), by_id, id, found);
}

static struct job *find_locked(struct tables *t, const char *id)
{
    struct job_table *js = &t->jobs;
    bool found;
    size_t at;

    dlc_mtx_assert_held(&t->mtx);
    at = place_of(js, id, &found);
    return found ? &js->jobs[at] : NULL;
}

static struct job *copy_if(struct tables *t, bool leads, size_t *n)
{
    struct job *out;

    dlc_mtx_lock(&t->mtx);
    *n = leads ? t->jobs.n : 0;
    out = mem_zero((*n + 1) * sizeof(*out));
    for (size_t i = 0; i < *n; i++)
        job_copy(&out[i], &t->jobs.jobs[i]);
    dlc_mtx_unlock(&t->mtx);
    return out;
}

struct job *jobs_copy(struct tables *t, size_t *n)
{
    return copy_if(t, leader_leads(t), n); /* another manager's jobs are not ours to tell of */
}

struct job *jobs_copy_loaded(struct tables *t, size_t *n)
{
    return copy_if(t, true, n);
}

void jobs_copy_release(struct job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        job_release(&(*jobs)[i]);
    mem_free(jobs);
}

bool jobs_find(struct tables *t, const char *id, struct job *out)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL)
        job_copy(out, j);
    dlc_mtx_unlock(&t->mtx);
    return j != NULL;
}

static void add_to(struct job_table *js, struct job *j)
{
    bool found;
    size_t at = place_of(js, j->id, &found);

    if (found)
        job_release(&js->jobs[at]);
    else
        sorted_insert(js->jobs, js->n, js->cap, at);
    js->jobs[at] = *j;
    memset(j, 0, sizeof(*j));
}

void jobs_add(struct tables *t, struct job *j)
{
    dlc_mtx_lock(&t->mtx);
    dlc_check(t->jobs.loaded);
    add_to(&t->jobs, j);
    dlc_mtx_unlock(&t->mtx);
}

bool jobs_remove(struct tables *t, const char *id)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL) {
        size_t at = (size_t)(j - t->jobs.jobs);

        job_release(j);
        sorted_remove(t->jobs.jobs, t->jobs.n, at);
    }
    dlc_mtx_unlock(&t->mtx);
    return j != NULL;
}

bool jobs_heard(struct tables *t, const char *id, const uint64_t *epochs_done,
                const json_t *figures, enum job_state *state)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL) {
        j->heard = dlc_mono_now();
        *state = j->state;
        if (epochs_done != NULL) {
            j->epochs_done = j->says_epochs ? j->epochs_done : 0; /* what we reckoned ends here */
            j->says_epochs = true;
            t->jobs.runs_changed |= *epochs_done > j->epochs_done; /* fewer are to come */
            j->epochs_done = DLC_MAX(j->epochs_done, *epochs_done);
        }
        if (figures != NULL) {
            json_decref(j->figures);
            j->figures = json_deep_copy(figures);
        }
    }
    dlc_mtx_unlock(&t->mtx);
    return j != NULL;
}

void jobs_set_state(struct tables *t, const char *id, enum job_state s)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL)
        j->state = s;
    dlc_mtx_unlock(&t->mtx);
}

void jobs_set_admission(struct tables *t, const char *id, const struct admission *a)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL)
        j->admission = *a;
    dlc_mtx_unlock(&t->mtx);
}

static int set_snapshot(struct store_doc *d, void *arg, struct dlc_err *err)
{
    uint64_t *snapshot = arg, first = job_doc_snapshot(d->body);

    (void)err;
    if (first != 0) {
        *snapshot = first;
        return 1;
    }
    json_object_set_new(d->body, "snapshot",
                        json_sprintf("%016llx", (unsigned long long)*snapshot));
    return 0;
}

int jobs_agree_snapshot(struct tables *t, const char *id, uint64_t *snapshot, struct dlc_err *err)
{
    int rc = document_change(t, STORE_JOB, id, STORE_ANY, set_snapshot, snapshot, NULL, err);
    struct job *j;

    if (rc < 0)
        return rc;
    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL)
        j->reads = *snapshot;
    dlc_mtx_unlock(&t->mtx);
    return 0;
}

static void set_dataset(struct job *j, const json_t *body)
{
    json_decref(j->snapshot);
    json_decref(j->lies_on);
    j->snapshot = json_deep_copy(dataset_snapshot(body));
    j->lies_on = json_deep_copy(dataset_nodes(body));
}

void jobs_dataset_changed(struct tables *t, const char *dataset, const json_t *body)
{
    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->jobs.n; i++)
        if (strcmp(t->jobs.jobs[i].dataset, dataset) == 0)
            set_dataset(&t->jobs.jobs[i], body);
    dlc_mtx_unlock(&t->mtx);
}

struct job_use jobs_of_dataset(const struct job *jobs, size_t n, const char *dataset)
{
    struct job_use use = {0};
    double runs = 0;

    for (size_t i = 0; i < n; i++) {
        const struct job *j = &jobs[i];
        uint64_t epochs = j->qos.epochs > 0 ? j->qos.epochs : j->epochs_done + 1;

        if (j->state == JOB_REFUSED || strcmp(j->dataset, dataset) != 0)
            continue;
        use.running += j->state == JOB_RUNNING;
        use.keepers += j->state == JOB_RUNNING && job_keeps(j);
        if (job_keeps(j) && epochs > j->epochs_done)
            runs += (double)(epochs - j->epochs_done) * exp2(j->qos.priority / 100.0);
    }
    use.runs = (uint64_t)fmin(ceil(runs), INT32_MAX);
    return use;
}

void jobs_seen(struct tables *t, const json_t *figures)
{
    const char *id;
    json_t *f;

    dlc_mtx_lock(&t->mtx);
    json_object_foreach(json_object_get(figures, "jobs"), id, f)
    {
        const char *dataset = json_string_value(json_object_get(f, "dataset"));
        struct job *j = find_locked(t, id);

        if (j != NULL && dataset != NULL && strcmp(j->dataset, dataset) == 0 &&
            json_integer_value(json_object_get(f, "readers")) > 0)
            j->heard = j->read = dlc_mono_now();
    }
    dlc_mtx_unlock(&t->mtx);
}

static bool job_is_of(const struct job *j, const char *of)
{
    size_t len = strlen(j->tenant);

    return strncmp(of, j->tenant, len) == 0 && of[len] == '/' &&
           strcmp(of + len + 1, j->dataset) == 0;
}

bool jobs_is_of(struct tables *t, const char *id, const char *of)
{
    const struct job *j;
    bool is;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    is = j != NULL && job_is_of(j, of);
    dlc_mtx_unlock(&t->mtx);
    return is;
}

void jobs_reading(struct tables *t, const char *id)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL)
        j->read = dlc_mono_now();
    dlc_mtx_unlock(&t->mtx);
}

size_t jobs_readers(struct tables *t, const char *of, char (*ids)[20], size_t max)
{
    size_t n = 0;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->jobs.n && n < max; i++) {
        const struct job *j = &t->jobs.jobs[i];

        if (j->read.ns != 0 && dlc_mono_since(j->read).ns < JOB_READ_TIME.ns && job_is_of(j, of))
            memcpy(ids[n++], j->id, sizeof(j->id));
    }
    dlc_mtx_unlock(&t->mtx);
    return n;
}

/* Each epoch reads every sample of the job's splits once. A job that says how many it has done knows
 * better. */
static bool reckon_epochs(struct job *j)
{
    uint64_t samples = 0, done;

    if (j->says_epochs || j->snapshot == NULL ||
        !snapshot_samples(j->snapshot, j->splits, &samples) || samples == 0)
        return false;
    done = j->usage.n[USAGE_samples] / samples;
    if (j->qos.epochs > 0)
        done = DLC_MIN(done, j->qos.epochs);
    if (done <= j->epochs_done)
        return false;
    j->epochs_done = done;
    return true;
}

void jobs_used(struct tables *t, const char *id, const struct usage *more)
{
    struct job *j;

    dlc_mtx_lock(&t->mtx);
    j = find_locked(t, id);
    if (j != NULL) {
        usage_add(&j->usage, more);
        t->jobs.runs_changed |= reckon_epochs(j); /* fewer are to come */
    }
    dlc_mtx_unlock(&t->mtx);
}

size_t jobs_running(struct tables *t, const char *dataset)
{
    bool leads = leader_leads(t); /* another manager's jobs are not ours to tell of */
    size_t sum = 0;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; leads && i < t->jobs.n; i++)
        sum +=
            t->jobs.jobs[i].state == JOB_RUNNING && strcmp(t->jobs.jobs[i].dataset, dataset) == 0;
    dlc_mtx_unlock(&t->mtx);
    return sum;
}

size_t jobs_count(struct tables *t, const char *dataset)
{
    size_t sum = 0;

    dlc_mtx_lock(&t->mtx);
    for (size_t i = 0; i < t->jobs.n; i++)
        sum +=
            t->jobs.jobs[i].state != JOB_REFUSED && strcmp(t->jobs.jobs[i].dataset, dataset) == 0;
    dlc_mtx_unlock(&t->mtx);
    return sum;
}

/* ---- the lock of decisions ---- */

bool jobs_lock(struct tables *t)
{
    bool loaded;

    dlc_mtx_lock(&t->mtx);
    loaded = t->jobs.loaded;
    dlc_mtx_unlock(&t->mtx);
    if (loaded)
        dlc_mtx_lock(&t->jobs.admit);
    return loaded;
}

void jobs_unlock(struct tables *t)
{
    dlc_mtx_unlock(&t->jobs.admit);
}

/* ---- we lead from now on ---- */

static bool load_one(struct store_doc *d, void *arg)
{
    struct job_table *js = arg;
    struct job j;

    if (job_of_doc(&j, d))
        add_to(js, &j);
    else
        log_warn("job %s: its record makes no sense; skipped", d->id);
    return true;
}

static int load_datasets(struct tables *t, struct job_table *js, struct dlc_err *err)
{
    for (size_t i = 0; i < js->n; i++) {
        struct store_doc d = STORE_DOC_INIT;
        int rc = store_get(t->store, STORE_DATASET, js->jobs[i].dataset, &d, err);

        if (rc < 0 && rc != DLC_ENOTFOUND)
            return rc;
        set_dataset(&js->jobs[i], d.body);
        js->jobs[i].heard = dlc_mono_now();
        store_doc_release(&d);
    }
    return 0;
}

static void clear(struct job_table *js)
{
    for (size_t i = 0; i < js->n; i++)
        job_release(&js->jobs[i]);
    mem_free(&js->jobs);
    js->n = js->cap = 0;
}

int jobs_load(struct tables *t, struct dlc_err *err)
{
    struct job_table fresh = {0};
    int rc = store_each(t->store, STORE_JOB, NULL, load_one, &fresh, err);

    if (rc == 0)
        rc = load_datasets(t, &fresh, err);
    if (rc < 0) {
        clear(&fresh);
        return rc;
    }
    dlc_mtx_lock(&t->mtx);
    clear(&t->jobs);
    t->jobs.jobs = fresh.jobs;
    t->jobs.n = fresh.n;
    t->jobs.cap = fresh.cap;
    t->jobs.loaded = true;
    dlc_mtx_unlock(&t->mtx);
    return 0;
}

void jobs_close(struct tables *t)
{
    clear(&t->jobs);
    t->jobs.loaded = false;
}
