// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "manager/store/seal.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct seal *open_in(const char *name)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct seal *s = NULL;
    char dir[256];

    unit_path(name, dir);
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    assert_int_equal(seal_open(dir, &s, &err), 0);
    return s;
}

static void test_what_is_sealed_opens(void **state)
{
    struct seal *s = open_in("opens");
    struct dlc_err err = DLC_ERR_INIT;
    const char *texts[] = {"", "x", "{\"secret_key\": \"wJalr/K7MDENG+bPx\"}"};
    char *text = NULL;

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        json_t *j = seal_text(s, "ann", texts[i]);
        char *stored = json_dumps(j, 0);

        if (texts[i][0] != '\0' && texts[i][1] != '\0')
            assert_null(strstr(stored, texts[i]));
        assert_int_equal(unseal_text(s, "ann", j, &text, &err), 0);
        assert_string_equal(text, texts[i]);
        secret_wipe(&text);
        assert_null(text);
        free(stored);
        json_decref(j);
    }
    seal_close(&s);
}

static void test_two_seals_differ(void **state)
{
    struct seal *s = open_in("differ");
    json_t *a = seal_text(s, "ann", "same"), *b = seal_text(s, "ann", "same");

    (void)state;
    assert_false(json_equal(a, b));
    json_decref(a);
    json_decref(b);
    seal_close(&s);
}

static void test_nobody_else_opens_it(void **state)
{
    struct seal *s = open_in("else");
    struct dlc_err err = DLC_ERR_INIT;
    json_t *j = seal_text(s, "ann", "hers");
    char *text = (char *)1;

    (void)state;
    assert_int_equal(unseal_text(s, "bob", j, &text, &err), DLC_ECORRUPT);
    assert_null(text);
    json_decref(j);
    seal_close(&s);
}

/* Every bit of it counts. */
static void test_what_was_changed_does_not_open(void **state)
{
    struct seal *s = open_in("changed");
    struct dlc_err err = DLC_ERR_INIT;
    json_t *j = seal_text(s, "ann", "a secret");
    char *b64 = mem_str(json_string_value(json_object_get(j, "sealed"))), *text = NULL;
    size_t changed = 0;

    (void)state;
    for (size_t i = 0; b64[i] != '\0' && b64[i] != '='; i++) {
        char was = b64[i];

        b64[i] = was == 'A' ? 'E' : 'A'; /* differ in bits that count, also in the last character */
        json_object_set_new(j, "sealed", json_string(b64));
        assert_int_equal(unseal_text(s, "ann", j, &text, &err), DLC_ECORRUPT);
        b64[i] = was;
        changed++;
    }
    assert_true(changed > 40);
    mem_free(&b64);
    json_decref(j);
    seal_close(&s);
}

static void test_nonsense_is_refused(void **state)
{
    struct seal *s = open_in("nonsense");
    struct dlc_err err = DLC_ERR_INIT;
    const char *texts[] = {
        "{}",
        "[]",
        "{\"key\": 3, \"sealed\": \"AAAA\"}",
        "{\"key\": \"0\", \"sealed\": \"****\"}",
        "{\"key\": \"0\", \"sealed\": \"AAAA\"}",
    };
    char *text = NULL;

    (void)state;
    for (size_t i = 0; i < unit_count(texts); i++) {
        json_t *j = json_loads(texts[i], 0, NULL);

        assert_int_equal(unseal_text(s, "ann", j, &text, &err), DLC_ECORRUPT);
        json_decref(j);
    }
    assert_int_equal(unseal_text(s, "ann", NULL, &text, &err), DLC_ECORRUPT);
    seal_close(&s);
}

static void test_another_key_is_named(void **state)
{
    struct seal *a = open_in("a"), *b = open_in("b");
    struct dlc_err err = DLC_ERR_INIT;
    json_t *j = seal_text(a, "ann", "hers");
    char *text = NULL;

    (void)state;
    assert_string_not_equal(seal_key_id(a), seal_key_id(b));
    assert_int_equal(unseal_text(b, "ann", j, &text, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, seal_key_id(a)));
    assert_non_null(strstr(err.text, seal_key_id(b)));
    json_decref(j);
    seal_close(&a);
    seal_close(&b);
}

static void test_the_file_is_private_and_stays(void **state)
{
    struct seal *s = open_in("stays");
    char id[17], path[256];
    struct stat st;

    (void)state;
    snprintf(id, sizeof(id), "%s", seal_key_id(s));
    seal_close(&s);
    assert_int_equal(stat(unit_path("stays/manager.key", path), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    s = open_in("stays");
    assert_string_equal(seal_key_id(s), id);
    seal_close(&s);
}

static void expect_refusal(const char *name, const char *content, mode_t mode, int code)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct seal *s = NULL;
    char dir[256], path[300];

    unit_path(name, dir);
    assert_int_equal(os_mkdirs(dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/manager.key", dir);
    assert_int_equal(os_write_file(path, content, strlen(content), mode, &err), 0);
    assert_int_equal(chmod(path, mode), 0);
    assert_int_equal(seal_open(dir, &s, &err), code);
    assert_null(s);
    assert_non_null(strstr(err.text, "manager.key"));
    assert_null(strstr(err.text, "0011223344"));
}

static void test_files_that_are_no_keys(void **state)
{
    (void)state;
    expect_refusal("empty", "", 0600, DLC_EINVAL);
    expect_refusal("short", "0011223344\n", 0600, DLC_EINVAL);
    expect_refusal("open", KEY "\n", 0644, DLC_EDENIED);
}

static void test_the_environment_goes_first(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct seal *s = NULL, *t = NULL;
    char path[256];

    (void)state;
    setenv("DLCACHE_MANAGER_KEY", KEY, 1);
    s = open_in("env");
    assert_int_not_equal(access(unit_path("env/manager.key", path), F_OK), 0);
    setenv("DLCACHE_MANAGER_KEY", "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=", 1);
    t = open_in("env");
    assert_string_equal(seal_key_id(s), seal_key_id(t)); /* the same in base64 */
    seal_close(&s);
    seal_close(&t);
    setenv("DLCACHE_MANAGER_KEY", "secret-but-no-key", 1);
    assert_int_equal(seal_open("/nonexistent", &s, &err), DLC_EINVAL);
    assert_null(strstr(err.text, "secret-but-no-key"));
    unsetenv("DLCACHE_MANAGER_KEY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_sealed_opens),
        cmocka_unit_test(test_two_seals_differ),
        cmocka_unit_test(test_nobody_else_opens_it),
        cmocka_unit_test(test_what_was_changed_does_not_open),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_another_key_is_named),
        cmocka_unit_test(test_the_file_is_private_and_stays),
        cmocka_unit_test(test_files_that_are_no_keys),
        cmocka_unit_test(test_the_environment_goes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
