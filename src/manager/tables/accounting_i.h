// SPDX-License-Identifier: Apache-2.0
/* Shared by accounting.c and accounting_rollup.c. */
#ifndef DLC_MANAGER_TABLES_ACCOUNTING_I_H
#define DLC_MANAGER_TABLES_ACCOUNTING_I_H

#include "manager/tables/accounting.h"

#define DAY_ALL "~" /* sorts after every name of a node, and is none */

/* Rows: {OF: {JOB: counters}}. */
typedef void row_f(const char *of, const char *job, const struct usage *u, void *arg);
void rows_each(const json_t *rows, row_f *f, void *arg);
void rows_add(json_t *rows, const char *of, const char *job, const struct usage *more);
size_t rows_count(const json_t *rows);

/* Each document of kind STORE_USAGE whose id begins with prefix and is greater than `after`, until f
 * returns other than 0. */
int usage_docs_each(struct store *s, const char *prefix, const char *after,
                    int (*f)(struct store_doc *d, void *arg, struct dlc_err *err), void *arg,
                    struct dlc_err *err);
/* (ACCOUNT-2) The rows of "node/NODE" become those of its day, if they are later than what is there. */
int usage_archive(struct store *s, const char *node, const struct store_doc *d,
                  struct dlc_err *err);

/* Thread: (ACCOUNT-5), (ACCOUNT-6). */
int accounting_roll_up(struct tables *t, int64_t now_ms, const char *oldest, struct dlc_err *err);
/* Adds what was used before the oldest day that is kept to {OF: counters}. */
int accounting_add_before(struct store *s, json_t *sums, struct dlc_err *err);

#endif
