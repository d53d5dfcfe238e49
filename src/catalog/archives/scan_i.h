// SPDX-License-Identifier: Apache-2.0
/*
 * Definitions that the scanners share: their names, limits with defaults, and texts for messages.
 */
#ifndef DLC_CATALOG_ARCHIVES_SCAN_I_H
#define DLC_CATALOG_ARCHIVES_SCAN_I_H

#include "catalog/archives/scan.h"

extern const struct scanner scanner_tar, scanner_tar_gz, scanner_tar_bz2, scanner_tar_xz;
extern const struct scanner scanner_tar_zst, scanner_zip, scanner_csv, scanner_tsv, scanner_npy;
extern const struct scanner scanner_parquet;

#define SCAN_SHOWN 160

/* A name for people: printable, at most 100 bytes of it. Returns out. */
const char *scan_shown(const char *name, size_t len, char out[static SCAN_SHOWN]);

uint64_t scan_partition_bytes(const struct scan *s);

/* Pass the sample "rows first-last", made of these pieces, to the caller. */
int scan_found_rows(struct scan *s, uint64_t first, uint64_t last, const struct piece *pieces,
                    size_t n_pieces, struct dlc_err *err);

#endif
