// SPDX-License-Identifier: Apache-2.0
/*
 * Compressed tars. The tar is decoded into the sink while its members are found; what follows its
 * end block is decoded too, so that the checksum at the end of the file is always checked and the
 * unpacked copy is the whole tar.
 */
#include "catalog/archives/decompress_i.h"
#include "catalog/archives/scan_i.h"
#include "catalog/archives/tar_i.h"

static int run(struct scan *s, const struct codec *codec, struct dlc_err *err)
{
    struct expand x;
    uint64_t got;
    int rc;

    rc = expand_init(&x, s, codec, err);
    if (rc == 0)
        rc = tar_scan(s, &x.base, PIECE_DERIVED, err);
    if (rc == 0)
        rc = x.base.read(&x.base, NULL, UINT64_MAX, &got, err);
    expand_release(&x);
    return rc;
}

static int run_gz(struct scan *s, struct dlc_err *err)
{
    return run(s, &codec_gzip, err);
}

static int run_bz2(struct scan *s, struct dlc_err *err)
{
    return run(s, &codec_bzip2, err);
}

static int run_xz(struct scan *s, struct dlc_err *err)
{
    return run(s, &codec_xz, err);
}

static int run_zst(struct scan *s, struct dlc_err *err)
{
    return run(s, &codec_zstd, err);
}

static const char *const gz[] = {".tar.gz", ".tgz", NULL};
static const char *const bz2[] = {".tar.bz2", ".tbz2", ".tbz", NULL};
static const char *const xz[] = {".tar.xz", ".txz", NULL};
static const char *const zst[] = {".tar.zst", ".tzst", NULL};

const struct scanner scanner_tar_gz = {"tar.gz", gz, .derives = true, .run = run_gz};
const struct scanner scanner_tar_bz2 = {"tar.bz2", bz2, .derives = true, .run = run_bz2};
const struct scanner scanner_tar_xz = {"tar.xz", xz, .derives = true, .run = run_xz};
const struct scanner scanner_tar_zst = {"tar.zst", zst, .derives = true, .run = run_zst};
