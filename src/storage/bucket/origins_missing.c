// SPDX-License-Identifier: Apache-2.0
/* Origins that are not built yet. This file goes away with the last of them. */
#include "storage/bucket/origin.h"

static int missing(const char *scheme, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL, "%s:// buckets are not built yet; use file://", scheme);
}

int origin_gs_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err)
{
    (void)u, (void)c, (void)lanes, (void)out;
    return missing("gs", err);
}

int origin_http_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                    struct origin **out, struct dlc_err *err)
{
    (void)u, (void)c, (void)lanes, (void)out;
    return missing("http", err);
}
