// SPDX-License-Identifier: Apache-2.0
/* Tables for people: columns as wide as their widest cell, numbers to the right. */
#ifndef DLC_CLI_TABLE_H
#define DLC_CLI_TABLE_H

#include <stdio.h>

#include "base/buf.h"

#define TABLE_COLUMNS 16

struct table {
    char **cells; /* row by row */
    unsigned n, cap, columns;
    unsigned right; /* bit i: column i is set to the right */
};

#define TABLE_INIT                                                                                 \
    {                                                                                              \
        NULL, 0, 0, 0, 0                                                                           \
    }

/* Headings separated by '|'; one that begins with '>' makes its column flush right. A NULL heading
 * row is not printed: "|>" gives two columns without one. */
void table_init(struct table *t, const char *headings);

/* The next cell, from left to right; a row ends by itself. Control characters are shown as '?'. */
void table_add(struct table *t, const char *text);
void table_addf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void table_format(const struct table *t, struct buf *out);
void table_print(const struct table *t, FILE *f);
void table_release(struct table *t);

/* 1234567 as "1,234,567". */
const char *table_count(unsigned long long n, char out[static 32]);

#endif
