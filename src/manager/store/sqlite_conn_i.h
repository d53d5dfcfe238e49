// SPDX-License-Identifier: Apache-2.0
/*
 * Connections to SQLite: prepared statements of sqlite.def, transactions, and conversion of
 * SQLite's errors to ours.
 */
#ifndef DLC_MANAGER_STORE_SQLITE_CONN_I_H
#define DLC_MANAGER_STORE_SQLITE_CONN_I_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sqlite3.h>

#include "base/err.h"
#include "base/mutex.h"

enum sq_id {
#define STATEMENT(name, sql) SQ_##name,
#include "manager/store/sqlite.def"
#undef STATEMENT
    SQ_COUNT
};

struct sq_conn {
    struct dlc_mtx mtx; /* rank LCK_sqlite */
    sqlite3 *db;        /* G: mtx, and so the rest */
    sqlite3_stmt *stmts[SQ_COUNT];
    bool relaxed;     /* PRAGMA synchronous is NORMAL, not FULL */
    const char *path; /* borrowed */
    dev_t dev;        /* of the file as it was opened */
    ino_t ino;
};

int sq_conn_open(struct sq_conn *c, const char *path, bool writes, struct dlc_err *err);
void sq_conn_close(struct sq_conn *c);
/* Lets go of the database, and keeps the lock. Statements then give SQLITE_READONLY_DBMOVED. */
void sq_conn_drop(struct sq_conn *c);
/* SQLITE_READONLY_DBMOVED: the file was removed or replaced since it was opened. SQLite itself goes
 * on with one that nobody else can open any more. */
int sq_conn_look(const struct sq_conn *c);

/* Convert an SQLite result code to one of ours. what: "writing dataset 'x'". */
int sq_error(const char *path, int rc, const char *what, struct dlc_err *err);

/*
 * Run a statement. types: one letter for each argument, t text, i int64_t, d double. sq_exec()
 * returns SQLITE_OK or an error; sq_query() SQLITE_ROW, SQLITE_DONE or an error, and *out; pass
 * that to sq_end() after reading its columns.
 */
int sq_exec(struct sq_conn *c, enum sq_id id, const char *types, ...);
int sq_query(struct sq_conn *c, enum sq_id id, sqlite3_stmt **out, const char *types, ...);
void sq_end(sqlite3_stmt **stmt);
/* The first column of the first row, or `none`. SQLITE_OK or an error. */
int sq_number(struct sq_conn *c, enum sq_id id, int64_t none, int64_t *out, const char *types, ...);

/* A write transaction; holds c->mtx from begin to end. durable: synced before end returns. */
int sq_begin(struct sq_conn *c, bool durable);
/* Commits if rc is SQLITE_OK, else rolls back. Returns the first error, or SQLITE_OK. */
int sq_finish(struct sq_conn *c, int rc);

#endif
