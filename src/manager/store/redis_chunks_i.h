// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks in Redis: the part of the store's operations (store_i.h) that concerns them.
 */
#ifndef DLC_MANAGER_STORE_REDIS_CHUNKS_I_H
#define DLC_MANAGER_STORE_REDIS_CHUNKS_I_H

#include <stdbool.h>

#include "manager/store/store_i.h"

/* A chunk without its key, as text: size, state, references, jobs, cost, time, ETag. */
void redis_chunk_write(struct buf *out, const struct store_chunk *c);
bool redis_chunk_parse(const char *s, size_t len, struct store_chunk *out, const char **etag,
                       size_t *etag_len);

int redis_chunks_put(struct store *m, const struct store_chunk *c, size_t n, uint64_t fence,
                     struct dlc_err *err);
int redis_chunks_drop(struct store *m, const char *dataset, const char *node, uint64_t fence,
                      struct dlc_err *err);
int redis_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                           const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err);
int redis_streams(struct store *m, const char *dataset, const char *node, struct chunk_stream **out,
                  size_t *n, struct dlc_err *err);
int redis_fetch(struct store *m, const char *dataset, const struct page_range *range,
                struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err);
int redis_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max, size_t *n,
               struct dlc_err *err);

#endif
