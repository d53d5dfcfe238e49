// SPDX-License-Identifier: Apache-2.0
/* Memory that clients write besides their session: shared_rw.c and upload_slots.c. */
#include "proc_self.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

#define SIZE 8192u

/* A client writes what the daemon sees, and can neither shrink nor grow it: (SEGMENT-1). */
static void check_shared(int fd, const void *daemons, uint64_t size)
{
    struct stat st;
    char *clients = os_map(fd, 0, size, true);

    assert_non_null(clients);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, size);
    clients[size - 1] = 'z';
    assert_int_equal(((const char *)daemons)[size - 1], 'z');
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, (off_t)(2 * size)), -1);
    os_unmap(clients, size);
}

static void test_common(void **state)
{
    unsigned before = proc_descriptors();
    struct mem_common *c = NULL;

    (void)state;
    assert_int_equal(mem_common_new("test-common", SIZE, &c, NULL), 0);
    check_shared(mem_common_fd(c), mem_common_map(c), SIZE);
    mem_common_free(&c);
    assert_null(c);
    assert_int_equal(proc_mapped("test-common"), 0);
    assert_int_equal(proc_descriptors(), before);
    mem_common_free(&c); /* NULL: nothing */
}

static void test_uploads(void **state)
{
    unsigned before = proc_descriptors();
    struct mem_uploads *g = NULL, *second;
    char data[2] = "??";
    const char *map;

    (void)state;
    assert_int_equal(mem_uploads_new(&g, NULL), 0);
    map = os_map(mem_uploads_fd(g), 0, SHM_UPLOADS_SIZE, false);
    assert_non_null(map);
    check_shared(mem_uploads_fd(g), map, SHM_UPLOADS_SIZE);
    os_unmap(map, SHM_UPLOADS_SIZE);
    assert_int_equal(pwrite(mem_uploads_fd(g), "3", 1, 3 * SHM_UPLOAD_SIZE), 1);
    assert_true(mem_upload_read(g, 3, data, 2));
    assert_memory_equal(data, "3\0", 2);
    second = mem_uploads_ref(g);
    mem_uploads_put(&g);
    assert_null(g);
    assert_int_equal(proc_mapped("dlcache-uploads"), 1); /* the second one uses it */
    assert_true(mem_upload_read(second, SHM_UPLOAD_SLOTS - 1, data, 1));
    assert_int_equal(data[0], 0);
    mem_uploads_put(&second);
    assert_null(second);
    assert_int_equal(proc_mapped("dlcache-uploads"), 0);
    assert_int_equal(proc_descriptors(), before);
    mem_uploads_put(&second); /* NULL: nothing */
}

/* A client that uploads what it never wrote does not make the daemon pay for pages of it. */
static void test_reading_holes_makes_no_pages(void **state)
{
    struct mem_uploads *g = NULL;
    char *to = calloc(1, SHM_UPLOAD_SIZE);
    struct stat st;

    (void)state;
    assert_int_equal(mem_uploads_new(&g, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(mem_upload_read(g, i, to, SHM_UPLOAD_SIZE));
    assert_int_equal(fstat(mem_uploads_fd(g), &st), 0);
    assert_int_equal(st.st_blocks, 0);
    mem_uploads_put(&g);
    free(to);
}

static void upload_of_another_slot(void)
{
    struct mem_uploads *g = NULL;
    char byte;

    if (mem_uploads_new(&g, NULL) == 0)
        mem_upload_read(g, SHM_UPLOAD_SLOTS, &byte, 1);
}

static void test_no_such_slot(void **state)
{
    (void)state;
    assert_true(unit_aborts(upload_of_another_slot));
}

static void test_refused(void **state)
{
    unsigned before = proc_descriptors();
    bool fired = true;

    (void)state;
    for (int nth = 1; fired; nth++) {
        struct mem_common *c = (void *)&before;
        struct mem_uploads *g = (void *)&before;
        struct dlc_err err = DLC_ERR_INIT;
        int rc;

        fault_plan(&(struct fault_plan){.calls = FAULT_ALL_CALLS, .nth = nth});
        rc = mem_common_new("test-common", SIZE, &c, &err);
        fired = fault_disarm();
        assert_true(rc == 0 ? c != NULL : c == NULL && err.code == rc);
        mem_common_free(&c);
        fault_plan(&(struct fault_plan){.calls = FAULT_ALL_CALLS, .nth = nth});
        rc = mem_uploads_new(&g, &err);
        fired = fault_disarm() || fired;
        assert_true(rc == 0 ? g != NULL : g == NULL && err.code == rc);
        mem_uploads_put(&g);
        assert_int_equal(proc_descriptors(), before);
    }
}

static void test_no_leak(void **state)
{
    enum { ROUNDS = 200 };
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 10 + ROUNDS; i++) {
        struct mem_common *c;
        struct mem_uploads *g;

        if (i == 10)
            before = unit_heap();
        assert_int_equal(mem_common_new("test-common", SIZE, &c, NULL), 0);
        assert_int_equal(mem_uploads_new(&g, NULL), 0);
        mem_common_free(&c);
        mem_uploads_put(&g);
    }
    assert_true(unit_heap() < before + (size_t)ROUNDS * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_uploads),
        cmocka_unit_test(test_reading_holes_makes_no_pages),
        cmocka_unit_test(test_no_such_slot),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
