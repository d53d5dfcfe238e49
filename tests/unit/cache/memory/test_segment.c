// SPDX-License-Identifier: Apache-2.0
/* (SEGMENT-2): nobody but the daemon writes memory that clients read. */
#include "cache/memory/segment_i.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/syscalls.h"
#include "cache/memory/memory.h"
#include "seal_attack.h"

#define NOBODY 65534

/* The daemon's memory, attacked by a process of its own user. */
static unsigned attack_world(void)
{
    struct memory *m = NULL;
    struct mem_index *x = NULL;
    struct mem_fill *f = NULL;
    const struct shm_index_hdr *h;
    unsigned done = 100;

    if (memory_new((uint64_t)1 << 20, (uint64_t)1 << 20, &m, NULL) == 0 &&
        mem_index_new(m, 1000, 77, &x, NULL) == 0 && memory_reserve(m, x, 5, 1000, &f) == 0) {
        memset(mem_fill_data(f), 's', 1000);
        memory_publish(m, &f);
        done = seal_attack(mem_index_fd(x));
        h = os_map(mem_index_fd(x), 0, mem_index_size(x), false);
        done += h == NULL || h->magic != SHM_INDEX_MAGIC || h->snapshot != 77;
        done += !memory_evict(m, x, 5); /* the daemon still writes there */
        os_unmap(h, mem_index_size(x));
    }
    mem_index_free(&x);
    memory_free(&m);
    return done;
}

/* As root, if this is root; and as a user without rights who owns it all. */
static void test_nobody_else_writes(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(attack_world(), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
            _exit(101);
        _exit((int)attack_world());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A large one is freed on another thread: what it holds is gone soon. */
static void test_close_later(void **state)
{
    struct segment s;
    uint64_t size = (uint64_t)32 << 20;
    char path[40];

    (void)state;
    assert_int_equal(segment_open(&s, "test", size, SEGMENT_CLIENTS_READ, NULL), 0);
    memset(s.map, 1, size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", s.fd);
    segment_close_later(&s);
    assert_null(s.map);
    while (access(path, F_OK) == 0) /* not by the descriptor: that would be a race with its end */
        sched_yield();
    assert_int_equal(errno, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_else_writes),
        cmocka_unit_test(test_close_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
