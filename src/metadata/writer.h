// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks on their way to the store: gathered, merged (the last word on a chunk counts), and written
 * in batches by a thread of its own. While the store is away they are kept, up to a limit, after
 * which the oldest are forgotten and counted: dlcache rebuild finds them again.
 */
#ifndef DLC_METADATA_WRITER_H
#define DLC_METADATA_WRITER_H

#include "metadata/metadata.h"

struct meta_writer;

/* Borrows m for its life. */
struct meta_writer *meta_writer_new(struct meta *m, size_t batch, size_t most);
void meta_writer_free(struct meta_writer **wp); /* writes what it can within a second */
void meta_writer_put(struct meta_writer *w, const struct meta_chunk *c); /* copies; never blocks */
void meta_writer_gone(struct meta_writer *w, const char *dataset, const char *node,
                      const char *key);
/* Wait until all that was put so far is written. DLC_ETIMEDOUT. */
int meta_writer_flush(struct meta_writer *w, struct dlc_dur limit, struct dlc_err *err);

struct meta_writer_figures {
    uint64_t waiting, written, forgotten, failures;
};
void meta_writer_figures(struct meta_writer *w, struct meta_writer_figures *out);

#endif
