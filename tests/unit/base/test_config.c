// SPDX-License-Identifier: Apache-2.0
/* Settings: precedence, syntax of the file, units, what errors say, resolution of paths. */
#include "base/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"

static char dir[] = "/tmp/test-config-XXXXXX";

static int set_up(void **state)
{
    (void)state;
#define OPTION(field, type, def, flag, env, roles, help) unsetenv(env);
#include "base/tbl/options.def"
#undef OPTION
    unsetenv("DLCACHE_CONFIG");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", dir, 1);
    return 0;
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    (void)state;
    os_rmtree(dir);
    return 0;
}

/* A configuration file of this text; gives its path. */
static char *file_of(const char *text)
{
    char *path = mem_fmt("%s/test.conf", dir);

    assert_int_equal(0, os_write_file(path, text, strlen(text), 0600, NULL));
    return path;
}

static void test_defaults(void **state)
{
    struct config c = CONFIG_INIT;
    char *expect = mem_fmt("%s/.cache/dlcache", dir);
    struct stat st;

    (void)state;
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    assert_true(c.memory == CONFIG_AUTO && c.disk == CONFIG_AUTO);
    assert_int_equal(1024, c.max_requests);
    assert_true(c.hedge && !c.disk_sync);
    assert_int_equal(300, c.deadline.ns / 1000000000);
    assert_true(c.price_get == -1.0);
    assert_string_equal("warn", c.log_level);
    assert_string_equal(expect, c.dir);
    assert_int_equal(-1, stat(c.dir, &st)); /* resolved, not created */
    config_release(&c);
    assert_null(c.dir);
    mem_free(&expect);
}

static void test_precedence(void **state)
{
    char *path = file_of("# a comment\n\nmemory = 1GB   # and another\r\n  lanes=2\nretries = 3\n");
    struct config c = CONFIG_INIT;

    (void)state;
    setenv("DLCACHE_LANES", "4", 1);
    setenv("DLCACHE_RETRIES", "5", 1);
    setenv("DLCACHE_HEDGE", "", 1); /* empty is unset */
    assert_int_equal(0, config_load(&c, path, NULL));
    assert_int_equal(0, config_set(&c, "retries", "7", NULL));
    assert_int_equal(1000000000, c.memory); /* file over default */
    assert_int_equal(4, c.lanes);           /* environment over file */
    assert_int_equal(7, c.retries);         /* flag over environment */
    assert_true(c.hedge);                   /* default */
    config_release(&c);
    mem_free(&path);
}

static void test_usual_files(void **state)
{
    char *conf = mem_fmt("%s/.config", dir), *path = mem_fmt("%s/dlcache.conf", conf);
    char *other = file_of("lanes = 3\n");
    struct config c = CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(0, os_mkdirs(conf, 0700));
    assert_int_equal(0, os_write_file(path, "lanes = 2\n", 10, 0600, NULL));
    assert_int_equal(0, config_load(&c, NULL, NULL));
    assert_int_equal(2, c.lanes);
    setenv("DLCACHE_CONFIG", other, 1);
    assert_int_equal(0, config_load(&c, NULL, NULL));
    assert_int_equal(3, c.lanes);
    setenv("DLCACHE_CONFIG", "/nowhere/dlcache.conf", 1); /* named, so it must exist */
    assert_int_equal(DLC_ENOTFOUND, config_load(&c, NULL, &err));
    assert_non_null(strstr(err.text, "/nowhere/dlcache.conf"));
    assert_null(c.socket);
    assert_int_equal(0, config_load(&c, path, NULL)); /* and --config wins over it */
    assert_int_equal(2, c.lanes);
    config_release(&c);
    unlink(path);
    mem_free(&conf);
    mem_free(&path);
    mem_free(&other);
}

static void test_units(void **state)
{
    struct config c = CONFIG_INIT;

    (void)state;
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    assert_int_equal(0, config_set(&c, "memory", "1.5GiB", NULL));
    assert_int_equal(1610612736, c.memory);
    assert_int_equal(0, config_set(&c, "disk", "0", NULL));
    assert_int_equal(0, c.disk);
    assert_int_equal(0, config_set(&c, "disk", "auto", NULL));
    assert_true(c.disk == CONFIG_AUTO);
    assert_int_equal(0, config_set(&c, "stall-timeout", "250ms", NULL));
    assert_int_equal(250000000, c.stall_timeout.ns);
    assert_int_equal(0, config_set(&c, "idle-exit", "2m", NULL));
    assert_int_equal(120, c.idle_exit.ns / 1000000000);
    assert_int_equal(0, config_set(&c, "price-get", "0.0004", NULL));
    assert_true(c.price_get == 0.0004);
    assert_int_equal(0, config_set(&c, "disk-sync", NULL, NULL)); /* a flag alone is true */
    assert_true(c.disk_sync);
    assert_int_equal(0, config_set(&c, "hedge", "off", NULL));
    assert_false(c.hedge);
    assert_int_equal(0, config_set(&c, "allow-uid", "1000, 1001", NULL));
    assert_string_equal("1000, 1001", c.allow_uid);
    config_release(&c);
}

/* Each bad value is refused with an error that names the flag and what is allowed. */
static void test_bad_values(void **state)
{
    static const struct {
        const char *flag, *value, *says;
    } bad[] = {
        {"memory", "lots", "--memory: \"lots\" is not a size such as 500MB, 1.5GiB"},
        {"memory", "0", "at least 1 byte"},
        {"memory", "-1", "or auto"},
        {"stall-timeout", "soon", "a time such as 30s"},
        {"stall-timeout", "0", "allowed: 1ms to 1h"},
        {"stall-timeout", "auto", "a time such as 30s"},
        {"lanes", "65", "allowed: 0 to 64"},
        {"lanes", "1.5", "a whole number"},
        {"max-requests", "0", "allowed: 1 to 65536"},
        {"retries", "99999999999999999999", "a whole number"},
        {"price-get", "-2", "-1 or more"},
        {"price-get", "nan", "a number"},
        {"hedge", "maybe", "true or false"},
        {"path-style", "virtual", "auto, true or false"},
        {"log-level", "loud", "error, warn, info or debug"},
        {"endpoint", "localhost:9000", "begins with http:// or https://"},
        {"allow-uid", "all,1000", "user numbers separated by commas"},
        {"allow-uid", "root", "user numbers separated by commas"},
        {"allow-uid", "1000,,1001", "user numbers separated by commas"},
        {"memory", NULL, "--memory needs a value"},
        {"memry", "1GB", "no setting --memry; did you mean --memory?"},
        {"disk_sync", "true", "did you mean --disk-sync?"},
        {"zzzzzzzzzzz", "1", "`dlcache help config` lists them"},
    };
    struct config c = CONFIG_INIT;

    (void)state;
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dlc_err err = DLC_ERR_INIT;

        assert_int_equal(DLC_EINVAL, config_set(&c, bad[i].flag, bad[i].value, &err));
        if (strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s = %s says: %s", bad[i].flag, bad[i].value, err.text);
        assert_int_equal(DLC_EINVAL, config_set(&c, bad[i].flag, bad[i].value, NULL));
    }
    assert_true(c.memory == CONFIG_AUTO); /* a refused value changes nothing */
    config_release(&c);
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"lanes = 2\nmemry = 1GB\n", "test.conf:2: no setting memry; did you mean memory?"},
        {"memory 1GB\n", "test.conf:1: \"memory 1GB\" is not of the form \"name = value\""},
        {"[cache]\n", "test.conf:1: \"[cache]\" is not of the form"},
        {"\n\n\nmemory = much", "test.conf:4: memory: \"much\" is not a size"},
        {"= 5\n", "test.conf:1: no setting"},
        {"lanes =\n", "test.conf:1: lanes: \"\" is not a whole number"},
    };
    struct config c = CONFIG_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dlc_err err = DLC_ERR_INIT;
        char *path = file_of(bad[i].text);

        assert_int_equal(DLC_EINVAL, config_load(&c, path, &err));
        if (strstr(err.text, bad[i].says) == NULL)
            fail_msg("%s says: %s", bad[i].text, err.text);
        assert_null(c.socket);
        mem_free(&path);
    }
}

static void test_nul_in_file(void **state)
{
    struct config c = CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    assert_int_equal(DLC_EINVAL, config_parse(&c, "x", "lanes = 1\0\n", 11, &err));
    assert_string_equal("x:1: a NUL byte; is this a text file?", err.text);
    config_release(&c);
}

static void test_bad_environment(void **state)
{
    struct config c = CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    setenv("DLCACHE_MEMORY", "much", 1);
    assert_int_equal(DLC_EINVAL, config_load(&c, "/dev/null", &err));
    assert_ptr_equal(err.text, strstr(err.text, "$DLCACHE_MEMORY: \"much\" is not a size"));
    assert_null(c.socket);
}

static void test_paths(void **state)
{
    struct config c = CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char *expect, *cwd = getcwd(NULL, 0), longest[300];

    (void)state;
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1); /* of a session: not for root's daemons */
    setenv("XDG_CACHE_HOME", "/var/cache/me", 1);
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    assert_string_equal(geteuid() == 0 ? "/run/dlcache/socket" : "/run/user/7/dlcache/socket",
                        c.socket);
    config_release(&c);
    setenv("XDG_RUNTIME_DIR", "/srv/run", 1);
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    assert_string_equal("/srv/run/dlcache/socket", c.socket);
    assert_string_equal("/var/cache/me/dlcache", c.dir);

    assert_int_equal(0, config_set(&c, "socket", "run/s", NULL));
    expect = mem_fmt("%s/run/s", cwd);
    assert_string_equal(expect, c.socket);
    mem_free(&expect);

    assert_int_equal(0, config_set(&c, "dir", "~/data", NULL));
    expect = mem_fmt("%s/data", dir);
    assert_string_equal(expect, c.dir);
    mem_free(&expect);

    memset(longest, 'x', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(DLC_EINVAL, config_set(&c, "socket", longest, &err));
    assert_non_null(strstr(err.text, "longer than 107 characters"));
    config_release(&c);
    free(cwd);
}

static void test_socket_without_runtime_dir(void **state)
{
    struct config c = CONFIG_INIT;
    char *expect = geteuid() == 0 ? mem_str("/run/dlcache/socket")
                                  : mem_fmt("/tmp/dlcache-%u/socket", (unsigned)geteuid());

    (void)state;
    setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
    assert_int_equal(0, config_load(&c, "/dev/null", NULL));
    assert_string_equal(expect, c.socket);
    config_release(&c);
    mem_free(&expect);
}

static void test_has(void **state)
{
    bool boolean = false;

    (void)state;
    assert_true(config_has("anonymous", &boolean));
    assert_true(boolean);
    assert_true(config_has("memory", &boolean));
    assert_false(boolean);
    assert_false(config_has("nonsense", NULL));
}

static void test_documents(void **state)
{
    struct buf help = BUF_INIT, reference = BUF_INIT;

    (void)state;
    config_help(&help, 0);
    config_reference(&reference);
#define OPTION(field, type, def, flag, env, roles, text)                                           \
    assert_non_null(strstr(buf_str(&help), "  --" flag));                                          \
    assert_non_null(strstr(buf_str(&reference), "| `--" flag "` | `" env "` | "));
#include "base/tbl/options.def"
#undef OPTION
    assert_non_null(strstr(buf_str(&help), "  --memory SIZE"));
    for (const char *line = buf_str(&help); *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 96);
    buf_release(&help);
    buf_release(&reference);
}

static void test_trusted_users(void **state)
{
    static const struct {
        const char *list;
        bool trusts_1000, trusts_10;
    } cases[] = {
        {"", false, false},
        {"1000", true, false},
        {"10,1000", true, true},
        {"100", false, false},
    };
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(cases); i++) {
        struct config c = CONFIG_INIT;

        assert_int_equal(config_load(&c, "/dev/null", &err), 0);
        assert_int_equal(config_set(&c, "allow-uid", cases[i].list, &err), 0);
        assert_int_equal(config_trusts(&c, 1000), cases[i].trusts_1000 || geteuid() == 1000);
        assert_int_equal(config_trusts(&c, 10), cases[i].trusts_10 || geteuid() == 10);
        assert_true(config_trusts(&c, 0));
        assert_true(config_trusts(&c, geteuid()));
        config_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trusted_users),
        cmocka_unit_test_setup(test_defaults, set_up),
        cmocka_unit_test_setup(test_precedence, set_up),
        cmocka_unit_test_setup(test_usual_files, set_up),
        cmocka_unit_test_setup(test_units, set_up),
        cmocka_unit_test_setup(test_bad_values, set_up),
        cmocka_unit_test_setup(test_bad_files, set_up),
        cmocka_unit_test_setup(test_nul_in_file, set_up),
        cmocka_unit_test_setup(test_bad_environment, set_up),
        cmocka_unit_test_setup(test_paths, set_up),
        cmocka_unit_test_setup(test_socket_without_runtime_dir, set_up),
        cmocka_unit_test_setup(test_has, set_up),
        cmocka_unit_test_setup(test_documents, set_up),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
