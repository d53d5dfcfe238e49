// SPDX-License-Identifier: Apache-2.0
/* Warm-ups: walk a dataset and fetch all of it, as fast as fetch_pump() allows. */
#include "node/node_i.h"

#include "base/mem.h"

#define WARM_TAG DLC_TAG4('w', 'a', 'r', 'm')

void warm_start(struct conn *c, struct dataset *ds, enum fetch_goal goal)
{
    struct warm *w = mem_new(struct warm);

    w->tag = WARM_TAG;
    w->node = c->node;
    w->conn = c->id;
    w->ds = ds;
    w->goal = goal;
    ds->refs++;
    dlc_list_push_tail(&c->node->warms, &w->link);
    fetch_pump(c->node); /* may end it at once */
}

static json_t *figures(const struct warm *w)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "phase", "warming", "done",
                     (json_int_t)(w->done + w->failed), "total",
                     (json_int_t)catalog_count(w->ds->catalog), "bytes", (json_int_t)w->bytes,
                     "total_bytes", (json_int_t)catalog_bytes(w->ds->catalog), "failed",
                     (json_int_t)w->failed);
}

void warm_progress(struct warm *w)
{
    struct conn *c = conn_by_id(w->node, w->conn);

    if (c != NULL)
        conn_send(c, json_pack("{s:o}", "progress", figures(w)), NULL, 0);
}

void warm_free(struct warm **wp)
{
    struct warm *w = *wp;

    *wp = NULL;
    dlc_list_remove(&w->link);
    dataset_put(&w->ds);
    w->tag = 0;
    mem_free(&w);
}

static void warm_end(struct warm *w)
{
    struct conn *c = conn_by_id(w->node, w->conn);

    if (c != NULL)
        conn_send(c,
                  json_pack("{s:b, s:I, s:I, s:I, s:s}", "ok", 1, "samples", (json_int_t)w->done,
                            "bytes", (json_int_t)w->bytes, "failed", (json_int_t)w->failed,
                            "first_error", w->failed > 0 ? w->first_error.text : ""),
                  NULL, 0);
    warm_free(&w);
}

/* Into memory while it has room without pushing out what this walk brought in; the rest to disk. */
static enum fetch_goal goal_now(const struct warm *w)
{
    struct memory_figures m;
    struct catalog_entry next;

    if (w->goal == FETCH_DISK || w->node->disk == NULL)
        return w->goal;
    memory_figures(w->node->memory, &m);
    if (catalog_get(w->ds->catalog, w->next, &next, NULL) < 0)
        return FETCH_MEMORY; /* the fetch will say why not */
    return m.used + next.size > m.ceiling - m.ceiling / 16 ? FETCH_DISK : FETCH_MEMORY;
}

bool warm_step(struct warm *w)
{
    dlc_check(w->tag == WARM_TAG);
    if (w->next == catalog_count(w->ds->catalog))
        return false;
    w->running++;
    fetch_start(w->ds, w->next++, goal_now(w), NULL, w);
    return true;
}

void warm_told(struct warm *w, uint64_t bytes, int rc, const struct dlc_err *err)
{
    dlc_check(w->tag == WARM_TAG && w->running > 0);
    w->running--;
    if (rc < 0) {
        if (w->failed++ == 0 && err != NULL)
            w->first_error = *err;
    } else {
        w->done++;
        w->bytes += bytes;
    }
    if (w->running == 0 && w->next == catalog_count(w->ds->catalog))
        warm_end(w);
}
