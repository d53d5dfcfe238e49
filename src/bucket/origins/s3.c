// SPDX-License-Identifier: Apache-2.0
/*
 * s3://: requests are signed with the credentials of the source, or not at all if the caller asks
 * for anonymous access.
 */
#include <string.h>

#include "bucket/origins/s3_i.h"

/* The source answers at once as a rule. When it must look first, one task per lane waits for it. */
static int s3_authorise(struct s3_call *c, const char *method, const struct sigv4_header *extra,
                        size_t n_extra, struct dlc_err *err)
{
    struct s3_lane *lane = c->lane;
    struct credentials_ref *ref = NULL;
    int rc;

    if (lane->asked)
        return DLC_EBUSY;
    rc = credential_source_get(lane->s3->auth, lane->loop, &lane->ready, &ref, err);
    lane->asked = rc == DLC_EBUSY;
    if (rc == 0 && ref != NULL)
        s3_sign(c, credentials_of(ref), method, extra, n_extra);
    credentials_put(&ref);
    return rc;
}

static void on_ready(struct task *t)
{
    struct s3_lane *lane = dlc_container(t, struct s3_lane, ready);

    lane->asked = false;
    s3_resume(lane);
}

static void s3_expired(struct s3_call *c)
{
    struct s3 *s = c->lane->s3;
    unsigned known = s->expired;

    while (known < c->generation &&
           !atomic_compare_exchange_weak(&s->expired, &known, c->generation))
        ;
    credential_source_expire(s->auth, c->generation);
}

static void s3_auth_close(struct s3_lane *lane)
{
    /* If the task is in the loop's inbox already it finds no call that waits. */
    if (lane->asked)
        credential_source_forget(lane->s3->auth, &lane->ready);
}

static void s3_auth_free(struct s3 *s)
{
    struct credential_source *source = s->auth;

    credential_source_free(&source);
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
    .authorise = s3_authorise,
    .expired = s3_expired,
    .lane_close = s3_auth_close,
    .free = s3_auth_free,
};

int origin_s3_new(const struct url *u, const struct bucket_config *c, unsigned lanes,
                  struct origin **out, struct dlc_err *err)
{
    struct credential_source *source = NULL;
    const char *region;
    struct s3 *s;
    int rc;

    rc = credential_source_new(c, &source, err);
    if (rc < 0)
        return rc;
    region = credential_source_region(source);
    rc = s3_new(&kind, u, c, credential_source_endpoint(source),
                region != NULL ? region : "us-east-1", lanes, &s, err);
    if (rc < 0) {
        credential_source_free(&source);
        return rc;
    }
    s->auth = source;
    for (unsigned i = 0; i < lanes; i++)
        s->lanes[i].ready.run = on_ready;
    *out = &s->origin;
    return 0;
}
