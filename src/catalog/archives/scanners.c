// SPDX-License-Identifier: Apache-2.0
/* The table of scanners, and which one reads an object. */
#include <string.h>
#include <strings.h>

#include "catalog/archives/scan_i.h"

const struct scanner *const scanners[] = {
    &scanner_tar, &scanner_tar_gz, &scanner_tar_bz2, &scanner_tar_xz, &scanner_tar_zst,
    &scanner_zip, &scanner_csv,    &scanner_tsv,     &scanner_npy,    &scanner_parquet,
    NULL,
};

static bool ends_with(const char *key, size_t len, const char *suffix)
{
    size_t n = strlen(suffix);

    return len > n && strncasecmp(key + len - n, suffix, n) == 0;
}

const struct scanner *scanner_of(const char *key)
{
    size_t len = strlen(key);

    for (const struct scanner *const *s = scanners; *s != NULL; s++)
        for (const char *const *suffix = (*s)->suffixes; *suffix != NULL; suffix++)
            if (ends_with(key, len, *suffix))
                return *s;
    return NULL;
}
