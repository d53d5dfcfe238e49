// SPDX-License-Identifier: Apache-2.0
/*
 * Target files that the rows of a manifest name: a transcript, a mask. They become samples of the
 * hidden split, each once, however many samples it is the target of.
 *
 * (TARGETS-1) In a split all rows name a target file, or none does.
 */
#ifndef DLC_CATALOG_MANIFEST_TARGETS_I_H
#define DLC_CATALOG_MANIFEST_TARGETS_I_H

#include "catalog/builder_i.h"
#include "catalog/manifest_refs_i.h"

struct targets {
    struct grown refs;  /* of each row, in order */
    struct grown pairs; /* of uint64_t: sample, reference of its target */
    struct {
        bool with, without;
    } * splits; /* what rows of each split have */
    size_t n, cap;
};

/* The next row is of this split. False: other rows of the split have a target file and it has none,
 * or the reverse. *no_memory is set if so. */
bool targets_add_row(struct targets *t, uint32_t split, uint64_t ref, bool *no_memory);
/* Sample i was made of that row. -1: no memory. */
int targets_add_sample(struct targets *t, size_t row, uint64_t i);
/* All samples are there: add their targets. */
int targets_finish(struct targets *t, struct refs *r, struct dlc_err *err);
void targets_release(struct targets *t);

#endif
