// SPDX-License-Identifier: Apache-2.0
#include "manager/routes/json_fields.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "manager/store/store.h"

#define TEXT_MAX   1024
#define ARRAY_MAX  1000
#define NUMBER_MAX (UINT64_C(1) << 53) /* what every JSON reader understands */

void refuse_field(struct http_reply *reply, const char *where, const char *field, const char *fmt,
                  ...)
{
    char why[300], name[100];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    snprintf(name, sizeof(name), "%.40s%.50s", where, field);
    http_problem(reply, 400, "Bad field", "%s: %s", name, why);
    if (reply->body != NULL) /* a name that is not UTF-8 cannot come from JSON */
        json_object_set_new(reply->body, "field", json_string(name));
}

static bool text_ok(const json_t *v, uint64_t max)
{
    const char *s = json_string_value(v);
    size_t len = json_string_length(v);

    if (len == 0 || len > max)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return true;
}

static bool is_name(const json_t *v)
{
    return json_is_string(v) && text_ok(v, NAME_MAX_LEN) && str_is_name(json_string_value(v));
}

static bool seen_before(const json_t *array, size_t i)
{
    const char *s = json_string_value(json_array_get(array, i));

    for (size_t k = 0; k < i; k++)
        if (strcmp(s, json_string_value(json_array_get(array, k))) == 0)
            return true;
    return false;
}

/* NULL, or what an array of texts should have been. */
static const char *bad_element(const json_t *array, enum field_type type)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);

        if (type == FIELD_NAMES && !is_name(v))
            return "its elements must be names: [a-z0-9][a-z0-9._-]{0,62}";
        if (type == FIELD_NAMES && seen_before(array, i))
            return "a name is there twice";
        if (type == FIELD_TEXTS && (!json_is_string(v) || !text_ok(v, TEXT_MAX)))
            return "its elements must be texts of 1 to 1024 bytes without control characters";
    }
    return NULL;
}

static bool take_array(const struct field *f, const json_t *v, const char *where,
                       struct http_reply *reply)
{
    uint64_t max = f->max == 0 ? ARRAY_MAX : f->max;
    const char *bad;

    if (!json_is_array(v) || json_array_size(v) > max) {
        refuse_field(reply, where, f->name, "must be an array of at most %llu elements",
                     (unsigned long long)max);
        return false;
    }
    bad = bad_element(v, f->type);
    if (bad != NULL) {
        refuse_field(reply, where, f->name, "%s", bad);
        return false;
    }
    *(const json_t **)f->out = v;
    return true;
}

static bool take_number(const struct field *f, const json_t *v, const char *where,
                        struct http_reply *reply)
{
    uint64_t max = f->max == 0 ? NUMBER_MAX : f->max;
    json_int_t n = json_integer_value(v), least = f->type == FIELD_INT ? -(json_int_t)max : 0;

    if (!json_is_integer(v) || n < least || n > (json_int_t)max) {
        refuse_field(reply, where, f->name, "must be a whole number from %lld to %llu",
                     (long long)least, (unsigned long long)max);
        return false;
    }
    if (f->type == FIELD_INT)
        *(int64_t *)f->out = n;
    else
        *(uint64_t *)f->out = (uint64_t)n;
    return true;
}

static bool take_text(const struct field *f, const json_t *v, const char *where,
                      struct http_reply *reply)
{
    uint64_t max = f->max == 0 ? TEXT_MAX : f->max;

    if (f->type == FIELD_NAME && !is_name(v)) {
        refuse_field(reply, where, f->name, "must be a name: [a-z0-9][a-z0-9._-]{0,62}");
        return false;
    }
    if (f->type == FIELD_TEXT0 && json_is_string(v) && json_string_length(v) == 0) {
        *(const char **)f->out = "";
        return true;
    }
    if (f->type != FIELD_NAME && (!json_is_string(v) || !text_ok(v, max))) {
        refuse_field(reply, where, f->name,
                     "must be a text of %d to %llu bytes without control characters",
                     f->type == FIELD_TEXT, (unsigned long long)max);
        return false;
    }
    *(const char **)f->out = json_string_value(v);
    return true;
}

static bool take(const struct field *f, const json_t *v, const char *where,
                 struct http_reply *reply)
{
    switch (f->type) {
    case FIELD_NAME:
    case FIELD_TEXT:
    case FIELD_TEXT0: return take_text(f, v, where, reply);
    case FIELD_U64:
    case FIELD_INT: return take_number(f, v, where, reply);
    case FIELD_NAMES:
    case FIELD_TEXTS:
    case FIELD_ARRAY: return take_array(f, v, where, reply);
    case FIELD_BOOL:
        if (json_is_boolean(v))
            *(bool *)f->out = json_is_true(v);
        else
            refuse_field(reply, where, f->name, "must be true or false");
        return json_is_boolean(v);
    case FIELD_OBJECT:
        if (json_is_object(v))
            *(const json_t **)f->out = v;
        else
            refuse_field(reply, where, f->name, "must be an object");
        return json_is_object(v);
    }
    dlc_check(false);
    return false;
}

static bool read_fields(const json_t *o, const char *where, const struct field *fields, bool strict,
                        struct http_reply *reply)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)o, key, v)
    {
        const struct field *f = fields;

        while (f->name != NULL && strcmp(f->name, key) != 0)
            f++;
        if (f->name == NULL && !strict)
            continue;
        if (f->name == NULL) {
            refuse_field(reply, where, key, "there is no such field; see /v1/openapi.json");
            return false;
        }
        if (!take(f, v, where, reply))
            return false;
    }
    for (const struct field *f = fields; f->name != NULL; f++)
        if (f->required && json_object_get(o, f->name) == NULL) {
            refuse_field(reply, where, f->name, "is missing");
            return false;
        }
    return true;
}

bool read_object(const json_t *o, const char *where, const struct field *fields,
                 struct http_reply *reply)
{
    return read_fields(o, where, fields, true, reply);
}

bool read_node_object(const json_t *o, const char *where, const struct field *fields,
                      struct http_reply *reply)
{
    return read_fields(o, where, fields, false, reply);
}

static bool read_body_fields(const struct http_request *r, const struct field *fields, bool strict,
                             struct http_reply *reply)
{
    json_t *none = r->body == NULL ? json_object() : NULL;
    bool ok = read_fields(r->body != NULL ? r->body : none, "", fields, strict, reply);

    json_decref(none);
    return ok;
}

bool read_body(const struct http_request *r, const struct field *fields, struct http_reply *reply)
{
    return read_body_fields(r, fields, true, reply);
}

bool read_node_body(const struct http_request *r, const struct field *fields,
                    struct http_reply *reply)
{
    return read_body_fields(r, fields, false, reply);
}
