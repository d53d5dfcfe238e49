// SPDX-License-Identifier: Apache-2.0
/*
 * A disk that is slow, hangs or fails, for a program that this library is preloaded into
 * (tests/lib/slowfs.py). The file SLOWFS/CALL says what becomes of each call to CALL (pread,
 * pwrite, statvfs) on a file of a disk tier, for as long as that file is there:
 *
 *     250     the call takes 250 ms longer
 *     hang    it does not return before the file is gone
 *     eio     it fails
 *
 * SLOWFS/CALL.n grows by one byte for each call that this happens to.
 */
#undef _FILE_OFFSET_BITS /* else pread is another name for pread64 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static void nap(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        continue;
}

/* What is to become of it: "" when nothing is. */
static void look(const char *path, char what[static 16])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, what, 15);

    what[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static void count_call(const char *path)
{
    char name[4200];
    int fd;

    snprintf(name, sizeof(name), "%s.n", path);
    fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1)
        abort();
    close(fd);
}

/* -1: it fails, with errno. */
static int disturb(const char *call)
{
    const char *dir = getenv("SLOWFS");
    int e = errno, rc = 0;
    char path[4096], what[16];

    if (dir == NULL)
        return 0;
    snprintf(path, sizeof(path), "%s/%s", dir, call);
    look(path, what);
    if (what[0] != '\0')
        count_call(path);
    if (strcmp(what, "hang") == 0) {
        while (access(path, F_OK) == 0)
            nap(5);
    } else if (strcmp(what, "eio") == 0) {
        e = EIO;
        rc = -1;
    } else if (what[0] != '\0') {
        nap(atol(what));
    }
    errno = e;
    return rc;
}

/* A chunk, or the temporary file that becomes one. */
static int is_chunk(int fd)
{
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "/disk/tmp/") != NULL || strstr(path, "/disk/chunks/") != NULL;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
    return is_chunk(fd) && disturb("pread") < 0 ? -1 : NEXT(pread)(fd, buf, n, off);
}

ssize_t pread64(int fd, void *buf, size_t n, off64_t off)
{
    return is_chunk(fd) && disturb("pread") < 0 ? -1 : NEXT(pread64)(fd, buf, n, off);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
    return is_chunk(fd) && disturb("pwrite") < 0 ? -1 : NEXT(pwrite)(fd, buf, n, off);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off)
{
    return is_chunk(fd) && disturb("pwrite") < 0 ? -1 : NEXT(pwrite64)(fd, buf, n, off);
}

int statvfs(const char *restrict path, struct statvfs *restrict out)
{
    return disturb("statvfs") < 0 ? -1 : NEXT(statvfs)(path, out);
}

int statvfs64(const char *restrict path, struct statvfs64 *restrict out)
{
    return disturb("statvfs") < 0 ? -1 : NEXT(statvfs64)(path, out);
}

#pragma GCC visibility pop
