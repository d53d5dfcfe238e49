// SPDX-License-Identifier: Apache-2.0
/* file:// buckets on a real directory: odd names, links, versions, faults. */
#include "bucket/bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "bucket/origins/file_i.h"

static char root[64];
static bool confined; /* the buckets that tests open */

static int set_up(void **state)
{
    (void)state;
    strcpy(root, "/tmp/dlcache-file-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    confined = false;
    os_rmtree(root);
    return 0;
}

static void put(const char *key, const void *data, size_t len)
{
    char *path = mem_fmt("%s/%s", root, key), *slash = strrchr(path, '/');

    *slash = '\0';
    assert_int_equal(os_mkdirs(path, 0755), 0);
    *slash = '/';
    assert_int_equal(os_write_file(path, data, len, 0644, NULL), 0);
    mem_free(&path);
}

static void link_to(const char *target, const char *key)
{
    char *path = mem_fmt("%s/%s", root, key);

    assert_int_equal(symlink(target, path), 0);
    mem_free(&path);
}

static struct bucket *open_at(const char *path)
{
    struct bucket_config config = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT;
    struct bucket *b = NULL;
    char *text = mem_fmt("file://%s", path);

    config.retries = 1;
    config.confined = confined;
    assert_int_equal(url_parse(&u, text, &err), 0);
    assert_int_equal(bucket_open(&u, &config, &b, &err), 0);
    url_release(&u);
    mem_free(&text);
    return b;
}

/* ---- listing ---- */

struct listed {
    char *keys[64], *etags[64];
    uint64_t sizes[64];
    size_t n;
};

static bool on_page(struct bucket_list *l, const struct bucket_object *o, size_t n)
{
    struct listed *x = l->priv;

    for (size_t i = 0; i < n; i++) {
        assert_true(x->n < 64);
        x->keys[x->n] = mem_str(o[i].key);
        x->etags[x->n] = mem_str(o[i].etag);
        x->sizes[x->n++] = o[i].size;
    }
    return true;
}

static int list(struct bucket *b, const char *prefix, struct listed *x, struct dlc_err *err)
{
    memset(x, 0, sizeof(*x));
    return bucket_list_wait(b, prefix, on_page, x, err);
}

static void listed_release(struct listed *x)
{
    for (size_t i = 0; i < x->n; i++) {
        mem_free(&x->keys[i]);
        mem_free(&x->etags[i]);
    }
}

static int find(const struct listed *x, const char *key)
{
    for (size_t i = 0; i < x->n; i++) {
        if (strcmp(x->keys[i], key) == 0)
            return (int)i;
    }
    return -1;
}

static const char *const odd_names[] = {
    "plain",
    " leading and trailing ",
    "new\nline",
    "tab\t",
    "percent%20",
    "plus+",
    "question?a=b",
    "star*",
    "back\\slash",
    "quote'\"",
    "\xc3\xa9t\xc3\xa9",
    "not utf-8 \xff\xfe",
    "...",
    ".hidden",
    "-dash",
    "deep/er/\x01\x7f",
};

static void test_odd_names(void **state)
{
    struct bucket *b = open_at(root);
    struct dlc_err err = DLC_ERR_INIT;
    struct listed x;

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(odd_names); i++)
        put(odd_names[i], odd_names[i], strlen(odd_names[i]));
    put("empty", "", 0);
    assert_int_equal(list(b, NULL, &x, &err), 0);
    assert_int_equal(x.n, DLC_COUNT(odd_names) + 1);
    for (size_t i = 0; i < DLC_COUNT(odd_names); i++) {
        size_t len = strlen(odd_names[i]);
        int at = find(&x, odd_names[i]);
        char data[64];

        assert_true(at >= 0);
        assert_int_equal(x.sizes[at], len);
        assert_int_equal(bucket_read_wait(b, odd_names[i], x.etags[at], 0, len, true, data, &err),
                         0);
        assert_memory_equal(data, odd_names[i], len);
    }
    assert_int_equal(x.sizes[find(&x, "empty")], 0);
    assert_int_equal(bucket_read_wait(b, "empty", NULL, 0, 0, true, NULL, &err), 0);
    listed_release(&x);
    bucket_close(&b);
}

static void test_links_and_special_files(void **state)
{
    struct bucket *b = open_at(root);
    struct dlc_err err = DLC_ERR_INIT;
    struct listed x;
    char *path = mem_fmt("%s/pipe", root);

    (void)state;
    put("real/a", "a", 1);
    put("real/sub/b", "b", 1);
    assert_int_equal(mkfifo(path, 0600), 0);
    mem_free(&path);
    link_to("real/a", "to-file");
    link_to("real", "to-dir");
    link_to("nowhere", "dangling");
    link_to("self", "self");
    link_to("..", "real/loop");
    link_to("../../real/sub", "real/sub/again");
    assert_int_equal(list(b, NULL, &x, &err), 0);
    assert_int_equal(x.n, 5);
    assert_true(find(&x, "real/a") >= 0 && find(&x, "real/sub/b") >= 0);
    assert_true(find(&x, "to-dir/a") >= 0 && find(&x, "to-dir/sub/b") >= 0);
    assert_true(find(&x, "to-file") >= 0);
    listed_release(&x);
    /* a pipe is no object, and opening it must not wait for a writer */
    assert_int_equal(bucket_read_wait(b, "pipe", NULL, 0, 0, true, NULL, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(bucket_read_wait(b, "real", NULL, 0, 0, true, NULL, &err), DLC_ENOTFOUND);
    bucket_close(&b);
}

static void test_prefixes(void **state)
{
    struct bucket *b = open_at(root);
    struct dlc_err err = DLC_ERR_INIT;
    struct listed x;

    (void)state;
    put("train/a/1", "", 0);
    put("train/b/2", "", 0);
    put("trailer", "", 0);
    put("other", "", 0);
    assert_int_equal(list(b, "train/", &x, &err), 0);
    assert_int_equal(x.n, 2);
    assert_true(find(&x, "train/a/1") >= 0);
    listed_release(&x);
    assert_int_equal(list(b, "tra", &x, &err), 0);
    assert_int_equal(x.n, 3);
    listed_release(&x);
    assert_int_equal(list(b, "train/b", &x, &err), 0);
    assert_int_equal(x.n, 1);
    listed_release(&x);
    assert_int_equal(list(b, "none/such/", &x, &err), 0);
    assert_int_equal(x.n, 0);
    assert_int_equal(list(b, "../", &x, &err), DLC_EINVAL);
    bucket_close(&b);
}

/* Flat, as an origin without folders would be asked: the same objects in one attempt. */
static void test_flat(void **state)
{
    struct attempt a = {.op = ATTEMPT_LIST, .prefix = ""};
    _Atomic bool stop = false;
    struct file_work w = {.a = &a, .root = root, .stop = &stop};

    (void)state;
    put("x/y/1", "", 0);
    put("x/2", "", 0);
    put("3", "", 0);
    link_to("..", "x/up");
    file_list(&w);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.n_objects, 3);
    assert_int_equal(a.n_folders, 0);
    attempt_clear(&a);
}

static int list_flat(const char *prefix, size_t *n)
{
    struct attempt a = {.op = ATTEMPT_LIST, .prefix = prefix};
    _Atomic bool stop = false;
    struct file_work w = {.a = &a, .root = root, .stop = &stop};
    int rc;

    file_list(&w);
    rc = a.rc;
    *n = a.n_objects;
    attempt_clear(&a);
    return rc;
}

/* Directories side by side are as many as they like; one in the other, 128 are too deep. */
static void test_deep_and_wide(void **state)
{
    enum { DEEP = 128 };
    struct buf key = BUF_INIT;
    size_t n;

    (void)state;
    for (unsigned i = 0; i < 2 * DEEP; i++) {
        char name[16];

        snprintf(name, sizeof(name), "wide/%u/k", i);
        put(name, "", 0);
    }
    assert_int_equal(list_flat("wide/", &n), 0);
    assert_int_equal(n, 2 * DEEP);
    for (unsigned i = 0; i + 1 < DEEP; i++)
        buf_adds(&key, "d/");
    buf_adds(&key, "k");
    put(buf_str(&key), "", 0);
    assert_int_equal(list_flat("", &n), 0); /* with the root it is 128 */
    assert_int_equal(n, 2 * DEEP + 1);
    key.len--;
    buf_adds(&key, "d/k");
    put(buf_str(&key), "", 0);
    assert_int_equal(list_flat("", &n), DLC_EINVAL);
    key.len--;
    assert_int_equal(list_flat("d/", &n), DLC_EINVAL);
    buf_release(&key);
}

static void test_missing_directory(void **state)
{
    struct bucket *b = open_at("/tmp/dlcache-no-such-directory/x");
    struct dlc_err err = DLC_ERR_INIT;
    struct listed x;
    char data[1];

    (void)state;
    assert_int_equal(list(b, NULL, &x, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "/tmp/dlcache-no-such-directory/x"));
    assert_non_null(strstr(err.text, "check the path"));
    assert_int_equal(bucket_read_wait(b, "k", NULL, 0, 1, true, data, &err), DLC_ENOTFOUND);
    bucket_close(&b);
}

static void test_single_file(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket_stat st;
    struct bucket *b;
    struct listed x;
    char *path = mem_fmt("%s/only.bin", root), data[5];

    (void)state;
    put("only.bin", "hello", 5);
    put("beside", "x", 1);
    b = open_at(path);
    assert_int_equal(list(b, NULL, &x, &err), 0);
    assert_int_equal(x.n, 1);
    assert_string_equal(x.keys[0], "only.bin");
    assert_int_equal(bucket_read_wait(b, "only.bin", x.etags[0], 0, 5, true, data, &err), 0);
    assert_memory_equal(data, "hello", 5);
    assert_int_equal(bucket_stat_wait(b, "only.bin", &st, &err), 0);
    assert_string_equal(st.etag, x.etags[0]);
    assert_int_equal(bucket_read_wait(b, "beside", NULL, 0, 1, true, data, &err), DLC_ENOTFOUND);
    listed_release(&x);
    bucket_close(&b);
    mem_free(&path);
}

/* ---- reading ---- */

static void test_ranges_and_stat(void **state)
{
    struct bucket *b = open_at(root);
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket_stat st;
    char data[8];

    (void)state;
    put("k", "0123456789", 10);
    assert_int_equal(bucket_stat_wait(b, "k", &st, &err), 0);
    assert_int_equal(st.size, 10);
    assert_int_equal(bucket_read_wait(b, "k", st.etag, 3, 4, false, data, &err), 0);
    assert_memory_equal(data, "3456", 4);
    assert_int_equal(bucket_read_wait(b, "k", NULL, 8, 4, false, data, &err), DLC_ECORRUPT);
    assert_non_null(strstr(err.text, "has 10 bytes"));
    assert_int_equal(bucket_read_wait(b, "k", NULL, 99, 0, false, data, &err), DLC_ECORRUPT);
    assert_int_equal(bucket_stat_wait(b, "none", &st, &err), DLC_ENOTFOUND);
    assert_non_null(strstr(err.text, "no object none"));
    bucket_close(&b);
}

static void test_changed_file(void **state)
{
    struct bucket *b = open_at(root);
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket_stat before, after;
    char data[5];

    (void)state;
    put("k", "first", 5);
    assert_int_equal(bucket_stat_wait(b, "k", &before, &err), 0);
    put("k", "other", 5); /* same size, another inode */
    assert_int_equal(bucket_stat_wait(b, "k", &after, &err), 0);
    assert_string_not_equal(before.etag, after.etag);
    assert_int_equal(bucket_read_wait(b, "k", before.etag, 0, 5, true, data, &err), DLC_ECHANGED);
    assert_non_null(strstr(err.text, "k in "));
    assert_non_null(strstr(err.text, before.etag));
    assert_non_null(strstr(err.text, after.etag));
    assert_int_equal(bucket_read_wait(b, "k", after.etag, 0, 5, true, data, &err), 0);
    assert_memory_equal(data, "other", 5);
    bucket_close(&b);
}

static void test_keys_that_escape(void **state)
{
    static const char *const keys[] = {"..", "../x", "a/../../x", "/etc/passwd", "a/.."};
    struct bucket *b = open_at(root);
    char data[1];

    (void)state;
    for (size_t i = 0; i < DLC_COUNT(keys); i++) {
        struct dlc_err err = DLC_ERR_INIT;

        assert_int_equal(bucket_read_wait(b, keys[i], NULL, 0, 1, false, data, &err), DLC_EINVAL);
        assert_non_null(strstr(err.text, "leads out"));
    }
    bucket_close(&b);
}

/* Confined, links that stay below the root are followed, and others are neither listed nor read. */
static void test_links_that_escape(void **state)
{
    static const char *const out[] = {"absolute", "relative", "directory/secret", "sub/up/secret"};
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b;
    struct listed x;
    char *top = mem_str(root), *target = mem_fmt("%s/secret", root), data[4];

    (void)state;
    put("secret", "key", 3);
    put("team/sub/a", "own", 3);
    strcat(root, "/team"); /* links are made there from now on */
    link_to(target, "absolute");
    link_to("../secret", "relative");
    link_to("..", "directory");
    link_to("../..", "sub/up");
    link_to("sub/a", "inside");
    link_to("sub", "folder");
    for (unsigned k = 0; k < 2; k++) {
        confined = k == 1;
        b = open_at(root);
        for (size_t i = 0; i < DLC_COUNT(out); i++)
            assert_int_equal(bucket_read_wait(b, out[i], NULL, 0, 3, false, data, &err),
                             confined ? DLC_EDENIED : 0);
        assert_true(!confined || strstr(err.text, "leads out") != NULL);
        assert_int_equal(bucket_read_wait(b, "inside", NULL, 0, 3, false, data, &err), 0);
        assert_int_equal(bucket_read_wait(b, "folder/a", NULL, 0, 3, false, data, &err), 0);
        assert_memory_equal(data, "own", 3);
        assert_int_equal(list(b, "directory/", &x, &err), 0);
        assert_int_equal(x.n > 0, !confined);
        listed_release(&x);
        assert_int_equal(list(b, "", &x, &err), 0);
        for (size_t i = 0; confined && i < x.n; i++)
            assert_null(strstr(x.keys[i], "secret"));
        assert_true(confined ? x.n == 3 : x.n > 3); /* sub/a, inside, folder/a */
        listed_release(&x);
        bucket_close(&b);
    }
    strcpy(root, top);
    mem_free(&target);
    mem_free(&top);
}

/* A sandbox or an old kernel refuses openat2(): the error says where, and what to do. */
static void test_openat2_is_refused(void **state)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct bucket *b;
    struct listed x;
    char data[4];

    (void)state;
    put("sub/a", "own", 3);
    confined = true;
    b = open_at(root);
    for (int nth = 1; nth <= 3; nth++) {
        fault_plan(&(struct fault_plan){
            .calls = FAULT_CALL(open), .nth = nth, .times = 100, .error = ENOSYS});
        assert_int_equal(list(b, "", &x, &err), DLC_EIO);
        assert_true(fault_disarm());
        assert_non_null(strstr(err.text, root));
        assert_non_null(strstr(err.text, "openat2()"));
        listed_release(&x);
    }
    fault_plan(
        &(struct fault_plan){.calls = FAULT_CALL(open), .nth = 2, .times = 100, .error = ENOSYS});
    assert_int_equal(bucket_read_wait(b, "sub/a", NULL, 0, 3, false, data, &err), DLC_EIO);
    assert_true(fault_disarm());
    assert_non_null(strstr(err.text, "openat2()"));
    bucket_close(&b);
}

static void test_large_file_in_parts(void **state)
{
    const size_t len = (40u << 20) + 7;
    struct bucket *b = open_at(root);
    struct dlc_err err = DLC_ERR_INIT;
    char *data = mem_alloc(len), *back = mem_zero(len);

    (void)state;
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 31 + (i >> 13));
    put("big", data, len);
    assert_int_equal(bucket_read_wait(b, "big", NULL, 0, len, true, back, &err), 0);
    assert_memory_equal(data, back, len);
    mem_free(&data);
    mem_free(&back);
    bucket_close(&b);
}

/* Closing while workers read: nothing is left behind (run under the sanitizers). */
static _Atomic unsigned dones;

static void on_read(struct bucket_read *r)
{
    assert_true(r->rc == 0 || r->rc == DLC_ECANCELED);
    dones++;
}

static void test_close_while_reading(void **state)
{
    enum { N = 400, LEN = 300000 };
    struct bucket_read *r = mem_zero(N * sizeof(*r));
    char *data = mem_zero(LEN), *dst = mem_alloc((size_t)N * LEN);

    (void)state;
    put("k", data, LEN);
    for (int round = 0; round < 10; round++) {
        struct bucket *b = open_at(root);

        dones = 0;
        for (size_t i = 0; i < N; i++) {
            r[i] = (struct bucket_read){
                .key = "k", .length = LEN, .dst = dst + i * LEN, .done = on_read};
            bucket_read(b, &r[i]);
        }
        while (dones < (unsigned)round * 8)
            ;
        bucket_close(&b);
        assert_int_equal(dones, N);
    }
    mem_free(&r);
    mem_free(&data);
    mem_free(&dst);
}

/* ---- faults ---- */

/* Each system call of a read fails once: an error or success, never wrong bytes; and what may pass
 * is retryable. */
static void test_read_faults(void **state)
{
    bool fired = true;

    (void)state;
    put("k", "0123456789", 10);
    for (int nth = 1; fired; nth++) {
        char data[10] = "";
        struct attempt a = {.op = ATTEMPT_GET, .key = "k", .length = 10, .dst = data};
        _Atomic bool stop = false;
        struct file_work w = {.a = &a, .root = root, .stop = &stop};

        fault_arm(FAULT_SYSCALL, nth);
        file_get(&w);
        fired = fault_disarm();
        assert_true(fired || a.rc == 0);
        if (fired)
            assert_true(a.rc < 0 && a.err.text[0] != '\0' && a.retryable);
        else
            assert_memory_equal(data, "0123456789", 10);
        attempt_clear(&a);
    }
}

/* A listing that misses objects would be a dataset that misses samples. */
static void list_with_faults(const char *prefix, size_t n_objects)
{
    bool fired = true;

    for (int nth = 1; fired; nth++) {
        struct attempt a = {.op = ATTEMPT_LIST, .prefix = prefix};
        _Atomic bool stop = false;
        struct file_work w = {.a = &a, .root = root, .confined = confined, .stop = &stop};

        fault_arm(FAULT_SYSCALL, nth);
        file_list(&w);
        fired = fault_disarm();
        assert_true(fired ? a.rc < 0 : a.rc == 0);
        if (!fired)
            assert_int_equal(a.n_objects, n_objects);
        attempt_clear(&a);
    }
}

static void test_list_faults(void **state)
{
    (void)state;
    put("a/b/c", "", 0);
    put("a/d", "", 0);
    for (unsigned k = 0; k < 2; k++) {
        confined = k == 1;
        list_with_faults("", 2);
        list_with_faults("a/b/", 1);
    }
}

static void test_no_threads(void **state)
{
    const struct bucket_config config = BUCKET_CONFIG_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct url u = URL_INIT;
    char *text = mem_fmt("file://%s", root);

    (void)state;
    assert_int_equal(url_parse(&u, text, &err), 0);
    for (unsigned told = 0; told < 2; told++) {
        struct origin *o = (struct origin *)(void *)&u; /* whatever was there before */

        fault_plan(&(struct fault_plan){.calls = FAULT_CALL(thread), .nth = 1});
        assert_true(origin_file_new(&u, &config, 1, &o, told == 1 ? &err : NULL) < 0);
        assert_true(fault_disarm());
        assert_null(o);
    }
    assert_true(err.code < 0);
    url_release(&u);
    mem_free(&text);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_odd_names),
        CASE(test_links_and_special_files),
        CASE(test_prefixes),
        CASE(test_flat),
        CASE(test_deep_and_wide),
        CASE(test_missing_directory),
        CASE(test_single_file),
        CASE(test_ranges_and_stat),
        CASE(test_changed_file),
        CASE(test_keys_that_escape),
        CASE(test_links_that_escape),
        CASE(test_openat2_is_refused),
        CASE(test_large_file_in_parts),
        CASE(test_close_while_reading),
        CASE(test_read_faults),
        CASE(test_list_faults),
        CASE(test_no_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
