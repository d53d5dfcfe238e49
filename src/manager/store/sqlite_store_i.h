// SPDX-License-Identifier: Apache-2.0
/* Inside the SQLite store: connections, prepared statements, transactions. */
#ifndef DLC_MANAGER_STORE_SQLITE_STORE_I_H
#define DLC_MANAGER_STORE_SQLITE_STORE_I_H

#include <sqlite3.h>

#include "base/mutex.h"
#include "manager/store/store_i.h"

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
    bool relaxed; /* PRAGMA synchronous is NORMAL, not FULL */
};

struct sqlite_store {
    struct store m;
    char *path, *boot;          /* boot: which run of the machine a time of its clock belongs to */
    struct sq_conn write, read; /* never both at once in one thread */
};

struct sqlite_store *sqlite_store_of(struct store *m);

/* ---- sqlite_conn.c ---- */

int sq_conn_open(struct sq_conn *c, const char *path, bool writes, struct dlc_err *err);
void sq_conn_close(struct sq_conn *c);

/* The error of an SQLite result code as one of ours. what: "writing dataset 'x'". */
int sq_error(const char *path, int rc, const char *what, struct dlc_err *err);

/*
 * Run a statement. types: one letter for each argument, t text, i int64_t, d double. sq_exec()
 * gives SQLITE_OK or an error; sq_query() SQLITE_ROW, SQLITE_DONE or an error, and *out, which is
 * to be given to sq_end() when its columns were read.
 */
int sq_exec(struct sq_conn *c, enum sq_id id, const char *types, ...);
int sq_query(struct sq_conn *c, enum sq_id id, sqlite3_stmt **out, const char *types, ...);
void sq_end(sqlite3_stmt **stmt);
/* The first column of the first row, or `none`. SQLITE_OK or an error. */
int sq_number(struct sq_conn *c, enum sq_id id, int64_t none, int64_t *out, const char *types, ...);

/* A write transaction; holds c->mtx from begin to end. durable: synced before end returns. */
int sq_begin(struct sq_conn *c, bool durable);
/* Commits when rc is SQLITE_OK, else takes all back. Gives what went wrong, or SQLITE_OK. */
int sq_finish(struct sq_conn *c, int rc);

/* ---- sqlite_schema.c ---- */

#define SQLITE_SCHEMA_VERSION 2
/* DLC_EINVAL: it is a database of another program. */
int sqlite_check_header(int fd, const char *path, struct dlc_err *err);
int sqlite_migrate(sqlite3 *db, const char *path, struct dlc_err *err);

/* ---- sqlite_chunks.c ---- */

/* Inside a transaction: refuse an old fence, remember a new one. */
int sq_pass_fence(struct sq_conn *c, uint64_t fence, struct dlc_err *err);
int sqlite_chunks_put(struct store *m, const struct store_chunk *c, size_t n, uint64_t fence,
                      struct dlc_err *err);
int sqlite_chunks_drop(struct store *m, const char *dataset, const char *node, uint64_t fence,
                       struct dlc_err *err);
int sqlite_chunks_drop_keys(struct store *m, const char *dataset, const char *node,
                            const char *const *keys, size_t n, uint64_t fence, struct dlc_err *err);
int sqlite_streams(struct store *m, const char *dataset, const char *node,
                   struct chunk_stream **out, size_t *n, struct dlc_err *err);
int sqlite_fetch(struct store *m, const char *dataset, const struct page_range *range,
                 struct chunk_stream **s, size_t n, size_t limit, struct dlc_err *err);
int sqlite_sums(struct store *m, const char *dataset, struct store_sum *out, size_t max, size_t *n,
                struct dlc_err *err);

#endif
