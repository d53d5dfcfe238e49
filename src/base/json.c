// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <string.h>

json_t *json_at(const json_t *o, const char *path)
{
    for (;;) {
        size_t n = strcspn(path, ".");
        char name[64];

        if (path[n] == '\0')
            return json_object_get(o, path);
        if (n >= sizeof(name))
            return NULL;
        memcpy(name, path, n);
        name[n] = '\0';
        o = json_object_get(o, name);
        path += n + 1;
    }
}

const char *json_text_at(const json_t *o, const char *path)
{
    const char *s = json_string_value(json_at(o, path));

    return s != NULL ? s : "";
}

int64_t json_int_at(const json_t *o, const char *path)
{
    return (int64_t)json_integer_value(json_at(o, path));
}

uint64_t json_u64_at(const json_t *o, const char *path)
{
    json_int_t v = json_integer_value(json_at(o, path));

    return v > 0 ? (uint64_t)v : 0;
}

double json_number_at(const json_t *o, const char *path)
{
    return json_number_value(json_at(o, path));
}

bool json_true_at(const json_t *o, const char *path)
{
    return json_is_true(json_at(o, path));
}

json_t *json_find(const json_t *array, const char *path, const char *text)
{
    for (size_t i = 0; text != NULL && i < json_array_size(array); i++) {
        json_t *element = json_array_get(array, i);
        const char *s = json_string_value(json_at(element, path));

        if (s != NULL && strcmp(s, text) == 0)
            return element;
    }
    return NULL;
}

bool json_has_text(const json_t *array, const char *text)
{
    for (size_t i = 0; text != NULL && i < json_array_size(array); i++) {
        const char *s = json_string_value(json_array_get(array, i));

        if (s != NULL && strcmp(s, text) == 0)
            return true;
    }
    return false;
}

void json_add_int(json_t *o, const char *name, json_int_t more)
{
    json_object_set_new(o, name, json_integer(json_integer_value(json_object_get(o, name)) + more));
}

size_t json_count_values(const char *text, size_t len)
{
    bool quoted = false;
    size_t n = 1;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '"')
            quoted = !quoted;
        else if (quoted && c == '\\')
            i++;
        else if (!quoted)
            n += c == ',' || c == ':' || c == '[' || c == '{';
    }
    return n;
}
