// SPDX-License-Identifier: Apache-2.0
/*
 * The system calls of daemon, client, manager and operator, under fault injection (base/fault.h:
 * each one asks there before it is made). No other file makes them: tools/lint sees to it. They
 * return what the system call returns, with errno; the *_all forms go on after EINTR and short
 * counts. All descriptors are close-on-exec. The plain ones are declared by tbl/os.def.
 */
#ifndef DLC_BASE_SYSCALLS_H
#define DLC_BASE_SYSCALLS_H

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct addrinfo;
struct epoll_event;
struct sock_fprog;
struct stat;
struct statvfs;
struct statx;
struct timespec;
struct __user_cap_data_struct;
struct __user_cap_header_struct;

struct robust_list_head;

#define OS_CALL(type, name, seam, params, call) type os_##name params;
#include "base/tbl/os.def"
#undef OS_CALL

int os_open(const char *path, int flags, mode_t mode); /* adds O_CLOEXEC */
/* The same of a path that must not leave the directory `dir`, through ".." or links: EXDEV. */
int os_open_beneath(int dir, const char *path, int flags);
/* The same, and no part of the path is a symbolic link: ELOOP. */
int os_open_without_links(int dir, const char *path, int flags);
int os_fsync(int fd);
int os_fdatasync(int fd);
int os_ftruncate(int fd, uint64_t size);
int os_fallocate(int fd, uint64_t size); /* reserve [0, size) */
/* The same where the file system cannot: by writing. */
int os_fallocate_sure(int fd, uint64_t size);
/* Of memory. Tests set another one, a power of two that is a multiple of the real one; 0: the real
 * one. */
uint64_t os_page_size(void);
void os_fake_page_size(uint64_t bytes);
void *os_map(int fd, uint64_t off, size_t len, bool writable); /* MAP_SHARED; NULL on failure */
/* The same of the whole file, in place of whatever is mapped at p. */
void *os_map_at(void *p, int fd, size_t len, bool writable);
/* Addresses without memory, which cannot be accessed; p not NULL: in place of whatever is mapped
 * there. NULL on failure: then that stays. */
void *os_reserve(void *p, size_t len);
/* Zeroed memory of this process, which exists only where it was written. NULL on failure. */
void *os_map_private(size_t len);
/* Map what is mapped shared at `map` a second time at `at`, in place of what is there: `at`, or NULL.
 */
void *os_map_again(void *map, size_t len, void *at);
void os_unmap(const void *p, size_t len);
void os_discard(void *p, size_t len); /* whole pages of os_map_private(): they are zero again */

/* 0 when all len bytes were moved, -1 with errno otherwise (EIO for an early end of file). */
int os_pread_all(int fd, void *buf, size_t len, uint64_t off);
int os_pwrite_all(int fd, const void *buf, size_t len, uint64_t off);
int os_write_all(int fd, const void *buf, size_t len);

DIR *os_opendir(const char *path);
DIR *os_fdopendir(int *fd);          /* takes *fd, unless it fails */
struct dirent *os_readdir(DIR *dir); /* NULL with errno 0: no more */
void os_closedir(DIR **dir);         /* closes unless NULL and sets it to NULL */
char *os_realpath(const char *path); /* gives (free); NULL with errno */
char *os_getcwd(void);               /* gives (free); NULL with errno */

/* Stop watching a descriptor that is watched. It cannot fail, so no fault is injected: the kernel
 * allocates nothing, and what stayed watched would name memory that its owner frees. */
void os_epoll_remove(int epoll, int fd);
void os_wake(int eventfd); /* add 1 to it */
void os_wake_drain(int eventfd);
void os_futex_wake(_Atomic uint32_t *word); /* all that wait */
/* 0 or EAI_*. */
int os_resolve(const char *host, const char *port, const struct addrinfo *hints,
               struct addrinfo **out);
/* 0 or an errno. */
int os_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *files,
             const posix_spawnattr_t *attr, char *const argv[], char *const env[]);
/* Both go on after EINTR. */
ssize_t os_recvmsg(int fd, struct msghdr *h, int flags);
ssize_t os_sendmsg(int fd, const struct msghdr *h, int flags); /* no SIGPIPE */
int os_thread(pthread_t *t, void *(*run)(void *), void *arg);  /* 0 or an errno */
/* The same for a thread that nobody joins and that takes no signals. */
int os_thread_detached(size_t stack, void *(*run)(void *), void *arg);

void os_close(int *fd); /* closes unless -1 and sets it to -1 */

/* Create path and its parents with mode; 0 or -1. An existing directory is success. */
int os_mkdirs(const char *path, mode_t mode);

/* Have the names in a directory outlive a power cut. 0, also where the file system has no such
 * call, or -1. */
int os_sync_dir(const char *path);
/* The same of the directory that `path` lies in. */
int os_sync_dir_of(const char *path);

/* Whole file into b, at most max bytes. */
int os_read_file(const char *path, size_t max, struct buf *b, struct dlc_err *err);

/* Write b to path through a temporary name, so that the file is whole or the old one; it outlives a
 * power cut. */
int os_write_file(const char *path, const void *data, size_t len, mode_t mode, struct dlc_err *err);
/* Remove what os_write_file() left in a directory when its process died. Nobody else writes there.
 */
void os_remove_unfinished(const char *dir);

/* Remove path and all below it; errors are ignored. For tests and private directories. */
void os_rmtree(const char *path);

#endif
