// SPDX-License-Identifier: Apache-2.0
/*
 * Reading the machine, and the rule that turns it into a ceiling.
 *
 * (L1) mem_limit_* are pure: the same machine and wish give the same answer.
 * (L2) The answer is never above the configured number and never below 16 MB (or the configured
 *      number, if that is less).
 * (L3) Without pressure and with the machine unchanged, repeated asking comes to rest: small
 *      differences do not move the ceiling.
 */
#include "cache/memory/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"

#define MB ((uint64_t)1 << 20)

#define FLOOR         (16 * MB)
#define RESERVE_MIN   (64 * MB) /* of small machines and groups; elsewhere a tenth */
#define GROW_MIN      (64 * MB)
#define NO_LIMIT_V1   ((uint64_t)1 << 60) /* cgroup v1 says "none" with a number near 2^63 */
#define PRESSURE_CALM 1.0                 /* "some avg10", in percent of time: may grow below */
#define PRESSURE_HIGH 10.0
#define PRESSURE_DIRE 40.0

/* ---- asking ---- */

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

struct reading {
    struct mem_machine *m;
    uint64_t room; /* left in the fullest group */
    struct buf b;
};

static void add_limit(struct reading *r, uint64_t limit, uint64_t used, uint64_t droppable)
{
    used -= DLC_MIN(used, droppable);
    r->m->cgroup_max = DLC_MIN(r->m->cgroup_max, limit);
    r->room = DLC_MIN(r->room, limit - DLC_MIN(used, limit));
}

static void read_group_v2(struct reading *r, const char *dir)
{
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

static void read_group_v1(struct reading *r, const char *dir)
{
    uint64_t limit = number(&r->b, dir, "memory.limit_in_bytes", UINT64_MAX);

    if (limit < NO_LIMIT_V1) {
        uint64_t used = number(&r->b, dir, "memory.usage_in_bytes", 0);

        add_limit(r, limit, used,
                  field(slurp(&r->b, dir, "memory.stat"), "total_inactive_file", 0));
    }
}

/* Our group and all above it. In a container the path may name groups that are not mounted here;
 * the root of the mount is then our own group, and those missing say nothing. */
static void read_tree(struct reading *r, const char *mount, const char *path,
                      void (*read_group)(struct reading *, const char *))
{
    char *dir = mem_fmt("%s%s", mount, path);
    size_t root = strlen(mount);

    for (;;) {
        read_group(r, dir);
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

static void read_groups(struct reading *r, const char *root)
{
    char *text = mem_str(slurp(&r->b, root, "proc/self/cgroup"));
    char *v2 = group_path(text, true), *v1 = group_path(text, false);
    char *mount = mem_fmt("%s/sys/fs/cgroup", root);
    char *memory = mem_fmt("%s/memory", mount);

    if (v2 != NULL)
        read_tree(r, mount, v2, read_group_v2);
    if (v1 != NULL)
        read_tree(r, memory, v1, read_group_v1);
    mem_free(&memory);
    mem_free(&mount);
    mem_free(&v1);
    mem_free(&v2);
    mem_free(&text);
}

void mem_machine_read_at(struct mem_machine *m, const char *root)
{
    struct reading r = {m, UINT64_MAX, BUF_INIT};
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
    const char *info = slurp(&r.b, root, "proc/meminfo");

    *m = (struct mem_machine){.cgroup_max = UINT64_MAX};
    m->total = field(info, "MemTotal", physical) * 1024;
    m->available = field(info, "MemAvailable", m->total / 2048) * 1024;
    read_groups(&r, root);
    m->cgroup_used = m->cgroup_max == UINT64_MAX ? 0 : m->cgroup_max - r.room;
    /* The machine's own pressure counts where the machine is short: elsewhere it comes from groups
     * that fill their own limits, and our shrinking would not help them. */
    if (m->available < m->total / 4) {
        double pressure = some_avg10(slurp(&r.b, root, "proc/pressure/memory"));

        m->pressure = DLC_MAX(m->pressure, pressure);
    }
    buf_release(&r.b);
}

void mem_machine_read(struct mem_machine *m)
{
    mem_machine_read_at(m, "");
}

/* ---- deciding ---- */

static uint64_t reserve_of(uint64_t total)
{
    return DLC_MAX(total / 10, RESERVE_MIN);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a - DLC_MIN(a, b);
}

uint64_t mem_limit_max(const struct mem_machine *m, uint64_t configured)
{
    uint64_t all = DLC_MIN(m->total, m->cgroup_max);

    return configured != 0 ? configured : DLC_MAX(all / 5 * 4, FLOOR);
}

/* What the tier could have if it took all that is free and left the reserve. */
static uint64_t target_of(const struct mem_machine *m, const struct mem_wish *w)
{
    uint64_t target = minus(w->used + m->available, reserve_of(m->total));

    if (m->cgroup_max != UINT64_MAX) {
        uint64_t room = w->used + minus(m->cgroup_max, m->cgroup_used);

        target = DLC_MIN(target, minus(room, reserve_of(m->cgroup_max)));
    }
    return DLC_MIN(target, mem_limit_max(m, w->configured));
}

uint64_t mem_limit_now(const struct mem_machine *m, const struct mem_wish *w)
{
    uint64_t target = target_of(m, w), now = w->ceiling;
    uint64_t least = w->configured != 0 ? DLC_MIN(FLOOR, w->configured) : FLOOR;
    uint64_t next = now;

    if (now == 0)
        return DLC_MAX(target, least);
    if (target < now - now / 32)
        next = target;
    else if (target > now + now / 32 && m->pressure < PRESSURE_CALM)
        next = DLC_MIN(target, now + DLC_MAX(now / 8, GROW_MIN));
    if (m->pressure > PRESSURE_DIRE)
        next = DLC_MIN(next, now - now / 4);
    else if (m->pressure > PRESSURE_HIGH)
        next = DLC_MIN(next, now - now / 8);
    next = DLC_MIN(next, mem_limit_max(m, w->configured));
    return DLC_MAX(next, least);
}
