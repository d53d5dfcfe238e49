// SPDX-License-Identifier: Apache-2.0
/* The marker of a node: written, replaced, read; other files of that name are none. */
#include "ipc/node_marker.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "unit.h"

static char at[256];

static void expect(const char *text)
{
    char *got = node_marker_read(at);

    if (text == NULL)
        assert_null(got);
    else
        assert_string_equal(got, text);
    mem_free(&got);
}

static void test_written_and_replaced(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    char *file = mem_fmt("%s.node", at);
    struct stat st;

    (void)state;
    expect(NULL);
    assert_int_equal(node_marker_write(at, "gpu1", "https://m:7070", NULL, &err), 0);
    expect("node gpu1 of https://m:7070");
    assert_int_equal(node_marker_refuse(at, DLC_EBUSY, &err), DLC_EBUSY);
    assert_non_null(strstr(err.text, "is the place of node gpu1 of https://m:7070: "));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644); /* other users are to wait for the node too */
    assert_int_equal(node_marker_write(at, "gpu2", "https://m:7070,https://n:7070", NULL, &err), 0);
    expect("node gpu2 of https://m:7070,https://n:7070");
    assert_int_equal(os_write_file(file, "x", 1, 0644, &err), 0);
    expect(NULL);
    assert_int_equal(os_unlink(file), 0);
    expect(NULL);
    assert_int_equal(node_marker_refuse(at, DLC_EBUSY, &err), 0);
    mem_free(&file);
}

static void test_loaded_by_who_trusts_its_owner(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct config c = {.socket = at, .allow_uid = (char[]){""}};
    struct node_marker m = NODE_MARKER_INIT;
    char *file = mem_fmt("%s.node", at);

    (void)state;
    assert_false(node_marker_load(&c, &m));
    assert_int_equal(node_marker_write(at, "gpu1", "https://m:1,https://n:1", "/etc/ca.pem", &err),
                     0);
    expect("node gpu1 of https://m:1,https://n:1");
    assert_true(node_marker_load(&c, &m));
    assert_string_equal(m.name, "gpu1");
    assert_string_equal(m.manager, "https://m:1,https://n:1");
    assert_string_equal(m.ca, "/etc/ca.pem");
    node_marker_release(&m);
    assert_int_equal(node_marker_write(at, "gpu1", "http://m:1", NULL, &err), 0);
    assert_true(node_marker_load(&c, &m));
    assert_string_equal(m.ca, "");
    node_marker_release(&m);
    if (geteuid() == 0) {
        assert_int_equal(chown(file, 64321, 64321), 0);
        assert_false(node_marker_load(&c, &m));
        c.allow_uid = (char[]){"64321"};
        assert_true(node_marker_load(&c, &m));
        node_marker_release(&m);
    }
    assert_int_equal(os_unlink(file), 0);
    assert_int_equal(symlink("/etc/passwd", file), 0); /* no file of its own */
    assert_false(node_marker_load(&c, &m));
    assert_int_equal(os_unlink(file), 0);
    mem_free(&file);
}

static void test_nowhere_to_write(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(node_marker_write("/nonexistent/s.sock", "a", "http://m", NULL, &err),
                     DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "/nonexistent/s.sock.node"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_replaced),
        cmocka_unit_test(test_loaded_by_who_trusts_its_owner),
        cmocka_unit_test(test_nowhere_to_write),
    };

    unit_path("s.sock", at);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
