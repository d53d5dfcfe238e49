// SPDX-License-Identifier: Apache-2.0
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"

/* Fail with e if a fault is due here. */
static bool faulty(int e)
{
    if (!fault_hit(FAULT_SYSCALL))
        return false;
    errno = e;
    return true;
}

int os_open(const char *path, int flags, mode_t mode)
{
    return faulty(EMFILE) ? -1 : open(path, flags | O_CLOEXEC, mode);
}

int os_openat(int dir, const char *path, int flags, mode_t mode)
{
    return faulty(EMFILE) ? -1 : openat(dir, path, flags | O_CLOEXEC, mode);
}

int os_memfd(const char *name)
{
    return faulty(ENOMEM) ? -1 : memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int os_rename(const char *from, const char *to)
{
    return faulty(EIO) ? -1 : rename(from, to);
}

int os_fsync(int fd)
{
    return faulty(EIO) ? -1 : fsync(fd);
}

int os_ftruncate(int fd, uint64_t size)
{
    int rc;

    if (faulty(ENOSPC))
        return -1;
    do
        rc = ftruncate(fd, (off_t)size);
    while (rc < 0 && errno == EINTR);
    return rc;
}

int os_fallocate(int fd, uint64_t size)
{
    int rc;

    if (faulty(ENOSPC))
        return -1;
    if (size == 0)
        return 0;
    do
        rc = fallocate(fd, 0, 0, (off_t)size);
    while (rc < 0 && errno == EINTR);
    /* Some file systems (NFS before 4.2) cannot reserve; the later write then reports a full disk.
     */
    if (rc < 0 && errno == EOPNOTSUPP)
        rc = ftruncate(fd, (off_t)size);
    return rc;
}

int os_punch(int fd, uint64_t off, uint64_t len)
{
    int rc;

    do
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len);
    while (rc < 0 && errno == EINTR);
    return rc;
}

void *os_map(int fd, uint64_t off, size_t len, bool writable)
{
    int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *p;

    if (faulty(ENOMEM))
        return NULL;
    p = mmap(NULL, len, prot, MAP_SHARED | MAP_NORESERVE, fd, (off_t)off);
    return p == MAP_FAILED ? NULL : p;
}

void os_unmap(const void *p, size_t len)
{
    if (p != NULL)
        munmap((void *)(uintptr_t)p, len);
}

int os_pread_all(int fd, void *buf, size_t len, uint64_t off)
{
    char *p = buf;

    if (faulty(EIO))
        return -1;
    while (len > 0) {
        ssize_t n = pread(fd, p, len, (off_t)off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        p += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int os_pwrite_all(int fd, const void *buf, size_t len, uint64_t off)
{
    const char *p = buf;

    if (faulty(ENOSPC))
        return -1;
    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, (off_t)off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

int os_write_all(int fd, const void *buf, size_t len)
{
    const char *p = buf;

    if (faulty(ENOSPC))
        return -1;
    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

void os_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

int os_mkdirs(const char *path, mode_t mode)
{
    char *copy, *p;
    struct stat st;
    int rc = 0, why;

    if (faulty(EACCES))
        return -1;
    if (path[0] == '\0') {
        errno = ENOENT;
        return -1;
    }
    copy = mem_str(path);
    for (p = copy + 1; rc == 0 && *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, mode) < 0 && (why = errno) != EEXIST && stat(copy, &st) < 0) {
            errno = why; /* of mkdir: stat only says that it is not there */
            rc = -1;
        }
        *p = '/';
    }
    if (rc == 0 && mkdir(copy, mode) < 0) {
        rc = errno == EEXIST && stat(copy, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : -1;
        if (rc < 0 && errno == EEXIST)
            errno = ENOTDIR;
    }
    mem_free(&copy);
    return rc;
}

int os_read_file(const char *path, size_t max, struct buf *b, struct dlc_err *err)
{
    int fd = os_open(path, O_RDONLY, 0), rc = 0;
    char chunk[16384];
    ssize_t n;

    if (fd < 0)
        return dlc_err_sys(err, "cannot open %s", path);
    for (;;) {
        n = faulty(EIO) ? -1 : read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (b->len + (size_t)n > max) {
            rc = dlc_err_set(err, DLC_EINVAL, "%s is larger than %zu bytes", path, max);
            goto out;
        }
        buf_add(b, chunk, (size_t)n);
    }
    if (n < 0)
        rc = dlc_err_sys(err, "cannot read %s", path);
out:
    os_close(&fd);
    return rc;
}

int os_write_file(const char *path, const void *data, size_t len, mode_t mode, struct dlc_err *err)
{
    char *tmp = mem_fmt("%s.%d.tmp", path, (int)gettid());
    int fd = os_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, mode), rc = 0;

    if (fd < 0 || os_write_all(fd, data, len) < 0 || os_fsync(fd) < 0 || os_rename(tmp, path) < 0) {
        rc = dlc_err_sys(err, "cannot write %s", path);
        if (fd >= 0)
            unlink(tmp);
    }
    os_close(&fd);
    mem_free(&tmp);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

void os_rmtree(const char *path)
{
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}
