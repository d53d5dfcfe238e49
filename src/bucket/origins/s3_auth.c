// SPDX-License-Identifier: Apache-2.0
/* How a call gets its credentials: from the origin's source, which keeps and renews them. */
#include "bucket/origins/s3_i.h"

/* The source answers at once as a rule. When it must look first, one task per lane waits for it. */
int s3_authorise(struct s3_call *c, const char *method, const struct sigv4_header *extra,
                 size_t n_extra, struct dlc_err *err)
{
    struct s3_lane *lane = c->lane;
    struct credentials_ref *ref = NULL;
    int rc;

    if (lane->asked)
        return DLC_EBUSY;
    rc = credential_source_get(lane->s3->source, lane->loop, &lane->ready, &ref, err);
    lane->asked = rc == DLC_EBUSY;
    if (rc == 0 && ref != NULL) {
        c->generation = credentials_of(ref)->generation;
        c->known_expired = c->generation <= lane->s3->expired;
    }
    if (rc == 0)
        rc = lane->s3->kind->apply(c, ref != NULL ? credentials_of(ref) : NULL, method, extra,
                                   n_extra, err);
    credentials_put(&ref);
    return rc;
}

void s3_auth_ready(struct task *t)
{
    struct s3_lane *lane = dlc_container(t, struct s3_lane, ready);

    lane->asked = false;
    s3_resume(lane);
}

void s3_expired(struct s3_call *c)
{
    struct s3 *s = c->lane->s3;
    unsigned known = s->expired;

    while (known < c->generation &&
           !atomic_compare_exchange_weak(&s->expired, &known, c->generation))
        ;
    credential_source_expire(s->source, c->generation);
}

void s3_auth_close(struct s3_lane *lane)
{
    /* If the task is in the loop's inbox already it finds no call that waits. */
    if (lane->asked)
        credential_source_forget(lane->s3->source, &lane->ready);
}
