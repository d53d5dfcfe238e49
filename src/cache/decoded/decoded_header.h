// SPDX-License-Identifier: Apache-2.0
/*
 * A decoded sample in an upload slot and in the segment: struct shm_decoded_hdr, then what the
 * loader made. The daemon checks its own copy with decoded_is_sound() before anybody sees it; it
 * does not change from then on. Who reads it looks whether the header says what it asked for, and
 * does not sum up again: samples are not summed up at every read either. What follows the header is
 * hostile all the same: a sum shows accidents, not intent.
 */
#ifndef DLC_CACHE_DECODED_DECODED_HEADER_H
#define DLC_CACHE_DECODED_DECODED_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the header before `len` bytes that are there already. */
void decoded_seal(void *decoded, uint64_t sample, uint64_t policy, size_t len);

/* Are these `size` bytes, header and all, the sample decoded, as it was sealed? `decoded` is
 * aligned to 8. */
bool decoded_is_sound(const void *decoded, size_t size, uint64_t sample);
/* Does the header say that they are one, and of this policy? */
bool decoded_is_for(const void *decoded, size_t size, uint64_t sample, uint64_t policy);

#endif
