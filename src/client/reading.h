// SPDX-License-Identifier: Apache-2.0
/* The order in which a dataset is read, and its announcement to a daemon. */
#ifndef DLC_CLIENT_READING_H
#define DLC_CLIENT_READING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "order/schedule.h"

struct attachment;
struct dlc_dataset;

#define READING_WORDS 16 /* a relaxed order looks at most 1024 samples ahead */

/* The order that dlc_next() follows. Positions are absolute: they continue from the first epoch. */
struct reading {
    struct schedule
        *schedule; /* NULL: no order is set. Its lists: G: dataset.mtx and the process-wide
                        * lock; its swaps: G: the process-wide lock */
    struct order_spec spec;
    uint64_t epoch, epochs; /* the first one, and how many are left from there; 0: no end */
    uint64_t window;        /* as in struct dlc_order */
    bool relaxed;
    uint64_t pos;         /* all before it was read */
    uint64_t schedule_at; /* the end of an epoch that was reported to the caller */
    uint64_t dealt;       /* dlc_take(): samples before it were given to the caller */
    bool swaps;           /* relaxed and computed: positions may change places: substitution.c */
    uint64_t settled;     /* with swaps: positions before it are final */
    uint64_t look;        /* where the scan of the slots continues */
    uint64_t taken[READING_WORDS]; /* bit k: pos + k was read */
    uint64_t ahead, waited_ns;     /* as in struct dlc_progress */
    struct dlc_mono look_again;    /* time of the next check whether the daemon is there */
};

static inline bool reading_is_taken(const struct reading *r, uint64_t k)
{
    return r->taken[k / 64] >> (k % 64) & 1;
}

/* Announce the current order to a daemon, if one is set. Returns as attach_call(), or an error if
 * it was refused. */
int reading_tell(struct dlc_dataset *ds, struct attachment *a, struct dlc_err *err);
/* The same for one more list. */
int reading_tell_more(struct dlc_dataset *ds, struct attachment *a, const struct schedule_list *l,
                      struct dlc_err *err);
const char *reading_kind(const struct reading *r); /* as the daemon calls it */
void reading_release(struct reading *r);

#endif
