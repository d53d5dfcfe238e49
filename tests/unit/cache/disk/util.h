// SPDX-License-Identifier: Apache-2.0
/* What the tests of the disk tier share: a private root per test and chunks of known bytes. */
#ifndef DLC_TESTS_UNIT_STORAGE_DISK_UTIL_H
#define DLC_TESTS_UNIT_STORAGE_DISK_UTIL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/counters.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"
#include "base/check.h"
#include "base/clock.h"
#include "cache/disk/disk.h"
#include "cache/disk/chunk_name_i.h"

static char root[64];

__attribute__((unused)) static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/dlcache-test-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

__attribute__((unused)) static int remove_root(void **state)
{
    (void)state;
    os_rmtree(root);
    return 0;
}

#define disk_test(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

/* Open and wait until the background scan has ended. */
__attribute__((unused)) static struct disk *open_config(const struct disk_config *c)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct disk_figures f;
    struct disk *d;

    if (disk_open(c, &d, &err) < 0)
        fail_msg("%s", err.text);
    for (disk_figures(d, &f); f.scanning; disk_figures(d, &f))
        sched_yield();
    return d;
}

__attribute__((unused)) static struct disk *open_limited(uint64_t limit)
{
    return open_config(&(struct disk_config){.root = root, .limit = limit});
}

__attribute__((unused)) static struct chunk_id id_of(unsigned i)
{
    char key[16];

    snprintf(key, sizeof(key), "%u", i);
    return chunk_id_of((struct name_hash){0, 1}, key, "etag");
}

/* The bytes of chunk i; gives them. */
__attribute__((unused)) static unsigned char *bytes_of(unsigned i, size_t len)
{
    unsigned char *p = mem_alloc(len + 8);
    struct rng r = {i};

    for (size_t k = 0; k < len; k += 8) {
        uint64_t v = rng_next(&r);

        memcpy(p + k, &v, 8);
    }
    return p;
}

__attribute__((unused)) static int store(struct disk *d, unsigned i, size_t len)
{
    unsigned char *p = bytes_of(i, len);
    int rc = disk_store(d, id_of(i), p, len, NULL);

    mem_free(&p);
    return rc;
}

/* Read chunk i and check its bytes. */
__attribute__((unused)) static int fetch(struct disk *d, unsigned i, size_t len)
{
    unsigned char *want = bytes_of(i, len), *got = mem_alloc(len);
    int rc = disk_read(d, id_of(i), got, len, NULL);

    if (rc == 0)
        assert_memory_equal(got, want, len);
    mem_free(&want);
    mem_free(&got);
    return rc;
}

__attribute__((unused)) static void path_of(unsigned i, size_t len, struct disk_path *out)
{
    unsigned char *p = bytes_of(i, len);
    struct chunk_name n = {id_of(i), len, hash64(p, len)};

    disk_path_of_chunk(root, &n, out);
    mem_free(&p);
}

__attribute__((unused)) static struct disk_figures figures_of(struct disk *d)
{
    struct disk_figures f;

    disk_figures(d, &f);
    return f;
}

/* Files below root/what whose name ends so. */
__attribute__((unused)) static unsigned count_files(const char *what, const char *end)
{
    char *command = mem_fmt("find %s/%s -type f -name '*%s' | wc -l", root, what, end);
    FILE *f = popen(command, "r");
    unsigned n = 0;

    assert_int_equal(fscanf(f, "%u", &n), 1);
    pclose(f);
    mem_free(&command);
    return n;
}

/* Run f in a child, as an unprivileged user when we are root; its exit status. */
__attribute__((unused)) static int in_child(int (*f)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (getuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534)))
            _exit(100);
        _exit(f());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A thread waits for a lock or a condition: futex is what it is in. */
__attribute__((unused)) static bool waits(_Atomic pid_t *tid)
{
    char path[64], text[64] = "";
    FILE *f;

    if (atomic_load(tid) == 0)
        return false;
    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)atomic_load(tid));
    f = fopen(path, "r");
    assert_non_null(f);
    if (fgets(text, sizeof(text), f) == NULL)
        text[0] = 0;
    fclose(f);
    return atoi(text) == SYS_futex && text[0] != 'r';
}

__attribute__((unused)) static void until_waits(_Atomic pid_t *tid)
{
    for (unsigned in_a_row = 0; in_a_row < 20;) {
        in_a_row = waits(tid) ? in_a_row + 1 : 0;
        sched_yield();
    }
}

#endif
