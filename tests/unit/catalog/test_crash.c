// SPDX-License-Identifier: Apache-2.0
/*
 * Catalogs and notes after a kill at each file-system call, and after a power cut at any moment
 * (power_cut.h): a snapshot that was stored is found again, with all its samples, and what was
 * never finished is removed. "long" as argument: more cuts.
 */
// timeout: 180
#include "unit.h"

#include "base/log.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "crash_points.h"
#include "power_cut.h"

enum { VERSIONS = 4, SAMPLES = 300 };
#define NOTE_OLD "{\"catalog\": \"old\"}\n"
#define NOTE_NEW "{\"catalog\": \"newer\"}\n"

static char root[256];
static uint64_t snapshots[VERSIONS + 1]; /* of each version, from 1 */
static int *done;                        /* how many were stored; shared with children */

/* Gives. */
static char *path_in(const char *dir, const char *name)
{
    return mem_fmt("%s/catalogs/%s", dir, name);
}

static void write_catalog(unsigned version, const char *file)
{
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    char key[32];

    for (unsigned i = 0; i < SAMPLES; i++) {
        snprintf(key, sizeof(key), "v%u/%06u", version, i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), 10, "", &err), 0);
    }
    if (catalog_builder_finish(b, file, "s3://bucket/x", &err) < 0)
        fail_msg("%s", err.text);
    catalog_builder_free(&b);
}

/* As a catalog comes from a peer: written, and not synced. */
static void copy_catalog(const char *from, const char *to)
{
    struct buf b = BUF_INIT;
    int fd = os_open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(os_read_file(from, 1 << 20, &b, NULL), 0);
    assert_int_equal(os_write_all(fd, b.data, b.len), 0);
    os_close(&fd);
    buf_release(&b);
}

static void install(unsigned version)
{
    char *path = path_in(root, "0123456789abcdef.cat"), *file = mem_fmt("%s.%u.tmp", path, version);
    char *peers = mem_fmt("%s.peer.tmp", file);
    struct dlc_err err = DLC_ERR_INIT;

    write_catalog(version, version == 3 ? peers : file);
    if (version == 3) {
        copy_catalog(peers, file);
        os_unlink(peers);
    }
    if (catalog_install(file, path, &err) < 0)
        fail_msg("%s", err.text);
    mem_free(&peers);
    mem_free(&file);
    mem_free(&path);
}

/* ---- what is found ---- */

static void check_samples(const struct catalog *c, unsigned version)
{
    struct catalog_entry e;
    char key[32];

    assert_int_equal(catalog_count(c), SAMPLES);
    for (unsigned i = 0; i < SAMPLES; i++) {
        snprintf(key, sizeof(key), "v%u/%06u", version, i);
        assert_int_equal(catalog_get(c, i, &e, NULL), 0);
        assert_string_equal(e.key, key);
    }
}

/* Of the first n versions all are there; of the others those that are, are whole. */
static void check_catalogs(const char *dir, int n)
{
    char *path = path_in(dir, "0123456789abcdef.cat");
    struct dlc_err err = DLC_ERR_INIT;

    for (int v = 1; v <= VERSIONS; v++) {
        struct catalog *c = NULL;
        int rc = catalog_load_snapshot(path, snapshots[v], &c, &err);

        if (rc < 0 && (v <= n || rc != DLC_ENOTFOUND))
            fail_msg("version %d of %d: %s", v, n, err.text);
        if (rc == 0)
            check_samples(c, (unsigned)v);
        catalog_close(&c);
    }
    mem_free(&path);
}

static void check_note(const char *dir, bool written)
{
    char *path = path_in(dir, "name@tenant.owner");
    struct buf b = BUF_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    if (os_read_file(path, 100, &b, &err) == 0)
        assert_true(strcmp(buf_str(&b), NOTE_NEW) == 0 ||
                    (!written && strcmp(buf_str(&b), NOTE_OLD) == 0));
    else if (written)
        fail_msg("%s", err.text);
    buf_release(&b);
    mem_free(&path);
}

/* Then nothing is left of what was not finished, and all goes on. */
static void check_space(const char *dir)
{
    char *path = path_in(dir, "");
    DIR *d = opendir(path);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' && !str_ends(e->d_name, ".cat") && !str_ends(e->d_name, ".owner"))
            fail_msg("%s was left", e->d_name);
    if (d != NULL)
        closedir(d);
    mem_free(&path);
}

/* ---- what is done ---- */

static void write_notes(void)
{
    char *path = path_in(root, "name@tenant.owner");

    assert_int_equal(os_write_file(path, NOTE_OLD, strlen(NOTE_OLD), 0600, NULL), 0);
    assert_int_equal(os_write_file(path, NOTE_NEW, strlen(NOTE_NEW), 0600, NULL), 0);
    mem_free(&path);
}

static void works(void)
{
    for (unsigned v = 1; v <= VERSIONS; v++) {
        install(v);
        *done = (int)v;
        cut_mark((int)v);
    }
    write_notes();
    *done = VERSIONS + 1;
    cut_mark(VERSIONS + 1);
}

static void check_all(const char *dir, int mark)
{
    check_catalogs(dir, DLC_MIN(mark, VERSIONS));
    check_note(dir, mark > VERSIONS);
    catalog_clean(dir);
    check_space(dir);
    check_catalogs(dir, DLC_MIN(mark, VERSIONS));
}

static void start_again(void)
{
    char *dir = mem_fmt("%s/catalogs", root);

    os_rmtree(root);
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    mem_free(&dir);
}

static void test_killed_at_each_call(void **state)
{
    bool killed = true;
    int nth = 1;

    (void)state;
    for (; killed; nth++) {
        *done = 0;
        killed = killed_at(FAULT_FILE_CALLS, nth, works);
        check_all(root, *done);
        start_again();
    }
    assert_true(nth > 60);
}

static void test_power_cut(void **state)
{
    char *where = mem_fmt("%s.cut", root);
    unsigned trees;

    (void)state;
    cut_begin(root);
    works();
    cut_end();
    trees = cut_each(where, check_all);
    print_message("%u operations, %u trees\n", cut.n_ops, trees);
    assert_true(trees > 300);
    cut_release();
    mem_free(&where);
}

/* Which snapshot each version is does not depend on where it lies. */
static int setup(void **state)
{
    (void)state;
    done = shared_memory(sizeof(*done));
    strcpy(root, "/dev/shm/dlcache-test-XXXXXX");
    if (mkdtemp(root) == NULL)
        unit_path("root", root);
    for (unsigned v = 1; v <= VERSIONS; v++) {
        char *path = mem_fmt("%s/x", root);
        struct catalog *c = NULL;

        assert_int_equal(os_mkdirs(root, 0700), 0);
        write_catalog(v, path);
        assert_int_equal(catalog_open(path, &c, NULL), 0);
        snapshots[v] = catalog_snapshot(c);
        catalog_close(&c);
        mem_free(&path);
    }
    start_again();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    os_rmtree(root);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_each_call),
        cmocka_unit_test(test_power_cut),
    };

    cut_arguments(argc, argv);
    log_threshold = LOG_ERROR;
    return cmocka_run_group_tests(tests, setup, teardown);
}
