// SPDX-License-Identifier: Apache-2.0
/*
 * Clouds that speak S3's protocol at endpoints of their own, and what they do otherwise than Amazon
 * and the servers one runs oneself:
 *
 *     Alibaba OSS     the bucket's name in the host name only; the region is that of the endpoint
 *     Cloudflare R2   one region, "auto"
 */
#ifndef DLC_BUCKET_S3_DIALECT_I_H
#define DLC_BUCKET_S3_DIALECT_I_H

#include <stdbool.h>

/* Does this endpoint refuse a bucket's name in the path? */
bool s3_dialect_wants_host(const char *endpoint);
/* The region that requests to this endpoint are signed for; NULL: any. Gives. */
char *s3_dialect_region(const char *endpoint);

#endif
