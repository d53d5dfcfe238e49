// SPDX-License-Identifier: Apache-2.0
/*
 * System calls that may fail for reasons worth testing, under fault injection (base/fault.h: each
 * one asks there before it is made). They return what the system call returns, with errno; the
 * *_all forms go on after EINTR and short counts. All descriptors are close-on-exec.
 */
#ifndef DLC_BASE_OS_H
#define DLC_BASE_OS_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

int os_open(const char *path, int flags, mode_t mode); /* adds O_CLOEXEC */
int os_openat(int dir, const char *path, int flags, mode_t mode);
int os_memfd(const char *name); /* close-on-exec, sealing allowed */
int os_rename(const char *from, const char *to);
int os_link(const char *from, const char *to);
int os_fsync(int fd);
int os_fdatasync(int fd);
int os_ftruncate(int fd, uint64_t size);
int os_fallocate(int fd, uint64_t size);                       /* reserve [0, size) */
int os_punch(int fd, uint64_t off, uint64_t len);              /* give pages back */
void *os_map(int fd, uint64_t off, size_t len, bool writable); /* MAP_SHARED; NULL on failure */
/* Zeroed memory of this process, which exists only where it was written. NULL on failure. */
void *os_map_private(size_t len);
void os_unmap(const void *p, size_t len);

/* 0 when all len bytes were moved, -1 with errno otherwise (EIO for an early end of file). */
int os_pread_all(int fd, void *buf, size_t len, uint64_t off);
int os_pwrite_all(int fd, const void *buf, size_t len, uint64_t off);
int os_write_all(int fd, const void *buf, size_t len);

struct epoll_event;
struct stat;

int os_fstat(int fd, struct stat *st);
int os_dup(int fd);
int os_pipe(int fds[static 2]);
int os_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int os_eventfd(void); /* non-blocking */
int os_epoll_create(void);
int os_epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev);
int os_socket(int domain, int type);
int os_connect(int fd, const struct sockaddr *addr, socklen_t len);
int os_accept(int fd); /* non-blocking */
/* Both go on after EINTR. */
ssize_t os_recvmsg(int fd, struct msghdr *h, int flags);
ssize_t os_sendmsg(int fd, const struct msghdr *h, int flags); /* no SIGPIPE */
int os_thread(pthread_t *t, void *(*run)(void *), void *arg);  /* 0 or an errno */

void os_close(int *fd); /* closes unless -1 and sets it to -1 */

/* Create path and its parents with mode; 0 or -1. An existing directory is success. */
int os_mkdirs(const char *path, mode_t mode);

/* Whole file into b, at most max bytes. */
int os_read_file(const char *path, size_t max, struct buf *b, struct dlc_err *err);

/* Write b to path through a temporary name, so that the file is whole or the old one. */
int os_write_file(const char *path, const void *data, size_t len, mode_t mode, struct dlc_err *err);

/* Remove path and all below it; errors are ignored. For tests and private directories. */
void os_rmtree(const char *path);

#endif
