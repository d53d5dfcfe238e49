// SPDX-License-Identifier: Apache-2.0
#include "base/api_token.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"
#include "base/str.h"

#define TOKEN_MAX 8192 /* those of service accounts have about 1,200 characters */

/* It becomes part of a header line. */
static int check(const char *token, const char *from, struct dlc_err *err)
{
    size_t len = strlen(token);

    if (len == 0 || len > TOKEN_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "%s holds no token: it is one line of 1 to %d characters", from,
                           TOKEN_MAX);
    for (const char *s = token; *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~')
            return dlc_err_set(
                err, DLC_EINVAL,
                "the token of %s holds a blank or other odd character: copy it again", from);
    }
    return 0;
}

int token_load_file(const char *path, char **out, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc;

    *out = NULL;
    buf_reserve(&b, TOKEN_MAX * 2);
    rc = os_read_file(path, TOKEN_MAX * 2, &b, err);
    if (rc == 0) {
        char *first = str_trim((char *)buf_str(&b));
        size_t len = strcspn(first, "\r\n");
        const char *rest = first + len + strspn(first + len, "\r\n");

        /* The manager's files may hold an older one too. */
        if (rest[0] != '\0' && !str_starts(rest, "dlc_"))
            rc = dlc_err_set(err, DLC_EINVAL,
                             "%s: its second line is not a token: tokens begin with dlc_", path);
        first[len] = '\0';
        *out = mem_str(str_trim(first));
    }
    secret_buf_release(&b);
    if (rc == 0)
        rc = check(*out, path, err);
    if (rc < 0)
        secret_free(out);
    return rc;
}

int token_load(const struct config *c, const char *given, char **out, struct dlc_err *err)
{
    const char *from = "the caller", *env = getenv("DLCACHE_TOKEN");
    int rc = 0;

    *out = NULL;
    if (given != NULL && given[0] != '\0') {
        *out = mem_str(given);
    } else if (env != NULL && env[0] != '\0') {
        from = "DLCACHE_TOKEN";
        *out = mem_str(env);
    } else if (c->token_file != NULL && c->token_file[0] != '\0') {
        return token_load_file(c->token_file, out, err);
    }
    if (*out != NULL)
        rc = check(*out, from, err);
    if (rc < 0)
        secret_free(out);
    return rc;
}
