// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs as the leader knows them (jobs_i.h): a table in memory, filled from the store when we begin
 * to lead, and a clock that ends what fell silent and starts what waits.
 */
#include "manager/routes/jobs_i.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/routes/datasets_i.h"

#define LIST_AGAIN DLC_SEC(5)

/* ---- the table ---- */

static void job_copy(struct job *to, const struct job *from)
{
    *to = *from;
    to->splits = json_deep_copy(from->splits);
    to->nodes = json_deep_copy(from->nodes);
    to->snapshot = json_deep_copy(from->snapshot);
    to->lies_on = json_deep_copy(from->lies_on);
    to->figures = json_deep_copy(from->figures);
}

void job_release(struct job *j)
{
    json_decref(j->splits);
    json_decref(j->nodes);
    json_decref(j->snapshot);
    json_decref(j->lies_on);
    json_decref(j->figures);
    memset(j, 0, sizeof(*j));
}

/* Where it is, or where it would go. */
static size_t place_of(const struct jobs *js, const char *id)
{
    size_t lo = 0, hi = js->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (strcmp(js->jobs[mid].id, id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct job *find_locked(struct control *c, const char *id)
{
    struct jobs *js = c->jobs;
    size_t at;

    dlc_mtx_assert_held(&c->mtx);
    at = js != NULL ? place_of(js, id) : 0;
    return js != NULL && at < js->n && strcmp(js->jobs[at].id, id) == 0 ? &js->jobs[at] : NULL;
}

struct job *jobs_copy(struct control *c, size_t *n)
{
    bool leads = control_leads(c); /* another manager's jobs are not ours to tell of */
    struct job *out;

    dlc_mtx_lock(&c->mtx);
    *n = leads && c->jobs != NULL ? c->jobs->n : 0;
    out = mem_zero((*n + 1) * sizeof(*out));
    for (size_t i = 0; i < *n; i++)
        job_copy(&out[i], &c->jobs->jobs[i]);
    dlc_mtx_unlock(&c->mtx);
    return out;
}

void jobs_copy_release(struct job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        job_release(&(*jobs)[i]);
    mem_free(jobs);
}

bool jobs_find(struct control *c, const char *id, struct job *out)
{
    struct job *j;

    dlc_mtx_lock(&c->mtx);
    j = find_locked(c, id);
    if (j != NULL)
        job_copy(out, j);
    dlc_mtx_unlock(&c->mtx);
    return j != NULL;
}

static void add_to(struct jobs *js, struct job *j)
{
    size_t at = place_of(js, j->id);

    if (at < js->n && strcmp(js->jobs[at].id, j->id) == 0) {
        job_release(&js->jobs[at]);
    } else {
        mem_reserve(js->jobs, js->n, js->cap);
        memmove(&js->jobs[at + 1], &js->jobs[at], (js->n - at) * sizeof(*j));
        js->n++;
    }
    js->jobs[at] = *j;
    memset(j, 0, sizeof(*j));
}

void jobs_add(struct control *c, struct job *j)
{
    dlc_mtx_lock(&c->mtx);
    dlc_check(c->jobs != NULL);
    add_to(c->jobs, j);
    dlc_mtx_unlock(&c->mtx);
}

bool jobs_remove(struct control *c, const char *id)
{
    struct job *j;

    dlc_mtx_lock(&c->mtx);
    j = find_locked(c, id);
    if (j != NULL) {
        size_t at = (size_t)(j - c->jobs->jobs);

        job_release(j);
        memmove(j, j + 1, (--c->jobs->n - at) * sizeof(*j));
    }
    dlc_mtx_unlock(&c->mtx);
    return j != NULL;
}

bool jobs_heard(struct control *c, const char *id, const uint64_t *epochs_done,
                const json_t *figures, enum job_state *state)
{
    struct job *j;

    dlc_mtx_lock(&c->mtx);
    j = find_locked(c, id);
    if (j != NULL) {
        j->heard = dlc_mono_now();
        *state = j->state;
        if (epochs_done != NULL) {
            c->jobs->runs_changed |= *epochs_done > j->epochs_done; /* fewer are to come */
            j->epochs_done = DLC_MAX(j->epochs_done, *epochs_done);
        }
        if (figures != NULL) {
            json_decref(j->figures);
            j->figures = json_deep_copy(figures);
        }
    }
    dlc_mtx_unlock(&c->mtx);
    return j != NULL;
}

static void jobs_set_state(struct control *c, const char *id, enum job_state s)
{
    struct job *j;

    dlc_mtx_lock(&c->mtx);
    j = find_locked(c, id);
    if (j != NULL)
        j->state = s;
    dlc_mtx_unlock(&c->mtx);
}

static void set_dataset(struct job *j, const json_t *body)
{
    json_decref(j->snapshot);
    json_decref(j->lies_on);
    j->snapshot = json_deep_copy(dataset_snapshot(body));
    j->lies_on = json_deep_copy(dataset_nodes(body));
}

void jobs_dataset_changed(struct control *c, const char *dataset, const json_t *body)
{
    dlc_mtx_lock(&c->mtx);
    for (size_t i = 0; c->jobs != NULL && i < c->jobs->n; i++)
        if (strcmp(c->jobs->jobs[i].dataset, dataset) == 0)
            set_dataset(&c->jobs->jobs[i], body);
    dlc_mtx_unlock(&c->mtx);
}

bool job_keeps(const struct job *j)
{
    return j->qos.use_cache && j->qos.mode == QOS_LAZY;
}

uint64_t job_part(const struct job *j)
{
    if (!j->qos.use_cache || j->qos.mode != QOS_PARTITIONED)
        return 0;
    return j->qos.memory_limit > 0 ? j->qos.memory_limit : ADMISSION_PARTITION;
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

void jobs_seen(struct control *c, const json_t *figures)
{
    const char *id;
    json_t *f;

    dlc_mtx_lock(&c->mtx);
    json_object_foreach(json_object_get(figures, "jobs"), id, f)
    {
        const char *dataset = json_string_value(json_object_get(f, "dataset"));
        struct job *j = find_locked(c, id);

        if (j != NULL && dataset != NULL && strcmp(j->dataset, dataset) == 0 &&
            json_integer_value(json_object_get(f, "readers")) > 0)
            j->heard = dlc_mono_now();
    }
    dlc_mtx_unlock(&c->mtx);
}

json_t *jobs_view(struct control *c)
{
    size_t n;
    struct job *jobs = jobs_copy(c, &n);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        if (jobs[i].state == JOB_RUNNING && !job_keeps(&jobs[i]))
            json_array_append_new(out, json_pack("{s:s, s:s, s:I}", "id", jobs[i].id, "dataset",
                                                 jobs[i].dataset, "part",
                                                 (json_int_t)job_part(&jobs[i])));
    jobs_copy_release(&jobs, n);
    return out;
}

size_t jobs_running(struct control *c, const char *dataset)
{
    bool leads = control_leads(c); /* another manager's jobs are not ours to tell of */
    size_t sum = 0;

    dlc_mtx_lock(&c->mtx);
    for (size_t i = 0; leads && c->jobs != NULL && i < c->jobs->n; i++)
        sum +=
            c->jobs->jobs[i].state == JOB_RUNNING && strcmp(c->jobs->jobs[i].dataset, dataset) == 0;
    dlc_mtx_unlock(&c->mtx);
    return sum;
}

size_t jobs_count(struct control *c, const char *dataset)
{
    size_t sum = 0;

    dlc_mtx_lock(&c->mtx);
    for (size_t i = 0; c->jobs != NULL && i < c->jobs->n; i++)
        sum +=
            c->jobs->jobs[i].state != JOB_REFUSED && strcmp(c->jobs->jobs[i].dataset, dataset) == 0;
    dlc_mtx_unlock(&c->mtx);
    return sum;
}

/* ---- decisions ---- */

bool jobs_lock(struct control *c, struct http_reply *reply)
{
    struct jobs *js;

    dlc_mtx_lock(&c->mtx);
    js = c->jobs;
    dlc_mtx_unlock(&c->mtx);
    if (js == NULL) {
        reply_not_leading(c, reply);
        return false;
    }
    dlc_mtx_lock(&js->admit);
    return true;
}

void jobs_unlock(struct control *c)
{
    dlc_mtx_unlock(&c->jobs->admit);
}

/* Gone for good: from the store, then from the table. */
static void end(struct control *c, const struct job *j, const char *why)
{
    struct dlc_err err = DLC_ERR_INIT;
    int rc = store_delete(c->store, STORE_JOB, j->id, STORE_ANY, &err);

    if (rc < 0 && rc != DLC_ENOTFOUND) {
        log_warn("job %s has ended (%s), but: %s", j->id, why, err.text);
        return; /* the next tick tries again */
    }
    jobs_remove(c, j->id);
    control_event(c, j->tenant, "job.ended",
                  json_pack("{s:s, s:s, s:s}", "job", j->id, "dataset", j->dataset, "why", why));
    view_changed(c);
}

void jobs_end_of_dataset(struct control *c, const char *dataset)
{
    size_t n;
    struct job *jobs = jobs_copy(c, &n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(jobs[i].dataset, dataset) == 0)
            end(c, &jobs[i], "its dataset was deleted");
    jobs_copy_release(&jobs, n);
}

static void end_silent(struct control *c, struct dlc_mono now)
{
    size_t n;
    struct job *jobs = jobs_copy(c, &n);

    for (size_t i = 0; i < n; i++)
        if (dlc_mono_sub(now, jobs[i].heard).ns > c->job_ttl.ns)
            end(c, &jobs[i], "it was not heard of for too long");
    jobs_copy_release(&jobs, n);
}

struct verdict {
    enum job_state state;
    const struct admission *a;
};

static int set_verdict(struct store_doc *d, void *arg, struct dlc_err *err)
{
    const struct verdict *v = arg;

    (void)err;
    json_object_set_new(d->body, "state", json_string(job_state_name(v->state)));
    json_object_set_new(d->body, "admission", admission_json(v->a));
    if (v->state == JOB_RUNNING)
        json_object_set_new(d->body, "started_ms", json_integer((json_int_t)control_wall_ms()));
    return 0;
}

static void decide(struct control *c, struct job *j, const struct admission *a,
                   enum job_state state)
{
    struct verdict v = {state, a};
    struct dlc_err err = DLC_ERR_INIT;

    if (control_change(c, STORE_JOB, j->id, STORE_ANY, set_verdict, &v, NULL, &err) < 0) {
        if (err.code != DLC_ENOTFOUND) /* it was deregistered just now */
            log_warn("job %s waits on: %s", j->id, err.text);
        return;
    }
    j->state = state;
    jobs_set_state(c, j->id, state);
    control_event(c, j->tenant, state == JOB_RUNNING ? "job.started" : "job.refused",
                  json_pack("{s:s, s:s, s:o}", "job", j->id, "dataset", j->dataset, "admission",
                            admission_json(a)));
    view_changed(c);
}

/* Whoever is first in the queue, then the next: the order of capacity_admit() itself keeps others from
 * overtaking, so any order of looking is right. */
static void start_waiting(struct control *c)
{
    struct node_info *nodes = NULL;
    size_t n_nodes = nodes_list(c, &nodes), n;
    struct job *jobs = jobs_copy(c, &n);

    for (size_t i = 0; i < n; i++) {
        struct job *j = &jobs[i];
        struct admission a;
        bool known;

        if (j->state != JOB_QUEUED)
            continue;
        capacity_admit(nodes, n_nodes, jobs, n, j, &a, &known);
        if (known && a.admitted)
            decide(c, j, &a, JOB_RUNNING);
        else if (known && !j->queue)
            decide(c, j, &a, JOB_REFUSED);
    }
    jobs_copy_release(&jobs, n);
    nodes_release(&nodes, n_nodes);
}

/* Jobs whose datasets nobody has listed: the node that should have may be gone. */
static void list_again(struct control *c, struct dlc_mono now)
{
    struct job *jobs;
    size_t n;

    if (dlc_mono_sub(now, c->jobs->listed_at).ns < LIST_AGAIN.ns)
        return;
    c->jobs->listed_at = now;
    jobs = jobs_copy(c, &n);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].snapshot == NULL && jobs[i].state == JOB_QUEUED)
            dataset_list_for_job(c, jobs[i].dataset);
    }
    jobs_copy_release(&jobs, n);
}

/* Jobs may say that an epoch is done as often as they like: that alone makes a view a second. */
static void tell_runs(struct control *c)
{
    bool changed;

    dlc_mtx_lock(&c->mtx);
    changed = c->jobs->runs_changed;
    c->jobs->runs_changed = false;
    dlc_mtx_unlock(&c->mtx);
    if (changed)
        view_changed(c);
}

void jobs_tick(struct control *c, struct dlc_mono now)
{
    if (c->jobs == NULL)
        return;
    tell_runs(c);
    end_silent(c, now);
    dlc_mtx_lock(&c->jobs->admit);
    start_waiting(c);
    dlc_mtx_unlock(&c->jobs->admit);
    list_again(c, now);
}

/* ---- we lead from now on ---- */

static bool load_one(struct store_doc *d, void *arg)
{
    struct jobs *js = arg;
    struct job j;

    if (job_of_doc(&j, d))
        add_to(js, &j);
    else
        log_warn("job %s: its record makes no sense; skipped", d->id);
    return true;
}

static int load_datasets(struct control *c, struct jobs *js, struct dlc_err *err)
{
    for (size_t i = 0; i < js->n; i++) {
        struct store_doc d = STORE_DOC_INIT;
        int rc = store_get(c->store, STORE_DATASET, js->jobs[i].dataset, &d, err);

        if (rc < 0 && rc != DLC_ENOTFOUND)
            return rc;
        set_dataset(&js->jobs[i], d.body);
        js->jobs[i].heard = dlc_mono_now();
        store_doc_release(&d);
    }
    return 0;
}

static void clear(struct jobs *js)
{
    for (size_t i = 0; i < js->n; i++)
        job_release(&js->jobs[i]);
    mem_free(&js->jobs);
    js->n = js->cap = 0;
}

int jobs_load(struct control *c, struct dlc_err *err)
{
    struct jobs fresh = {0};
    struct jobs *js = c->jobs; /* only this thread sets it */
    int rc = control_each(c, STORE_JOB, NULL, load_one, &fresh, err);

    if (rc == 0)
        rc = load_datasets(c, &fresh, err);
    if (rc < 0) {
        clear(&fresh);
        return rc;
    }
    if (js == NULL) {
        js = mem_new(struct jobs);
        dlc_mtx_init(&js->admit, LCK_jobs);
    }
    dlc_mtx_lock(&c->mtx);
    clear(js);
    js->jobs = fresh.jobs;
    js->n = fresh.n;
    js->cap = fresh.cap;
    c->jobs = js;
    dlc_mtx_unlock(&c->mtx);
    return 0;
}

void jobs_close(struct control *c)
{
    struct jobs *js = c->jobs;

    c->jobs = NULL;
    if (js == NULL)
        return;
    clear(js);
    dlc_mtx_release(&js->admit);
    mem_free(&js);
}
