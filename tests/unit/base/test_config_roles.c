// SPDX-License-Identifier: Apache-2.0
/* Roles of settings, the settings as they are shown, and those of a running server read again. */
#include "unit.h"

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/syscalls.h"

static char file[256];

static int set_up(void **state)
{
    (void)state;
#define OPTION(field, type, def, flag, env, roles, help) unsetenv(env);
#include "base/tbl/options.def"
#undef OPTION
    unsetenv("DLCACHE_CONFIG");
    setenv("HOME", "/nowhere", 1);
    log_threshold = -1; /* warnings are what this is about */
    return 0;
}

static void write_file(const char *text)
{
    assert_int_equal(os_write_file(unit_path("role.conf", file), text, strlen(text), 0600, NULL),
                     0);
}

static void expect_refused(const struct config *c, unsigned roles, const char *says)
{
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(config_check_roles(c, roles, "x", &err), DLC_EINVAL);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s", err.text);
}

static void test_flags_of_other_roles(void **state)
{
    struct config c = CONFIG_INIT;

    (void)state;
    assert_int_equal(config_load(&c, "/dev/null", NULL), 0);
    assert_int_equal(config_check_roles(&c, ROLE_NODE, "node", NULL), 0);
    assert_int_equal(config_set(&c, "memory", "1GB", NULL), 0);
    assert_int_equal(config_check_roles(&c, ROLE_NODE, "node", NULL), 0);
    assert_int_equal(config_check_roles(&c, ROLE_COMMAND | ROLE_SERVE, "ls", NULL), 0);
    expect_refused(&c, ROLE_MANAGER, "--memory has no effect in `dlcache x`");
    assert_int_equal(config_set(&c, "tls-cert", "", NULL), 0);
    expect_refused(&c, ROLE_NODE, "it is a setting of serve, manager");
    config_release(&c);
}

static void test_files_and_environment(void **state)
{
    struct config c = CONFIG_INIT;

    (void)state;
    write_file("# a node\npeer-tls = off\n");
    assert_int_equal(config_load(&c, file, NULL), 0); /* as by --config */
    assert_int_equal(config_check_roles(&c, ROLE_NODE, "node", NULL), 0);
    assert_int_equal(config_check_roles(&c, ROLE_COMMAND | ROLE_SERVE, "stat", NULL), 0);
    expect_refused(&c, ROLE_MANAGER, "role.conf:2: peer-tls has no effect");
    config_release(&c);
    setenv("DLCACHE_CONFIG", file, 1);
    setenv("DLCACHE_GPUS", "8", 1);
    assert_int_equal(config_load(&c, NULL, NULL), 0);
    assert_int_equal(config_check_roles(&c, ROLE_MANAGER, "manager", NULL), 0);
    config_release(&c);
}

/* Every setting has a role, and no default is refused anywhere. */
static void test_every_setting_has_a_role(void **state)
{
    (void)state;
#define OPTION(field, type, def, flag, env, roles, help)                                           \
    assert_true(((roles) & (ROLE_COMMAND | ROLE_SERVERS)) != 0);
#include "base/tbl/options.def"
#undef OPTION
}

static const char *shown(const struct config *c, const char *flag, struct config_shown *s)
{
    for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++)
        if (config_show(c, i, ROLE_MANAGER, s) && strcmp(s->flag, flag) == 0)
            return buf_str(&s->value);
    return NULL;
}

static void test_shown(void **state)
{
    static const struct {
        const char *given, *shown;
    } urls[] = {
        {"redis://h:1/p", "redis://h:1/p"},
        {"redis://me@h:1", "redis://me@h:1"},
        {"rediss://me:pw@h:1,g:2/p?x=y:z@", "rediss://me:***@h:1,g:2/p?x=y:z@"},
        {"redis://:p@w@h:1", "redis://:***@h:1"},
        {"sqlite:/a/b", "sqlite:/a/b"},
    };
    struct config_shown s = CONFIG_SHOWN_INIT;
    struct config c = CONFIG_INIT;

    (void)state;
    write_file("node-ttl = 5s\n");
    assert_int_equal(config_load(&c, file, NULL), 0);
    assert_string_equal(shown(&c, "node-ttl", &s), "5s");
    assert_non_null(strstr(buf_str(&s.source), "role.conf:1"));
    assert_true(s.changed);
    assert_string_equal(shown(&c, "job-ttl", &s), "60s");
    assert_string_equal(buf_str(&s.source), "default");
    assert_false(s.changed);
    assert_null(shown(&c, "memory", &s));
    for (size_t i = 0; i < unit_count(urls); i++) {
        assert_int_equal(config_set(&c, "store", urls[i].given, NULL), 0);
        assert_string_equal(shown(&c, "store", &s), urls[i].shown);
        assert_string_equal(buf_str(&s.source), "--store");
    }
    config_shown_release(&s);
    config_release(&c);
}

static void test_reload(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct config c = CONFIG_INIT;

    (void)state;
    write_file("max-sessions = 5\nmax-datasets = 5\nallow-uid = 7\ndisk = 1GB\n");
    assert_int_equal(config_load(&c, file, NULL), 0);
    assert_int_equal(config_set(&c, "max-datasets", "9", NULL), 0);
    write_file("max-sessions = 6\nmax-datasets = 6\nallow-uid = 7,8\ndisk = 2GB\n");
    assert_int_equal(config_reload(&c, ROLE_SERVE, "serve", &err), 0);
    assert_int_equal(c.max_sessions, 6);
    assert_int_equal(c.max_datasets, 9); /* the flag still wins */
    assert_string_equal(c.allow_uid, "7,8");
    assert_int_equal(c.disk, 1000000000); /* waits for a restart */

    write_file("max-sessions = 8\n"); /* nobody may attach any more: not while it runs */
    assert_int_equal(config_reload(&c, ROLE_SERVE, "serve", &err), 0);
    assert_int_equal(c.max_sessions, 8);
    assert_string_equal(c.allow_uid, "7,8");

    write_file("max-sessions = 1\nmemry = 5\n");
    assert_int_equal(config_reload(&c, ROLE_SERVE, "serve", &err), DLC_EINVAL);
    assert_int_equal(c.max_sessions, 8);
    write_file("max-sessions = 1\npeer-tls = off\n"); /* of another role */
    assert_int_equal(config_reload(&c, ROLE_SERVE, "serve", &err), DLC_EINVAL);
    assert_int_equal(c.max_sessions, 8);
    assert_int_equal(os_unlink(file), 0);
    assert_int_equal(config_reload(&c, ROLE_SERVE, "serve", &err), DLC_ENOTFOUND);
    assert_int_equal(c.max_sessions, 8);
    write_file("");
    assert_int_equal(config_reload(&c, ROLE_SERVE, "serve", &err), 0);
    assert_int_equal(c.max_sessions, 2048); /* the default again */
    config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_flags_of_other_roles, set_up),
        cmocka_unit_test_setup(test_files_and_environment, set_up),
        cmocka_unit_test_setup(test_every_setting_has_a_role, set_up),
        cmocka_unit_test_setup(test_shown, set_up),
        cmocka_unit_test_setup(test_reload, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
