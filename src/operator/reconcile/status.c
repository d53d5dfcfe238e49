// SPDX-License-Identifier: Apache-2.0
/* Status and events of an object. (RECONCILE-6) Figures alone are written once a minute at most. */
#include "operator/reconcile/reconcile_i.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"

const char *const phase_names[] = {"Pending", "Preparing", "Placed",
                                   "Running", "Succeeded", "Failed"};
static const char *const types_dltpod[CONDS_DLTPOD] = {"DatasetReady", "Placed", "Running",
                                                       "Succeeded", "Failed"};
static const char *const types_dataset[CONDS_DATASET] = {"DatasetReady", "Warmed"};
/* What is written seldom if it changes alone. */
static const char *const figure_names[] = {"progress", "hitShare",    "stallShare", "bytes",
                                           "cost",     "cachedBytes", "nodes",      "figuresTime"};

void round_init(struct round *r, const struct observed *o, struct actions *out)
{
    const json_t *was = json_object_get(o->object, "status");

    memset(r, 0, sizeof(*r));
    r->o = o;
    r->out = out;
    r->was = json_object_size(was) > 0 ? was : NULL;
    r->n_conds = o->is_dataset ? CONDS_DATASET : CONDS_DLTPOD;
    r->fields = json_object();
    r->figures = json_object();
    r->every = RECON_FIGURES_S;
    r->phase = json_text_at(was, "phase");
    if (r->phase[0] == '\0')
        r->phase = phase_names[PENDING];
}

void round_release(struct round *r)
{
    json_decref(r->fields);
    json_decref(r->figures);
    memset(r, 0, sizeof(*r));
}

static void set(struct round *r, size_t i, const char *status, bool warning, const char *reason,
                const char *fmt, va_list ap)
{
    struct condition *c = &r->conds[i];

    dlc_check(i < r->n_conds);
    c->status = status;
    c->warning = warning;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
    vsnprintf(c->message, sizeof(c->message), fmt, ap);
    cut_text(c->message);
}

void say(struct round *r, size_t cond, const char *status, const char *reason, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set(r, cond, status, false, reason, fmt, ap);
    va_end(ap);
}

void warn(struct round *r, size_t cond, const char *status, const char *reason, const char *fmt,
          ...)
{
    va_list ap;

    va_start(ap, fmt);
    set(r, cond, status, true, reason, fmt, ap);
    va_end(ap);
}

static const char *type_of(const struct round *r, size_t i)
{
    return r->o->is_dataset ? types_dataset[i] : types_dltpod[i];
}

const json_t *condition_was(const struct round *r, const char *type)
{
    return json_find(json_object_get(r->was, "conditions"), "type", type);
}

static json_t *condition_json(const struct round *r, size_t i)
{
    const struct condition *c = &r->conds[i];
    const json_t *was = condition_was(r, type_of(r, i));
    char now[SPEC_TIME_LEN];
    const char *since = spec_time(r->o->now, now);

    if (c->status == NULL)
        return was != NULL ? json_deep_copy(was) : NULL;
    if (strcmp(json_text_at(was, "status"), c->status) == 0)
        since = json_text_at(was, "lastTransitionTime");
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s}", "type", type_of(r, i), "status", c->status,
                     "observedGeneration",
                     (json_int_t)json_int_at(r->o->object, "metadata.generation"),
                     "lastTransitionTime", since, "reason", c->reason, "message", c->message);
}

static json_t *conditions(const struct round *r)
{
    json_t *out = json_array(), *one;

    for (size_t i = 0; i < r->n_conds; i++) {
        one = condition_json(r, i);
        if (one != NULL)
            json_array_append_new(out, one);
    }
    return out;
}

double round3(double x)
{
    return floor(x * 1000 + 0.5) / 1000;
}

void set_cost(struct round *r, double money)
{
    if (money >= 0)
        json_object_set_new(r->figures, "cost", json_real(round3(money)));
}

/* Without what may be old. */
static json_t *bare(const json_t *status)
{
    json_t *out = json_copy((json_t *)status);

    for (size_t i = 0; i < DLC_COUNT(figure_names); i++)
        json_object_del(out, figure_names[i]);
    return out;
}

static bool figures_changed(const struct round *r)
{
    const char *name;
    json_t *v;

    json_object_foreach(r->figures, name, v)
    {
        if (!same_json(v, json_object_get(r->was, name)))
            return true;
    }
    return false;
}

/* What we do not know now stays as it was. */
static void add_figures(struct round *r, json_t *status)
{
    bool changed = figures_changed(r);
    char now[SPEC_TIME_LEN];

    for (size_t i = 0; i < DLC_COUNT(figure_names); i++) {
        json_t *v = json_object_get(r->figures, figure_names[i]);

        if (v == NULL && json_object_get(status, figure_names[i]) == NULL)
            v = json_object_get(r->was, figure_names[i]);
        if (v != NULL)
            json_object_set(status, figure_names[i], v);
    }
    if (changed)
        json_object_set_new(status, "figuresTime", json_string(spec_time(r->o->now, now)));
}

/* An event for each condition that is new and wants one. */
static void add_events(struct round *r)
{
    for (size_t i = 0; i < r->n_conds; i++) {
        const struct condition *c = &r->conds[i];
        const json_t *was = condition_was(r, type_of(r, i));
        bool came = c->status != NULL && strcmp(c->status, "True") == 0 &&
                    strcmp(json_text_at(was, "status"), "True") != 0;
        bool told = i == COND_DATASET || i == COND_RUNNING; /* enough is said by the others */
        struct action *a;

        if (c->status == NULL || (!c->warning && (!came || told)) ||
            (c->warning && strcmp(json_text_at(was, "reason"), c->reason) == 0))
            continue;
        a = add_action(r->out, ACT_EVENT);
        a->warning = c->warning;
        snprintf(a->reason, sizeof(a->reason), "%s", c->reason);
        snprintf(a->text, sizeof(a->text), "%s", c->message);
    }
}

void status_write(struct round *r)
{
    json_t *status = json_object(), *a, *b;
    bool same, due;

    json_object_set_new(status, "observedGeneration",
                        json_integer((json_int_t)json_int_at(r->o->object, "metadata.generation")));
    json_object_set_new(status, "phase", json_string(r->phase));
    cut_text(r->message);
    if (r->message[0] != '\0')
        json_object_set_new(status, "message", json_string(r->message));
    json_object_set_new(status, "conditions", conditions(r));
    json_object_update(status, r->fields);
    a = bare(status);
    b = r->was != NULL ? bare(r->was) : NULL;
    same = same_json(a, b);
    due = figures_changed(r) && r->o->now - time_at(r->was, "figuresTime") >= r->every;
    json_decref(a);
    json_decref(b);
    if (same && !due) {
        json_decref(status);
        return;
    }
    add_figures(r, status);
    add_action(r->out, ACT_STATUS)->body = status;
    add_events(r);
}
