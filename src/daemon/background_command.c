// SPDX-License-Identifier: Apache-2.0
#include "daemon/background_command.h"

#include "base/check.h"
#include "base/mem.h"
#include "daemon/client_conn.h"
#include "daemon/dataset.h"
#include "daemon/state.h"

#define BACKGROUND_MAX 16 /* of one client; the library sends one at a time */

void *background_new(struct conn *c, struct dataset *ds, size_t size)
{
    struct background_command *b;

    dlc_check(size >= sizeof(*b));
    if (c->n_background >= BACKGROUND_MAX) {
        conn_fail(c, DLC_EBUSY, "too many questions at once: wait for the answers");
        return NULL;
    }
    b = mem_zero(size);
    c->n_background++;
    b->node = c->node;
    b->node->pending++;
    b->conn = c->id;
    b->ds = ds;
    if (ds != NULL)
        dataset_ref(ds);
    return b;
}

void background_run(struct background_command *b, enum work_class class,
                    void (*work)(struct work *), void (*back)(struct task *))
{
    b->work.run = work;
    b->task.run = back;
    work_run(b->node->work, class, &b->work);
}

void background_end(struct background_command *b)
{
    struct conn *c = conn_by_id(b->node, b->conn);

    if (c != NULL)
        c->n_background--;
    b->node->pending--;
    if (b->ds != NULL)
        dataset_put(&b->ds);
    mem_free(&b);
}
