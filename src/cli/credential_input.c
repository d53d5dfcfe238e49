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

enum which { ACCESS, SECRET, SESSION, OTHER };

static const struct {
    const char *name;
    enum which which;
} names[] = {
    {"access_key", ACCESS},         {"aws_access_key_id", ACCESS},     {"AccessKeyId", ACCESS},
    {"secret_key", SECRET},         {"aws_secret_access_key", SECRET}, {"SecretAccessKey", SECRET},
    {"session_token", SESSION},     {"aws_session_token", SESSION},    {"SessionToken", SESSION},
    {"aws_security_token", SESSION}};

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

static int set(struct keys *k, enum which w, const char *value, struct dlc_err *err)
{
    char **slot = w == ACCESS ? &k->access_key : w == SECRET ? &k->secret_key : &k->session_token;

    if (w == OTHER || value[0] == '\0')
        return 0;
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

static int parse_json(struct keys *k, const char *text, struct dlc_err *err)
{
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *v;
    const char *name;
    int rc = 0;

    if (o == NULL)
        return dlc_err_set(err, DLC_EINVAL, "it begins as JSON and is none");
    json_object_foreach(o, name, v)
    {
        const char *s = json_string_value(v);

        if (s != NULL && rc == 0)
            rc = set(k, which_of(name), s, err);
    }
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

int keys_of_env(struct keys *out, struct dlc_err *err)
{
    static const struct {
        const char *name;
        enum which which;
    } variables[] = {{"AWS_ACCESS_KEY_ID", ACCESS},
                     {"AWS_SECRET_ACCESS_KEY", SECRET},
                     {"AWS_SESSION_TOKEN", SESSION}};
    int rc = 0;

    for (size_t i = 0; i < DLC_COUNT(variables) && rc == 0; i++) {
        const char *value = getenv(variables[i].name);

        if (value != NULL)
            rc = set(out, variables[i].which, value, err);
    }
    return rc == 0 ? check(out, "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)", err)
                   : rc;
}
