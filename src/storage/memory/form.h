// SPDX-License-Identifier: Apache-2.0
/*
 * A form as it lies in a gift and in the segment: struct shm_form_hdr, then what the loader made.
 * The daemon checks its own copy once before anybody sees it; whoever reads it checks it again, and
 * then that it is of the policy it wants. What follows the header is hostile all the same: a sum
 * shows accidents, not intent.
 */
#ifndef DLC_STORAGE_MEMORY_FORM_H
#define DLC_STORAGE_MEMORY_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the header before `len` bytes that are there already. */
void form_seal(void *form, uint64_t sample, uint64_t policy, size_t len);

/* Are these `size` bytes, header and all, a whole form of the sample? form is aligned to 8. */
bool form_is_sound(const void *form, size_t size, uint64_t sample);
bool form_is_for(const void *form, uint64_t policy); /* of one that is sound */

#endif
