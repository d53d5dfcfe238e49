// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_credential.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/api_token.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/syscalls.h"

static char *path_of(const char *dir)
{
    return mem_fmt("%s/node.credential", dir);
}

char *node_credential_load(const char *dir)
{
    char *path = path_of(dir), *out = NULL;
    struct dlc_err err = DLC_ERR_INIT;
    struct stat st;

    if (os_stat(path, &st) == 0) {
        if ((st.st_mode & 077) != 0)
            dlc_err_set(&err, DLC_EDENIED, "%s can be read by others: join with a new token", path);
        else
            token_load_file(path, &out, &err);
        if (out == NULL)
            log_warn("%s", err.text);
    }
    mem_free(&path);
    return out;
}

int node_credential_save(const char *dir, const char *credential, struct dlc_err *err)
{
    char *path = path_of(dir), *line = mem_fmt("%s\n", credential);
    int rc = os_mkdirs(dir, 0700) < 0 ? dlc_err_sys(err, "cannot make %s", dir)
                                      : os_write_file(path, line, strlen(line), 0600, err);

    secret_free(&line);
    mem_free(&path);
    return rc;
}
