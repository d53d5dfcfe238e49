// SPDX-License-Identifier: Apache-2.0
/*
 * A decoded sample in an upload slot and in the segment: struct shm_decoded_hdr, then the loader's
 * output. The daemon checks its own copy with decoded_is_sound() before any reader sees it; the
 * copy does not change from then on. A reader checks that the header names the sample it asked for,
 * and does not verify the checksum again: samples are not verified at every read either. The bytes
 * after the header are hostile all the same: a checksum detects accidents, not intent.
 */
#ifndef DLC_CACHE_DECODED_DECODED_HEADER_H
#define DLC_CACHE_DECODED_DECODED_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the header before `len` bytes that are there already. */
void decoded_seal(void *decoded, uint64_t sample, uint64_t policy, size_t len);

/* Are these `size` bytes, including the header, the decoded sample as it was sealed? `decoded` is
 * aligned to 8. */
bool decoded_is_sound(const void *decoded, size_t size, uint64_t sample);
/* Does the header name this sample and this policy? */
bool decoded_is_for(const void *decoded, size_t size, uint64_t sample, uint64_t policy);

#endif
