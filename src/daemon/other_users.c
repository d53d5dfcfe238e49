// SPDX-License-Identifier: Apache-2.0
#include "daemon/other_users.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/mem.h"
#include "base/str.h"
#include "bucket/azure_account.h"
#include "daemon/dataset.h"

static bool lies_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    return str_starts(path, dir) && (path[len] == '\0' || path[len] == '/' || dir[len - 1] == '/');
}

char *allowed_path_of(const struct config *c, const char *path)
{
    const char *s = c->allow_path;

    while (*s != '\0') {
        size_t n = strcspn(s, ",");
        char *one = mem_strn(s, n), *dir = mem_str(str_trim(one));
        size_t len = strlen(dir);

        mem_free(&one);
        while (len > 1 && dir[len - 1] == '/')
            dir[--len] = '\0';
        if (len > 0 && lies_below(path, dir))
            return dir;
        mem_free(&dir);
        s += n + (s[n] == ',');
    }
    return NULL;
}

static bool is_own_endpoint(const struct config *c, const struct url *u, const char *endpoint)
{
    static const char *const names[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};

    if (strcmp(c->endpoint, endpoint) == 0)
        return true;
    if (u->scheme == URL_AZ) {
        char *own = azure_endpoint(u);
        bool same = strcmp(own, endpoint) == 0;

        mem_free(&own);
        return same;
    }
    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        const char *v = getenv(names[i]);

        if (v != NULL && strcmp(v, endpoint) == 0)
            return true;
    }
    return false;
}

static int check_url(const struct config *c, const struct open_request *w, const struct url *u,
                     struct dlc_err *err)
{
    char *dir;

    if (u->scheme == URL_FILE) {
        dir = allowed_path_of(c, u->prefix);
        if (dir == NULL)
            return dlc_err_set(err, DLC_EDENIED,
                               "%.300s: the daemon of another user reads files for you only below "
                               "the directories of its --allow-path; ask its user to add one, or "
                               "start a daemon of your own",
                               u->shown);
        mem_free(&dir);
        return 0;
    }
    if (url_is_cloud(u->scheme) && w->endpoint != NULL && !w->anonymous &&
        !is_own_endpoint(c, u, w->endpoint))
        return dlc_err_set(err, DLC_EDENIED,
                           "%.200s at %.200s: the daemon of another user does not send its "
                           "credentials to an endpoint that you name; read it anonymously "
                           "(--anonymous), or ask its user to set --endpoint",
                           u->shown, w->endpoint);
    return 0;
}

int other_user_may_open(const struct config *c, const struct open_request *w, struct dlc_err *err)
{
    struct url u = URL_INIT;
    int rc = url_parse(&u, w->url, err);

    if (rc == 0)
        rc = check_url(c, w, &u, err);
    url_release(&u);
    return rc;
}
