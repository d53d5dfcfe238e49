// SPDX-License-Identifier: Apache-2.0
#include "sandbox/privileges_i.h"

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/syscalls.h"

#define CAP_NUMBERS 64 /* more than any kernel has */

/* ---- capabilities ---- */

static int set_capabilities(uint64_t keep, uint64_t *left)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    uint32_t have = 0;

    if (os_capget(&head, data) < 0)
        return -1;
    for (unsigned i = 0; i < 2; i++) {
        have |= data[i].permitted | data[i].inheritable;
        data[i].permitted &= (uint32_t)(keep >> 32 * i);
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    *left = data[0].effective | (uint64_t)data[1].effective << 32;
    /* With none there is nothing to drop; the filter of a systemd unit may refuse the call. */
    return have == 0 ? 0 : os_capset(&head, data);
}

/* ---- user ---- */

/* A directory that is there already keeps its owner: who made it has said whose it is. */
static int make_dir_for(const char *path, mode_t mode, const struct passwd *pw, struct dlc_err *err)
{
    if (path[0] == '\0' || os_access(path, F_OK) == 0)
        return 0;
    if (os_mkdirs(path, mode) < 0 || os_chmod(path, mode) < 0 ||
        os_chown(path, pw->pw_uid, pw->pw_gid) < 0)
        return dlc_err_sys(err, "cannot make %s for user %s", path, pw->pw_name);
    return 0;
}

static int make_dirs(const struct config *c, bool shared, const struct passwd *pw,
                     struct dlc_err *err)
{
    char *socket = mem_str(c->socket);
    int rc = make_dir_for(c->dir, 0700, pw, err);

    if (rc == 0 && socket[0] == '/')
        rc = make_dir_for(dirname(socket), shared ? 0755 : 0700, pw, err);
    mem_free(&socket);
    return rc;
}

/* Root's capabilities that are to stay would all stay: the others are dropped here, with and without
 * a sandbox. */
static int become(const struct passwd *pw, uint64_t keep, struct dlc_err *err)
{
    uint64_t left;

    if ((keep != 0 && os_prctl(PR_SET_KEEPCAPS, 1) < 0) ||
        initgroups(pw->pw_name, pw->pw_gid) < 0 ||
        setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
        setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0 ||
        (keep != 0 && set_capabilities(keep, &left) < 0))
        return dlc_err_sys(err, "cannot become user %s", pw->pw_name);
    setenv("HOME", pw->pw_dir, 1); /* credentials are looked for there */
    return 0;
}

int privileges_set_user(const struct config *c, bool shared, uint64_t keep, struct dlc_err *err)
{
    struct passwd pw, *found = NULL;
    char space[4096];
    int rc = 0;

    if (getpwnam_r(c->user, &pw, space, sizeof(space), &found) != 0 || found == NULL)
        return dlc_err_set(err, DLC_ENOTFOUND, "--user %s: there is no such user", c->user);
    if (getuid() == pw.pw_uid && geteuid() == pw.pw_uid)
        return 0;
    if (geteuid() != 0)
        return dlc_err_set(err, DLC_EDENIED, "--user %s: only root can become another user",
                           c->user);
    rc = make_dirs(c, shared, &pw, err);
    return rc < 0 ? rc : become(&pw, keep, err);
}

/* ---- both ---- */

int privileges_drop(uint64_t keep, uint64_t *left)
{
    /* Both only matter to programs that this process starts, and fail without CAP_SETPCAP, or on
     * a kernel without ambient capabilities. no_new_privs and the filter keep those away too. */
    os_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
    for (unsigned cap = 0; cap < CAP_NUMBERS; cap++) {
        if ((keep & CAP_BIT(cap)) == 0)
            os_prctl(PR_CAPBSET_DROP, cap);
    }
    return set_capabilities(keep, left);
}
