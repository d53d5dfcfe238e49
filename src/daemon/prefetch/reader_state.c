// SPDX-License-Identifier: Apache-2.0
#include "daemon/prefetch/reader_state.h"

#include "daemon/dataset.h"
#include "daemon/session.h"

/* Each miss asks, and a dataset may have thousands of sessions. Who follows an order opens before its
 * workers, so it is among the first. */
#define LOOK_MAX 64

const struct reader_state *reader_state_of(const struct session *s)
{
    unsigned looked = 0;

    if (s->reader.active)
        return &s->reader;
    dlc_list_each (l, &s->ds->sessions) {
        const struct reader_state *f = &dlc_container(l, struct session, link)->reader;

        if (f->active && f->in_hand > 0)
            return f;
        if (++looked == LOOK_MAX)
            break;
    }
    return NULL;
}
