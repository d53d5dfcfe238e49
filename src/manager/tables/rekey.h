// SPDX-License-Identifier: Apache-2.0
/*
 * Replacement of the key that seals, while managers run: every record is written again with the
 * first key of the ring.
 *
 *     new key first in all rings --rekey--> it seals --all records written again--> old ones unused
 *
 * A walk goes in steps, so that a request never takes long: each step gives a cursor for the next.
 * A leader that is lost in between leaves records of both keys, which all rings open; the next walk
 * goes on.
 */
#ifndef DLC_MANAGER_TABLES_REKEY_H
#define DLC_MANAGER_TABLES_REKEY_H

#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "manager/store/seal.h"

struct tables;

struct rekey_step {
    uint64_t looked_at, written;
    uint64_t failed; /* their texts do not open: they stay as they are, and were logged */
    char *next;      /* gives; NULL: that was all */
};

/* The first key of the ring seals from now on, in all managers. */
int rekey_begin(struct tables *t, struct seal *seal, struct dlc_err *err);
/* Write records again from the cursor on (NULL: the first), for about `limit`. */
int rekey_some(struct tables *t, const struct seal *seal, const char *after, struct dlc_dur limit,
               struct rekey_step *out, struct dlc_err *err);
/* Gives an object: how many records use each key, by its id. */
int rekey_count(struct tables *t, json_t **out, struct dlc_err *err);

#endif
