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

/* The checksum that a cloud reports for a whole object. */
enum checksum_kind { CHECKSUM_NONE, CHECKSUM_CRC64NVME, CHECKSUM_CRC32C, CHECKSUM_CRC32 };

struct object_checksum {
    enum checksum_kind kind;
    uint64_t value;
};

/* As the functions above. Not for CHECKSUM_NONE. */
uint64_t checksum_add(enum checksum_kind kind, uint64_t sum, const void *data, size_t len);
/* Of two pieces, one after the other, of which the second has len bytes. */
uint64_t checksum_combine(enum checksum_kind kind, uint64_t first, uint64_t second, uint64_t len);

/* For tests: from now on do without the processor's special instructions (or with them again). */
void checksum_use_portable(bool yes);

#endif
