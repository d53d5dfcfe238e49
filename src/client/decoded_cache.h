// SPDX-License-Identifier: Apache-2.0
/*
 * Forms that the daemon keeps for all processes of this user (docs/design/0007). They are opened
 * beside a dataset: the samples are the dataset's, decoded as a policy says.
 *
 * Nothing here waits for the daemon but kept_open(), and kept_room() while it looks for a daemon
 * that was lost. Threads: any; kept_close() when nobody else uses it.
 */
#ifndef DLC_CLIENT_DECODED_CACHE_H
#define DLC_CLIENT_DECODED_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "dlcache.h"

struct kept;
struct attachment;

/* Borrows ds until it is closed. policy: a number that differs where forms do. */
int kept_open(struct dlc_dataset *ds, uint64_t policy, struct kept **out, struct dlc_err *err);
void kept_close(struct kept **sp);

/* The form of a sample. False: there is none, or it is another one's. No system call is made. Give
 * it back with kept_put(). */
bool kept_get(struct kept *s, uint64_t sample, struct dlc_view *out);
void kept_put(struct kept *s, struct dlc_view *v);

/* Memory to make a form in. */
struct upload {
    void *data; /* NULL: none */
    struct attachment *a;
    uint32_t number;
};

/* False: it is not wanted now. Gives: *out, to kept_give() or kept_drop(). */
bool kept_room(struct kept *s, size_t len, struct upload *out);
/* Takes: the daemon keeps what is in it, if it still has the memory. */
void kept_give(struct kept *s, struct upload *g, uint64_t sample, size_t len);
void kept_drop(struct kept *s, struct upload *g);

struct kept_figures {
    uint64_t forms, bytes, room; /* of the daemon, all together */
    uint64_t unsound;            /* that kept_get() did not give: not what was asked for */
};
void kept_figures(struct kept *s, struct kept_figures *out);

#endif
