// SPDX-License-Identifier: Apache-2.0
#include "base/process_secrets.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/syscalls.h"

#define URL_MAX_BYTES 65536

void process_keep_secrets(void)
{
    struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_CORE, &none) < 0)
        log_warn("core dumps cannot be switched off; a crash may write secrets to a file");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* A leak checker looks at its own process by ptrace(), which this forbids. */
    if (prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0)
        log_warn("other processes of this user can read the memory of this one");
#endif
}

static int read_url(const char *path, char **url, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    struct stat st;
    int rc = 0;

    if (os_stat(path, &st) < 0)
        return dlc_err_sys(err, "cannot look at %s", path);
    if ((st.st_mode & 077) != 0)
        return dlc_err_set(err, DLC_EDENIED,
                           "%s can be read by others, and may hold a password: chmod 600 it", path);
    buf_reserve(&b, URL_MAX_BYTES);
    rc = os_read_file(path, URL_MAX_BYTES, &b, err);
    if (rc == 0) {
        char *text = str_trim((char *)buf_str(&b));

        text[strcspn(text, "\r\n")] = '\0';
        if (text[0] == '\0')
            rc = dlc_err_set(err, DLC_EINVAL, "%s is empty; its first line is the URL", path);
        else
            *url = mem_str(text);
    }
    secret_buf_release(&b);
    return rc;
}

int config_read_url_files(struct config *c, struct dlc_err *err)
{
    const struct {
        const char *flag, *file;
        char **url;
    } files[] = {{"store", c->store_file, &c->store}, {"shared", c->shared_file, &c->shared}};

    for (size_t i = 0; i < DLC_COUNT(files); i++) {
        char *url = NULL;
        int rc;

        if (files[i].file[0] == '\0')
            continue;
        if ((*files[i].url)[0] != '\0')
            return dlc_err_set(err, DLC_EINVAL, "--%s and --%s-file exclude each other",
                               files[i].flag, files[i].flag);
        rc = read_url(files[i].file, &url, err);
        if (rc < 0) {
            dlc_err_prefix(err, "--%s-file", files[i].flag);
            return rc;
        }
        mem_free(files[i].url);
        *files[i].url = url;
    }
    return 0;
}
