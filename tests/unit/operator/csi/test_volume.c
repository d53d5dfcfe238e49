// SPDX-License-Identifier: Apache-2.0
/* Volumes, with real mounts in a mount namespace of the test's own. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "operator/csi/volume.h"

static struct {
    char sockets[256], state[256], target[256];
    struct volume_dirs dirs;
} t;

static int set_up(void **state)
{
    (void)state;
    unit_path("sockets", t.sockets);
    unit_path("state", t.state);
    unit_path("pod/volumes/dlcache/mount", t.target);
    t.dirs = (struct volume_dirs){t.sockets, t.state};
    return os_mkdirs(t.sockets, 0755);
}

static int tear_down(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    return volume_unpublish(&t.dirs, t.target, &err);
}

static int enter_namespace(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -1;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static char *in_volume(const char *name)
{
    return mem_fmt("%s/%s", t.target, name);
}

static void publish(const struct volume_file *files, size_t n)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(volume_publish(&t.dirs, t.target, files, n, &err), 0);
    assert_true(volume_is_published(t.target));
}

static unsigned long flags_of(const char *path)
{
    struct statvfs fs;

    assert_int_equal(statvfs(path, &fs), 0);
    return fs.f_flag;
}

/* How many mounts there are at the path and below it. */
static unsigned mounts_below(const char *path)
{
    FILE *f = fopen("/proc/self/mountinfo", "r");
    char line[4096];
    unsigned n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, path) != NULL;
    fclose(f);
    return n;
}

static void shows_files_and_the_socket(void **state)
{
    const struct volume_file files[] = {{"token", "secret"}};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char *socket_path = mem_fmt("%s/s", t.sockets), *seen = in_volume("node/s");
    char *token = in_volume("token"), *node = in_volume("node");
    struct dlc_err err = DLC_ERR_INIT;
    struct buf text = BUF_INIT;
    int listener = os_socket(AF_UNIX, SOCK_STREAM), fd = os_socket(AF_UNIX, SOCK_STREAM);

    (void)state;
    publish(files, 1);
    assert_int_equal(os_read_file(token, 100, &text, &err), 0);
    assert_string_equal(buf_str(&text), "secret");
    assert_int_equal(os_unlink(token), -1);
    assert_int_equal(errno, EROFS);
    assert_int_equal(flags_of(t.target) & (ST_RDONLY | ST_NOEXEC | ST_NOSUID | ST_NODEV),
                     ST_RDONLY | ST_NOEXEC | ST_NOSUID | ST_NODEV);
    assert_int_equal(flags_of(node) & (ST_RDONLY | ST_NOEXEC | ST_NOSUID | ST_NODEV),
                     ST_RDONLY | ST_NOEXEC | ST_NOSUID | ST_NODEV);
    /* A node that starts after the pod is found. */
    memcpy(addr.sun_path, socket_path, strlen(socket_path) + 1);
    assert_int_equal(os_bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(os_listen(listener, 1), 0);
    memcpy(addr.sun_path, seen, strlen(seen) + 1);
    assert_int_equal(os_connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    os_close(&fd);
    os_close(&listener);
    os_unlink(socket_path);
    buf_release(&text);
    mem_free(&socket_path);
    mem_free(&seen);
    mem_free(&token);
    mem_free(&node);
}

static void publishing_again_changes_the_files_alone(void **state)
{
    const struct volume_file old[] = {{"token", "old"}}, new[] = {{"token", "new"}};
    char *token = in_volume("token");
    struct dlc_err err = DLC_ERR_INIT;
    struct buf text = BUF_INIT;

    (void)state;
    publish(old, 1);
    publish(new, 1);
    assert_int_equal(mounts_below(t.target), 2);
    assert_int_equal(os_read_file(token, 100, &text, &err), 0);
    assert_string_equal(buf_str(&text), "new");
    buf_release(&text);
    mem_free(&token);
}

static void unpublishing_leaves_nothing(void **state)
{
    const struct volume_file files[] = {{"token", "secret"}};
    struct dlc_err err = DLC_ERR_INIT;
    DIR *dir;
    struct dirent *e;

    (void)state;
    publish(files, 1);
    for (unsigned i = 0; i < 2; i++) { /* the second one finds nothing */
        assert_int_equal(volume_unpublish(&t.dirs, t.target, &err), 0);
        assert_int_equal(access(t.target, F_OK), -1);
        assert_int_equal(mounts_below(t.target), 0);
        assert_false(volume_is_published(t.target));
    }
    dir = os_opendir(t.state);
    while ((e = os_readdir(dir)) != NULL)
        assert_true(e->d_name[0] == '.');
    os_closedir(&dir);
    assert_int_equal(access(t.sockets, F_OK), 0); /* the node's own stays */
}

/* A driver that was killed between the two mounts: the next call goes on. */
static void half_a_volume_is_completed(void **state)
{
    char *node = in_volume("node");

    (void)state;
    publish(NULL, 0);
    assert_int_equal(os_umount(node, 0), 0);
    assert_false(volume_is_published(t.target));
    publish(NULL, 0);
    assert_int_equal(mounts_below(t.target), 2);
    mem_free(&node);
}

/* Whichever call fails, nothing is left, and the next try succeeds. */
static void every_failing_call_is_undone(void **state)
{
    const struct volume_file files[] = {{"token", "secret"}};
    struct dlc_err err = DLC_ERR_INIT;
    unsigned failed = 0;

    (void)state;
    for (unsigned i = 1; i <= 4; i++) {
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mount), .nth = (int)i});
        if (volume_publish(&t.dirs, t.target, files, 1, &err) < 0) {
            failed++;
            assert_int_equal(mounts_below(t.target), 0);
        }
        fault_disarm();
        publish(files, 1);
        assert_int_equal(volume_unpublish(&t.dirs, t.target, &err), 0);
    }
    assert_int_equal(failed, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shows_files_and_the_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(publishing_again_changes_the_files_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(unpublishing_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_volume_is_completed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failing_call_is_undone, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("operator/csi/volume", tests, enter_namespace, NULL);
}
