// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/chain_i.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

#define REMEDY                                                                                     \
    ". Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; --anonymous for a public " \
    "bucket"

static const struct place {
    const char *name;
    int (*find)(struct look *l, struct credentials *out, struct dlc_err *err);
    bool of_environment; /* passed over when the user named a profile for this bucket */
} places[] = {
    {"environment", find_in_environment, true},
    {"web identity", find_web_identity, true},
    {"profile", find_in_profile, false},
    {"container", find_in_container, false},
    {"instance metadata", find_in_instance, false},
};

int look_elsewhere(struct look *l, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(l->why, sizeof(l->why), fmt, ap);
    va_end(ap);
    return CHAIN_ELSEWHERE;
}

int find_in_environment(struct look *l, struct credentials *out, struct dlc_err *err)
{
    const char *access = aws_env_get(l->env, VAR_AWS_ACCESS_KEY_ID);
    const char *secret = aws_env_get(l->env, VAR_AWS_SECRET_ACCESS_KEY);
    const char *token = aws_env_get(l->env, VAR_AWS_SESSION_TOKEN);

    if (access == NULL && secret == NULL)
        return look_elsewhere(l, "AWS_ACCESS_KEY_ID not set");
    if (access == NULL || secret == NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s is set but %s is not: set both, or neither",
                           access == NULL ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
                           access == NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
    if (token == NULL)
        token = aws_env_get(l->env, VAR_AWS_SECURITY_TOKEN);
    *out = (struct credentials){mem_str(access), mem_str(secret), mem_str(token), 0, 0};
    return 0;
}

/* Only what can stand in a header line: a stray line end from a file is a common mistake. */
static bool is_plain(const char *s)
{
    for (; s != NULL && *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~')
            return false;
    }
    return true;
}

int chain_check(const struct credentials *c, struct dlc_err *err)
{
    if (c->access_key == NULL || c->secret_key == NULL)
        return dlc_err_set(err, DLC_EDENIED, "there is no access key, or no secret key: set both");
    if (!is_plain(c->access_key) || !is_plain(c->secret_key) || !is_plain(c->session_token))
        return dlc_err_set(err, DLC_EINVAL,
                           "the access key, secret key or session token holds a blank, line end or "
                           "other odd character: correct it");
    return 0;
}

static int check_found(const struct look *l, struct credentials *c, struct dlc_err *err)
{
    int rc = chain_check(c, err);

    if (rc == 0 && c->expires != 0 && c->expires <= l->now)
        rc = dlc_err_set(err, DLC_EDENIED,
                         "the credentials expired %lld s ago: renew them, or check this machine's "
                         "clock",
                         (long long)(l->now - c->expires));
    if (rc < 0)
        credentials_release(c);
    return rc;
}

static int nothing_found(const struct buf *tried, struct dlc_err *err)
{
    int room = (int)(sizeof(err->text) - sizeof("no AWS credentials found: ") - sizeof(REMEDY));

    return dlc_err_set(err, DLC_EDENIED, "no AWS credentials found: %.*s" REMEDY, room,
                       buf_str(tried));
}

int chain_find(struct look *l, struct credentials *out, struct dlc_err *err)
{
    struct buf tried = BUF_INIT;
    int rc = CHAIN_ELSEWHERE;

    *out = (struct credentials)CREDENTIALS_INIT;
    for (size_t i = 0; i < DLC_COUNT(places) && rc == CHAIN_ELSEWHERE; i++) {
        const struct place *p = &places[i];

        if (l->profile_only && p->of_environment)
            rc = look_elsewhere(l, "not asked, a profile is named");
        else
            rc = p->find(l, out, err);
        if (rc == 0)
            rc = check_found(l, out, err);
        if (rc < 0)
            dlc_err_prefix(err, "credentials from %s", p->name);
        else if (rc == CHAIN_ELSEWHERE)
            buf_addf(&tried, "%s%s (%s)", i == 0 ? "" : ", ", p->name, l->why);
    }
    if (rc == CHAIN_ELSEWHERE)
        rc = nothing_found(&tried, err);
    buf_release(&tried);
    return rc;
}
