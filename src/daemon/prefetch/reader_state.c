// SPDX-License-Identifier: Apache-2.0
#include "daemon/prefetch/reader_state.h"

#include "daemon/dataset.h"
#include "daemon/session.h"

const struct reader_state *reader_state_of(const struct session *s)
{
    if (s->reader.active)
        return &s->reader;
    dlc_list_each (l, &s->ds->sessions) {
        const struct reader_state *f = &dlc_container(l, struct session, link)->reader;

        if (f->active && f->in_hand > 0)
            return f;
    }
    return NULL;
}
