// SPDX-License-Identifier: Apache-2.0
/* The sandbox as a whole: user, capabilities, what is said of it, and what --sandbox means. */
#include "unit.h"

#include <errno.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fault.h"
#include "sandbox/sandbox.h"

static struct config config;

static int set_up(void **state)
{
    char path[256];

    (void)state;
    assert_int_equal(config_load(&config, "/dev/null", NULL), 0);
    assert_int_equal(config_set(&config, "dir", unit_path("cache", path), NULL), 0);
    assert_int_equal(config_set(&config, "socket", unit_path("run/socket", path), NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    config_release(&config);
    return 0;
}

/* The exit status of f in a child. */
static int in_child(int (*f)(void))
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(f());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static uint64_t effective(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};

    return syscall(SYS_capget, &head, data) < 0
               ? UINT64_MAX
               : data[0].effective | (uint64_t)data[1].effective << 32;
}

static const struct sandbox_part *part(const char *name)
{
    unsigned n;
    const struct sandbox_part *p = sandbox_parts(&n);

    for (unsigned i = 0; i < n; i++) {
        if (strcmp(p[i].name, name) == 0)
            return &p[i];
    }
    return NULL;
}

static int enter(enum sandbox_role role)
{
    const struct sandbox_plan plan = {.role = role, .config = &config};
    struct dlc_err err = DLC_ERR_INIT;

    return sandbox_enter(&plan, &err);
}

/* ---- capabilities: 1, or what is wrong ---- */

static int manager_has_none(void)
{
    if (sandbox_parts(&(unsigned){0}) == NULL || enter(SANDBOX_MANAGER) < 0)
        return 2;
    if (effective() != 0 || !part("capabilities")->in_force)
        return 3;
    for (unsigned cap = 0; cap < 40; cap++) {
        if (prctl(PR_CAPBSET_READ, (unsigned long)cap, 0L, 0L, 0L) == 1)
            return 4;
    }
    return strcmp(part("capabilities")->text, "none") != 0   ? 5
           : prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) != 1 ? 6
                                                             : 1;
}

static int low_port_is_kept(void)
{
    return enter(SANDBOX_MANAGER) == 0 && effective() == 1u << CAP_NET_BIND_SERVICE ? 1 : 2;
}

static int node_reads_files_of_all(void)
{
    return enter(SANDBOX_NODE) == 0 && effective() == 1u << CAP_DAC_READ_SEARCH ? 1 : 2;
}

static void test_capabilities(void **state)
{
    (void)state;
    if (effective() == 0) { /* not root: there is nothing to drop */
        assert_int_equal(in_child(manager_has_none), 1);
        return;
    }
    assert_int_equal(in_child(manager_has_none), 1);
    assert_int_equal(in_child(node_reads_files_of_all), 1);
    assert_int_equal(config_set(&config, "listen", "127.0.0.1:443", NULL), 0);
    assert_int_equal(in_child(low_port_is_kept), 1);
    assert_int_equal(config_set(&config, "listen", "127.0.0.1:7070", NULL), 0);
    assert_int_equal(in_child(low_port_is_kept), 2);
}

/* ---- --user ---- */

static int becomes_nobody(void)
{
    const struct passwd *pw = getpwnam("nobody");
    uid_t r, e, s;
    char path[256];
    struct stat st;

    if (pw == NULL || enter(SANDBOX_NODE) < 0 || getresuid(&r, &e, &s) < 0)
        return 2;
    if (r != pw->pw_uid || e != pw->pw_uid || s != pw->pw_uid || getgid() != pw->pw_gid)
        return 3;
    if (effective() != 0 || getgroups(0, NULL) > 1)
        return 4;
    if (strcmp(getenv("HOME"), pw->pw_dir) != 0)
        return 5;
    /* Its directories are its own. */
    return stat(unit_path("cache", path), &st) == 0 && st.st_uid == pw->pw_uid ? 1 : 6;
}

/* Nor can it get others back. */
static int becomes_nobody_with_a_port(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct more[2] = {{1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 0}};

    if (enter(SANDBOX_NODE) < 0 || getuid() == 0)
        return 2;
    if (syscall(SYS_capset, &head, more) == 0)
        return 3;
    return effective() == 1u << CAP_NET_BIND_SERVICE ? 1 : 4;
}

static int fails(void)
{
    return enter(SANDBOX_NODE) < 0;
}

static void test_user(void **state)
{
    char path[256];

    (void)state;
    assert_int_equal(config_set(&config, "user", "no-such-user", NULL), 0);
    assert_int_equal(in_child(fails), 1);
    assert_int_equal(config_set(&config, "user", "nobody", NULL), 0);
    if (geteuid() != 0) {
        assert_int_equal(in_child(fails), 1);
        return;
    }
    assert_int_equal(chmod(unit_path(".", path), 0755), 0);
    rmdir(unit_path("cache", path));
    rmdir(unit_path("run", path));
    assert_int_equal(in_child(becomes_nobody), 1);
    assert_int_equal(config_set(&config, "listen", "127.0.0.1:443", NULL), 0);
    assert_int_equal(in_child(becomes_nobody_with_a_port), 1);
    /* Also without a sandbox. */
    assert_int_equal(config_set(&config, "sandbox", "off", NULL), 0);
    assert_int_equal(in_child(becomes_nobody_with_a_port), 1);
    assert_int_equal(config_set(&config, "listen", "", NULL), 0);
    assert_int_equal(in_child(becomes_nobody), 1);
}

/* ---- what the kernel does not take ---- */

static int says_what_is_missing(void)
{
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(sandbox), .nth = 1, .times = 1000, .mode = FAULT_FAIL});
    if (enter(SANDBOX_MANAGER) < 0)
        return 2;
    for (const char *const *name =
             (const char *const[]){"capabilities", "no_new_privs", "landlock", "seccomp", NULL};
         *name != NULL; name++) {
        if (part(*name) == NULL || part(*name)->in_force || part(*name)->text[0] == '\0')
            return 3;
    }
    return 1;
}

static int refuses_to_start(void)
{
    fault_plan(&(struct fault_plan){
        .calls = FAULT_CALL(sandbox), .nth = 1, .times = 1000, .mode = FAULT_FAIL});
    return fails();
}

static int off_changes_nothing(void)
{
    uint64_t before = effective();

    if (enter(SANDBOX_MANAGER) < 0 || effective() != before || part("seccomp")->in_force)
        return 2;
    return prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) == 0 ? 1 : 3;
}

static void test_modes(void **state)
{
    (void)state;
    assert_int_equal(in_child(says_what_is_missing), 1);
    assert_int_equal(config_set(&config, "sandbox", "require", NULL), 0);
    assert_int_equal(in_child(refuses_to_start), 1);
    assert_int_equal(config_set(&config, "sandbox", "off", NULL), 0);
    assert_int_equal(in_child(off_changes_nothing), 1);
    assert_int_not_equal(config_set(&config, "sandbox", "maybe", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_capabilities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
