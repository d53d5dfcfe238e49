// SPDX-License-Identifier: Apache-2.0
#include "operator/csi/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"

#define FLAGS      (MS_RDONLY | MS_NOEXEC | MS_NOSUID | MS_NODEV)
#define UMOUNT_MAX 16 /* mounts over each other that are taken away in one call */

static bool is_mount(const char *path)
{
    struct statx st = {0};

    return os_statx(path, STATX_TYPE, &st) == 0 && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool volume_is_published(const char *target)
{
    char *node = mem_fmt("%s/" VOLUME_NODE_DIR, target);
    bool yes = is_mount(target) && is_mount(node);

    mem_free(&node);
    return yes;
}

/* Gives. */
static char *own_dir(const struct volume_dirs *dirs, const char *target)
{
    unsigned char digest[SHA256_LEN];
    char name[2 * SHA256_LEN + 1];

    sha256(target, strlen(target), digest);
    str_hex(digest, SHA256_LEN / 2, name);
    return mem_fmt("%s/%s", dirs->state, name);
}

static int bind_read_only(const char *from, const char *to, struct dlc_err *err)
{
    if (is_mount(to))
        return 0;
    if (os_mount(from, to, MS_BIND) < 0)
        return dlc_err_sys(err, "cannot mount %s at %s", from, to);
    /* A bind mount takes its flags in a second call. */
    if (os_mount(NULL, to, MS_REMOUNT | MS_BIND | FLAGS) < 0) {
        dlc_err_sys(err, "cannot make %s read-only", to);
        os_umount(to, MNT_DETACH);
        return err->code;
    }
    return 0;
}

int volume_publish(const struct volume_dirs *dirs, const char *target, struct dlc_err *err)
{
    char *own = own_dir(dirs, target), *node = mem_fmt("%s/" VOLUME_NODE_DIR, own);
    char *mounted = mem_fmt("%s/" VOLUME_NODE_DIR, target);
    bool was = volume_is_published(target);
    struct dlc_err ignored = DLC_ERR_INIT;
    int rc = 0;

    if (os_mkdirs(node, 0755) < 0)
        rc = dlc_err_sys(err, "cannot make %s", node);
    else if (os_mkdirs(target, 0750) < 0)
        rc = dlc_err_sys(err, "cannot make %s", target);
    if (rc == 0)
        rc = bind_read_only(own, target, err);
    if (rc == 0)
        rc = bind_read_only(dirs->sockets, mounted, err);
    if (rc < 0 && !was)
        volume_unpublish(dirs, target, &ignored);
    mem_free(&own);
    mem_free(&node);
    mem_free(&mounted);
    return rc;
}

/* Also what was mounted over itself by a driver before this one. */
static int unmount(const char *path, struct dlc_err *err)
{
    for (unsigned i = 0; i < UMOUNT_MAX && is_mount(path); i++)
        if (os_umount(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
            return dlc_err_sys(err, "cannot unmount %s", path);
    return 0;
}

int volume_unpublish(const struct volume_dirs *dirs, const char *target, struct dlc_err *err)
{
    char *own = own_dir(dirs, target), *mounted = mem_fmt("%s/" VOLUME_NODE_DIR, target);
    int rc = unmount(mounted, err);

    if (rc == 0)
        rc = unmount(target, err);
    if (rc == 0) {
        if (os_rmdir(target) < 0 && errno != ENOENT)
            rc = dlc_err_sys(err, "cannot remove %s", target);
        os_rmtree(own);
    }
    mem_free(&own);
    mem_free(&mounted);
    return rc;
}
