// SPDX-License-Identifier: Apache-2.0
#include "base/socket_dir.h"

#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"

static bool has_our_name(const char *dir)
{
    const char *slash = strrchr(dir, '/'), *name = slash != NULL ? slash + 1 : dir;

    return strcmp(name, "dlcache") == 0 || str_starts(name, "dlcache-");
}

int socket_dir_make(const char *socket, bool shared)
{
    char *copy = mem_str(socket);
    const char *dir = dirname(copy);
    bool made = os_access(dir, F_OK) < 0 && errno == ENOENT;
    struct stat st;
    int rc = os_mkdirs(dir, shared ? 0755 : 0700);

    if (rc == 0 && made)
        rc = os_chmod(dir, shared ? 0755 : 0700);
    else if (rc == 0 && shared && has_our_name(dir) && os_lstat(dir, &st) == 0 &&
             S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 055) != 055)
        rc = os_chmod(dir, (st.st_mode & 07777) | 055);
    mem_free(&copy);
    return rc;
}

char *socket_dir_closed(const char *socket)
{
    char *path = mem_str(socket);
    struct stat st;

    for (char *p = strchr(path + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (os_stat(path, &st) < 0 || (st.st_mode & S_IXOTH) == 0)
            return path;
        *p = '/';
    }
    mem_free(&path);
    return NULL;
}

bool socket_dir_vouches(const char *socket, uid_t uid)
{
    char *dir = mem_str(MACHINE_SOCKET);
    struct stat st;
    bool vouches = strcmp(socket, MACHINE_SOCKET) == 0 && os_lstat(dirname(dir), &st) == 0 &&
                   S_ISDIR(st.st_mode) && st.st_uid == uid && (st.st_mode & 022) == 0;

    mem_free(&dir);
    return vouches;
}
