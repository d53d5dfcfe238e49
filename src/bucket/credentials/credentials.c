// SPDX-License-Identifier: Apache-2.0
/* One set of credentials: the value, wherever it came from. */
#include "bucket/credentials/credentials_i.h"

#include "base/secret.h"

void credentials_release(struct credentials *c)
{
    secret_free(&c->access_key);
    secret_free(&c->secret_key);
    secret_free(&c->session_token);
    secret_free(&c->bearer);
    secret_free(&c->sas);
    *c = (struct credentials)CREDENTIALS_INIT;
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

int credentials_check(const struct credentials *c, struct dlc_err *err)
{
    if (!is_plain(c->bearer) || !is_plain(c->sas))
        return dlc_err_set(err, DLC_EINVAL,
                           "the token holds a blank, line end or other odd character: correct it");
    if (c->bearer != NULL || c->sas != NULL)
        return 0;
    if (c->access_key == NULL || c->secret_key == NULL)
        return dlc_err_set(err, DLC_EDENIED, "there is no access key, or no secret key: set both");
    if (!is_plain(c->access_key) || !is_plain(c->secret_key) || !is_plain(c->session_token))
        return dlc_err_set(err, DLC_EINVAL,
                           "the access key, secret key or session token holds a blank, line end or "
                           "other odd character: correct it");
    return 0;
}
