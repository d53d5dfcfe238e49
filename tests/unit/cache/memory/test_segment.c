// SPDX-License-Identifier: Apache-2.0
/* (SEGMENT-2): nobody but the daemon writes memory that clients read. And nothing of a segment stays
 * when it is closed. */
#include "proc_self.h"

#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/fault.h"
#include "cache/memory/segment_i.h"
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

/* ---- opening and closing ---- */

/* See that something is mapped behind a segment, so that it can be seen that it stays. */
static void *neighbour(const struct segment *s)
{
    void *at = (char *)s->map + s->size;
    void *p = mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    assert_true(p == at || errno == EEXIST);
    return at;
}

static void test_close(void **state)
{
    struct segment s;
    unsigned before = proc_descriptors();

    (void)state;
    assert_int_equal(segment_open(&s, "test-close", 8192, SEGMENT_CLIENTS_WRITE, NULL), 0);
    assert_int_equal(s.size, 8192);
    assert_int_equal(proc_mapped("test-close"), 1);
    segment_close(&s);
    assert_int_equal(proc_mapped("test-close"), 0);
    assert_int_equal(proc_descriptors(), before);
    assert_int_equal(s.fd, -1);
    assert_null(s.map);
    assert_int_equal(s.size, 0);
    segment_close(&s); /* again: nothing */
    assert_int_equal(proc_descriptors(), before);
}

static void test_samples_stay_out_of_core_files(void **state)
{
    struct segment s;

    (void)state;
    assert_int_equal(segment_open(&s, "test-core", 4096, SEGMENT_CLIENTS_READ, NULL), 0);
    assert_true(proc_all_have_flag("test-core", "dd"));
    segment_close(&s);
}

/* A system call that fails leaves nothing behind, and is named. */
static void test_open_fails(void **state)
{
    static const struct {
        uint64_t call;
        const char *text;
    } cases[] = {{FAULT_CALL(memfd), "cannot create a memfd"},
                 {FAULT_CALL(ftruncate), "cannot make it 4096 bytes"},
                 {FAULT_CALL(mmap), "cannot map 4096 bytes"},
                 {FAULT_CALL(fcntl), "cannot seal it"}};
    unsigned before = proc_descriptors();
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    page[0] = 1;
    for (size_t i = 0; i < unit_count(cases); i++) {
        struct segment s = {.map = page, .size = 4096}; /* of before: not ours */
        struct dlc_err err = DLC_ERR_INIT;

        fault_plan(&(struct fault_plan){.calls = cases[i].call, .nth = 1});
        assert_true(segment_open(&s, "test-fails", 4096, SEGMENT_CLIENTS_READ, &err) < 0);
        assert_true(fault_disarm());
        assert_non_null(strstr(err.text, "shared memory test-fails"));
        assert_non_null(strstr(err.text, cases[i].text));
        assert_int_equal(s.fd, -1);
        assert_null(s.map);
        assert_int_equal(proc_mapped("test-fails"), 0);
        assert_int_equal(proc_descriptors(), before);
        assert_int_equal(page[0], 1);
    }
    munmap(page, 4096);
}

/* Standard input was closed: 0 is a descriptor like any other. */
static void test_descriptor_0(void **state)
{
    int input = dup(STDIN_FILENO);
    struct segment s;

    (void)state;
    close(STDIN_FILENO);
    assert_int_equal(segment_open(&s, "test-input", 4096, SEGMENT_CLIENTS_READ, NULL), 0);
    assert_int_equal(s.fd, STDIN_FILENO);
    segment_close(&s);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
}

/* ---- closing later ---- */

/* A large one is freed on another thread: what it holds is gone soon, and nothing else. */
static void close_later(uint64_t size)
{
    struct segment s;
    void *next;
    char path[40];
    unsigned char in_core;

    assert_int_equal(segment_open(&s, "test-later", size, SEGMENT_CLIENTS_READ, NULL), 0);
    memset(s.map, 1, size);
    next = neighbour(&s);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", s.fd);
    segment_close_later(&s);
    assert_null(s.map);
    assert_int_equal(s.fd, -1);
    while (access(path, F_OK) == 0) /* not by the descriptor: that would be a race with its end */
        sched_yield();
    assert_int_equal(errno, ENOENT);
    assert_int_equal(proc_mapped("test-later"), 0); /* memory goes back only when nobody maps it */
    assert_int_equal(mincore(next, 4096, &in_core), 0); /* something is mapped there */
}

static void test_close_later(void **state)
{
    (void)state;
    close_later((uint64_t)32 << 20);
    close_later((uint64_t)20 << 20); /* not a multiple of a step */
    close_later((uint64_t)8 << 20);
    close_later(4096);
}

static struct segment watched;
static _Atomic unsigned unmaps;

/* Between the last step and the end somebody maps something where the segment was. */
static void map_there(enum fault_call call, int fd)
{
    (void)fd;
    if (call == CALL_munmap && atomic_fetch_add(&unmaps, 1) == 3)
        mmap(watched.map, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
             0);
}

static void test_close_later_once(void **state)
{
    unsigned before = proc_descriptors();
    unsigned char in_core;
    struct segment s;

    (void)state;
    assert_int_equal(segment_open(&s, "test-once", (uint64_t)20 << 20, SEGMENT_CLIENTS_READ, NULL),
                     0);
    watched = s;
    fault_observe(map_there);
    segment_close_later(&s);
    while (proc_descriptors() != before)
        sched_yield();
    fault_observe(NULL);
    assert_int_equal(atomic_load(&unmaps), 4); /* three steps, then nothing */
    assert_int_equal(mincore(watched.map, 4096, &in_core), 0);
    munmap(watched.map, 4096);
}

/* No thread can be had: it is closed at once. */
static void test_close_without_a_thread(void **state)
{
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 101; i++) {
        struct segment s;

        assert_int_equal(
            segment_open(&s, "test-here", (uint64_t)20 << 20, SEGMENT_CLIENTS_READ, NULL), 0);
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(thread), .nth = 1});
        segment_close_later(&s);
        assert_true(fault_disarm());
        assert_int_equal(proc_mapped("test-here"), 0);
        if (i == 0)
            before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks < before + 1600); /* 100 copies of a segment: 3200 bytes */
}

/* ---- who owns it ---- */

static void test_owner_start(void **state)
{
    unsigned long long start = 0;
    size_t before;
    char stat[512];
    FILE *f;

    (void)state;
    /* A name that looks like more fields. */
    assert_int_equal(prctl(PR_SET_NAME, "a) R 1 (b", 0, 0, 0), 0);
    f = fopen("/proc/self/stat", "re");
    assert_non_null(f);
    assert_non_null(fgets(stat, sizeof(stat), f));
    fclose(f);
    assert_int_equal(sscanf(strrchr(stat, ')'),
                            ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                            "%*d %*d %llu",
                            &start),
                     1);
    assert_true(start > 0);
    assert_int_equal(segment_owner_start(), start);
    before = mallinfo2().uordblks;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(segment_owner_start(), start);
    assert_true(mallinfo2().uordblks < before + 4096);
    fault_plan(&(struct fault_plan){.calls = FAULT_CALL(open), .nth = 1});
    assert_int_equal(segment_owner_start(), 0); /* nobody says */
    assert_true(fault_disarm());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_else_writes),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_samples_stay_out_of_core_files),
        cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_descriptor_0),
        cmocka_unit_test(test_close_later),
        cmocka_unit_test(test_close_later_once),
        cmocka_unit_test(test_close_without_a_thread),
        cmocka_unit_test(test_owner_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
