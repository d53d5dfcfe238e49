// SPDX-License-Identifier: Apache-2.0
/*
 * One connection to SQLite behind a lock, with its prepared statements. WAL lets the reader go on
 * while a batch is written. Documents and locks are synced with each transaction; chunks and events
 * are not: they survive a crash of the program, and what a power cut takes is found again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/syscalls.h"
#include "manager/store/sqlite_conn_i.h"
#include "manager/store/store.h"

#define BUSY_MS 5000 /* how long another process may hold the database */

static const char *const statements[SQ_COUNT] = {
#define STATEMENT(name, sql) sql,
#include "manager/store/sqlite.def"
#undef STATEMENT
};

int sq_error(const char *path, int rc, const char *what, struct dlc_err *err)
{
    const char *text = sqlite3_errstr(rc); /* sqlite3_errmsg() may be another thread's by now */

    if (rc < 0)
        return rc; /* ours, with its text */
    if (rc == SQLITE_READONLY_DBMOVED)
        return dlc_err_set(
            err, DLC_ECHANGED,
            "store %s was removed or replaced while it was in use: put it back, " STORE_LOST_REMEDY,
            path);
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return dlc_err_set(err, DLC_ECORRUPT,
                           "store %s is damaged (%s: %s); move it away and run 'dlcache rebuild'",
                           path, what, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return dlc_err_set(err, DLC_EBUCKET,
                           "store %s: %s: another process keeps it locked; try again", path, what);
    case SQLITE_FULL:
        return dlc_err_set(err, DLC_ENOSPACE, "store %s: %s: the disk is full", path, what);
    case SQLITE_NOMEM:
        return dlc_err_set(err, DLC_ENOMEM, "store %s: %s: out of memory", path, what);
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
        return dlc_err_set(err, DLC_EDENIED, "store %s: %s: %s; is it ours to write?", path, what,
                           text);
    default: return dlc_err_set(err, DLC_EIO, "store %s: %s: %s", path, what, text);
    }
}

/* Wait a little for another process, longer each time; 0 gives up. */
static int on_busy(void *arg, int count)
{
    int64_t ms = count < 10 ? 1 : count < 30 ? 5 : 20, waited;

    (void)arg;
    waited = count < 10 ? count : count < 30 ? 10 + (count - 10) * 5 : 110 + (count - 30) * 20;
    if (waited > BUSY_MS)
        return 0;
    dlc_sleep(DLC_MS(ms));
    return 1;
}

#ifdef DLC_FAULT_ENV
/* ---- SQLite's own system calls, for fault injection; fsync() is not among those it lends ---- */

static int seam_open(const char *path, int flags, int mode)
{
    return os_open(path, flags, (mode_t)mode);
}

static int seam_close(int fd)
{
    os_close(&fd);
    return 0;
}

static ssize_t seam_pread(int fd, void *buf, size_t len, off_t off)
{
    return os_pread(fd, buf, len, (uint64_t)off);
}

static ssize_t seam_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    return os_pwrite(fd, buf, len, (uint64_t)off);
}

static int seam_ftruncate(int fd, off_t size)
{
    return os_ftruncate(fd, (uint64_t)size);
}

static void lend_calls(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {
        {"open", (sqlite3_syscall_ptr)seam_open},
        {"close", (sqlite3_syscall_ptr)seam_close},
        {"pread", (sqlite3_syscall_ptr)seam_pread},
        {"pread64", (sqlite3_syscall_ptr)seam_pread},
        {"pwrite", (sqlite3_syscall_ptr)seam_pwrite},
        {"pwrite64", (sqlite3_syscall_ptr)seam_pwrite},
        {"ftruncate", (sqlite3_syscall_ptr)seam_ftruncate},
        {"unlink", (sqlite3_syscall_ptr)os_unlink},
        {"stat", (sqlite3_syscall_ptr)os_stat},
        {"fstat", (sqlite3_syscall_ptr)os_fstat},
    };
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    for (size_t i = 0; vfs != NULL && vfs->iVersion >= 3 && i < DLC_COUNT(calls); i++)
        vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call); /* it need not have each */
}
#else
static void lend_calls(void)
{
}
#endif

int sq_conn_open(struct sq_conn *c, const char *path, bool writes, struct dlc_err *err)
{
    const char *setup = writes ? "PRAGMA synchronous = FULL;"
                                 "PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8000;"
                                 "PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY;"
                               : "PRAGMA query_only = 1; PRAGMA cache_size = -16384;";
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX; /* c->mtx is enough */
    struct stat st;
    int rc;

    pthread_once(&once, lend_calls);
    rc = fault_hit_call(CALL_any, -1) ? SQLITE_IOERR : sqlite3_open_v2(path, &c->db, flags, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(c->db, 1);
        sqlite3_busy_handler(c->db, on_busy, NULL);
        rc = sqlite3_exec(c->db, setup, NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK && os_stat(path, &st) < 0)
        rc = SQLITE_IOERR_FSTAT;
    if (rc == SQLITE_OK) {
        c->path = path;
        c->dev = st.st_dev;
        c->ino = st.st_ino;
    }
    return rc == SQLITE_OK ? 0 : sq_error(path, rc, "opening", err);
}

void sq_conn_drop(struct sq_conn *c)
{
    for (int i = 0; i < SQ_COUNT; i++) {
        sqlite3_finalize(c->stmts[i]);
        c->stmts[i] = NULL;
    }
    dlc_check(sqlite3_close(c->db) == SQLITE_OK); /* NULL is allowed */
    c->db = NULL;
    c->relaxed = false;
}

void sq_conn_close(struct sq_conn *c)
{
    sq_conn_drop(c);
    dlc_mtx_release(&c->mtx);
}

int sq_conn_look(const struct sq_conn *c)
{
    struct stat st;

    if (c->db == NULL)
        return SQLITE_READONLY_DBMOVED;
    if (os_stat(c->path, &st) < 0)
        return errno == ENOENT ? SQLITE_READONLY_DBMOVED : SQLITE_IOERR_FSTAT;
    return st.st_dev == c->dev && st.st_ino == c->ino ? SQLITE_OK : SQLITE_READONLY_DBMOVED;
}

static int bind_all(sqlite3_stmt *s, const char *types, va_list args)
{
    int rc = SQLITE_OK;

    for (int i = 1; rc == SQLITE_OK && types[i - 1] != '\0'; i++) {
        if (types[i - 1] == 't')
            rc = sqlite3_bind_text(s, i, va_arg(args, const char *), -1, SQLITE_STATIC);
        else if (types[i - 1] == 'i')
            rc = sqlite3_bind_int64(s, i, va_arg(args, int64_t));
        else
            rc = sqlite3_bind_double(s, i, va_arg(args, double));
    }
    return rc;
}

/* The first step of statement id. */
static int run(struct sq_conn *c, enum sq_id id, sqlite3_stmt **out, const char *types,
               va_list args)
{
    int rc;

    dlc_mtx_assert_held(&c->mtx);
    *out = NULL;
    if (fault_hit_call(CALL_any, -1))
        return SQLITE_IOERR;
    rc = sq_conn_look(c);
    if (rc != SQLITE_OK)
        return rc;
    if (c->stmts[id] == NULL)
        rc = sqlite3_prepare_v3(c->db, statements[id], -1, SQLITE_PREPARE_PERSISTENT, &c->stmts[id],
                                NULL);
    if (rc == SQLITE_OK)
        rc = bind_all(c->stmts[id], types, args);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(c->stmts[id]);
    *out = c->stmts[id];
    return rc;
}

void sq_end(sqlite3_stmt **stmt)
{
    if (*stmt != NULL) {
        sqlite3_reset(*stmt);
        sqlite3_clear_bindings(*stmt); /* they point to the caller's texts */
    }
    *stmt = NULL;
}

int sq_query(struct sq_conn *c, enum sq_id id, sqlite3_stmt **out, const char *types, ...)
{
    va_list args;
    int rc;

    va_start(args, types);
    rc = run(c, id, out, types, args);
    va_end(args);
    return rc;
}

int sq_exec(struct sq_conn *c, enum sq_id id, const char *types, ...)
{
    sqlite3_stmt *s;
    va_list args;
    int rc;

    va_start(args, types);
    rc = run(c, id, &s, types, args);
    va_end(args);
    sq_end(&s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int sq_number(struct sq_conn *c, enum sq_id id, int64_t none, int64_t *out, const char *types, ...)
{
    sqlite3_stmt *s;
    va_list args;
    int rc;

    va_start(args, types);
    rc = run(c, id, &s, types, args);
    va_end(args);
    *out = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : none;
    sq_end(&s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int sq_begin(struct sq_conn *c, bool durable)
{
    int rc = SQLITE_OK;

    dlc_mtx_lock(&c->mtx);
    if (c->db == NULL)
        return SQLITE_READONLY_DBMOVED;
    if (c->relaxed == durable) {
        rc = sqlite3_exec(c->db,
                          durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                          NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            c->relaxed = !durable;
    }
    return rc == SQLITE_OK ? sq_exec(c, SQ_begin, "") : rc;
}

int sq_finish(struct sq_conn *c, int rc)
{
    if (rc == SQLITE_OK)
        rc = sq_exec(c, SQ_commit, "");
    if (rc != SQLITE_OK && c->db != NULL && !sqlite3_get_autocommit(c->db))
        (void)sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    dlc_mtx_unlock(&c->mtx);
    return rc;
}
