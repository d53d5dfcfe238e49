// SPDX-License-Identifier: Apache-2.0
/* The client's watch thread of this process, as the kernel shows it. */
#ifndef DLC_TESTS_WATCH_THREAD_H
#define DLC_TESTS_WATCH_THREAD_H

#include "unit.h"

#include <dirent.h>

/* A line of the status of this process's watch thread, behind "NAME:". False: there is no such
 * thread. */
static inline bool watch_thread_status(const char *name, char line[static 256])
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *e;
    bool found = false, mine;

    assert_non_null(dir);
    while (!found && (e = readdir(dir)) != NULL) {
        char path[300];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%.200s/status", e->d_name);
        f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        mine = f != NULL && fgets(line, 256, f) != NULL && strstr(line, "dlcache-watch") != NULL;
        while (mine && !found && fgets(line, 256, f) != NULL)
            found = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':';
        if (f != NULL)
            fclose(f);
    }
    closedir(dir);
    memmove(line, found ? line + strlen(name) + 1 : "", found ? strlen(line + strlen(name)) : 1);
    return found;
}

/* Does it sleep in epoll_wait() until something happens, however long that takes? */
static inline bool watch_thread_sleeps(void)
{
    unsigned long long timeout = 0;
    char pid[256], path[300];
    FILE *f;
    int n;

    if (!watch_thread_status("Pid", pid))
        return false;
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atoi(pid));
    f = fopen(path, "re");
    n = f != NULL ? fscanf(f, "%*d %*x %*x %*x %llx", &timeout) : 0;
    if (f != NULL)
        fclose(f);
    return n == 1 && (int32_t)timeout == -1;
}

#endif
