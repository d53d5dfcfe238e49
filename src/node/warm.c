// SPDX-License-Identifier: Apache-2.0
/* Warm-ups: walk a dataset and fetch all of it, as fast as fetch_pump() allows. */
#include "node/node_i.h"

#include "base/mem.h"

#define WARM_TAG  DLC_TAG4('w', 'a', 'r', 'm')
#define WARMS_MAX 64

bool warm_start(struct conn *c, struct dataset *ds, enum fetch_goal goal)
{
    struct warm *w;
    unsigned others = 0;

    dlc_list_each (l, &c->node->warms)
        others++;
    if (others >= WARMS_MAX)
        return false;
    w = mem_new(struct warm);
    w->tag = WARM_TAG;
    w->node = c->node;
    w->conn = c->id;
    w->ds = ds;
    w->goal = goal;
    w->end = catalog_count(ds->catalog);
    ds->refs++;
    dataset_join(ds);
    dlc_list_push_tail(&c->node->warms, &w->link);
    fetch_pump(c->node); /* may end it at once */
    return true;
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
        conn_progress(c, figures(w));
}

void warm_free(struct warm **wp)
{
    struct warm *w = *wp;

    *wp = NULL;
    dlc_list_remove(&w->link);
    dataset_leave(w->ds);
    dataset_put(&w->ds);
    w->tag = 0;
    mem_free(&w);
}

static void warm_check_end(struct warm *w)
{
    struct conn *c;

    if (w->running > 0 || w->next < w->end)
        return;
    c = conn_by_id(w->node, w->conn);
    if (c != NULL)
        conn_send(c,
                  json_pack("{s:b, s:I, s:I, s:I, s:o}", "ok", 1, "samples", (json_int_t)w->done,
                            "bytes", (json_int_t)w->bytes, "failed", (json_int_t)w->failed,
                            "first_error", msg_string(w->first_error.text)),
                  NULL, 0);
    warm_free(&w);
}

/* Does memory have room for the next sample without pushing out what this walk brought in? */
static bool has_room(const struct warm *w)
{
    struct memory_figures m;
    struct catalog_entry next;

    if (catalog_get(w->ds->catalog, w->next, &next, NULL) < 0)
        return true; /* the fetch will say why not */
    memory_figures(w->node->memory, &m);
    return m.used + next.size <= m.ceiling - m.ceiling / 16;
}

bool warm_step(struct warm *w)
{
    enum fetch_goal goal = w->goal;

    dlc_check(w->tag == WARM_TAG);
    if (w->next == w->end)
        return false;
    if (goal == FETCH_MEMORY && !mem_index_ready(w->ds->index, w->next) && !has_room(w)) {
        if (w->node->disk == NULL) {
            w->end = w->next; /* full, and nowhere else to put the rest */
            warm_check_end(w);
            return false;
        }
        goal = FETCH_DISK;
    }
    w->running++;
    fetch_start(w->ds, w->next++, goal, NULL, w);
    return true;
}

void warm_told(struct warm *w, uint64_t bytes, int rc, const struct dlc_err *err)
{
    dlc_check(w->tag == WARM_TAG && w->running > 0);
    w->running--;
    if (rc == 0) {
        w->done++;
        w->bytes += bytes;
    } else if (rc == DLC_EBYPASS) {
        if (w->node->disk != NULL)
            w->end = w->next; /* the disk takes no more */
    } else if (w->failed++ == 0 && err != NULL) {
        w->first_error = *err;
    }
    warm_check_end(w);
}
