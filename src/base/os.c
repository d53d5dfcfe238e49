// SPDX-License-Identifier: Apache-2.0
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fork_fds.h"
#include "base/mem.h"

#define faulty(call) fault_hit_call(CALL_##call)

int os_open(const char *path, int flags, mode_t mode)
{
    return faulty(open) ? -1 : open(path, flags | O_CLOEXEC, mode);
}

int os_openat(int dir, const char *path, int flags, mode_t mode)
{
    return faulty(open) ? -1 : openat(dir, path, flags | O_CLOEXEC, mode);
}

int os_memfd(const char *name)
{
    return faulty(memfd) ? -1 : memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int os_rename(const char *from, const char *to)
{
    return faulty(rename) ? -1 : rename(from, to);
}

int os_link(const char *from, const char *to)
{
    return faulty(link) ? -1 : link(from, to);
}

int os_fsync(int fd)
{
    return faulty(fsync) ? -1 : fsync(fd);
}

int os_fdatasync(int fd)
{
    return faulty(fsync) ? -1 : fdatasync(fd);
}

int os_ftruncate(int fd, uint64_t size)
{
    int rc;

    if (faulty(ftruncate))
        return -1;
    do
        rc = ftruncate(fd, (off_t)size);
    while (rc < 0 && errno == EINTR);
    return rc;
}

int os_fallocate(int fd, uint64_t size)
{
    int rc;

    if (faulty(fallocate))
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

    if (faulty(mmap))
        return NULL;
    p = mmap(NULL, len, prot, MAP_SHARED | MAP_NORESERVE, fd, (off_t)off);
    return p == MAP_FAILED ? NULL : p;
}

void *os_map_private(size_t len)
{
    void *p;

    if (faulty(mmap))
        return NULL;
    p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

    if (faulty(read))
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

    if (faulty(write))
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

    if (faulty(write))
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

int os_fstat(int fd, struct stat *st)
{
    return faulty(fstat) ? -1 : fstat(fd, st);
}

int os_dup(int fd)
{
    return faulty(dup) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int os_pipe(int fds[static 2])
{
    return faulty(pipe) ? -1 : pipe2(fds, O_CLOEXEC);
}

int os_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    return faulty(poll) ? -1 : poll(p, n, timeout_ms);
}

int os_eventfd(void)
{
    return faulty(eventfd) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int os_epoll_create(void)
{
    return faulty(epoll_create) ? -1 : epoll_create1(EPOLL_CLOEXEC);
}

int os_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev)
{
    return faulty(epoll_ctl) ? -1 : epoll_ctl(epoll, op, fd, ev);
}

int os_socket(int domain, int type)
{
    return faulty(socket) ? -1 : socket(domain, type | SOCK_CLOEXEC, 0);
}

int os_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return faulty(connect) ? -1 : connect(fd, addr, len);
}

int os_accept(int fd)
{
    return faulty(accept) ? -1 : accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* As the kernel does it when the process has no descriptor left. */
static void lose_descriptors(struct msghdr *h)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            close(fd);
        }
    }
    h->msg_controllen = 0;
    h->msg_flags |= MSG_CTRUNC;
}

ssize_t os_recvmsg(int fd, struct msghdr *h, int flags)
{
    ssize_t n;

    if (faulty(recvmsg))
        return -1;
    do
        n = recvmsg(fd, h, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n > 0 && h->msg_controllen > 0 && faulty(descriptors))
        lose_descriptors(h);
    return n;
}

ssize_t os_sendmsg(int fd, const struct msghdr *h, int flags)
{
    ssize_t n;

    if (faulty(sendmsg))
        return -1;
    do
        n = sendmsg(fd, h, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

int os_thread(pthread_t *t, void *(*run)(void *), void *arg)
{
    return faulty(thread) ? errno : pthread_create(t, NULL, run, arg);
}

void os_close(int *fd)
{
    faulty(close); /* may take long, but does not fail */
    if (*fd >= 0 && !fork_fds_close(*fd))
        close(*fd);
    *fd = -1;
}

int os_mkdirs(const char *path, mode_t mode)
{
    char *copy, *p;
    struct stat st;
    int rc = 0, why;

    if (faulty(mkdir))
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
        n = faulty(read) ? -1 : read(fd, chunk, sizeof(chunk));
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
