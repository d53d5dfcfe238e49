// SPDX-License-Identifier: Apache-2.0
#include "cli/credential_input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct keys k;
static struct dlc_err err;

static int parse(const char *text)
{
    keys_release(&k);
    err = (struct dlc_err)DLC_ERR_INIT;
    return keys_parse(text, strlen(text), &k, &err);
}

static void every_form(void **state)
{
    static const char *const forms[] = {
        "access_key=A\nsecret_key=S\nsession_token=T\n",
        "[x]\r\naws_access_key_id = A\r\naws_secret_access_key = S\r\naws_session_token = T\r\n",
        "export AWS_ACCESS_KEY_ID='A'\nexport AWS_SECRET_ACCESS_KEY=\"S\"\nAWS_SESSION_TOKEN=T",
        "  {\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\", \"SessionToken\": \"T\", "
        "\"Version\": 1}",
        "# access_key=X\n; secret_key=Y\naccess_key = A\nother=1\nsecret_key = S\nsession_token= T "
        "\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        assert_int_equal(parse(forms[i]), 0);
        assert_string_equal(k.access_key, "A");
        assert_string_equal(k.secret_key, "S");
        assert_string_equal(k.session_token, "T");
    }
    assert_int_equal(parse("access_key=A\nsecret_key=S=/+\n"), 0);
    assert_string_equal(k.secret_key, "S=/+");
    assert_null(k.session_token);
    keys_release(&k);
}

/* Azure's names, a connection string, and the file of a service account. */
static void other_clouds(void **state)
{
    static const char *const azure[] = {
        "AZURE_STORAGE_ACCOUNT=lab\nexport AZURE_STORAGE_KEY='a2V5=='\n",
        "AZURE_STORAGE_CONNECTION_STRING='DefaultEndpointsProtocol=https;AccountName=lab;"
        "AccountKey=a2V5==;EndpointSuffix=core.windows.net'\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(azure) / sizeof(azure[0]); i++) {
        assert_int_equal(parse(azure[i]), 0);
        assert_string_equal(k.access_key, "lab");
        assert_string_equal(k.secret_key, "a2V5==");
    }
    assert_int_equal(parse("AZURE_STORAGE_ACCOUNT=lab\nAZURE_STORAGE_SAS_TOKEN=sv=1&sig=x%3D"), 0);
    assert_string_equal(k.secret_key, "sv=1&sig=x%3D");
    assert_int_equal(parse("{\n \"type\": \"service_account\",\n \"client_email\": \"a@b\",\n"
                           " \"private_key\": \"-----BEGIN\\nX\"}"),
                     0);
    assert_string_equal(k.access_key, "a@b");
    assert_string_equal(k.secret_key, "{\"type\":\"service_account\",\"client_email\":\"a@b\","
                                      "\"private_key\":\"-----BEGIN\\nX\"}");
    keys_release(&k);
}

static void of_environment(void **state)
{
    (void)state;
    keys_release(&k);
    setenv("AZURE_STORAGE_ACCOUNT", "lab", 1);
    setenv("AZURE_STORAGE_SAS_TOKEN", "sig=x", 1);
    assert_int_equal(keys_of_env(&k, &err), 0);
    assert_string_equal(k.access_key, "lab");
    assert_string_equal(k.secret_key, "sig=x");
    keys_release(&k);
    setenv("AWS_ACCESS_KEY_ID", "A", 1); /* half of a pair is not passed over */
    assert_int_equal(keys_of_env(&k, &err), DLC_EINVAL);
    keys_release(&k);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AZURE_STORAGE_ACCOUNT");
    unsetenv("AZURE_STORAGE_SAS_TOKEN");
    setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/file.json", 1);
    assert_true(keys_of_env(&k, &err) < 0);
    assert_non_null(strstr(err.text, "/nonexistent/file.json"));
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    keys_release(&k);
}

/* Nothing of the text is in what is said of it. */
static void mistakes(void **state)
{
    static const char *const bad[] = {
        "",
        "\n",
        "QQQ",
        "access_key=QQQ",
        "secret_key=QQQ",
        "access_key=\nsecret_key=QQQ",
        "access_key=QQQ\naccess_key=QQQ\nsecret_key=QQQ",
        "{QQQ",
        "{\"AccessKeyId\": 1}",
        "{\"AccessKeyId\": \"QQQ\"}",
        "{\"AccessKeyId\": \"QQQ\", \"AccessKeyId\": \"QQQ\"}",
        "{\"AccessKeyId\": \"QQQ\", \"access_key\": \"QQQ\", \"secret_key\": \"QQQ\"}",
    };
    static char big[KEYS_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i]), DLC_EINVAL);
        assert_true(err.text[0] != '\0');
        assert_null(strstr(err.text, "QQQ"));
    }
    memset(big, 'x', sizeof(big));
    assert_int_equal(keys_parse(big, sizeof(big), &k, &err), DLC_EINVAL);
    assert_int_equal(keys_parse("access_key=A\0", 13, &k, &err), DLC_EINVAL);
    keys_release(&k);
}

static void environment(void **state)
{
    (void)state;
    unsetenv("AWS_SESSION_TOKEN");
    setenv("AWS_ACCESS_KEY_ID", "A", 1);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    assert_int_equal(keys_of_env(&k, &err), DLC_EINVAL);
    keys_release(&k);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    assert_int_equal(keys_of_env(&k, &err), 0);
    assert_string_equal(k.access_key, "A");
    assert_null(k.session_token);
    keys_release(&k);
    assert_null(k.access_key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form),     cmocka_unit_test(other_clouds),
        cmocka_unit_test(of_environment), cmocka_unit_test(mistakes),
        cmocka_unit_test(environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
