// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks in SQLite: the part of the store's operations (store_i.h) that concerns them.
 */
#ifndef DLC_MANAGER_STORE_SQLITE_CHUNKS_I_H
#define DLC_MANAGER_STORE_SQLITE_CHUNKS_I_H

#include "manager/store/store_i.h"

int sqlite_chunks_put(struct store *m, const struct store_chunk *c, size_t n, uint64_t fence,
                      struct dlc_err *err);
int sqlite_chunks_drop(struct store *m, const char *dataset, const char *node, uint64_t fence,
                       struct dlc_err *err);
int sqlite_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                            const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err);
int sqlite_streams(struct store *m, const char *dataset, const char *node,
                   struct chunk_stream **out, size_t *n, struct dlc_err *err);
int sqlite_fetch(struct store *m, const char *dataset, const struct page_range *range,
                 struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err);
int sqlite_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max, size_t *n,
                struct dlc_err *err);

#endif
