// SPDX-License-Identifier: Apache-2.0
/*
 * gs:// over the XML API, which is S3's protocol with its own authentication: HMAC keys sign
 * (SigV4, region "auto"), tokens go into a header (credentials/google_i.h has the order).
 */
#include "bucket/credentials/google_i.h"
#include "bucket/origins/s3_i.h"

static int gs_apply(struct s3_call *c, const struct credentials *cr, const char *method,
                    const struct sigv4_header *extra, size_t n_extra, struct dlc_err *err)
{
    (void)err;
    if (cr != NULL && cr->bearer != NULL)
        engine_header(c->request, "authorization: Bearer %s", cr->bearer);
    else if (cr != NULL)
        s3_sign(c, cr, method, extra, n_extra);
    return 0;
}

/*
 * Prices: Standard storage in the United States, transfer to the Internet. Accept-Encoding: else
 * objects stored with Content-Encoding gzip are unpacked on the way, and neither size nor checksum
 * is that of the listing.
 */
static const struct s3_kind kind = {
    .ops = S3_OPS("gs"),
    .scheme = "gs",
    .cloud = "https://storage.googleapis.com",
    .price_get = 0.0004,
    .price_list = 0.005,
    .price_gb = 0.12,
    .extra = "Accept-Encoding: gzip",
    .apply = gs_apply,
};

int origin_gs_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err)
{
    struct bucket_config in_path = *c;
    struct credential_source *source = NULL;
    int rc;

    if (c->path_style < 0)
        in_path.path_style = 1; /* works for every bucket name */
    rc = google_source_new(c, &source, err);
    if (rc < 0)
        return rc;
    return s3_new(&kind, u, &in_path, c->endpoint, "auto", lanes, &source, out, err);
}
