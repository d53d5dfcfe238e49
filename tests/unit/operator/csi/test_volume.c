// SPDX-License-Identifier: Apache-2.0
/* Volumes, with real mounts in a mount namespace of the test's own. */
#include "proc_self.h"

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

static void publish(void)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(volume_publish(&t.dirs, t.target, &err), 0);
    assert_true(volume_is_published(t.target));
}

static unsigned long flags_of(const char *path)
{
    struct statvfs fs;

    assert_int_equal(statvfs(path, &fs), 0);
    return fs.f_flag;
}

static void shows_the_socket_and_is_read_only(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char *socket_path = mem_fmt("%s/s", t.sockets), *seen = in_volume("node/s");
    char *node = in_volume("node");
    int listener = os_socket(AF_UNIX, SOCK_STREAM), fd = os_socket(AF_UNIX, SOCK_STREAM);

    (void)state;
    publish();
    assert_int_equal(os_rmdir(node), -1);
    assert_int_equal(os_open(t.target, O_TMPFILE | O_WRONLY, 0600), -1);
    assert_int_equal(errno, EROFS);
    assert_int_equal(os_open(node, O_TMPFILE | O_WRONLY, 0600), -1);
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
    mem_free(&socket_path);
    mem_free(&seen);
    mem_free(&node);
}

static void publishing_again_changes_nothing(void **state)
{
    (void)state;
    publish();
    publish();
    assert_int_equal(proc_lines("/proc/self/mountinfo", t.target), 2);
}

static void unpublishing_leaves_nothing(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    DIR *dir;
    struct dirent *e;

    (void)state;
    publish();
    for (unsigned i = 0; i < 2; i++) { /* the second one finds nothing */
        assert_int_equal(volume_unpublish(&t.dirs, t.target, &err), 0);
        assert_int_equal(access(t.target, F_OK), -1);
        assert_int_equal(proc_lines("/proc/self/mountinfo", t.target), 0);
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
    publish();
    assert_int_equal(os_umount(node, 0), 0);
    assert_false(volume_is_published(t.target));
    publish();
    assert_int_equal(proc_lines("/proc/self/mountinfo", t.target), 2);
    mem_free(&node);
}

/* Whichever call fails, nothing is left, and the next try succeeds. */
static void every_failing_call_is_undone(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    unsigned failed = 0;

    (void)state;
    for (unsigned i = 1; i <= 4; i++) {
        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(mount), .nth = (int)i});
        if (volume_publish(&t.dirs, t.target, &err) < 0) {
            failed++;
            assert_int_equal(proc_lines("/proc/self/mountinfo", t.target), 0);
        }
        fault_disarm();
        publish();
        assert_int_equal(volume_unpublish(&t.dirs, t.target, &err), 0);
    }
    assert_int_equal(failed, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shows_the_socket_and_is_read_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(publishing_again_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unpublishing_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_volume_is_completed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failing_call_is_undone, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("operator/csi/volume", tests, enter_namespace, NULL);
}
