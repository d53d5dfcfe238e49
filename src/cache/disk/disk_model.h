// SPDX-License-Identifier: Apache-2.0
/*
 * The decisions of the disk tier without its files: what is kept, and what is evicted for it. The
 * simulator drives it; the code that decides is the tier's own (eviction_groups.c). No locks, no
 * files, no clock: times are passed in, in seconds.
 */
#ifndef DLC_CACHE_DISK_DISK_MODEL_H
#define DLC_CACHE_DISK_DISK_MODEL_H

#include <stdint.h>

#include "cache/policy/policy.h"

struct disk_model;

/* limit: bytes. ops NULL: worth. o may be NULL. */
struct disk_model *disk_model_new(uint64_t limit, double cool_down, const struct policy_ops *ops,
                                  const struct policy_options *o);
void disk_model_free(struct disk_model **mp);

/* As the functions of disk.h: the group of a dataset, its jobs and their runs. */
uint32_t disk_model_group(struct disk_model *m, uint64_t key, double now);
void disk_model_join(struct disk_model *m, uint32_t group, double now);
void disk_model_leave(struct disk_model *m, uint32_t group, double now);
void disk_model_expect(struct disk_model *m, uint32_t group, int32_t runs);

enum disk_model_outcome { DISK_MODEL_HIT, DISK_MODEL_STORED, DISK_MODEL_REFUSED };

/* A job of that group reads a chunk; *evicted: add the chunks that went for it. */
enum disk_model_outcome disk_model_read(struct disk_model *m, uint32_t group, uint64_t chunk,
                                        uint64_t size, double cost, double now, uint64_t *evicted);

#endif
