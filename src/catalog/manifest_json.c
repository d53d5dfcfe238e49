// SPDX-License-Identifier: Apache-2.0
/*
 * JSON lines of a manifest: an object per line. The names in the first are the columns; a later
 * line may leave some out. Strings are used as they are, null is empty, other values are their JSON
 * text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"
#include "base/mem.h"
#include "catalog/manifest_i.h"

static int add_byte(struct rows *r, struct buf *line, char ch, struct dlc_err *err)
{
    if (line->len >= MANIFEST_ROW_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s, line %llu: a line of more than %zu bytes",
                           r->source->name, (unsigned long long)r->line, MANIFEST_ROW_MAX);
    buf_addc(line, ch);
    return 0;
}

/* A line that is not blank: 1; 0 at the end. */
static int next_line(struct rows *r, struct buf *line, struct dlc_err *err)
{
    int rc;

    r->line = r->next_line;
    while ((rc = rows_fill(r, err)) == 1) {
        char ch = r->chunk[r->pos++];

        if (ch == '\n') {
            r->next_line++;
            if (strspn(buf_str(line), " \t\r") < line->len)
                return 1;
            buf_clear(line);
            r->line = r->next_line;
        } else if (add_byte(r, line, ch, err) < 0) {
            return DLC_EINVAL;
        }
    }
    return rc < 0 ? rc : strspn(buf_str(line), " \t\r") < line->len;
}

static void add_value(struct rows *r, const json_t *v)
{
    char *text;

    if (json_is_string(v)) {
        buf_add(&r->text, json_string_value(v), json_string_length(v));
    } else if (v != NULL && !json_is_null(v)) {
        text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
        if (text != NULL)
            buf_adds(&r->text, text);
        free(text);
    }
    rows_end_field(r);
}

static bool is_column(const struct rows *r, const char *name)
{
    for (size_t k = 0; k < r->n_columns; k++) {
        if (strcmp(r->columns[k], name) == 0)
            return true;
    }
    return false;
}

static void take_object(struct rows *r, json_t *o)
{
    bool first = r->columns == NULL;
    const char *name;
    json_t *v;

    json_object_foreach(o, name, v)
    {
        if (first) {
            mem_reserve(r->columns, r->n_columns, r->cap_columns);
            r->columns[r->n_columns++] = mem_str(name);
        } else if (!is_column(r, name)) {
            snprintf(r->fault, sizeof(r->fault), "the field '%.80s' is not in the first line",
                     name);
        }
    }
    for (size_t k = 0; k < r->n_columns; k++)
        add_value(r, json_object_get(o, r->columns[k]));
}

static int check_line(const struct rows *r, const struct buf *line, struct dlc_err *err)
{
    if (json_count_values(line->data, line->len) <= MANIFEST_VALUES_MAX)
        return 0;
    return dlc_err_set(err, DLC_EINVAL, "%s, line %llu: more than %d values in one line",
                       r->source->name, (unsigned long long)r->line, MANIFEST_VALUES_MAX);
}

int rows_next_json(struct rows *r, struct dlc_err *err)
{
    struct buf line = BUF_INIT;
    json_error_t e;
    json_t *o;
    int rc;

    buf_clear(&r->text);
    r->n = 0;
    rc = next_line(r, &line, err);
    if (rc == 1 && check_line(r, &line, err) < 0)
        rc = DLC_EINVAL;
    if (rc == 1) {
        o = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, &e);
        if (o == NULL)
            snprintf(r->fault, sizeof(r->fault), "no JSON: %.120s", e.text);
        else if (!json_is_object(o) || json_object_size(o) == 0)
            snprintf(r->fault, sizeof(r->fault), "not a JSON object with fields");
        else if (json_object_size(o) > MANIFEST_FIELDS_MAX)
            snprintf(r->fault, sizeof(r->fault), "more than %d fields", MANIFEST_FIELDS_MAX);
        else
            take_object(r, o);
        json_decref(o);
    }
    buf_release(&line);
    return rc;
}
