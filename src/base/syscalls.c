// SPDX-License-Identifier: Apache-2.0
#include "base/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fork_fds.h"
#include "base/mem.h"
#include "base/str.h"

#define faulty(call)        faulty_of(call, -1)
#define faulty_of(call, fd) fault_hit_call(CALL_##call, fd)

#define OS_CALL(type, name, seam, params, call)                                                    \
    type os_##name params                                                                          \
    {                                                                                              \
        return faulty(seam) ? -1 : (call);                                                         \
    }
#include "base/tbl/os.def"
#undef OS_CALL

int os_open(const char *path, int flags, mode_t mode)
{
    return faulty(open) ? -1 : open(path, flags | O_CLOEXEC, mode);
}

static int open_resolved(int dir, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC), .resolve = resolve};

    return faulty(open) ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

int os_open_beneath(int dir, const char *path, int flags)
{
    return open_resolved(dir, path, flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

int os_open_without_links(int dir, const char *path, int flags)
{
    return open_resolved(dir, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int os_fsync(int fd)
{
    return faulty_of(fsync, fd) ? -1 : fsync(fd);
}

int os_fdatasync(int fd)
{
    return faulty_of(fsync, fd) ? -1 : fdatasync(fd);
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

int os_fallocate_sure(int fd, uint64_t size)
{
    int e = faulty(fallocate) ? errno : posix_fallocate(fd, 0, (off_t)size);

    if (e == 0)
        return 0;
    errno = e;
    return -1;
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

void *os_map_at(void *p, int fd, size_t len, bool writable)
{
    int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;

    if (faulty(mmap_at))
        return NULL;
    p = mmap(p, len, prot, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *os_reserve(void *p, size_t len)
{
    int fixed = p != NULL ? MAP_FIXED : 0;

    if (p != NULL ? faulty(mmap_at) : faulty(mmap))
        return NULL;
    p = mmap(p, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t fake_page_size;

uint64_t os_page_size(void)
{
    return fake_page_size != 0 ? fake_page_size : (uint64_t)sysconf(_SC_PAGESIZE);
}

void os_fake_page_size(uint64_t bytes)
{
    fake_page_size = bytes;
}

void os_discard(void *p, size_t len)
{
    madvise(p, len, MADV_DONTNEED); /* a hint: unmapping gives back the rest */
}

void *os_map_private(size_t len)
{
    void *p;

    if (faulty(mmap))
        return NULL;
    p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *os_map_again(void *map, size_t len, void *at)
{
    void *p;

    if (faulty(mmap))
        return NULL;
    p = mremap(map, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, at); /* 0: the old one stays */
    return p == MAP_FAILED ? NULL : p;
}

void os_unmap(const void *p, size_t len)
{
    faulty(munmap); /* may take long, but does not fail */
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

int os_thread_detached(size_t stack, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t t;
    int e;

    if (faulty(thread))
        return errno;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&t, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return e;
}

void os_wake(int eventfd)
{
    const uint64_t one = 1;

    faulty(wake); /* nobody could do without it, and the kernel does not fail */
    while (write(eventfd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue; /* EAGAIN: it is awake already */
}

void os_epoll_remove(int epoll, int fd)
{
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

void os_wake_drain(int eventfd)
{
    uint64_t n;

    faulty(wake); /* the same */
    while (read(eventfd, &n, sizeof(n)) < 0 && errno == EINTR)
        continue; /* EAGAIN: nobody has woken us */
}

void os_futex_wake(_Atomic uint32_t *word)
{
    faulty(wake);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int os_resolve(const char *host, const char *port, const struct addrinfo *hints,
               struct addrinfo **out)
{
    return faulty(resolve) ? EAI_SYSTEM : getaddrinfo(host, port, hints, out);
}

int os_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *files,
             const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
    return faulty(spawn) ? errno : posix_spawn(pid, path, files, attr, argv, env);
}

/* ---- directories and paths ---- */

DIR *os_opendir(const char *path)
{
    int fd = os_open(path, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : os_fdopendir(&fd);

    if (fd >= 0)
        os_close(&fd);
    return dir;
}

DIR *os_fdopendir(int *fd)
{
    DIR *dir = faulty(readdir) ? NULL : fdopendir(*fd);

    if (dir != NULL)
        *fd = -1;
    return dir;
}

struct dirent *os_readdir(DIR *dir)
{
    errno = 0;
    return faulty(readdir) ? NULL : readdir(dir);
}

void os_closedir(DIR **dir)
{
    faulty(close);
    if (*dir != NULL)
        closedir(*dir);
    *dir = NULL;
}

char *os_realpath(const char *path)
{
    return faulty(realpath) ? NULL : realpath(path, NULL);
}

char *os_getcwd(void)
{
    return faulty(realpath) ? NULL : getcwd(NULL, 0);
}

void os_close(int *fd)
{
    faulty(close); /* may take long, but does not fail */
    if (*fd >= 0 && !fork_fds_close(*fd))
        close(*fd);
    *fd = -1;
}

/* One directory; 0 when it is there. */
static int make_directory(const char *path, mode_t mode)
{
    struct stat st;
    int why;

    if (faulty(mkdir))
        return -1;
    if (mkdir(path, mode) == 0)
        return 0;
    why = errno;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    errno = why == EEXIST ? ENOTDIR : why; /* of mkdir: stat only says that it is not there */
    return -1;
}

int os_mkdirs(const char *path, mode_t mode)
{
    char *copy, *p;
    int rc = 0;

    if (path[0] == '\0') {
        errno = ENOENT;
        return -1;
    }
    copy = mem_str(path);
    for (p = copy + 1; rc == 0 && *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        rc = make_directory(copy, mode);
        *p = '/';
    }
    if (rc == 0)
        rc = make_directory(copy, mode);
    mem_free(&copy);
    return rc;
}

int os_sync_dir(const char *path)
{
    int fd = os_open(path, O_RDONLY | O_DIRECTORY, 0);
    int rc = fd < 0 ? -1 : os_fsync(fd), why = errno;

    os_close(&fd);
    errno = why;
    return rc < 0 && why == EINVAL ? 0 : rc;
}

int os_sync_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? mem_str(".") : mem_strn(path, (size_t)(slash - path) + 1);
    int rc = os_sync_dir(dir), why = errno;

    mem_free(&dir);
    errno = why;
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

    if (fd < 0 || os_write_all(fd, data, len) < 0 || os_fsync(fd) < 0 || os_rename(tmp, path) < 0 ||
        os_sync_dir_of(path) < 0) {
        rc = dlc_err_sys(err, "cannot write %s", path);
        if (fd >= 0)
            os_unlink(tmp);
    }
    os_close(&fd);
    mem_free(&tmp);
    return rc;
}

/* NAME.TID.tmp */
static bool is_unfinished(const char *name)
{
    const char *end = name + strlen(name) - 4, *p = end;

    if (!str_ends(name, ".tmp"))
        return false;
    while (p > name && p[-1] >= '0' && p[-1] <= '9')
        p--;
    return p < end && p > name + 1 && p[-1] == '.';
}

void os_remove_unfinished(const char *dir)
{
    DIR *d = os_opendir(dir);
    const struct dirent *e;

    while (d != NULL && (e = os_readdir(d)) != NULL)
        if (is_unfinished(e->d_name))
            os_unlinkat(dirfd(d), e->d_name);
    os_closedir(&d);
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
