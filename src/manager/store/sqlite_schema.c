// SPDX-License-Identifier: Apache-2.0
/*
 * The schema and its migrations. PRAGMA user_version is the version of a file; each migration
 * raises it by one, in a transaction. A file with a newer version is not touched. A released
 * migration is never edited: add another.
 *
 * A database of another program is not touched either. SQLite creates files beside a database that
 * it opens, and moves its log into it on close: so the header is checked first.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "manager/store/sqlite_schema_i.h"

#define APPLICATION_ID 0x646c636d /* "dlcm" */
#define WAL_PAUSE      DLC_MS(10)
#define WAL_TRIES      500 /* five seconds, as for other locks */

/* [v]: from version v to v + 1. */
static const char *const sqlite_migrations[SQLITE_SCHEMA_VERSION] = {
    /* Names of datasets and nodes are numbers in the tables of chunks, which are large. */
    "CREATE TABLE doc(kind INTEGER NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL,"
    "  version INTEGER NOT NULL, body TEXT NOT NULL, UNIQUE(kind, id));"
    "CREATE INDEX doc_tenant ON doc(kind, tenant, id);"
    "CREATE TABLE name(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
    "CREATE TABLE chunk(dataset INTEGER NOT NULL, node INTEGER NOT NULL, key TEXT NOT NULL,"
    "  etag TEXT NOT NULL, size INTEGER NOT NULL, cost REAL NOT NULL, refs INTEGER NOT NULL,"
    "  state INTEGER NOT NULL, jobs INTEGER NOT NULL, changed_ms INTEGER NOT NULL,"
    "  PRIMARY KEY(dataset, node, key)) WITHOUT ROWID;"
    "CREATE TABLE sum(dataset INTEGER NOT NULL, node INTEGER NOT NULL, chunks INTEGER NOT NULL,"
    "  bytes INTEGER NOT NULL, PRIMARY KEY(dataset, node)) WITHOUT ROWID;"
    "CREATE INDEX sum_node ON sum(node);"
    "CREATE TABLE lock(name TEXT PRIMARY KEY, holder TEXT NOT NULL, fence INTEGER NOT NULL,"
    "  boot TEXT NOT NULL, expires_ms INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE number(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE event(seq INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,"
    "  tenant TEXT NOT NULL, body TEXT NOT NULL);",
    /* A tenant follows its own events. */
    "CREATE INDEX event_tenant ON event(tenant, seq);",
};

static int pragma(sqlite3 *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_ERROR : rc;
}

/* One step, unless somebody else made it meanwhile. */
static int migrate_step(sqlite3 *db, int64_t from)
{
    char *sql = sqlite3_mprintf("%s PRAGMA application_id = %d; PRAGMA user_version = %d;",
                                sqlite_migrations[from], APPLICATION_ID, (int)from + 1);
    int64_t version = 0;
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = pragma(db, "PRAGMA user_version", &version);
    if (rc == SQLITE_OK && version == from)
        rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    else if (!sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_free(sql);
    return rc;
}

static int refuse_foreign(const char *path, struct dlc_err *err)
{
    return dlc_err_set(err, DLC_EINVAL,
                       "store %s is a database of another program; name another file", path);
}

static bool is_foreign(int64_t app, int64_t tables)
{
    return app != APPLICATION_ID && (app != 0 || tables > 0);
}

int sqlite_check_header(int fd, const char *path, struct dlc_err *err)
{
    unsigned char h[108]; /* and the beginning of the table of tables */
    uint32_t app;

    if (os_pread_all(fd, h, sizeof(h), 0) < 0 || memcmp(h, "SQLite format 3", 16) != 0)
        return 0; /* new, or no database at all: SQLite says so */
    app = (uint32_t)h[68] << 24 | (uint32_t)h[69] << 16 | (uint32_t)h[70] << 8 | h[71];
    /* A leaf without rows: what there is is in the log, and ours has its number there too. */
    return is_foreign(app, h[100] != 0x0d || h[103] != 0 || h[104] != 0) ? refuse_foreign(path, err)
                                                                         : 0;
}

/* In one transaction: another manager may be creating the tables. */
static int read_schema(sqlite3 *db, int64_t *version, int64_t *app, int64_t *tables)
{
    int rc = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = pragma(db, "SELECT count(*) FROM sqlite_master", tables);
    if (rc == SQLITE_OK)
        rc = pragma(db, "PRAGMA user_version", version);
    if (rc == SQLITE_OK)
        rc = pragma(db, "PRAGMA application_id", app);
    if (!sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* nothing was written */
    return rc;
}

/* SQLITE_OK, an error of SQLite's, or a refusal in *err with DLC_*, which is negative. */
static int check_ours(sqlite3 *db, const char *path, int64_t *version, struct dlc_err *err)
{
    int64_t app = 0, tables = 0;
    int rc = read_schema(db, version, &app, &tables);

    if (rc != SQLITE_OK)
        return rc;
    if (is_foreign(app, tables)) {
        (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                                NULL); /* their log stays */
        return refuse_foreign(path, err);
    }
    if (*version > SQLITE_SCHEMA_VERSION)
        return dlc_err_set(err, DLC_EINVAL,
                           "store %s has schema %d, made by a newer dlcache; this one knows up to "
                           "%d: use the newer program, or another file and 'dlcache rebuild'",
                           path, (int)*version, SQLITE_SCHEMA_VERSION);
    return SQLITE_OK;
}

/* The switch takes the file for itself, and SQLite does not wait for that: several managers may
 * create a store at once. */
static int use_wal(sqlite3 *db)
{
    int rc, tries = 0;

    do {
        if (tries > 0)
            dlc_sleep(WAL_PAUSE);
        rc = sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    } while ((rc & 0xff) == SQLITE_BUSY && ++tries < WAL_TRIES);
    return rc;
}

int sqlite_migrate(sqlite3 *db, const char *path, struct dlc_err *err)
{
    int64_t version = 0;
    int rc = check_ours(db, path, &version, err);

    if (rc == SQLITE_OK) /* not before: it changes the file */
        rc = use_wal(db);
    if (rc == SQLITE_OK && version > 0 && version < SQLITE_SCHEMA_VERSION)
        log_info("store %s: schema %d becomes %d", path, (int)version, SQLITE_SCHEMA_VERSION);
    for (int64_t v = version; rc == SQLITE_OK && v < SQLITE_SCHEMA_VERSION; v++)
        rc = migrate_step(db, v);
    return rc;
}
