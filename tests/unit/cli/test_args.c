// SPDX-License-Identifier: Apache-2.0
#include "cli/args.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/syscalls.h"

static const struct command cmd = {
    .name = "warm",
    .synopsis = "URL...",
    .summary = "summary",
    .details = "details",
    .examples = "  $ dlcache warm x\n",
    .min = 1,
    .max = 2,
    .missing = "a URL",
};

static const char *tier;
static bool json, list;
static const struct args_option options[] = {
    {"tier", 't', "TIER", "Which tier.", NULL, &tier},
    {"json", 0, NULL, "Print JSON.", &json, NULL},
    {"long", 'l', NULL, "More.", &list, NULL},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

static struct args a;
static int status;
static char printed[8192]; /* what went to both outputs */

static int set_up(void **state)
{
    (void)state;
#define OPTION(field, type, def, flag, env, roles, help) unsetenv(env);
#include "base/tbl/options.def"
#undef OPTION
    setenv("DLCACHE_CONFIG", "/dev/null", 1);
    a = (struct args)ARGS_INIT;
    tier = NULL;
    json = list = false;
    status = -1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    args_release(&a);
    return 0;
}

/* Send the descriptor to a file; gives the old one. */
static int redirect(int fd, int file)
{
    int old = dup(fd);

    dup2(file, fd);
    return old;
}

static void restore(int fd, int old)
{
    dup2(old, fd);
    close(old);
}

static bool parse(const char *line)
{
    char *copy = mem_str(line), *argv[32], *rest = copy;
    static char *kept; /* operands are borrowed */
    int argc = 0, file = os_memfd("output"), out, err;
    bool go;

    argv[argc++] = (char *)(uintptr_t) "warm";
    for (char *w; (w = strsep(&rest, " ")) != NULL;)
        if (*w != '\0')
            argv[argc++] = w;
    fflush(stdout);
    out = redirect(STDOUT_FILENO, file);
    err = redirect(STDERR_FILENO, file);
    go = args_parse(&a, &cmd, options, argc, argv, &status);
    fflush(stdout);
    restore(STDOUT_FILENO, out);
    restore(STDERR_FILENO, err);
    memset(printed, 0, sizeof(printed));
    assert_true(pread(file, printed, sizeof(printed) - 1, 0) >= 0);
    close(file);
    free(kept);
    kept = copy;
    return go;
}

static void test_all_forms(void **state)
{
    (void)state;
    assert_true(parse("-lq --tier=disk s3://b/ --memory 2GB --json --lanes=3 other --no-hedge"));
    assert_string_equal("disk", tier);
    assert_true(json && list && a.quiet);
    assert_int_equal(2, a.n);
    assert_string_equal("s3://b/", a.operands[0]);
    assert_string_equal("other", a.operands[1]);
    assert_int_equal(2000000000, a.config.memory);
    assert_int_equal(3, a.config.lanes);
    assert_false(a.config.hedge);
    assert_string_equal("", printed);
}

static void test_short_values(void **state)
{
    (void)state;
    assert_true(parse("-ldx") == false); /* no -d */
    assert_non_null(strstr(printed, "no option -d"));
    args_release(&a);
    assert_true(parse("-ltdisk x"));
    assert_string_equal("disk", tier);
    assert_true(list);
    args_release(&a);
    assert_true(parse("-t memory x"));
    assert_string_equal("memory", tier);
}

static void test_operands_after_dashes(void **state)
{
    (void)state;
    assert_true(parse("-- --json -"));
    assert_false(json);
    assert_int_equal(2, a.n);
    assert_string_equal("--json", a.operands[0]);
    assert_string_equal("-", a.operands[1]);
}

/* A daemon that the library starts must see what was given here. */
static void test_settings_reach_the_environment(void **state)
{
    (void)state;
    assert_true(parse("x --memory=1GB --anonymous --socket rel/s"));
    assert_string_equal("1GB", getenv("DLCACHE_MEMORY"));
    assert_string_equal("true", getenv("DLCACHE_ANONYMOUS"));
    assert_int_equal('/', getenv("DLCACHE_SOCKET")[0]);
    assert_string_equal(a.config.socket, getenv("DLCACHE_SOCKET"));
    assert_null(getenv("DLCACHE_DISK"));
}

static void test_config_file(void **state)
{
    char path[] = "/tmp/test-args-XXXXXX", line[200];
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(0, os_write_all(fd, "lanes = 2\nretries = 2\n", 22));
    close(fd);
    snprintf(line, sizeof(line), "--lanes 5 x --config %s", path);
    assert_true(parse(line));
    assert_int_equal(5, a.config.lanes); /* the flag wins although it comes first */
    assert_int_equal(2, a.config.retries);
    assert_string_equal(path, getenv("DLCACHE_CONFIG"));
    unlink(path);
}

static void test_usage_errors(void **state)
{
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"x --teir disk", "dlcache warm: no option --teir; did you mean --tier?"},
        {"x --memry 1", "no option --memry; did you mean --memory?"},
        {"x --zzzzzzzzz", "no option --zzzzzzzzz\n"},
        {"x --tier", "--tier needs a value: TIER"},
        {"x --memory", "--memory needs a value"},
        {"x --json=1", "--json takes no value"},
        {"x -Z", "no option -Z"},
        {"", "a URL is missing"},
        {"a b c", "\"c\" is one argument too many"},
        {"x --memory lots", "--memory: \"lots\" is not a size"},
        {"x --no-memory", "no option --no-memory"},
        {"x --config /nowhere/at/all", "/nowhere/at/all"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(parse(bad[i].line));
        assert_int_equal(CLI_USAGE, status);
        if (strstr(printed, bad[i].says) == NULL)
            fail_msg("%s says: %s", bad[i].line, printed);
        args_release(&a);
    }
}

static void test_help(void **state)
{
    (void)state;
    setenv("DLCACHE_MEMORY", "nonsense", 1); /* help is given all the same */
    assert_false(parse("-h"));
    assert_int_equal(CLI_OK, status);
    assert_ptr_equal(printed,
                     strstr(printed, "dlcache warm: summary\n\nUsage: dlcache warm URL..."));
    assert_non_null(strstr(printed, "  -t, --tier TIER            Which tier.\n"));
    assert_non_null(strstr(printed, "--config FILE"));
    assert_non_null(strstr(printed, "  $ dlcache warm x\n"));
}

static void test_choice(void **state)
{
    (void)state;
    assert_true(args_choice(&cmd, "tier", "disk", "memory|disk", &status));
    assert_int_equal(-1, status);
    assert_false(args_choice(&cmd, "tier", "dis", "memory|disk", &status));
    assert_int_equal(CLI_USAGE, status);
    assert_false(args_choice(&cmd, "tier", "", "memory|disk", &status));
}

static void test_exit_status(void **state)
{
    struct dlc_err err = {DLC_EINVAL, "bad URL"};

    (void)state;
    assert_int_equal(CLI_USAGE, cli_fail(&cmd, &err));
    err.code = DLC_ENOTFOUND;
    assert_int_equal(CLI_FAILED, cli_fail(&cmd, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operands_after_dashes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settings_reach_the_environment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_config_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_usage_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_help, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_choice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exit_status, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
