// SPDX-License-Identifier: Apache-2.0
/*
 * Client of the decoded cache: decoded samples that the daemon keeps for all processes of this user
 * (docs/design/0007). A handle is opened for a dataset and a policy: it has that dataset's samples,
 * decoded as the policy says.
 *
 * Only decoded_handle_open() waits for the daemon, and decoded_handle_reserve() while it looks for
 * a daemon that was lost. Threads: any; decoded_handle_close() only when no other thread uses it.
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

/* Borrows ds until it is closed. policy: a number that differs for every way of decoding. */
int decoded_handle_open(struct dlc_dataset *ds, uint64_t policy, struct decoded_handle **out,
                        struct dlc_err *err);
void decoded_handle_close(struct decoded_handle **sp);

/* Get a decoded sample. False: there is none, or its header is of another one. Makes no system
 * call. Return it with decoded_handle_put(). */
bool decoded_handle_get(struct decoded_handle *s, uint64_t sample, struct dlc_view *out);
void decoded_handle_put(struct decoded_handle *s, struct dlc_view *v);

/* Memory to decode a sample into. */
struct upload {
    void *data; /* NULL: none */
    struct attachment *a;
    uint32_t number;
};

/* False: the daemon does not want it now. Gives: *out, for decoded_handle_upload() or
 * decoded_handle_cancel(). */
bool decoded_handle_reserve(struct decoded_handle *s, size_t len, struct upload *out);
/* Takes: the daemon keeps the decoded sample, if it still has the memory. */
void decoded_handle_upload(struct decoded_handle *s, struct upload *g, uint64_t sample, size_t len);
void decoded_handle_cancel(struct decoded_handle *s, struct upload *g);

struct decoded_handle_figures {
    uint64_t samples, bytes, room; /* totals of the daemon */
    uint64_t unsound;              /* rejected by decoded_handle_get(): wrong header */
};
void decoded_handle_figures(struct decoded_handle *s, struct decoded_handle_figures *out);

#endif
