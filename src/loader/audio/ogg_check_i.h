// SPDX-License-Identifier: Apache-2.0
/*
 * The pages of an OGG file. libsndfile passes over pages that are damaged or missing, and loses
 * memory over damaged headers; so what is not whole is not given to it.
 */
#ifndef DLC_LOADER_AUDIO_OGG_CHECK_I_H
#define DLC_LOADER_AUDIO_OGG_CHECK_I_H

#include <stddef.h>
#include <stdint.h>

#define OGG_CHECKED  65536
#define OGG_CHECKSUM 22 /* where it lies in a page */

/* NULL, or what is wrong: pages follow each other up to the last one; those that begin in the first
 * OGG_CHECKED bytes, where headers are, have the checksum they say. */
const char *ogg_check(const unsigned char *data, size_t len);

/* Bytes of the page that begins here, or 0: not all of it is there. */
size_t ogg_page_bytes(const unsigned char *page, size_t left);

/* What belongs at OGG_CHECKSUM, lowest byte first, of a page of n bytes. */
uint32_t ogg_checksum(const unsigned char *page, size_t n);

#endif
