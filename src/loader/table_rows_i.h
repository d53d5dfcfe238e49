// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of tables as samples: the dataset's samples are partitions (.npy or raw numbers,
 * docs/datasets-formats.md), and the loader's samples are their rows, numbered over all partitions.
 * The number of rows follows from the size of a partition, so none has to be read for it; rows of a
 * partition with another number are bad.
 *
 * Not in use (n = 0): a sample of the loader is a sample of the dataset.
 */
#ifndef DLC_LOADER_TABLE_ROWS_I_H
#define DLC_LOADER_TABLE_ROWS_I_H

#include <stdint.h>

#include "loader/sample_decoder.h"

struct rows {
    uint64_t first, n; /* partitions */
    uint64_t *starts;  /* n + 1: the first row of each; behind them the number of all */
};

/* Of partitions [first, first + n). The first one is read, for its header. */
int rows_init(struct rows *r, struct dlc_dataset *ds, const struct decode_spec *m, uint64_t first,
              uint64_t n, struct dlc_err *err);
void rows_release(struct rows *r);

/* Which sample of the dataset, and what of it. */
struct sample_part rows_find(const struct rows *r, uint64_t number);

#endif
