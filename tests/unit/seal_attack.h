// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile client can try with a descriptor that it got for reading: make itself a writable
 * one (its user may own the file, or be root), then write, map, truncate and punch through both.
 */
#ifndef DLC_TESTS_SEAL_ATTACK_H
#define DLC_TESTS_SEAL_ATTACK_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Through the kernel's door for debuggers, which writes where mappings do not allow it. */
static inline bool attack_mem(void *at)
{
    int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    bool done = mem >= 0 && pwrite(mem, "POISON", 6, (off_t)(uintptr_t)at) > 0;

    close(mem);
    return done;
}

/* How many of the attacks through this descriptor succeeded; each is printed. */
static inline unsigned attack_through(int fd, off_t size)
{
    void *rw = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *ro = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    struct {
        const char *what;
        bool done;
    } all[] = {
        {"mapped writable", rw != MAP_FAILED},
        {"made a mapping writable",
         ro != MAP_FAILED && mprotect(ro, 4096, PROT_READ | PROT_WRITE) == 0},
        {"wrote by /proc/self/mem", ro != MAP_FAILED && attack_mem(ro)},
        {"removed pages", ro != MAP_FAILED && madvise(ro, 4096, MADV_REMOVE) == 0},
        {"wrote", pwrite(fd, "POISON", 6, 0) > 0},
        {"punched", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0},
        {"zeroed", fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0},
        {"grew", ftruncate(fd, size * 2) == 0},
        {"truncated", ftruncate(fd, 0) == 0},
        {"sealed", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0},
    };
    unsigned done = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].done)
            fprintf(stderr, "uid %d %s it\n", (int)geteuid(), all[i].what);
        done += all[i].done;
    }
    if (rw != MAP_FAILED)
        munmap(rw, 4096);
    if (ro != MAP_FAILED)
        munmap(ro, 4096);
    return done;
}

static inline unsigned seal_attack(int fd)
{
    char path[40];
    struct stat st;
    unsigned done;
    int again;

    if (fstat(fd, &st) < 0)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void)!fchmod(fd, 0600);
    again = open(path, O_RDWR | O_CLOEXEC);
    done = attack_through(fd, st.st_size);
    if (again >= 0)
        done += attack_through(again, st.st_size);
    close(again);
    return done;
}

#endif
