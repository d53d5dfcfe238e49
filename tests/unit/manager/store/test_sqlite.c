// SPDX-License-Identifier: Apache-2.0
/* What only SQLite has: a file, its schema, its damage, other processes, faults of the system. */
#include "store_unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "manager/store/sqlite_schema_i.h"

static unsigned serial;

static const char *fresh(char path[static 256])
{
    char name[64];

    snprintf(name, sizeof(name), "s%u/manager.db", serial++);
    return unit_path(name, path);
}

static int open_path(const char *path, struct store **out)
{
    char url[300];

    snprintf(url, sizeof(url), "sqlite:%s", path);
    return store_open(url, out, &err);
}

static void sql(const char *path, const char *text)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", text, why);
    sqlite3_close(db);
}

static void test_file(void **state)
{
    char path[256];
    struct store *m = NULL;
    struct stat st;

    (void)state;
    ok(open_path(fresh(path), &m));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* bodies may be secret, if encrypted */
    store_close(&m);
    assert_int_equal(store_open("sqlite:", &m, &err), DLC_EINVAL);
    assert_int_equal(store_open("postgres://x", &m, &err), DLC_EINVAL);
    assert_true(open_path("/proc/no/such/manager.db", &m) < 0);
    assert_non_null(strstr(err.text, "/proc/no/such"));
    assert_null(m);
}

/* As fresh(), in a directory that is there. */
static const char *fresh_file(char path[static 256])
{
    fresh(path);
    *strrchr(path, '/') = '\0';
    assert_int_equal(os_mkdirs(path, 0700), 0);
    path[strlen(path)] = '/';
    return path;
}

static int64_t number(const char *path, const char *query)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    int64_t out;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return out;
}

/* A file as version 1 left it: a copy of its schema, which is never edited, and something in each
 * table. */
static const char version_1[] =
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
    "  tenant TEXT NOT NULL, body TEXT NOT NULL);"
    "PRAGMA application_id = 1684824941; PRAGMA user_version = 1;"
    "INSERT INTO doc VALUES(2, 'j', 't', 7, '{\"value\": 3}');"
    "INSERT INTO name VALUES(1, 'd'), (2, 'n');"
    "INSERT INTO chunk VALUES(1, 2, 'k', 'e', 5, 0.5, 1, 1, 0, 1700000000000);"
    "INSERT INTO sum VALUES(1, 2, 1, 5);"
    "INSERT INTO number VALUES('granted', 41), ('fence', 41);"
    "INSERT INTO event VALUES(9, 1700000000000, 't', '{\"value\": 9}');";

static void test_migration(void **state)
{
    char path[256];
    struct store *m = NULL;
    json_t *events;
    uint64_t version, fence;

    (void)state;
    sql(fresh_file(path), version_1);
    ok(open_path(path, &m));
    assert_int_equal(value_of(m, STORE_JOB, "j", &version), 3);
    assert_int_equal(version, 7);
    expect_sums(m, "d", "n 1 5,");
    ok(store_lock(m, "l", "me", DLC_SEC(60), &fence, &err));
    assert_int_equal(fence, 42);
    ok(store_event(m, "t", json_object(), &err));
    ok(store_events(m, "t", 0, 10, &events, &err));
    assert_int_equal(json_array_size(events), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(events, 0), "value")), 9);
    json_decref(events);
    store_close(&m);
    assert_int_equal(number(path, "PRAGMA user_version"), SQLITE_SCHEMA_VERSION);
    assert_int_equal(number(path, "SELECT count(*) FROM sqlite_master WHERE name = 'event_tenant'"),
                     1);
    ok(open_path(path, &m)); /* nothing is left to do */
    assert_int_equal(value_of(m, STORE_JOB, "j", NULL), 3);
    store_close(&m);
}

/* A step that fails leaves the version before it, whole; when its cause is gone it is made. */
static void test_migration_fails(void **state)
{
    char path[256];
    struct store *m = NULL;

    (void)state;
    sql(fresh_file(path), version_1);
    sql(path, "CREATE TABLE event_tenant(in_the_way)");
    assert_true(open_path(path, &m) < 0);
    assert_null(m);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(number(path, "PRAGMA user_version"), 1);
    assert_int_equal(number(path, "SELECT version FROM doc"), 7);
    sql(path, "DROP TABLE event_tenant");
    ok(open_path(path, &m));
    assert_int_equal(value_of(m, STORE_JOB, "j", NULL), 3);
    store_close(&m);
}

static void test_newer(void **state)
{
    char path[256];
    struct store *m = NULL;

    (void)state;
    ok(open_path(fresh(path), &m));
    store_close(&m);
    sql(path, "PRAGMA user_version = 99");
    assert_int_equal(open_path(path, &m), DLC_EINVAL);
    assert_non_null(strstr(err.text, "newer dlcache"));
    assert_non_null(strstr(err.text, "99"));
    assert_null(m);
    assert_int_equal(number(path, "PRAGMA user_version"), 99);
}

/* ---- files of others ---- */

static void read_beside(const char *path, const char *suffix, struct buf *out)
{
    char name[300];

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    buf_clear(out);
    if (access(name, F_OK) == 0)
        ok(os_read_file(name, 1 << 20, out, &err));
    else
        buf_adds(out, "(none)");
}

/* It is refused with this code, and neither it nor anything beside it is another than before. */
static void expect_untouched(const char *path, int code, const char *word)
{
    static const char *const suffixes[] = {"", "-wal", "-journal"};
    struct buf before[3] = {BUF_INIT, BUF_INIT, BUF_INIT}, after = BUF_INIT;
    struct store *m = NULL;

    for (size_t i = 0; i < 3; i++)
        read_beside(path, suffixes[i], &before[i]);
    assert_int_equal(open_path(path, &m), code);
    assert_null(m);
    assert_non_null(strstr(err.text, word));
    for (size_t i = 0; i < 3; i++) {
        read_beside(path, suffixes[i], &after);
        if (after.len != before[i].len || memcmp(after.data, before[i].data, after.len) != 0)
            fail_msg("%s%s was changed", path, suffixes[i]);
        buf_release(&before[i]);
    }
    buf_release(&after);
}

/* A copy of a database that is in use, with its log. */
static void copy_beside(const char *from, const char *to, const char *suffix)
{
    struct buf b = BUF_INIT;
    char name[300];

    read_beside(from, suffix, &b);
    snprintf(name, sizeof(name), "%s%s", to, suffix);
    ok(os_write_file(name, b.data, b.len, 0600, &err));
    buf_release(&b);
}

static void test_foreign(void **state)
{
    char path[256], copy[256];
    sqlite3 *db = NULL;

    (void)state;
    sql(fresh_file(path), "CREATE TABLE wages(person, amount)");
    expect_untouched(path, DLC_EINVAL, "another program");
    sql(fresh_file(path), "PRAGMA application_id = 7; CREATE TABLE t(x); DROP TABLE t");
    expect_untouched(path, DLC_EINVAL, "another program");
    sql(fresh_file(path), "PRAGMA journal_mode = WAL; CREATE TABLE wages(person, amount)");
    expect_untouched(path, DLC_EINVAL, "another program");
    ok(os_write_file(fresh_file(path), "Dear diary,\n", 12, 0600, &err));
    expect_untouched(path, DLC_ECORRUPT, "damaged");
    /* What they wrote last is in their log only: first all of it, then a part. */
    assert_int_equal(sqlite3_open(fresh_file(path), &db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sqlite3_exec(db,
                                      i == 0 ? "PRAGMA journal_mode = WAL; CREATE TABLE wages(a)"
                                             : "PRAGMA wal_checkpoint; CREATE TABLE more(a)",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        fresh_file(copy);
        copy_beside(path, copy, "");
        copy_beside(path, copy, "-wal");
        expect_untouched(copy, DLC_EINVAL, "another program");
    }
    sqlite3_close(db);
}

/* Ours, killed before its log was moved for the first time: its header has no number yet. */
static void test_ours_in_the_log(void **state)
{
    char path[256], copy[256];
    struct store *m = NULL;

    (void)state;
    ok(open_path(fresh(path), &m));
    ok(put(m, STORE_JOB, "a", "", 5, STORE_NEW, NULL));
    fresh_file(copy);
    copy_beside(path, copy, "");
    copy_beside(path, copy, "-wal");
    store_close(&m);
    ok(open_path(copy, &m));
    assert_int_equal(value_of(m, STORE_JOB, "a", NULL), 5);
    store_close(&m);
}

static void scribble(const char *path, off_t at, size_t len)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char *junk = mem_alloc(len);

    assert_true(fd >= 0);
    memset(junk, 'Z', len);
    assert_int_equal(pwrite(fd, junk, len, at), len);
    close(fd);
    mem_free(&junk);
}

static void test_damage(void **state)
{
    char path[256];
    struct store *m = NULL;
    struct store_doc docs[100];
    size_t n;
    int rc = 0;

    (void)state;
    ok(open_path(fresh(path), &m));
    for (int i = 0; i < 2000; i++) {
        char key[32];

        snprintf(key, sizeof(key), "%d", i);
        put_chunk(m, "d", "n", key, 1);
        if (i < 50)
            ok(put(m, STORE_JOB, key, "", i, STORE_NEW, NULL));
    }
    store_close(&m);
    scribble(path, 4096, 16 * 4096); /* the schema is whole, tables are not */
    rc = open_path(path, &m);
    if (rc == 0)
        rc = store_list(m, STORE_JOB, NULL, NULL, 100, docs, &n, &err);
    if (rc == 0)
        rc = store_chunks_drop(m, "d", NULL, &err);
    assert_int_equal(rc, DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "dlcache rebuild"));
    assert_non_null(strstr(err.text, path));
    store_close(&m);
    scribble(path, 0, 4096);
    assert_int_equal(open_path(path, &m), DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "dlcache rebuild"));
}

/* A lock belongs to this run of the machine; its clock may be set as it likes. */
static void test_lock_and_clock(void **state)
{
    char path[256];
    struct store *m = NULL;
    uint64_t a, b;

    (void)state;
    ok(open_path(fresh(path), &m));
    ok(store_lock(m, "l", "a", DLC_SEC(600), &a, &err));
    dlc_clock_advance(DLC_SEC(599));
    assert_int_equal(store_lock(m, "l", "b", DLC_SEC(600), &b, &err), DLC_EBUSY);
    dlc_clock_advance(DLC_SEC(2));
    ok(store_lock(m, "l", "b", DLC_SEC(600), &b, &err));
    assert_true(b > a);
    assert_int_equal(store_lock(m, "l", "c", DLC_SEC(600), &a, &err), DLC_EBUSY);
    sql(path, "UPDATE lock SET boot = 'before'");
    ok(store_lock(m, "l", "c", DLC_SEC(600), &a, &err));
    assert_true(a > b);
    store_close(&m);
}

static int add_in_child(const char *path, int times)
{
    struct store *m = NULL;
    int rc = open_path(path, &m);

    for (int i = 0; rc == 0 && i < times;) {
        struct store_doc d;

        rc = store_get(m, STORE_JOB, "count", &d, &err);
        if (rc == 0) {
            json_int_t v = json_integer_value(json_object_get(d.body, "value"));

            json_object_set_new(d.body, "value", json_integer(v + 1));
            rc = store_put(m, STORE_JOB, &d, d.version, &err);
            i += rc == 0;
            rc = rc == DLC_EBUSY ? 0 : rc;
        }
        store_doc_release(&d);
    }
    store_close(&m);
    return rc;
}

static void test_processes(void **state)
{
    enum { PROCESSES = 4, TIMES = 30 };
    char path[256];
    struct store *m = NULL;
    pid_t pids[PROCESSES];
    int status;

    (void)state;
    ok(open_path(fresh(path), &m));
    ok(put(m, STORE_JOB, "count", "", 0, STORE_NEW, NULL));
    store_close(&m);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(add_in_child(path, TIMES) == 0 ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    ok(open_path(path, &m));
    assert_int_equal(value_of(m, STORE_JOB, "count", NULL), PROCESSES * TIMES);
    store_close(&m);
}

/* Two processes make the file at once: one schema. */
static void test_made_at_once(void **state)
{
    char path[256];
    pid_t pids[4];
    int status;

    (void)state;
    fresh(path);
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct store *m = NULL;
            int rc = open_path(path, &m);

            if (rc < 0)
                fprintf(stderr, "%s\n", err.text);
            _exit(rc == 0 ? 0 : 1);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

/* What was written is there after kill -9, whole batches or none. */
static void test_killed(void **state)
{
    char path[256];
    struct store *m = NULL;
    struct store_sum sums[4];
    size_t n = 0;
    pid_t pid;

    (void)state;
    ok(open_path(fresh(path), &m));
    store_close(&m);
    pid = fork();
    if (pid == 0) {
        struct store_chunk c[50];
        char keys[50][16];

        if (open_path(path, &m) < 0)
            _exit(1);
        for (unsigned at = 0;; at += 50) {
            for (unsigned i = 0; i < 50; i++) {
                snprintf(keys[i], sizeof(keys[i]), "%u", at + i);
                c[i] = chunk("d", "n", keys[i], 3);
            }
            if (store_chunks_put(m, c, 50, &err) < 0)
                _exit(1);
        }
    }
    ok(open_path(path, &m));
    while (n == 0 || sums[0].chunks < 1000)
        ok(store_chunks_sums(m, "d", sums, 4, &n, &err));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ok(store_chunks_sums(m, "d", sums, 4, &n, &err));
    assert_int_equal(sums[0].chunks % 50, 0);
    assert_int_equal(sums[0].bytes, sums[0].chunks * 3);
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL)); /* nothing is locked */
    store_close(&m);
}

/* Whatever fails: all or nothing, and the next call works. */
/* SQLite itself writes on to a file that nobody can open any more. */
static void test_removed(void **state)
{
    char path[256], away[300], log[300];
    struct store *m = NULL;

    (void)state;
    ok(open_path(fresh(path), &m));
    snprintf(away, sizeof(away), "%s.away", path);
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(put(m, STORE_JOB, "b", "", 2, STORE_NEW, NULL), DLC_ECHANGED);
    assert_non_null(strstr(err.text, "dlcache rebuild"));
    assert_int_equal(value_of(m, STORE_JOB, "a", NULL), -1);
    assert_int_equal(err.code, DLC_ECHANGED);
    assert_int_equal(store_reopen(m, false, &err), DLC_ECHANGED);
    assert_int_equal(access(path, F_OK), -1); /* it was not made */
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(value_of(m, STORE_JOB, "a", NULL), 1); /* put back */

    assert_int_equal(rename(path, away), 0);
    snprintf(log, sizeof(log), "%s-wal", path);
    unlink(log);
    ok(store_reopen(m, true, &err)); /* a new one */
    assert_int_equal(value_of(m, STORE_JOB, "a", NULL), -1);
    ok(put(m, STORE_JOB, "b", "", 2, STORE_NEW, NULL));
    ok(store_reopen(m, true, &err)); /* nothing to do */
    assert_int_equal(value_of(m, STORE_JOB, "b", NULL), 2);
    store_close(&m);
    ok(open_path(path, &m));
    assert_int_equal(value_of(m, STORE_JOB, "b", NULL), 2); /* it is in the file that is there */
    store_close(&m);
}

/* Who raised a fence finds none: the store was emptied. */
static void test_emptied(void **state)
{
    char path[256];
    struct store *m = NULL;

    (void)state;
    ok(open_path(fresh(path), &m));
    store_set_fence(m, 5);
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    sql(path, "DELETE FROM doc; DELETE FROM number;");
    assert_int_equal(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL), DLC_ECHANGED);
    assert_int_equal(store_event(m, "", json_object(), &err), DLC_ECHANGED);
    assert_int_equal(store_delete(m, STORE_JOB, "a", STORE_ANY, &err), DLC_ECHANGED);
    store_set_fence(m, 6);
    ok(put(m, STORE_JOB, "a", "", 1, STORE_NEW, NULL));
    store_close(&m);
}

static void test_faults(void **state)
{
    char path[256];
    struct store *m = NULL;
    uint64_t size = 0, version = 0;
    int nth = 1;

    (void)state;
    ok(open_path(fresh(path), &m));
    ok(put(m, STORE_JOB, "a", "", 0, STORE_NEW, &version));
    for (bool fired = true; fired; nth++) {
        struct store_chunk c[2] = {chunk("d", "n", "k", (uint64_t)nth), chunk("d", "m", "k", 1)};
        uint64_t now = 0;
        char text[64];
        int rc;

        fault_arm(FAULT_SYSCALL, nth);
        rc = store_chunks_put(m, c, 2, &err);
        if (rc == 0) {
            size = (uint64_t)nth;
            rc = put(m, STORE_JOB, "a", "", nth, STORE_ANY, &now);
        }
        fired = fault_disarm();
        assert_true(fired ? rc < 0 : rc == 0);
        snprintf(text, sizeof(text), "m 1 1,n 1 %d,", (int)size);
        expect_sums(m, "d", size > 0 ? text : "");
        version += rc == 0;
        (void)value_of(m, STORE_JOB, "a", &now);
        assert_int_equal(now, version);
    }
    assert_true(nth > 10);
    store_close(&m);
    for (bool fired = true, first = true; fired; first = false) {
        int rc;

        fault_arm(FAULT_SYSCALL, first ? 1 : ++nth);
        if (first)
            nth = 1;
        rc = open_path(path, &m);
        fired = fault_disarm();
        assert_true(rc < 0 ? m == NULL : m != NULL);
        store_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_migration),
        cmocka_unit_test(test_migration_fails),
        cmocka_unit_test(test_newer),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_ours_in_the_log),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_lock_and_clock),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_made_at_once),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_emptied),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
