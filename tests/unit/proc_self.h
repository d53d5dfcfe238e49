// SPDX-License-Identifier: Apache-2.0
/* What this process maps and has open, as the kernel says it: a test sees what was left behind. */
#ifndef DLC_TESTS_PROC_SELF_H
#define DLC_TESTS_PROC_SELF_H

#include "unit.h"

#include <dirent.h>

/* Lines of the file that hold `name`. */
static inline unsigned proc_lines(const char *file, const char *name)
{
    FILE *f = fopen(file, "re");
    char line[4096];
    unsigned n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, name) != NULL;
    fclose(f);
    return n;
}

/* Mappings whose line holds `name`. */
static inline unsigned proc_mapped(const char *name)
{
    return proc_lines("/proc/self/maps", name);
}

/* All of them. */
static inline unsigned proc_mappings(void)
{
    return proc_mapped("-");
}

/* Pages of address space. Unlike the number of mappings it grows when one joins its neighbour. */
static inline unsigned long proc_pages(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages;
}

/* The flag of two letters ("dd": not in core files) of all mappings whose line holds `name`. */
static inline bool proc_all_have_flag(const char *name, const char *flag)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    unsigned with = 0, without = 0;
    char line[512], word[8];
    bool here = false;

    assert_non_null(f);
    snprintf(word, sizeof(word), " %s ", flag);
    while (fgets(line, sizeof(line), f) != NULL) {
        here = here || strstr(line, name) != NULL;
        if (!here || strncmp(line, "VmFlags:", 8) != 0)
            continue;
        here = false;
        with += strstr(line, word) != NULL;
        without += strstr(line, word) == NULL;
    }
    fclose(f);
    return with > 0 && without == 0;
}

static inline unsigned proc_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* Does the link of the descriptor hold `name`, "[eventfd]" for example? False: it is closed. */
static inline bool proc_fd_is(int fd, const char *name)
{
    char path[64], target[256];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return strstr(target, name) != NULL;
}

#endif
