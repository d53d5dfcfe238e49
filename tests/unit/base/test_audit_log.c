// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/audit_log.h"
#include "base/clock.h"
#include "base/syscalls.h"

static const struct audit_event refused = {.role = "unknown",
                                           .address = "127.0.0.1:9",
                                           .request = "0123456789abcdef",
                                           .action = "tenant.create",
                                           .outcome = AUDIT_REFUSED,
                                           .status = 401};
static const struct audit_event done = {.role = "admin", .action = "tenant.create"};

static const char *text_of(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

/* Reads the lines of a file; each must be one JSON object. */
static json_t *lines_of(const char *path)
{
    struct buf b = BUF_INIT;
    json_t *all = json_array();

    assert_int_equal(os_read_file(path, 1000000, &b, NULL), 0);
    for (char *s = b.data, *end; s != NULL && (end = strchr(s, '\n')) != NULL; s = end + 1) {
        json_t *line = json_loadb(s, (size_t)(end - s), 0, NULL);

        assert_true(json_is_object(line));
        json_array_append_new(all, line);
    }
    buf_release(&b);
    return all;
}

static struct audit_log *open_log(const char *path)
{
    struct audit_log *a = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    assert_int_equal(audit_log_open(path, &a, &err), 0);
    return a;
}

static void test_line(void **state)
{
    const struct audit_event e = {.role = "tenant",
                                  .name = "ann",
                                  .by = "admin",
                                  .local = true,
                                  .uid = 7,
                                  .pid = 8,
                                  .address = "unix",
                                  .request = "r1",
                                  .action = "dataset.evict",
                                  .object = "birds",
                                  .tenant = "bob",
                                  .outcome = AUDIT_FAILED,
                                  .status = 503,
                                  .reason = "away"};
    struct buf b = BUF_INIT;

    (void)state;
    audit_event_json(&e, 1000, &b);
    assert_string_equal(buf_str(&b),
                        "{\"time\":\"1970-01-01T00:00:01.000Z\",\"actor\":{\"role\":\"tenant\","
                        "\"name\":\"ann\",\"by\":\"admin\",\"uid\":7,\"pid\":8},"
                        "\"address\":\"unix\",\"request\":\"r1\",\"action\":\"dataset.evict\","
                        "\"object\":\"birds\",\"tenant\":\"bob\",\"outcome\":\"failed\","
                        "\"status\":503,\"reason\":\"away\"}");
    buf_release(&b);
}

/* Whatever a name holds, the line stays one line of JSON, and other members stay as they are. */
static void test_hostile_names(void **state)
{
    static const struct {
        const char *name, *shown; /* NULL: as it is */
    } names[] = {
        {"a\",\"outcome\":\"ok", NULL},
        {"a\\", NULL},
        {"a\n{\"action\":\"forged\"}", NULL},
        {"\x1b[31mred\x7f\t\r", NULL},
        {"\xc2\x9b"
         "31m",
         NULL},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xa6", NULL},
        {"x\xff\xfey", "x\xef\xbf\xbd\xef\xbf\xbdy"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(names); i++) {
        struct audit_event e = refused;
        struct buf b = BUF_INIT;
        json_t *line;

        e.name = e.object = e.reason = names[i].name;
        audit_event_json(&e, 0, &b);
        for (size_t k = 0; k < b.len; k++)
            assert_true((unsigned char)b.data[k] >= 0x20 && b.data[k] != 0x7f);
        assert_null(strstr(b.data, "\xc2\x9b"));
        line = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(line);
        assert_string_equal(text_of(line, "object"),
                            names[i].shown != NULL ? names[i].shown : names[i].name);
        assert_string_equal(text_of(line, "outcome"), "refused");
        json_decref(line);
        buf_release(&b);
    }
}

static void test_long_text_is_cut(void **state)
{
    char big[5000];
    struct audit_event e = done;
    struct buf b = BUF_INIT;
    json_t *line;

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    memcpy(big + AUDIT_TEXT_MAX - 1, "\xe2\x82\xac", 3); /* over the edge: kept whole */
    e.object = big;
    audit_event_json(&e, 0, &b);
    line = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(line);
    assert_int_equal(strlen(text_of(line, "object")), AUDIT_TEXT_MAX + 2 + 3);
    json_decref(line);
    buf_release(&b);
}

/* A file that was renamed away is left alone; the path has the lines that follow. */
static void test_rotation(void **state)
{
    char path[256], old[256];
    struct audit_log *a;
    json_t *lines;
    struct stat st;

    (void)state;
    unit_path("rotated", path);
    unit_path("rotated.1", old);
    a = open_log(path);
    audit_log_write(a, &done);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(rename(path, old), 0);
    dlc_clock_advance(DLC_SEC(2));
    audit_log_write(a, &refused);
    lines = lines_of(path);
    assert_int_equal(json_array_size(lines), 1);
    assert_string_equal(text_of(json_array_get(lines, 0), "outcome"), "refused");
    json_decref(lines);
    lines = lines_of(old);
    assert_int_equal(json_array_size(lines), 1);
    json_decref(lines);
    audit_log_close(&a);
    unlink(path);
    unlink(old);
}

/* As on a full disk: the limit on the size of files cuts a line, then refuses others. */
static void test_lost_lines_are_counted(void **state)
{
    struct rlimit was, small;
    char path[256];
    struct audit_log *a;
    json_t *lines;
    size_t n;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    unit_path("full", path);
    a = open_log(path);
    audit_log_write(a, &done);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = (struct rlimit){150, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 3; i++)
        audit_log_write(a, &done);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(audit_log_lost(a), 3);
    audit_log_write(a, &done);
    audit_log_close(&a);

    /* The cut line is closed by a newline: only that one is not JSON. */
    {
        struct buf b = BUF_INIT;
        char *cut, *rest;

        assert_int_equal(os_read_file(path, 100000, &b, NULL), 0);
        cut = strchr(b.data, '\n') + 1;
        rest = strchr(cut, '\n') + 1;
        assert_true(rest - b.data == 151);
        assert_int_equal(os_write_file(path, rest, strlen(rest), 0600, NULL), 0);
        buf_release(&b);
    }
    lines = lines_of(path);
    n = json_array_size(lines);
    assert_int_equal(n, 2);
    assert_string_equal(text_of(json_array_get(lines, 0), "action"), "audit.lost");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(lines, 0), "failed")), 3);
    json_decref(lines);
    unlink(path);
}

static void test_refusals_are_limited(void **state)
{
    char path[256];
    struct audit_log *a;
    json_t *lines;

    (void)state;
    unit_path("flood", path);
    a = open_log(path);
    dlc_clock_advance(DLC_SEC(2));
    for (int i = 0; i < AUDIT_REFUSALS + 30; i++)
        audit_log_write(a, &refused);
    assert_true(audit_log_lost(a) > 0);
    dlc_clock_advance(DLC_SEC(2));
    audit_log_write(a, &done);
    lines = lines_of(path);
    /* A slow machine may take more than a second for them: then more are allowed. */
    assert_int_equal(json_array_size(lines) - 2 + audit_log_lost(a), AUDIT_REFUSALS + 30);
    assert_string_equal(text_of(json_array_get(lines, json_array_size(lines) - 2), "action"),
                        "audit.lost");
    json_decref(lines);
    audit_log_close(&a);
    unlink(path);
}

static void test_no_log(void **state)
{
    struct audit_log *a = NULL;
    struct dlc_err err = DLC_ERR_INIT;

    (void)state;
    audit_log_write(NULL, &done);
    assert_int_equal(audit_log_lost(NULL), 0);
    assert_true(audit_log_open("/nowhere/at/all", &a, &err) < 0);
    assert_null(a);
    assert_non_null(strstr(err.text, "--audit-log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_lost_lines_are_counted),
        cmocka_unit_test(test_refusals_are_limited),
        cmocka_unit_test(test_no_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
