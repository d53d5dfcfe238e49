// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_limit.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/syscalls.h"

#define PATH_CAP 4096

/* "MAX PERIOD" in microseconds, or "max PERIOD". */
static unsigned quota_at(const char *dir)
{
    char path[2 * PATH_CAP + 16];
    struct buf b = BUF_INIT;
    unsigned long quota, period;
    unsigned cores = UINT_MAX;

    snprintf(path, sizeof(path), "%s/cpu.max", dir);
    if (os_read_file(path, 256, &b, NULL) == 0 &&
        sscanf(buf_str(&b), "%lu %lu", &quota, &period) == 2 && period > 0)
        cores = (unsigned)DLC_CLAMP((quota + period - 1) / period, 1ul, (unsigned long)UINT_MAX);
    buf_release(&b);
    return cores;
}

/* The path behind "0::" in /proc/self/cgroup; empty: none. */
static void own_group(const char *root, char out[static PATH_CAP])
{
    char path[PATH_CAP];
    struct buf b = BUF_INIT;
    const char *line;

    out[0] = '\0';
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (os_read_file(path, 65536, &b, NULL) == 0 && (line = strstr(buf_str(&b), "0::")) != NULL)
        snprintf(out, PATH_CAP, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    buf_release(&b);
}

unsigned cores_of_quota(const char *root)
{
    char group[PATH_CAP], dir[2 * PATH_CAP];
    unsigned cores = UINT_MAX;
    char *end;

    own_group(root, group);
    for (;;) {
        unsigned here;

        snprintf(dir, sizeof(dir), "%s/sys/fs/cgroup%s", root, group);
        here = quota_at(dir);
        cores = DLC_MIN(cores, here);
        end = strrchr(group, '/');
        if (end == NULL)
            return cores;
        *end = '\0';
    }
}

unsigned cores_allowed(void)
{
    unsigned quota = cores_of_quota("");
    unsigned n = 1;
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = (unsigned)DLC_MAX(CPU_COUNT(&set), 1);
    return DLC_MIN(n, quota);
}
