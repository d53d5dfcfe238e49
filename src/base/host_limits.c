// SPDX-License-Identifier: Apache-2.0
#include "base/host_limits.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define NO_LIMIT_V1 ((uint64_t)1 << 60) /* cgroup v1 says "none" with a number near 2^63 */

/* ---- files of the kernel ---- */

/* The file's text into b; "" when it is not there, which is normal for all we read. */
static const char *slurp(struct buf *b, const char *dir, const char *name)
{
    char *path = mem_fmt("%s/%s", dir, name);

    buf_clear(b);
    if (os_read_file(path, 1 << 20, b, NULL) < 0)
        buf_clear(b);
    mem_free(&path);
    return buf_str(b);
}

/* The number of the line that begins with key; `none` when there is no such line. */
static uint64_t field(const char *text, const char *key, uint64_t none)
{
    size_t len = strlen(key);

    for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, len) == 0 && (p[len] == ' ' || p[len] == ':'))
            return strtoull(p + len + 1, NULL, 10);
    }
    return none;
}

/* A file that holds one number, or "max". */
static uint64_t number(struct buf *b, const char *dir, const char *name, uint64_t none)
{
    const char *text = slurp(b, dir, name);

    return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : none;
}

/* "some avg10=1.23 avg60=..." */
static double some_avg10(const char *text)
{
    const char *p = strstr(text, "some avg10=");

    return p == NULL ? 0 : strtod(p + strlen("some avg10="), NULL);
}

/* Our group and all above it. In a container the path may name groups that are not mounted here;
 * the root of the mount is then our own group, and those missing say nothing. */
static void read_tree(const char *mount, const char *path,
                      void (*read_group)(const char *dir, void *arg), void *arg)
{
    char *dir = mem_fmt("%s%s", mount, path);
    size_t root = strlen(mount);

    for (;;) {
        read_group(dir, arg);
        if (strlen(dir) <= root)
            break;
        *strrchr(dir, '/') = '\0';
    }
    mem_free(&dir);
}

/* The path in "0::/a/b" or "4:memory:/a/b"; NULL when there is no such line. Gives the string. */
static char *group_path(const char *text, bool v2)
{
    for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n')) {
        p += *p == '\n';
        const char *names = strchr(p, ':');
        const char *path = names == NULL ? NULL : strchr(names + 1, ':');
        size_t len = strcspn(p, "\n");

        if (path == NULL || path >= p + len)
            continue;
        char *list = mem_strn(names + 1, (size_t)(path - names - 1));
        bool ours = v2 ? *list == '\0' && *p == '0' : strcmp(list, "memory") == 0;

        mem_free(&list);
        if (ours)
            return mem_strn(path + 1, len - (size_t)(path + 1 - p));
    }
    return NULL;
}

/* ---- memory ---- */

struct memory_reading {
    struct host_memory *m;
    uint64_t room; /* left in the fullest group */
    struct buf b;
};

static void add_limit(struct memory_reading *r, uint64_t limit, uint64_t used, uint64_t droppable)
{
    used -= DLC_MIN(used, droppable);
    r->m->cgroup_max = DLC_MIN(r->m->cgroup_max, limit);
    r->room = DLC_MIN(r->room, limit - DLC_MIN(used, limit));
}

static void read_memory_v2(const char *dir, void *arg)
{
    struct memory_reading *r = arg;
    uint64_t max = number(&r->b, dir, "memory.max", UINT64_MAX);
    uint64_t high = number(&r->b, dir, "memory.high", UINT64_MAX);
    uint64_t limit = DLC_MIN(max, high);
    double pressure = some_avg10(slurp(&r->b, dir, "memory.pressure"));

    r->m->pressure = DLC_MAX(r->m->pressure, pressure);
    if (limit != UINT64_MAX) {
        uint64_t used = number(&r->b, dir, "memory.current", 0);

        add_limit(r, limit, used, field(slurp(&r->b, dir, "memory.stat"), "inactive_file", 0));
    }
}

static void read_memory_v1(const char *dir, void *arg)
{
    struct memory_reading *r = arg;
    uint64_t limit = number(&r->b, dir, "memory.limit_in_bytes", UINT64_MAX);

    if (limit < NO_LIMIT_V1) {
        uint64_t used = number(&r->b, dir, "memory.usage_in_bytes", 0);

        add_limit(r, limit, used,
                  field(slurp(&r->b, dir, "memory.stat"), "total_inactive_file", 0));
    }
}

static void read_memory_groups(struct memory_reading *r, const char *root)
{
    char *text = mem_str(slurp(&r->b, root, "proc/self/cgroup"));
    char *v2 = group_path(text, true), *v1 = group_path(text, false);
    char *mount = mem_fmt("%s/sys/fs/cgroup", root);
    char *memory = mem_fmt("%s/memory", mount);

    if (v2 != NULL)
        read_tree(mount, v2, read_memory_v2, r);
    if (v1 != NULL)
        read_tree(memory, v1, read_memory_v1, r);
    mem_free(&memory);
    mem_free(&mount);
    mem_free(&v1);
    mem_free(&v2);
    mem_free(&text);
}

void host_memory_read_at(struct host_memory *m, const char *root)
{
    struct memory_reading r = {m, UINT64_MAX, BUF_INIT};
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    const char *info = slurp(&r.b, root, "proc/meminfo");

    *m = (struct host_memory){.cgroup_max = UINT64_MAX};
    m->total = field(info, "MemTotal", physical) * 1024;
    m->available = field(info, "MemAvailable", m->total / 2048) * 1024;
    read_memory_groups(&r, root);
    m->cgroup_used = m->cgroup_max == UINT64_MAX ? 0 : m->cgroup_max - r.room;
    /* The machine's own pressure counts where the machine is short: elsewhere it comes from groups
     * that fill their own limits, and our shrinking would not help them. */
    if (m->available < m->total / 4) {
        double pressure = some_avg10(slurp(&r.b, root, "proc/pressure/memory"));

        m->pressure = DLC_MAX(m->pressure, pressure);
    }
    buf_release(&r.b);
}

void host_memory_read(struct host_memory *m)
{
    host_memory_read_at(m, "");
}

/* ---- processors ---- */

/* "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static void read_cpu_v2(const char *dir, void *arg)
{
    unsigned *cores = arg;
    struct buf b = BUF_INIT;
    unsigned long quota, period;

    if (sscanf(slurp(&b, dir, "cpu.max"), "%lu %lu", &quota, &period) == 2 && period > 0) {
        unsigned long here = DLC_MAX(quota / period + (quota % period != 0), 1ul);

        *cores = (unsigned)DLC_MIN(here, (unsigned long)*cores);
    }
    buf_release(&b);
}

unsigned host_cores_of_quota(const char *root)
{
    struct buf b = BUF_INIT;
    char *v2 = group_path(slurp(&b, root, "proc/self/cgroup"), true);
    char *mount = mem_fmt("%s/sys/fs/cgroup", root);
    unsigned cores = UINT_MAX;

    read_tree(mount, v2 != NULL ? v2 : "", read_cpu_v2, &cores);
    mem_free(&mount);
    mem_free(&v2);
    buf_release(&b);
    return cores;
}

unsigned host_cores(void)
{
    unsigned quota = host_cores_of_quota("");
    unsigned n = 1;
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = (unsigned)DLC_MAX(CPU_COUNT(&set), 1);
    return DLC_MIN(n, quota);
}
