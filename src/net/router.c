// SPDX-License-Identifier: Apache-2.0
#include "net/router_i.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"

/* In place: what is decoded is never longer. */
static const char *decode(char *s, bool plus)
{
    char *to = s;

    for (const char *from = s; *from != '\0'; from++, to++) {
        *to = plus && *from == '+' ? ' ' : *from;
        if (*from != '%')
            continue;
        if (from[1] == '\0' || !str_unhex(from + 1, 2, to))
            return "a '%' is not followed by two hexadecimal digits";
        if (*to == '\0')
            return "%00 is not allowed";
        from += 2;
    }
    *to = '\0';
    return str_is_utf8(s, strlen(s)) ? NULL : "it is not UTF-8";
}

static const char *check_segment(const char *s)
{
    if (strcmp(s, ".") == 0 || strcmp(s, "..") == 0)
        return "'.' and '..' are not allowed";
    for (; *s != '\0'; s++) {
        if (*s == '/')
            return "an encoded '/' is not allowed";
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return "control characters are not allowed";
    }
    return NULL;
}

static const char *parse_path(struct target *t, char *path)
{
    const char *why;

    if (*path != '/')
        return "it must begin with '/'";
    while (path != NULL) {
        char *segment = path + 1;

        path = strchr(segment, '/');
        if (path != NULL)
            *path = '\0';
        if (t->n_segments == TARGET_SEGMENTS)
            return "it has too many parts";
        why = decode(segment, false);
        if (why == NULL)
            why = check_segment(segment);
        if (why != NULL)
            return why;
        t->segments[t->n_segments++] = segment;
    }
    return NULL;
}

static const char *add_pair(struct target *t, char *name, char *value)
{
    const char *why = decode(name, true);

    if (why == NULL)
        why = decode(value, true);
    if (why != NULL)
        return why;
    if (target_query(t, name) != NULL)
        return "a name is in the query twice";
    if (t->n_pairs == TARGET_PAIRS)
        return "the query has too many parts";
    t->pairs[t->n_pairs].name = name;
    t->pairs[t->n_pairs++].value = value;
    return NULL;
}

static const char *parse_query(struct target *t, char *query)
{
    const char *why = NULL;

    while (query != NULL && why == NULL) {
        char *next = strchr(query, '&'), *value;

        if (next != NULL)
            *next++ = '\0';
        value = query + strcspn(query, "=");
        if (*value == '=')
            *value++ = '\0';
        if (*query != '\0' || *value != '\0')
            why = add_pair(t, query, value);
        query = next;
    }
    return why;
}

const char *target_parse(struct target *t, const char *uri)
{
    const char *why;
    char *query;

    *t = (struct target)TARGET_INIT;
    t->text = mem_str(uri);
    if (strchr(uri, '#') != NULL)
        return "'#' is not allowed";
    query = strchr(t->text, '?');
    if (query != NULL)
        *query++ = '\0';
    why = parse_path(t, t->text);
    return why != NULL ? why : parse_query(t, query);
}

void target_release(struct target *t)
{
    mem_free(&t->text);
    *t = (struct target)TARGET_INIT;
}

const char *target_query(const struct target *t, const char *name)
{
    for (size_t i = 0; i < t->n_pairs; i++) {
        if (strcmp(t->pairs[i].name, name) == 0)
            return t->pairs[i].value;
    }
    return NULL;
}

bool target_fits(const struct target *t, const char *pattern, const char *params[HTTP_PARAMS])
{
    size_t n = 0;

    for (size_t i = 0; i < HTTP_PARAMS; i++)
        params[i] = NULL;
    for (size_t i = 0; i < t->n_segments; i++) {
        const char *s = t->segments[i];
        size_t len;

        if (*pattern != '/')
            return false;
        len = strcspn(++pattern, "/");
        if (*pattern == '{') {
            dlc_check(n < HTTP_PARAMS);
            if (*s == '\0')
                return false;
            params[n++] = s;
        } else if (strlen(s) != len || memcmp(s, pattern, len) != 0) {
            return false;
        }
        pattern += len;
    }
    return *pattern == '\0';
}
