// SPDX-License-Identifier: Apache-2.0
/*
 * The SQLite store: documents, locks, events (chunks: sqlite_chunks.c). For one machine; several
 * processes on it may open the same file.
 *
 * Every write is one transaction that begins with BEGIN IMMEDIATE, so the version and the fence
 * that it checks are those that it replaces (D1, D2). Locks expire by the machine's monotonic clock
 * since its boot: setting the clock moves no expiry, and a reboot frees all locks.
 */
#include "manager/store/sqlite_store_i.h"
#include "manager/store/sqlite_chunks_i.h"
#include "manager/store/sqlite_schema_i.h"
#include "manager/store/wall_time.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/str.h"

struct sqlite_store *sqlite_store_of(struct store *m)
{
    dlc_check(m != NULL && m->tag == STORE_TAG);
    return (struct sqlite_store *)m;
}

static const char *sqlite_kind(const struct store *m)
{
    (void)m;
    return "sqlite";
}

static char *text_of(sqlite3_stmt *s, int column)
{
    const char *t = (const char *)sqlite3_column_text(s, column);

    return mem_strn(t != NULL ? t : "", (size_t)sqlite3_column_bytes(s, column));
}

/* Columns: tenant, version, body. */
static void raw_of_row(sqlite3_stmt *s, const char *id, struct store_raw *out)
{
    out->id = mem_str(id);
    out->tenant = text_of(s, 0);
    out->version = (uint64_t)sqlite3_column_int64(s, 1);
    out->body = text_of(s, 2);
    out->body_len = (size_t)sqlite3_column_bytes(s, 2);
}

/* ---- documents ---- */

static int sqlite_get(struct store *m, enum store_kind kind, const char *id, struct store_raw *out,
                      struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    sqlite3_stmt *s;
    int rc;

    dlc_mtx_lock(&q->read.mtx);
    rc = sq_query(&q->read, SQ_doc_get, &s, "it", (int64_t)kind, id);
    if (rc == SQLITE_ROW)
        raw_of_row(s, id, out);
    sq_end(&s);
    dlc_mtx_unlock(&q->read.mtx);
    if (rc == SQLITE_DONE)
        return store_err_absent(err, kind, id);
    return rc == SQLITE_ROW ? 0 : sq_error(q->path, rc, "reading a document", err);
}

/* Refuse an old fence, remember a new one. */
static int raise_fence(struct sq_conn *c, uint64_t fence, struct dlc_err *err)
{
    int64_t newest;
    int rc;

    if (fence == 0)
        return SQLITE_OK;
    rc = sq_number(c, SQ_fence_get, 0, &newest, "");
    if (rc == SQLITE_OK && fence < (uint64_t)newest)
        return store_err_fence(err, fence, (uint64_t)newest);
    if (rc == SQLITE_OK && fence > (uint64_t)newest)
        rc = sq_exec(c, SQ_fence_set, "i", (int64_t)fence);
    return rc;
}

int sq_pass_fence(struct sq_conn *c, uint64_t fence, struct dlc_err *err)
{
    int64_t newest = 0;
    int rc = fence == 0 ? SQLITE_OK : sq_number(c, SQ_fence_get, 0, &newest, "");

    if (rc == SQLITE_OK && fence != 0 && newest == 0)
        return store_err_lost(err);
    return rc == SQLITE_OK ? raise_fence(c, fence, err) : rc;
}

static int sqlite_put(struct store *m, enum store_kind kind, struct store_raw *d, uint64_t expect,
                      uint64_t fence, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    struct sq_conn *c = &q->write;
    int64_t there = 0;
    int rc = sq_begin(c, true);

    if (rc == SQLITE_OK)
        rc = sq_pass_fence(c, fence, err);
    if (rc == SQLITE_OK)
        rc = sq_number(c, SQ_doc_version, 0, &there, "it", (int64_t)kind, d->id);
    if (rc == SQLITE_OK && expect != STORE_ANY && expect != (uint64_t)there)
        rc = store_err_version(err, kind, d->id, expect, (uint64_t)there);
    if (rc == SQLITE_OK)
        rc = sq_exec(c, SQ_doc_put, "ittit", (int64_t)kind, d->id, d->tenant, there + 1, d->body);
    rc = sq_finish(c, rc);
    if (rc != SQLITE_OK)
        return sq_error(q->path, rc, "writing a document", err);
    d->version = (uint64_t)there + 1;
    return 0;
}

static int sqlite_delete(struct store *m, enum store_kind kind, const char *id, uint64_t expect,
                         uint64_t fence, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    struct sq_conn *c = &q->write;
    int64_t there = 0;
    int rc = sq_begin(c, true);

    if (rc == SQLITE_OK)
        rc = sq_pass_fence(c, fence, err);
    if (rc == SQLITE_OK)
        rc = sq_number(c, SQ_doc_version, 0, &there, "it", (int64_t)kind, id);
    if (rc == SQLITE_OK && there == 0)
        rc = store_err_absent(err, kind, id);
    if (rc == SQLITE_OK && expect != STORE_ANY && expect != (uint64_t)there)
        rc = store_err_version(err, kind, id, expect, (uint64_t)there);
    if (rc == SQLITE_OK)
        rc = sq_exec(c, SQ_doc_delete, "it", (int64_t)kind, id);
    if (rc == SQLITE_OK && kind == STORE_TENANT) /* whoever gets the name next does not see them */
        rc = sq_exec(c, SQ_event_forget, "t", id);
    rc = sq_finish(c, rc);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "deleting a document", err);
}

static int sqlite_list(struct store *m, enum store_kind kind, const char *tenant, const char *after,
                       size_t max, struct store_raw *out, size_t *n, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    sqlite3_stmt *s;
    int rc;

    dlc_mtx_lock(&q->read.mtx);
    if (after == NULL)
        after = "";
    if (tenant == NULL)
        rc = sq_query(&q->read, SQ_doc_list, &s, "iti", (int64_t)kind, after, (int64_t)max);
    else
        rc = sq_query(&q->read, SQ_doc_list_of, &s, "itit", (int64_t)kind, after, (int64_t)max,
                      tenant);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s)) {
        dlc_check(*n < max);
        raw_of_row(s, (const char *)sqlite3_column_text(s, 3), &out[(*n)++]);
    }
    sq_end(&s);
    dlc_mtx_unlock(&q->read.mtx);
    return rc == SQLITE_DONE ? 0 : sq_error(q->path, rc, "listing documents", err);
}

static int sqlite_ids(struct store *m, enum store_kind kind, const char *tenant, const char *after,
                      const char *before, size_t max, char **out, size_t *n, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    sqlite3_stmt *s;
    int rc;

    after = after != NULL ? after : "";
    before = before != NULL ? before : "\xff"; /* compared as bytes; no text begins with it */
    dlc_mtx_lock(&q->read.mtx);
    if (tenant == NULL)
        rc = sq_query(&q->read, SQ_doc_ids, &s, "itti", (int64_t)kind, after, before, (int64_t)max);
    else
        rc = sq_query(&q->read, SQ_doc_ids_of, &s, "ittit", (int64_t)kind, after, before,
                      (int64_t)max, tenant);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s)) {
        dlc_check(*n < max);
        out[(*n)++] = text_of(s, 0);
    }
    sq_end(&s);
    dlc_mtx_unlock(&q->read.mtx);
    return rc == SQLITE_DONE ? 0 : sq_error(q->path, rc, "listing documents", err);
}

static int sqlite_count(struct store *m, enum store_kind kind, const char *tenant, uint64_t *n,
                        struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int64_t count;
    int rc;

    dlc_mtx_lock(&q->read.mtx);
    if (tenant == NULL)
        rc = sq_number(&q->read, SQ_doc_count, 0, &count, "i", (int64_t)kind);
    else
        rc = sq_number(&q->read, SQ_doc_count_of, 0, &count, "it", (int64_t)kind, tenant);
    dlc_mtx_unlock(&q->read.mtx);
    if (rc != SQLITE_OK)
        return sq_error(q->path, rc, "counting documents", err);
    *n = (uint64_t)count;
    return 0;
}

/* ---- locks ---- */

static int64_t mono_ms(void)
{
    return dlc_mono_now().ns / 1000000;
}

/* Who holds the lock now? *held false: nobody. */
static int lock_look(struct sqlite_store *q, const char *name, bool *held, char holder[256],
                     int64_t *fence)
{
    sqlite3_stmt *s;
    int rc = sq_query(&q->write, SQ_lock_get, &s, "t", name);

    *held = false;
    if (rc == SQLITE_ROW) {
        char *boot = text_of(s, 2);

        *held = strcmp(boot, q->boot) == 0 && sqlite3_column_int64(s, 3) > mono_ms();
        snprintf(holder, 256, "%s", (const char *)sqlite3_column_text(s, 0));
        *fence = sqlite3_column_int64(s, 1);
        mem_free(&boot);
    }
    sq_end(&s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int sqlite_lock(struct store *m, const char *name, const char *holder, struct dlc_dur ttl,
                       uint64_t *fence, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    struct sq_conn *c = &q->write;
    int64_t number = 0, ms = DLC_MAX(ttl.ns / 1000000, (int64_t)1);
    bool held = false;
    char who[256];
    int rc = sq_begin(c, true);

    if (rc == SQLITE_OK)
        rc = lock_look(q, name, &held, who, &number);
    if (rc == SQLITE_OK && held && strcmp(who, holder) != 0)
        rc = store_err_held(err, name, who);
    if (rc == SQLITE_OK && !held) {
        rc = sq_number(c, SQ_granted_get, 0, &number, "");
        number++;
        if (rc == SQLITE_OK)
            rc = sq_exec(c, SQ_granted_set, "i", number);
    }
    if (rc == SQLITE_OK)
        rc = sq_exec(c, SQ_lock_put, "ttiti", name, holder, number, q->boot, mono_ms() + ms);
    rc = sq_finish(c, rc);
    if (rc != SQLITE_OK)
        return sq_error(q->path, rc, "taking a lock", err);
    *fence = (uint64_t)number;
    return 0;
}

static int sqlite_unlock(struct store *m, const char *name, const char *holder, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int64_t number = 0;
    bool held = false;
    char who[256];
    int rc = sq_begin(&q->write, true);

    if (rc == SQLITE_OK)
        rc = lock_look(q, name, &held, who, &number);
    if (rc == SQLITE_OK && held && strcmp(who, holder) != 0)
        rc = store_err_held(err, name, who);
    if (rc == SQLITE_OK)
        rc = sq_exec(&q->write, SQ_lock_delete, "t", name);
    rc = sq_finish(&q->write, rc);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "giving up a lock", err);
}

static int sqlite_raise(struct store *m, uint64_t fence, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int rc = sq_begin(&q->write, true);

    if (rc == SQLITE_OK)
        rc = raise_fence(&q->write, fence, err);
    rc = sq_finish(&q->write, rc);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "setting the fence", err);
}

/* ---- events ---- */

static int sqlite_event(struct store *m, const char *tenant, const char *body, uint64_t fence,
                        struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    struct sq_conn *c = &q->write;
    int rc = sq_begin(c, false);

    if (rc == SQLITE_OK)
        rc = sq_pass_fence(c, fence, err);
    if (rc == SQLITE_OK)
        rc = sq_exec(c, SQ_event_add, "itt", wall_ms(), tenant, body);
    if (rc == SQLITE_OK)
        rc = sq_exec(c, SQ_event_trim, "i", (int64_t)store_events_kept);
    rc = sq_finish(c, rc);
    return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "writing an event", err);
}

static int sqlite_events(struct store *m, const char *tenant, uint64_t after, size_t max,
                         struct store_raw_event *out, size_t *n, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int64_t from = (int64_t)DLC_MIN(after, (uint64_t)INT64_MAX);
    sqlite3_stmt *s;
    int rc;

    dlc_mtx_lock(&q->read.mtx);
    if (tenant == NULL)
        rc = sq_query(&q->read, SQ_event_list, &s, "ii", from, (int64_t)max);
    else
        rc = sq_query(&q->read, SQ_event_list_of, &s, "iit", from, (int64_t)max, tenant);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(s)) {
        dlc_check(*n < max);
        out[(*n)++] =
            (struct store_raw_event){(uint64_t)sqlite3_column_int64(s, 0),
                                     sqlite3_column_int64(s, 1), text_of(s, 2), text_of(s, 3)};
    }
    sq_end(&s);
    dlc_mtx_unlock(&q->read.mtx);
    return rc == SQLITE_DONE ? 0 : sq_error(q->path, rc, "reading events", err);
}

/* ---- open and close ---- */

static void sqlite_close(struct store *m)
{
    struct sqlite_store *q = sqlite_store_of(m);

    sq_conn_close(&q->read);
    sq_conn_close(&q->write); /* last, so that it moves the log into the database */
    mem_free(&q->path);
    mem_free(&q->boot);
    q->m.tag = 0;
    mem_free(&q);
}

static int make_file(const char *path, struct dlc_err *err);
static int open_conns(struct sqlite_store *q, struct dlc_err *err);

static void drop_conn(struct sq_conn *c)
{
    dlc_mtx_lock(&c->mtx);
    sq_conn_drop(c);
    dlc_mtx_unlock(&c->mtx);
}

/* Both are closed before the first is opened: the last of the old file takes away a log of its name,
 * which must not be that of the new one. */
static int sqlite_reopen(struct store *m, bool make, struct dlc_err *err)
{
    struct sqlite_store *q = sqlite_store_of(m);
    int rc;

    dlc_mtx_lock(&q->write.mtx);
    rc = sq_conn_look(&q->write);
    dlc_mtx_unlock(&q->write.mtx);
    if (rc != SQLITE_READONLY_DBMOVED)
        return rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "looking at the file", err);
    if (!make && os_access(q->path, F_OK) < 0)
        return sq_error(q->path, SQLITE_READONLY_DBMOVED, "", err);
    drop_conn(&q->read);
    drop_conn(&q->write);
    rc = make_file(q->path, err);
    return rc < 0 ? rc : open_conns(q, err);
}

static const struct store_ops sqlite_ops = {
    .kind = sqlite_kind,
    .close = sqlite_close,
    .reopen = sqlite_reopen,
    .get = sqlite_get,
    .put = sqlite_put,
    .delete_ = sqlite_delete,
    .list = sqlite_list,
    .ids = sqlite_ids,
    .count = sqlite_count,
    .chunks_put = sqlite_chunks_put,
    .chunks_drop = sqlite_chunks_drop,
    .chunks_drop_keys = sqlite_chunks_drop_keys,
    .streams = sqlite_streams,
    .fetch = sqlite_fetch,
    .sums = sqlite_sums,
    .lock = sqlite_lock,
    .unlock = sqlite_unlock,
    .raise = sqlite_raise,
    .event = sqlite_event,
    .events = sqlite_events,
};

/*
 * The file is ours alone, and so are the ones SQLite makes beside it with its mode. One that is
 * another program's is left as it is.
 */
static int make_file(const char *path, struct dlc_err *err)
{
    char *dir = mem_str(path), *slash = strrchr(dir, '/');
    int fd = -1, rc = 0;

    if (slash != NULL && slash != dir) {
        *slash = '\0';
        rc = os_mkdirs(dir, 0700);
    }
    if (rc == 0)
        fd = os_open(path, O_RDWR | O_CREAT, 0600);
    rc = fd < 0 ? dlc_err_sys(err, "store %s", path) : sqlite_check_header(fd, path, err);
    os_close(&fd);
    mem_free(&dir);
    return rc;
}

static char *boot_id(void)
{
    struct buf b = BUF_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    char *out;

    if (os_read_file("/proc/sys/kernel/random/boot_id", 64, &b, &err) < 0)
        buf_clear(&b); /* then a lock outlives a reboot by what its clock says */
    out = mem_str(str_trim(b.len > 0 ? b.data : (char[]){""}));
    buf_release(&b);
    return out;
}

static int open_conns(struct sqlite_store *q, struct dlc_err *err)
{
    int rc;

    dlc_mtx_lock(&q->write.mtx);
    rc = sq_conn_open(&q->write, q->path, true, err);
    if (rc == 0) {
        rc = sqlite_migrate(q->write.db, q->path, err);
        rc = rc == SQLITE_OK ? 0 : sq_error(q->path, rc, "reading the schema", err);
    }
    dlc_mtx_unlock(&q->write.mtx);
    dlc_mtx_lock(&q->read.mtx);
    if (rc == 0)
        rc = sq_conn_open(&q->read, q->path, false, err);
    dlc_mtx_unlock(&q->read.mtx);
    return rc;
}

int sqlite_store_open(const char *path, struct store **out, struct dlc_err *err)
{
    struct sqlite_store *q;
    int rc = make_file(path, err);

    if (rc < 0)
        return rc;
    q = mem_new(struct sqlite_store);
    q->m.tag = STORE_TAG;
    q->m.ops = &sqlite_ops;
    q->path = mem_str(path);
    q->boot = boot_id();
    dlc_mtx_init(&q->write.mtx, LCK_sqlite);
    dlc_mtx_init(&q->read.mtx, LCK_sqlite);
    rc = open_conns(q, err);
    if (rc < 0)
        sqlite_close(&q->m);
    *out = rc < 0 ? NULL : &q->m;
    return rc;
}
