// SPDX-License-Identifier: Apache-2.0
/* Replaces the Redis tier in builds without Redis: every read is a miss. */
#include "base/check.h"
#include "cluster/peer/redis_tier.h"

int shared_new(const struct shared_config *c, struct shared **out, struct dlc_err *err)
{
    (void)c;
    *out = NULL;
    return dlc_err_set(err, DLC_EINVAL,
                       "a shared tier needs Redis, and this dlcache was built without it");
}

void shared_free(struct shared **sp)
{
    dlc_check(*sp == NULL);
}

void shared_read(struct shared *s, struct shared_read *r)
{
    (void)r;
    dlc_check(s != NULL);
}

void shared_put(struct shared *s, const char *dataset, uint64_t snapshot, uint64_t sample,
                const void *data, uint64_t length, uint64_t checksum, double likely)
{
    (void)dataset;
    (void)snapshot;
    (void)sample;
    (void)data;
    (void)length;
    (void)checksum;
    (void)likely;
    dlc_check(s != NULL);
}

void shared_figures(struct shared *s, struct shared_figures *out)
{
    (void)out;
    dlc_check(s != NULL);
}

bool shared_takes(const struct shared *s, uint64_t length)
{
    (void)length;
    dlc_check(s != NULL);
    return false;
}
