// SPDX-License-Identifier: Apache-2.0
/*
 * The cyclic checksums that clouds keep for objects: CRC-32 (as in zip), CRC-32C (Castagnoli) and
 * CRC-64/NVME. All X.
 */
#ifndef DLC_BUCKET_CHECKSUM_H
#define DLC_BUCKET_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of data that follows data whose checksum is `sum`; start with 0. */
uint32_t checksum_crc32(uint32_t sum, const void *data, size_t len);
uint32_t checksum_crc32c(uint32_t sum, const void *data, size_t len);
uint64_t checksum_crc64nvme(uint64_t sum, const void *data, size_t len);

/* For tests: from now on do without the processor's special instructions (or with them again). */
void checksum_use_portable(bool yes);

#endif
