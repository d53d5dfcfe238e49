// SPDX-License-Identifier: Apache-2.0
#include "cli/credential_input.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "bucket/azure_account.h"

enum which { ACCESS, SECRET, SESSION, CONNECTION, OTHER };

static const struct {
    const char *name;
    enum which which;
} names[] = {{"access_key", ACCESS},
             {"aws_access_key_id", ACCESS},
             {"AccessKeyId", ACCESS},
             {"secret_key", SECRET},
             {"aws_secret_access_key", SECRET},
             {"SecretAccessKey", SECRET},
             {"session_token", SESSION},
             {"aws_session_token", SESSION},
             {"SessionToken", SESSION},
             {"aws_security_token", SESSION},
             /* Azure's */
             {"AZURE_STORAGE_ACCOUNT", ACCESS},
             {"AZURE_STORAGE_ACCOUNT_NAME", ACCESS},
             {"AZURE_STORAGE_KEY", SECRET},
             {"AZURE_STORAGE_ACCOUNT_KEY", SECRET},
             {"AZURE_STORAGE_SAS_TOKEN", SECRET},
             {"AZURE_STORAGE_CONNECTION_STRING", CONNECTION}};

static enum which which_of(const char *name)
{
    for (size_t i = 0; i < DLC_COUNT(names); i++)
        if (strcasecmp(names[i].name, name) == 0)
            return names[i].which;
    return OTHER;
}

void keys_release(struct keys *k)
{
    secret_free(&k->access_key);
    secret_free(&k->secret_key);
    secret_free(&k->session_token);
}

static int set(struct keys *k, enum which w, const char *value, struct dlc_err *err);

/* Azure's, with the account and its key or SAS in it. */
static int set_connection(struct keys *k, const char *text, struct dlc_err *err)
{
    char *name = azure_connection_field(text, "AccountName");
    char *secret = azure_connection_field(text, "AccountKey");
    int rc = 0;

    if (secret == NULL)
        secret = azure_connection_field(text, "SharedAccessSignature");
    if (name != NULL)
        rc = set(k, ACCESS, name, err);
    if (rc == 0 && secret != NULL)
        rc = set(k, SECRET, secret, err);
    secret_free(&name);
    secret_free(&secret);
    return rc;
}

static int set(struct keys *k, enum which w, const char *value, struct dlc_err *err)
{
    char **slot = w == ACCESS ? &k->access_key : w == SECRET ? &k->secret_key : &k->session_token;

    if (w == OTHER || value[0] == '\0')
        return 0;
    if (w == CONNECTION)
        return set_connection(k, value, err);
    if (*slot != NULL)
        return dlc_err_set(err, DLC_EINVAL, "there are several %s: give one profile only",
                           w == ACCESS   ? "access keys"
                           : w == SECRET ? "secret keys"
                                         : "session tokens");
    *slot = mem_str(value);
    return 0;
}

static int check(const struct keys *k, const char *from, struct dlc_err *err)
{
    const char *missing = k->access_key == NULL   ? "access key"
                          : k->secret_key == NULL ? "secret key"
                                                  : NULL;

    if (missing != NULL)
        return dlc_err_set(err, DLC_EINVAL, "there is no %s in %s", missing, from);
    return 0;
}

/* "'x'" and "\"x\"" as x. */
static char *unquote(char *s)
{
    size_t len = strlen(s);

    if (len >= 2 && (s[0] == '"' || s[0] == '\'') && s[len - 1] == s[0]) {
        s[len - 1] = '\0';
        s++;
    }
    return s;
}

static int parse_line(struct keys *k, char *line, struct dlc_err *err)
{
    char *eq, *name = str_trim(line);

    if (str_starts(name, "export "))
        name = str_trim(name + 7);
    eq = strchr(name, '=');
    if (eq == NULL || name[0] == '#' || name[0] == ';' || name[0] == '[')
        return 0;
    *eq = '\0';
    return set(k, which_of(str_trim(name)), unquote(str_trim(eq + 1)), err);
}

static int parse_lines(struct keys *k, char *text, struct dlc_err *err)
{
    int rc = 0;

    for (char *line = text, *next; line != NULL && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        rc = parse_line(k, line, err);
    }
    return rc;
}

/* The file of a service account is itself the secret, without its line ends. */
static int set_account(struct keys *k, const json_t *o, struct dlc_err *err)
{
    const char *email = json_string_value(json_object_get(o, "client_email"));
    char *text = json_dumps(o, JSON_COMPACT);
    int rc;

    dlc_check(text != NULL);
    rc = set(k, ACCESS, email != NULL ? email : "", err);
    if (rc == 0)
        rc = set(k, SECRET, text, err);
    explicit_bzero(text, strlen(text));
    free(text);
    return rc;
}

static bool is_account(const json_t *o)
{
    const char *type = json_string_value(json_object_get(o, "type"));

    return type != NULL && strcmp(type, "service_account") == 0;
}

static int parse_json(struct keys *k, const char *text, struct dlc_err *err)
{
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *v;
    const char *name;
    int rc = 0;

    if (o == NULL)
        return dlc_err_set(err, DLC_EINVAL, "it begins as JSON and is none");
    if (is_account(o)) {
        rc = set_account(k, o, err);
        goto out;
    }
    json_object_foreach(o, name, v)
    {
        const char *s = json_string_value(v);

        if (s != NULL && rc == 0)
            rc = set(k, which_of(name), s, err);
    }
out:
    secret_json_wipe(o);
    json_decref(o);
    return rc;
}

int keys_parse(const char *text, size_t len, struct keys *out, struct dlc_err *err)
{
    char *copy, *start;
    int rc;

    if (len > KEYS_MAX || memchr(text, '\0', len) != NULL)
        return dlc_err_set(err, DLC_EINVAL, "it is too long, or no text");
    copy = mem_strn(text, len);
    start = copy + strspn(copy, " \t\r\n");
    rc = start[0] == '{' ? parse_json(out, start, err) : parse_lines(out, copy, err);
    explicit_bzero(copy, len);
    mem_free(&copy);
    return rc == 0 ? check(out, "it", err) : rc;
}

/* The variables of one cloud, in the order of the table. */
static int take_env(struct keys *out, const char *const *variables, size_t n, struct dlc_err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *value = getenv(variables[i]);

        if (value != NULL)
            rc = set(out, which_of(variables[i]), value, err);
    }
    return rc;
}

static int take_google_file(struct keys *out, const char *path, struct dlc_err *err)
{
    struct buf b = BUF_INIT;
    int rc;

    buf_reserve(&b, KEYS_MAX + 2);
    rc = os_read_file(path, KEYS_MAX, &b, err);
    if (rc == 0)
        rc = keys_parse(buf_str(&b), b.len, out, err);
    if (rc < 0)
        dlc_err_prefix(err, "%s", path);
    secret_buf_release(&b);
    return rc;
}

int keys_of_env(struct keys *out, struct dlc_err *err)
{
    static const char *const aws[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SESSION_TOKEN"};
    static const char *const connection[] = {"AZURE_STORAGE_CONNECTION_STRING"};
    static const char *const azure[] = {"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY"};
    static const char *const sas[] = {"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_SAS_TOKEN"};
    const char *google = getenv("GOOGLE_APPLICATION_CREDENTIALS");
    int rc;

    if (getenv(aws[0]) != NULL || getenv(aws[1]) != NULL)
        rc = take_env(out, aws, DLC_COUNT(aws), err);
    else if (getenv(connection[0]) != NULL)
        rc = take_env(out, connection, DLC_COUNT(connection), err);
    else if (getenv(azure[1]) != NULL)
        rc = take_env(out, azure, DLC_COUNT(azure), err);
    else if (getenv(sas[1]) != NULL)
        rc = take_env(out, sas, DLC_COUNT(sas), err);
    else
        rc = google != NULL ? take_google_file(out, google, err) : 0;
    return rc == 0 ? check(out,
                           "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; or "
                           "AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY; or "
                           "GOOGLE_APPLICATION_CREDENTIALS)",
                           err)
                   : rc;
}
