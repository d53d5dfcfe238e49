// SPDX-License-Identifier: Apache-2.0
/* Catalogs on disk by snapshot: replaced, found again, pruned. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"
#include "catalog/catalog.h"

static char dir[] = "/tmp/dlcache-test-XXXXXX";
static char *path, *file;

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    path = mem_fmt("%s/0123456789abcdef.cat", dir);
    file = mem_fmt("%s.1.tmp", path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    os_rmtree(dir);
    mem_free(&path);
    mem_free(&file);
    return 0;
}

static int empty_dir(void **state)
{
    os_rmtree(dir);
    (void)state;
    return os_mkdirs(dir, 0700);
}

static void write_catalog(unsigned version, unsigned n)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    char key[32];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "v%u/%06u", version, i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), 10, "", &err), 0);
    }
    assert_int_equal(catalog_builder_finish(b, file, "s3://bucket/x", &err), 0);
    catalog_builder_free(&b);
}

/* Seconds apart, so that their order is known. */
static void set_age(const char *p, unsigned version)
{
    const struct timespec t[2] = {{.tv_sec = 1000 + version}, {.tv_sec = 1000 + version}};

    assert_int_equal(utimensat(AT_FDCWD, p, t, 0), 0);
}

static uint64_t install(unsigned version, unsigned n)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    uint64_t snapshot;

    write_catalog(version, n);
    set_age(file, version);
    if (catalog_install(file, path, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(catalog_open(path, &c, &err), 0);
    snapshot = catalog_snapshot(c);
    catalog_close(&c);
    return snapshot;
}

static bool has(uint64_t snapshot)
{
    struct catalog *c = NULL;
    bool found = catalog_load_snapshot(path, snapshot, &c, NULL) == 0;

    assert_true(!found || catalog_snapshot(c) == snapshot);
    catalog_close(&c);
    return found;
}

static unsigned files(void)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    unsigned n = 0;

    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void test_replaced(void **state)
{
    uint64_t a = install(1, 10), b, c;

    (void)state;
    assert_int_equal(files(), 1); /* nothing was there before */
    assert_int_equal(install(1, 10), a);
    assert_int_equal(files(), 1); /* the same needs no second file */
    b = install(2, 10);
    c = install(3, 10);
    assert_true(a != b && b != c);
    assert_true(has(a) && has(b) && has(c));
    assert_false(has(a ^ 1));
    assert_int_equal(files(), 3);
}

static void test_there_and_back(void **state)
{
    uint64_t a = install(1, 10), b = install(2, 10);

    (void)state;
    assert_int_equal(install(1, 10), a);
    assert_true(has(a) && has(b));
    assert_int_equal(catalog_prune(path, NULL, 0, UINT64_MAX), 1); /* a twice */
    assert_true(has(a) && has(b));
    assert_int_equal(files(), 2);
}

/* A file that is not what its name says is not given out. */
static void test_wrong_name(void **state)
{
    uint64_t a = install(1, 10), b = install(2, 10);
    char *from = catalog_snapshot_path(path, a), *to = catalog_snapshot_path(path, a ^ 1);
    struct catalog *c = NULL;

    (void)state;
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(catalog_load_snapshot(path, a ^ 1, &c, NULL), DLC_ECORRUPT);
    assert_null(c);
    assert_false(has(a));
    assert_true(has(b));
    mem_free(&from);
    mem_free(&to);
}

static void test_pruned_by_count(void **state)
{
    uint64_t all[CATALOG_KEEP + 6];
    unsigned n = CATALOG_KEEP + 6;

    (void)state;
    for (unsigned i = 0; i < n; i++)
        all[i] = install(i, 10);
    /* the newest, CATALOG_KEEP older ones, and two that are in use */
    assert_int_equal(catalog_prune(path, (uint64_t[]){all[0], all[2]}, 2, UINT64_MAX), 3);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(has(all[i]), i == 0 || i == 2 || i + 1 + CATALOG_KEEP >= n);
    assert_int_equal(catalog_prune(path, NULL, 0, UINT64_MAX), 2);
    assert_int_equal(files(), CATALOG_KEEP + 1);
}

static void test_pruned_by_size(void **state)
{
    uint64_t a = install(1, 4000), b = install(2, 10), c = install(3, 10), d = install(4, 10);
    char *large = catalog_snapshot_path(path, a);
    struct stat st;

    (void)state;
    assert_int_equal(stat(large, &st), 0);
    assert_int_equal(catalog_prune(path, NULL, 0, (uint64_t)st.st_size), 1);
    assert_true(!has(a) && has(b) && has(c) && has(d));
    assert_int_equal(catalog_prune(path, (uint64_t[]){b}, 1, 0), 1); /* nothing but what is used */
    assert_true(has(b) && !has(c) && has(d));
    mem_free(&large);
}

/* Of other datasets, and what is no catalog, nothing is touched. */
static void test_pruned_alone(void **state)
{
    static const char *const others[] = {"0123456789abcdee.1111111111111111.cat",
                                         "0123456789abcdef.111111111111111.cat",
                                         "0123456789abcdef.11111111111111zz.cat",
                                         "0123456789abcdef.1111111111111111.cat.tmp", "x@y.owner"};
    char *p;

    (void)state;
    install(1, 10);
    for (size_t i = 0; i < DLC_COUNT(others); i++) {
        p = mem_fmt("%s/%s", dir, others[i]);
        assert_int_equal(os_write_file(p, "x", 1, 0600, NULL), 0);
        mem_free(&p);
    }
    assert_int_equal(catalog_prune(path, NULL, 0, 0), 0);
    assert_int_equal(files(), 1 + DLC_COUNT(others));
}

static void test_clean(void **state)
{
    static const char *const names[] = {"a.cat", "a.cat.12.tmp", "b@c.owner",
                                        "a.1111111111111111.cat.tmp"};
    char *sub = mem_fmt("%s/catalogs", dir), *p;

    (void)state;
    assert_int_equal(os_mkdirs(sub, 0700), 0);
    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        p = mem_fmt("%s/%s", sub, names[i]);
        assert_int_equal(os_write_file(p, "x", 1, 0600, NULL), 0);
        mem_free(&p);
    }
    catalog_clean(dir);
    for (size_t i = 0; i < DLC_COUNT(names); i++) {
        p = mem_fmt("%s/%s", sub, names[i]);
        assert_int_equal(access(p, F_OK) == 0, i % 2 == 0);
        mem_free(&p);
    }
    mem_free(&sub);
}

/* Whatever call fails: the old one is found as before, or both are. */
static void test_faults(void **state)
{
    uint64_t a = install(1, 10);
    bool fired = true;
    int rc = -1;

    (void)state;
    for (int k = 1; fired; k++) {
        struct dlc_err err = DLC_ERR_INIT;

        write_catalog(2, 10);
        fault_arm(FAULT_SYSCALL | FAULT_ALLOC, k);
        rc = catalog_install(file, path, &err);
        fired = fault_disarm();
        assert_true(has(a));
        assert_int_equal(access(file, F_OK), -1);
        assert_true(rc == 0 || err.text[0] != '\0');
    }
    assert_int_equal(rc, 0);
    assert_int_equal(files(), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_replaced, empty_dir),
        cmocka_unit_test_setup(test_there_and_back, empty_dir),
        cmocka_unit_test_setup(test_wrong_name, empty_dir),
        cmocka_unit_test_setup(test_pruned_by_count, empty_dir),
        cmocka_unit_test_setup(test_pruned_by_size, empty_dir),
        cmocka_unit_test_setup(test_pruned_alone, empty_dir),
        cmocka_unit_test_setup(test_clean, empty_dir),
        cmocka_unit_test_setup(test_faults, empty_dir),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
