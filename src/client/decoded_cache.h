// SPDX-License-Identifier: Apache-2.0
/*
 * Decoded samples that the daemon keeps for all processes of this user (docs/design/0007). They are
 * opened beside a dataset: the samples are the dataset's, decoded as a policy says.
 *
 * Nothing here waits for the daemon but decoded_handle_open(), and decoded_handle_reserve() while
 * it looks for a daemon that was lost. Threads: any; decoded_handle_close() when nobody else uses
 * it.
 */
#ifndef DLC_CLIENT_DECODED_CACHE_H
#define DLC_CLIENT_DECODED_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "dlcache/core.h"

struct decoded_handle;
struct attachment;

/* Borrows ds until it is closed. policy: a number that differs where decoded samples do. */
int decoded_handle_open(struct dlc_dataset *ds, uint64_t policy, struct decoded_handle **out,
                        struct dlc_err *err);
void decoded_handle_close(struct decoded_handle **sp);

/* A sample decoded. False: there is none, or it is another one's. No system call is made. Give
 * it back with decoded_handle_put(). */
bool decoded_handle_get(struct decoded_handle *s, uint64_t sample, struct dlc_view *out);
void decoded_handle_put(struct decoded_handle *s, struct dlc_view *v);

/* Memory to decode a sample into. */
struct upload {
    void *data; /* NULL: none */
    struct attachment *a;
    uint32_t number;
};

/* False: it is not wanted now. Gives: *out, to decoded_handle_upload() or
 * decoded_handle_cancel(). */
bool decoded_handle_reserve(struct decoded_handle *s, size_t len, struct upload *out);
/* Takes: the daemon keeps what is in it, if it still has the memory. */
void decoded_handle_upload(struct decoded_handle *s, struct upload *g, uint64_t sample, size_t len);
void decoded_handle_cancel(struct decoded_handle *s, struct upload *g);

struct decoded_handle_figures {
    uint64_t samples, bytes, room; /* of the daemon, all together */
    uint64_t unsound; /* that decoded_handle_get() did not give: not what was asked for */
};
void decoded_handle_figures(struct decoded_handle *s, struct decoded_handle_figures *out);

#endif
