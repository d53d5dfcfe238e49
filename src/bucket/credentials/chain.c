// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/chain_i.h"

#include <string.h>

#include "base/check.h"

static const struct chain_step aws_steps[] = {
    {"environment", find_in_environment, true},
    {"web identity", find_web_identity, true},
    {"profile", find_in_profile, false},
    {"container", find_in_container, false},
    {"instance metadata", find_in_instance, false},
};

static const struct chain aws_chain = {
    "no AWS credentials found: ",
    ". Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; --anonymous for a public "
    "bucket",
    aws_steps,
    DLC_COUNT(aws_steps),
};

static int check_found(const struct lookup *l, struct credentials *c, struct dlc_err *err)
{
    int rc = credentials_check(c, err);

    if (rc == 0 && c->expires != 0 && c->expires <= l->now)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "the credentials expired %lld s ago: renew them, or check this machine's "
                         "clock",
                         (long long)(l->now - c->expires));
    if (rc < 0)
        credentials_release(c);
    return rc;
}

static int nothing_found(const struct chain *c, const struct buf *tried, struct dlc_err *err)
{
    int room = (int)(sizeof(err->text) - strlen(c->nothing) - strlen(c->remedy) - 1);

    return dlc_err_set(err, DLC_EDENIED, "%s%.*s%s", c->nothing, room, buf_str(tried), c->remedy);
}

int chain_run(const struct chain *c, struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    struct buf tried = BUF_INIT;
    int rc = LOOKUP_ELSEWHERE;

    *out = (struct credentials)CREDENTIALS_INIT;
    for (size_t i = 0; i < c->n_steps && rc == LOOKUP_ELSEWHERE; i++) {
        const struct chain_step *p = &c->steps[i];

        if (l->profile_only && p->of_environment)
            rc = lookup_elsewhere(l, "not asked, a profile is named");
        else
            rc = p->find(l, out, err);
        if (rc == 0)
            rc = check_found(l, out, err);
        if (rc < 0)
            dlc_err_prefix(err, "credentials from %s", p->name);
        else if (rc == LOOKUP_ELSEWHERE)
            buf_addf(&tried, "%s%s (%s)", i == 0 ? "" : ", ", p->name, l->why);
    }
    if (rc == LOOKUP_ELSEWHERE)
        rc = nothing_found(c, &tried, err);
    buf_release(&tried);
    return rc;
}

int chain_find(struct lookup *l, struct credentials *out, struct dlc_err *err)
{
    return chain_run(&aws_chain, l, out, err);
}
