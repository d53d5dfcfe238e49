// SPDX-License-Identifier: Apache-2.0
#include "operator/kube/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/check.h"
#include "base/str.h"

struct reader {
    yaml_parser_t parser;
    const char *name;
    unsigned depth;
    struct dlc_err *err;
};

static int refuse(struct reader *r, yaml_mark_t at, const char *why)
{
    return dlc_err_set(r->err, DLC_EINVAL, "%s:%zu:%zu: %s", r->name, at.line + 1, at.column + 1,
                       why);
}

static int next(struct reader *r, yaml_event_t *e)
{
    const char *why;

    memset(e, 0, sizeof(*e));
    if (yaml_parser_parse(&r->parser, e) == 1)
        return 0;
    why = r->parser.problem != NULL ? r->parser.problem : "this is no YAML";
    return refuse(r, r->parser.problem_mark, why);
}

/* -------- scalars -------- */

static bool is_one_of(const char *s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(s, words[i]) == 0)
            return true;
    }
    return false;
}

static bool is_digits(const char *s, const char *set)
{
    size_t n = 0;

    while (s[n] != '\0' && strchr(set, s[n]) != NULL)
        n++;
    return n > 0 && s[n] == '\0';
}

/* [-+]? (. digits | digits (. digits*)?) ([eE] [-+]? digits)? */
static bool is_real(const char *s)
{
    size_t before, after = 0;

    s += *s == '-' || *s == '+';
    before = strspn(s, "0123456789");
    s += before;
    if (*s == '.') {
        after = strspn(s + 1, "0123456789");
        s += 1 + after;
    }
    if (before + after == 0)
        return false;
    if (*s != 'e' && *s != 'E')
        return *s == '\0';
    s += s[1] == '-' || s[1] == '+' ? 2 : 1;
    return is_digits(s, "0123456789");
}

/* An integer that fits, else NULL. */
static json_t *integer(const char *s)
{
    const char *digits = s + (*s == '-' || *s == '+');
    long long v;
    int base = 10;

    if (strncmp(s, "0x", 2) == 0 && is_digits(s + 2, "0123456789abcdefABCDEF")) {
        base = 16;
        digits = s + 2;
    } else if (strncmp(s, "0o", 2) == 0 && is_digits(s + 2, "01234567")) {
        base = 8;
        digits = s + 2;
    } else if (!is_digits(digits, "0123456789")) {
        return NULL;
    }
    errno = 0;
    v = strtoll(base == 10 ? s : digits, NULL, base);
    return errno == 0 ? json_integer(v) : NULL;
}

static json_t *plain(const char *s)
{
    static const char *const nothing[] = {"", "~", "null", "Null", "NULL"};
    static const char *const yes[] = {"true", "True", "TRUE"};
    static const char *const no[] = {"false", "False", "FALSE"};
    json_t *v = NULL;

    if (is_one_of(s, nothing, DLC_COUNT(nothing)))
        return json_null();
    if (is_one_of(s, yes, DLC_COUNT(yes)))
        return json_true();
    if (is_one_of(s, no, DLC_COUNT(no)))
        return json_false();
    v = integer(s);
    if (v == NULL && is_real(s))
        v = json_real(strtod(s, NULL)); /* NULL for what is too large: a text then */
    return v;
}

/* The text of a scalar, or an error. */
static int check_text(struct reader *r, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    const char *tag = (const char *)e->data.scalar.tag;

    if (e->data.scalar.anchor != NULL)
        return refuse(r, e->start_mark, "anchors are not allowed here");
    if (tag != NULL && strcmp(tag, YAML_STR_TAG) != 0 && strcmp(tag, "!") != 0)
        return refuse(r, e->start_mark, "tags are not allowed here");
    if (memchr(text, '\0', e->data.scalar.length) != NULL)
        return refuse(r, e->start_mark, "a text holds a NUL byte");
    if (!str_is_utf8(text, e->data.scalar.length))
        return refuse(r, e->start_mark, "a text is not UTF-8");
    return 0;
}

static int scalar(struct reader *r, const yaml_event_t *e, json_t **out)
{
    int rc = check_text(r, e);

    if (rc < 0)
        return rc;
    if (e->data.scalar.plain_implicit && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        *out = plain((const char *)e->data.scalar.value);
    if (*out == NULL)
        *out = json_string((const char *)e->data.scalar.value);
    dlc_check(*out != NULL);
    return 0;
}

/* -------- nodes -------- */

static int node(struct reader *r, yaml_event_t *e, json_t **out);

static int sequence(struct reader *r, json_t *into)
{
    yaml_event_t e;
    int rc = 0;

    while (rc == 0 && (rc = next(r, &e)) == 0) {
        json_t *item = NULL;

        if (e.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&e);
            break;
        }
        rc = node(r, &e, &item);
        if (rc == 0)
            dlc_check(json_array_append_new(into, item) == 0);
        yaml_event_delete(&e);
    }
    return rc;
}

static int member(struct reader *r, const yaml_event_t *key, json_t *into)
{
    const char *name = (const char *)key->data.scalar.value;
    json_t *value = NULL;
    yaml_event_t e;
    int rc;

    if (key->type != YAML_SCALAR_EVENT)
        return refuse(r, key->start_mark, "a key must be a text");
    rc = check_text(r, key);
    if (rc == 0 && json_object_get(into, name) != NULL)
        rc = refuse(r, key->start_mark, "a key is there twice");
    if (rc == 0 && (rc = next(r, &e)) == 0) {
        rc = node(r, &e, &value);
        yaml_event_delete(&e);
    }
    if (rc == 0)
        dlc_check(json_object_set_new(into, name, value) == 0);
    return rc;
}

static int mapping(struct reader *r, json_t *into)
{
    bool ended = false;
    yaml_event_t e;
    int rc = 0;

    while (rc == 0 && !ended && (rc = next(r, &e)) == 0) {
        ended = e.type == YAML_MAPPING_END_EVENT;
        if (!ended)
            rc = member(r, &e, into);
        yaml_event_delete(&e);
    }
    return rc;
}

/* A list or a map, whose first event is *e. */
static int branch(struct reader *r, const yaml_event_t *e, json_t **out)
{
    bool list = e->type == YAML_SEQUENCE_START_EVENT;
    const void *anchor = list ? e->data.sequence_start.anchor : e->data.mapping_start.anchor;
    const void *tag = list ? e->data.sequence_start.tag : e->data.mapping_start.tag;
    int rc;

    if (anchor != NULL)
        return refuse(r, e->start_mark, "anchors are not allowed here");
    if (tag != NULL)
        return refuse(r, e->start_mark, "tags are not allowed here");
    if (r->depth == YAML_DEPTH)
        return refuse(r, e->start_mark, "it is nested too deeply");
    *out = list ? json_array() : json_object();
    r->depth++;
    rc = list ? sequence(r, *out) : mapping(r, *out);
    r->depth--;
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    }
    return rc;
}

/* *out: NULL on failure. */
static int node(struct reader *r, yaml_event_t *e, json_t **out)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT: return scalar(r, e, out);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return branch(r, e, out);
    case YAML_ALIAS_EVENT: return refuse(r, e->start_mark, "aliases are not allowed here");
    default: return refuse(r, e->start_mark, "something is missing here");
    }
}

/* Start of stream, at most one document, end of stream. */
static int stream(struct reader *r, json_t **out)
{
    bool ended = false, seen = false;
    yaml_event_t e;
    int rc = 0;

    while (rc == 0 && !ended && (rc = next(r, &e)) == 0) {
        if (e.type == YAML_DOCUMENT_START_EVENT && seen)
            rc = refuse(r, e.start_mark, "a second document is not allowed here");
        else if (e.type == YAML_DOCUMENT_START_EVENT)
            seen = true;
        else if (e.type == YAML_STREAM_END_EVENT || e.type == YAML_NO_EVENT)
            ended = true;
        else if (e.type != YAML_STREAM_START_EVENT && e.type != YAML_DOCUMENT_END_EVENT)
            rc = node(r, &e, out);
        yaml_event_delete(&e);
    }
    return rc;
}

int yaml_parse(const char *name, const char *text, size_t len, json_t **out, struct dlc_err *err)
{
    struct reader r = {.name = name, .err = err};
    int rc;

    *out = NULL;
    if (len > YAML_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s: more than %u bytes", name, YAML_MAX);
    dlc_check(yaml_parser_initialize(&r.parser) == 1);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    rc = stream(&r, out);
    yaml_parser_delete(&r.parser);
    if (rc < 0) {
        json_decref(*out);
        *out = NULL;
    } else if (*out == NULL) {
        *out = json_null();
    }
    return rc;
}
