// SPDX-License-Identifier: Apache-2.0
/*
 * s3://: requests are signed with the credentials of the source, or not at all if the caller asks
 * for anonymous access.
 */
#include <string.h>

#include "bucket/origins/s3_i.h"

static int s3_apply(struct s3_call *c, const struct credentials *cr, const char *method,
                    const struct sigv4_header *extra, size_t n_extra, struct dlc_err *err)
{
    (void)err;
    if (cr != NULL)
        s3_sign(c, cr, method, extra, n_extra);
    return 0;
}

/* Prices: S3 Standard in us-east-1, transfer to the Internet. */
static const struct s3_kind kind = {
    .ops = S3_OPS("s3"),
    .scheme = "s3",
    .cloud = "https://s3.%.amazonaws.com",
    .price_get = 0.0004,
    .price_list = 0.005,
    .price_gb = 0.09,
    .sum_mode = true,
    .apply = s3_apply,
};

int origin_s3_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err)
{
    struct credential_source *source = NULL;
    const char *region;
    int rc;

    rc = credential_source_new(c, &source, err);
    if (rc < 0)
        return rc;
    region = credential_source_region(source);
    return s3_new(&kind, u, c, credential_source_endpoint(source),
                  region != NULL ? region : "us-east-1", lanes, &source, out, err);
}
