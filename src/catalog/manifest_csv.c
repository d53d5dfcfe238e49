// SPDX-License-Identifier: Apache-2.0
/*
 * CSV rows of a manifest, parsed byte by byte: a field is quoted if its first character is a quote;
 * inside, two quotes are one, and line ends are text. Empty lines are not rows.
 */
#include <stdio.h>

#include "base/mem.h"
#include "catalog/manifest_i.h"

enum csv_state { CSV_FIELD_START, CSV_FIELD, CSV_QUOTED, CSV_QUOTE_END };

struct csv {
    enum csv_state state;
    uint64_t quote_line; /* where the quotes were opened */
    bool row_over;
};

static void end_row(struct rows *r, struct csv *c)
{
    size_t from = r->n == 0 ? 0 : r->ends[r->n - 1];

    if (c->state != CSV_QUOTE_END && r->text.len > from && r->text.data[r->text.len - 1] == '\r')
        r->text.len--;
    if (r->n > 0 || r->text.len > 0 || c->state == CSV_QUOTE_END) {
        rows_end_field(r);
        c->row_over = true;
    }
    c->state = CSV_FIELD_START;
}

/* Outside of quotes. */
static int plain(struct rows *r, struct csv *c, char ch, struct dlc_err *err)
{
    if (ch == '\n') {
        end_row(r, c);
        if (!c->row_over)
            r->line = r->next_line + 1;
        r->next_line++;
    } else if (ch == r->delimiter) {
        rows_end_field(r);
        c->state = CSV_FIELD_START;
    } else if (ch == '"' && c->state == CSV_FIELD_START) {
        c->state = CSV_QUOTED;
        c->quote_line = r->next_line;
    } else if (c->state == CSV_QUOTE_END && ch != '\r') {
        return dlc_err_set(err, DLC_EINVAL,
                           "%s, line %llu: text after the quotes that end a field; write a quote "
                           "inside quotes twice",
                           r->source->name, (unsigned long long)r->next_line);
    } else if (c->state != CSV_QUOTE_END) {
        buf_addc(&r->text, ch);
        c->state = CSV_FIELD;
    }
    return 0;
}

static int step(struct rows *r, struct csv *c, char ch, struct dlc_err *err)
{
    if (r->text.len >= MANIFEST_ROW_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s, line %llu: a row of more than %zu bytes",
                           r->source->name, (unsigned long long)r->line, MANIFEST_ROW_MAX);
    if (r->n >= MANIFEST_FIELDS_MAX)
        return dlc_err_set(err, DLC_EINVAL, "%s, line %llu: more than %d columns", r->source->name,
                           (unsigned long long)r->line, MANIFEST_FIELDS_MAX);
    if (ch == '\0')
        return dlc_err_set(err, DLC_EINVAL, "%s, line %llu: a NUL byte; is it a text file?",
                           r->source->name, (unsigned long long)r->next_line);
    if (c->state == CSV_QUOTE_END && ch == '"') {
        buf_addc(&r->text, ch);
        c->state = CSV_QUOTED;
    } else if (c->state != CSV_QUOTED) {
        return plain(r, c, ch, err);
    } else if (ch == '"') {
        c->state = CSV_QUOTE_END;
    } else {
        r->next_line += ch == '\n';
        buf_addc(&r->text, ch);
    }
    return 0;
}

int rows_next_csv(struct rows *r, struct dlc_err *err)
{
    struct csv c = {.state = CSV_FIELD_START};
    int rc;

    buf_clear(&r->text);
    r->n = 0;
    r->line = r->next_line;
    while ((rc = rows_fill(r, err)) == 1) {
        while (r->pos < r->len) {
            rc = step(r, &c, r->chunk[r->pos++], err);
            if (rc < 0)
                return rc;
            if (c.row_over)
                return 1;
        }
    }
    if (rc < 0)
        return rc;
    if (c.state == CSV_QUOTED)
        return dlc_err_set(err, DLC_EINVAL, "%s, line %llu: quotes that are opened and not closed",
                           r->source->name, (unsigned long long)c.quote_line);
    end_row(r, &c);
    return c.row_over ? 1 : 0;
}
