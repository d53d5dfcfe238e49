// SPDX-License-Identifier: Apache-2.0
/* Measured chunks from a table: comma-separated, a line of column names first, no quotes. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "sim/workload_mix_i.h"

#define COLUMNS   32
#define MOST_COST 1e12
#define MOST_SIZE 1e18

struct row {
    char *key;
    uint64_t size;
    double cost;
    enum mix_habit habit;
};

struct table {
    const char *file;
    unsigned line;
    int cost, key, size; /* columns */
    struct row *rows;
    uint32_t n, cap;
    char *datasets[MIX_HABITS]; /* names, in order of appearance */
    struct dlc_err *err;
};

static int wrong(struct table *t, const char *what, const char *text)
{
    return dlc_err_set(t->err, DLC_EINVAL, "%s:%u: %s \"%.80s\"", t->file, t->line, what, text);
}

/* Cut the line at its commas. */
static int split(char *line, char *cells[COLUMNS])
{
    int n = 0;

    for (char *s = line; n < COLUMNS;) {
        char *comma = strchr(s, ',');

        if (comma != NULL)
            *comma = '\0';
        cells[n++] = str_trim(s);
        if (comma == NULL)
            break;
        s = comma + 1;
    }
    return n;
}

static int read_heading(struct table *t, char **cells, int n)
{
    t->cost = t->key = t->size = -1;
    for (int i = 0; i < n; i++) {
        if (strcmp(cells[i], "Cost") == 0)
            t->cost = i;
        else if (strcmp(cells[i], "Key") == 0)
            t->key = i;
        else if (strcmp(cells[i], "Size") == 0)
            t->size = i;
    }
    if (t->cost < 0 || t->key < 0 || t->size < 0)
        return wrong(t, "the first line names the columns Cost, Key and Size; this one begins with",
                     cells[0]);
    return 0;
}

static int habit_of(struct table *t, const char *key, enum mix_habit *habit)
{
    size_t len = strcspn(key, "/");

    for (unsigned h = 0; h < MIX_HABITS; h++) {
        if (t->datasets[h] == NULL)
            t->datasets[h] = mem_strn(key, len);
        if (strlen(t->datasets[h]) == len && memcmp(t->datasets[h], key, len) == 0) {
            *habit = h;
            return 0;
        }
    }
    return wrong(t, "a table has four datasets (the first part of Key); this is a fifth:", key);
}

static int read_row(struct table *t, char **cells, int n)
{
    struct row row = {.key = NULL};
    double size;
    int rc;

    if (n <= DLC_MAX(t->cost, DLC_MAX(t->key, t->size)))
        return wrong(t, "too few columns in the line that begins with", cells[0]);
    if (!str_parse_double(cells[t->cost], &row.cost) || !(row.cost >= 0) || row.cost > MOST_COST)
        return wrong(t, "Cost is a number of seconds, not", cells[t->cost]);
    if (!str_parse_double(cells[t->size], &size) || !(size >= 0) || size > MOST_SIZE)
        return wrong(t, "Size is a number of bytes, not", cells[t->size]);
    rc = habit_of(t, cells[t->key], &row.habit);
    if (rc < 0)
        return rc;
    row.size = (uint64_t)size;
    row.key = mem_str(cells[t->key]);
    mem_reserve(t->rows, t->n, t->cap);
    t->rows[t->n++] = row;
    return 0;
}

static int read_line(struct table *t, char *line)
{
    char *cells[COLUMNS];
    int n;

    if (str_trim(line)[0] == '\0')
        return 0;
    n = split(line, cells);
    return t->line == 1 ? read_heading(t, cells, n) : read_row(t, cells, n);
}

static int by_habit_and_key(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->habit != y->habit)
        return x->habit < y->habit ? -1 : 1;
    return strcmp(x->key, y->key);
}

/* Windows slide over files in the order of their keys; other datasets are read as they stand. */
static int take_rows(struct table *t, struct mix *m, double parallel)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->rows[i].habit != MIX_WINDOWS)
            mix_add(m, t->rows[i].habit, t->rows[i].size, t->rows[i].cost / parallel);
    if (t->n > 0)
        qsort(t->rows, t->n, sizeof(*t->rows), by_habit_and_key);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->rows[i].habit == MIX_WINDOWS)
            mix_add(m, MIX_WINDOWS, t->rows[i].size, t->rows[i].cost / parallel);
    for (unsigned h = 0; h < MIX_HABITS; h++)
        if (m->n[h] == 0)
            return dlc_err_set(t->err, DLC_EINVAL, "%s: a table has four datasets; this has %u",
                               t->file, h);
    return 0;
}

int mix_parse(struct mix *m, const char *name, const char *text, size_t len, double parallel,
              struct dlc_err *err)
{
    struct table t = {.file = name, .err = err};
    int rc = 0;

    if (memchr(text, '\0', len) != NULL)
        return dlc_err_set(err, DLC_EINVAL, "%s is not a text", name);
    for (const char *s = text, *end = text + len; rc == 0 && s < end;) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((eol != NULL ? eol : end) - s);
        char *line = mem_strn(s, n);

        t.line++;
        rc = read_line(&t, line);
        mem_free(&line);
        s += n + 1;
    }
    if (rc == 0)
        rc = take_rows(&t, m, parallel);
    for (uint32_t i = 0; i < t.n; i++)
        mem_free(&t.rows[i].key);
    mem_free(&t.rows);
    for (unsigned h = 0; h < MIX_HABITS; h++)
        mem_free(&t.datasets[h]);
    return rc;
}
