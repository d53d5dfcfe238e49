// SPDX-License-Identifier: Apache-2.0
/* Which files a server process reaches: the lists of paths.c, in force in a child. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "sandbox/landlock_i.h"
#include "sandbox/paths_i.h"

enum { WORKED = 200, NO_LANDLOCK = 201 };

static struct config config;
static struct buf created = BUF_INIT; /* a path for the child */

/* What f returns or, if that is -1, the errno, in a child of that role. WORKED: 0 or more. */
static int confined(enum sandbox_role role, long (*f)(const char *path), const char *path)
{
    const struct sandbox_plan plan = {.role = role, .config = &config};
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct landlock l;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 || landlock_open(&l) < 0)
            _exit(NO_LANDLOCK);
        paths_allow(&plan, &l);
        if (landlock_enter(&l) < 0)
            _exit(NO_LANDLOCK);
        errno = 0;
        _exit(f(path) >= 0 ? WORKED : errno);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), NO_LANDLOCK);
    return WEXITSTATUS(status);
}

static long to_read(const char *path)
{
    return open(path, O_RDONLY);
}

static long to_write(const char *path)
{
    return open(path, O_WRONLY | O_CREAT, 0600);
}

static long to_remove(const char *path)
{
    return unlink(path);
}

static long to_execute(const char *path)
{
    char name[] = "x", *argv[] = {name, NULL};

    return execve(path, argv, NULL);
}

/* As the disk tier does: a file that is whole gets its name in another directory. */
static long to_rename(const char *path)
{
    buf_clear(&created);
    buf_addf(&created, "%s/tmp", path);
    if (mkdir(buf_str(&created), 0700) < 0)
        return -1;
    buf_adds(&created, "/file");
    if (to_write(buf_str(&created)) < 0)
        return -1;
    return rename(buf_str(&created), unit_path("cache/renamed", (char[256]){0}));
}

static const char *make_file(const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *out = path[next++ % 4];
    int fd = os_open(unit_path(name, out), O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    os_close(&fd);
    return out;
}

static int set_up(void **state)
{
    char path[256];

    (void)state;
    assert_int_equal(config_load(&config, "/dev/null", NULL), 0);
    assert_int_equal(config_set(&config, "dir", unit_path("cache", path), NULL), 0);
    assert_int_equal(config_set(&config, "socket", unit_path("run/socket", path), NULL), 0);
    assert_int_equal(config_set(&config, "allow-path", unit_path("data", path), NULL), 0);
    for (unsigned i = 0; i < 3; i++)
        mkdir(unit_path((const char *const[]){"data", "secrets", "elsewhere"}[i], path), 0700);
    assert_int_equal(config_set(&config, "token-file", make_file("secrets/node.token"), NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    config_release(&config);
    buf_release(&created);
    return 0;
}

static void test_reads_of_a_node(void **state)
{
    (void)state;
    for (enum sandbox_role r = SANDBOX_NODE; r <= SANDBOX_MANAGER; r++) {
        assert_int_equal(confined(r, to_read, make_file("elsewhere/file")), EACCES);
        assert_int_equal(confined(r, to_read, make_file("data/file")), WORKED);
        /* That of a setting, and the one that replaces it. */
        assert_int_equal(confined(r, to_read, make_file("secrets/node.token")), WORKED);
        assert_int_equal(confined(r, to_read, make_file("secrets/another")), WORKED);
        assert_int_equal(confined(r, to_read, "/etc/resolv.conf"), WORKED);
        assert_int_equal(confined(r, to_read, "/etc/ssl/certs"), WORKED);
        assert_int_equal(confined(r, to_read, "/proc/self/stat"), WORKED);
        assert_int_equal(confined(r, to_read, "/proc/meminfo"), WORKED);
        assert_int_equal(confined(r, to_read, "/etc/shadow"), EACCES);
        assert_int_equal(confined(r, to_read, "/root"), EACCES);
        assert_int_equal(confined(r, to_read, "/"), EACCES);
    }
}

/* A name inside leads nowhere outside. */
static void test_links(void **state)
{
    char path[256];

    (void)state;
    assert_int_equal(symlink(make_file("elsewhere/target"), unit_path("data/link", path)), 0);
    assert_int_equal(confined(SANDBOX_NODE, to_read, path), EACCES);
    assert_int_equal(confined(SANDBOX_SERVE, to_read, path), WORKED);
}

static void test_writes(void **state)
{
    (void)state;
    for (enum sandbox_role r = SANDBOX_SERVE; r <= SANDBOX_OPERATOR; r++) {
        bool daemon = r == SANDBOX_SERVE || r == SANDBOX_NODE;
        char path[256];

        assert_int_equal(confined(r, to_write, unit_path("elsewhere/new", path)), EACCES);
        assert_int_equal(confined(r, to_write, make_file("data/file")), EACCES);
        assert_int_equal(confined(r, to_remove, make_file("data/file")), EACCES);
        assert_int_equal(confined(r, to_write, make_file("secrets/node.token")), EACCES);
        assert_int_equal(confined(r, to_execute, "/bin/true"), EACCES);
        assert_int_equal(confined(r, to_write, "/dev/null"), WORKED);
        assert_int_equal(confined(r, to_write, unit_path("cache/new", path)),
                         r == SANDBOX_OPERATOR ? EACCES : WORKED);
        assert_int_equal(confined(r, to_write, unit_path("run/new", path)),
                         daemon ? WORKED : EACCES);
    }
}

static void test_renames(void **state)
{
    char path[256];

    (void)state;
    assert_int_equal(confined(SANDBOX_NODE, to_rename, unit_path("cache", path)), WORKED);
    assert_int_equal(confined(SANDBOX_NODE, to_rename, unit_path("elsewhere", path)), EACCES);
}

static void test_store_of_a_manager(void **state)
{
    char path[256], url[300];

    (void)state;
    mkdir(unit_path("store", path), 0700);
    snprintf(url, sizeof(url), "sqlite:%s", unit_path("store/manager.db", path));
    assert_int_equal(config_set(&config, "store", url, NULL), 0);
    assert_int_equal(confined(SANDBOX_MANAGER, to_write, path), WORKED);
    assert_int_equal(confined(SANDBOX_MANAGER, to_write, unit_path("store/manager.db-wal", path)),
                     WORKED);
}

/* Certificates of a Redis; a directory in which the audit log is begun again. */
static void test_files_of_settings(void **state)
{
    char path[256], url[600];

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        mkdir(unit_path((const char *const[]){"tls", "log"}[i], path), 0700);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:1/x?timeout=5s&ca=%s", make_file("tls/ca.pem"));
    assert_int_equal(confined(SANDBOX_NODE, to_read, make_file("tls/ca.pem")), EACCES);
    assert_int_equal(config_set(&config, "shared", url, NULL), 0);
    assert_int_equal(confined(SANDBOX_NODE, to_read, make_file("tls/ca.pem")), WORKED);
    assert_int_equal(config_set(&config, "audit-log", unit_path("log/audit", path), NULL), 0);
    assert_int_equal(confined(SANDBOX_MANAGER, to_write, path), WORKED);
    assert_int_equal(confined(SANDBOX_MANAGER, to_write, unit_path("log/audit.1", path)), WORKED);
}

/* A name with characters that a URL cannot hold as they are. */
static void test_encoded_files_of_settings(void **state)
{
    struct buf url = BUF_INIT;
    char path[256];

    (void)state;
    mkdir(unit_path("tls & more", path), 0700);
    unit_path("tls & more/ca 1%.pem", path);
    buf_adds(&url, "rediss://127.0.0.1:1/x?ca=");
    str_uri_encode(path, strlen(path), true, &url);
    buf_adds(&url, "&timeout=5s");
    make_file("tls & more/ca 1%.pem");
    assert_int_equal(confined(SANDBOX_MANAGER, to_read, path), EACCES);
    assert_int_equal(config_set(&config, "store", buf_str(&url), NULL), 0);
    assert_int_equal(confined(SANDBOX_MANAGER, to_read, path), WORKED);
    buf_release(&url);
}

/* serve: its user opens datasets anywhere. */
static void test_reads_of_serve(void **state)
{
    (void)state;
    assert_int_equal(confined(SANDBOX_SERVE, to_read, make_file("elsewhere/file")), WORKED);
    assert_int_equal(confined(SANDBOX_SERVE, to_read, "/"), WORKED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads_of_a_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_store_of_a_manager, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_of_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encoded_files_of_settings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_of_serve, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
