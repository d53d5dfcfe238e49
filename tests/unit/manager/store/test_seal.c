// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "manager/store/seal.h"

#define KEY2 "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define KEY  "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

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

static const char *id_of(const struct seal *s)
{
    static char id[4][SEAL_KEY_ID_LEN + 1];
    static unsigned next;
    char *out = id[next++ % unit_count(id)];

    seal_key_id(s, out);
    return out;
}

/* manager.key of a directory: these keys, one a line; NULL: no second one. */
static void write_keys(const char *name, const char *first, const char *second)
{
    struct dlc_err err = DLC_ERR_INIT;
    char path[300], dir[256], text[300];

    assert_int_equal(os_mkdirs(unit_path(name, dir), 0700), 0);
    snprintf(path, sizeof(path), "%s/manager.key", dir);
    snprintf(text, sizeof(text), "%s\n%s\n", first, second != NULL ? second : "");
    assert_int_equal(os_write_file(path, text, strlen(text), 0600, &err), 0);
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
    assert_string_not_equal(id_of(a), id_of(b));
    assert_int_equal(unseal_text(b, "ann", j, &text, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, id_of(a)));
    assert_null(strstr(err.text, "hers"));
    json_decref(j);
    seal_close(&a);
    seal_close(&b);
}

static void test_the_file_is_private_and_stays(void **state)
{
    struct seal *s = open_in("stays");
    char id[SEAL_KEY_ID_LEN + 1], path[256];
    struct stat st;

    (void)state;
    snprintf(id, sizeof(id), "%s", id_of(s));
    seal_close(&s);
    assert_int_equal(stat(unit_path("stays/manager.key", path), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    s = open_in("stays");
    assert_string_equal(id_of(s), id);
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
    char path[256], one[SEAL_KEY_ID_LEN + 1];

    (void)state;
    setenv("DLCACHE_MANAGER_KEY", KEY, 1);
    s = open_in("env");
    assert_int_not_equal(access(unit_path("env/manager.key", path), F_OK), 0);
    setenv("DLCACHE_MANAGER_KEY", "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=", 1);
    t = open_in("env");
    assert_string_equal(id_of(s), id_of(t)); /* the same in base64 */
    seal_key_id(s, one);
    seal_close(&s);
    seal_close(&t);
    setenv("DLCACHE_MANAGER_KEY", KEY2 "," KEY, 1);
    s = open_in("env");
    assert_true(seal_use(s, one));
    assert_int_equal(seal_reload(s, &err), 0);
    seal_close(&s);
    setenv("DLCACHE_MANAGER_KEY", "secret-but-no-key", 1);
    assert_int_equal(seal_open("/nonexistent", &s, &err), DLC_EINVAL);
    assert_null(strstr(err.text, "secret-but-no-key"));
    unsetenv("DLCACHE_MANAGER_KEY");
}

/* A new key comes first, the older one opens what it sealed; the one in use is named. */
static void test_a_ring_opens_with_older_keys(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    char first[SEAL_KEY_ID_LEN + 1], ids[SEAL_KEYS_MAX][SEAL_KEY_ID_LEN + 1], *text = NULL;
    struct seal *s;
    json_t *old, *new;

    (void)state;
    write_keys("ring", KEY, NULL);
    s = open_in("ring");
    old = seal_text(s, "ann", "hers");
    write_keys("ring", KEY2, KEY);
    assert_int_equal(seal_reload(s, &err), 1);
    assert_int_equal(seal_reload(s, &err), 0);
    assert_int_equal(seal_key_ids(s, ids), 2);
    assert_string_equal(id_of(s), ids[1]); /* nothing changes until somebody says so */
    seal_first_id(s, first);
    assert_string_equal(first, ids[0]);
    assert_false(seal_use(s, "0123456789abcdef"));
    assert_true(seal_use(s, first));
    assert_string_equal(id_of(s), first);
    new = seal_text(s, "ann", "his");
    assert_string_equal(json_string_value(json_object_get(new, "key")), first);
    assert_int_equal(unseal_text(s, "ann", old, &text, &err), 0);
    assert_string_equal(text, "hers");
    secret_wipe(&text);

    write_keys("ring", KEY2, NULL); /* the old one goes */
    assert_int_equal(seal_reload(s, &err), 1);
    assert_int_equal(unseal_text(s, "ann", old, &text, &err), DLC_EDENIED);
    assert_int_equal(unseal_text(s, "ann", new, &text, &err), 0);
    secret_wipe(&text);
    json_decref(old);
    json_decref(new);
    seal_close(&s);
}

/* A file without the key in use, or that is broken, leaves the ring as it was. */
static void test_the_key_in_use_is_not_dropped(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct seal *s;
    char *text = NULL;
    json_t *j;

    (void)state;
    write_keys("in-use", KEY, NULL);
    s = open_in("in-use");
    j = seal_text(s, "ann", "hers");
    write_keys("in-use", KEY2, NULL);
    assert_int_equal(seal_reload(s, &err), DLC_EDENIED);
    assert_non_null(strstr(err.text, id_of(s)));
    assert_non_null(strstr(err.text, "rekey"));
    write_keys("in-use", KEY2, KEY2);
    assert_int_equal(seal_reload(s, &err), DLC_EINVAL);
    write_keys("in-use", "nonsense", KEY);
    assert_int_equal(seal_reload(s, &err), DLC_EINVAL);
    assert_int_equal(unseal_text(s, "ann", j, &text, &err), 0);
    secret_wipe(&text);
    json_decref(j);
    seal_close(&s);
}

/* Kilobytes of this process that are locked. */
static long locked_kb(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kb = -1;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmLck: %ld", &kb) == 1)
            break;
    fclose(f);
    return kb;
}

static void test_keys_are_locked_into_memory(void **state)
{
    long before = locked_kb();
    struct seal *s = open_in("locked");

    (void)state;
    assert_int_equal(locked_kb() > before, !UNIT_SANITIZED);
    seal_close(&s);
    assert_int_equal(locked_kb(), before);
}

static void count_id(const char *id, void *arg)
{
    json_t *n = json_object_get(arg, id);

    json_object_set_new(arg, id, json_integer(json_integer_value(n) + 1));
}

/* Wherever they lie in a value, and for their own owner. */
static void test_all_texts_are_sealed_again(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct seal *s;
    json_t *v, *counts = json_object();
    char *text = NULL, id[SEAL_KEY_ID_LEN + 1];

    (void)state;
    write_keys("again", KEY2, KEY);
    s = open_in("again");
    seal_first_id(s, id);
    v = json_pack("{s:o, s:[{s:o}], s:s}", "a", seal_text(s, "ann", "hers"), "b", "c",
                  seal_text(s, "bob", "his"), "d", "clear");
    assert_int_equal(seal_again(s, v, &err), 0);
    write_keys("again", KEY, KEY2);
    assert_int_equal(seal_reload(s, &err), 1);
    seal_first_id(s, id);
    assert_true(seal_use(s, id));
    assert_int_equal(seal_again(s, v, &err), 2);
    assert_int_equal(seal_again(s, v, &err), 0);
    seal_each_key(v, count_id, counts);
    assert_int_equal(json_object_size(counts), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, id)), 2);
    assert_int_equal(unseal_text(s, "bob",
                                 json_object_get(json_array_get(json_object_get(v, "b"), 0), "c"),
                                 &text, &err),
                     0);
    assert_string_equal(text, "his");
    secret_wipe(&text);
    /* An owner that was changed does not become another's by this. */
    json_object_set_new(json_object_get(v, "a"), "owner", json_string("bob"));
    write_keys("again", KEY2, KEY);
    assert_int_equal(seal_reload(s, &err), 1);
    seal_first_id(s, id);
    assert_true(seal_use(s, id));
    assert_int_equal(seal_again(s, v, &err), DLC_ECORRUPT);
    json_decref(v);
    json_decref(counts);
    seal_close(&s);
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
        cmocka_unit_test(test_a_ring_opens_with_older_keys),
        cmocka_unit_test(test_the_key_in_use_is_not_dropped),
        cmocka_unit_test(test_all_texts_are_sealed_again),
        cmocka_unit_test(test_keys_are_locked_into_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
