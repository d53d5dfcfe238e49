// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

static struct scanning k;
static struct buf made = BUF_INIT;

#define ZIP                                                                                        \
    "z = zipfile.ZipFile(OUT, 'w')\n"                                                              \
    "def add(name, data, how=zipfile.ZIP_DEFLATED, mode=0o100644, extra=b''):\n"                   \
    "    i = zipfile.ZipInfo(name); i.external_attr = mode << 16; i.extra = extra\n"               \
    "    z.writestr(i, data, compress_type=how)\n"

static void test_members(void **state)
{
    (void)state;
    scanning_make(&made, ZIP "add('a.txt', 'stored', zipfile.ZIP_STORED)\n"
                             "add('b.txt', 'deflated ' * 10)\n"
                             "add('dir/', '', zipfile.ZIP_STORED)\n"
                             "add('link', '/etc/passwd', zipfile.ZIP_STORED, 0o120777)\n"
                             "add('dir/c.txt', 'bzip2', zipfile.ZIP_BZIP2)\n"
                             "add('empty', '')\n"
                             "add('empty stored', '', zipfile.ZIP_STORED)\n"
                             "add('last', 'z', zipfile.ZIP_STORED, 0o010660, b'\\xfe\\xca\\0\\0')\n"
                             "z.comment = b'a comment'\n"
                             "z.close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    assert_int_equal(k.n, 6);
    assert_int_equal(k.skipped, 2);
    scanning_expect(&k, 0, "a.txt", "stored");
    scanning_expect(&k, 2, "dir/c.txt", "bzip2");
    scanning_expect(&k, 3, "empty", "");
    scanning_expect(&k, 4, "empty stored", "");
    scanning_expect(&k, 5, "last", "z");
    assert_int_equal(k.samples[0].pieces[0].kind, PIECE_OBJECT);
    assert_int_equal(k.samples[1].pieces[0].kind, PIECE_DERIVED);
    assert_int_equal(k.samples[1].pieces[0].length, 90);
    assert_int_equal(k.derived.len, 95);
    k.limits.max_members = 7;
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_EINVAL);
    k.limits.max_members = 0;
}

static void test_written_as_a_stream(void **state)
{
    (void)state;
    scanning_make(&made, "class Pipe(io.RawIOBase):\n"
                         "    f = open(OUT, 'wb')\n"
                         "    def writable(self): return True\n"
                         "    def write(self, b): return self.f.write(b)\n"
                         "z = zipfile.ZipFile(Pipe(), 'w', zipfile.ZIP_DEFLATED)\n"
                         "z.writestr('a', 'first')\n"
                         "z.writestr('b', 'second')\n"
                         "z.close(); Pipe.f.close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    assert_int_equal(k.n, 2);
    scanning_expect(&k, 1, "b", "second");
}

static void test_groups_are_tars(void **state)
{
    struct scanning again = {0};
    struct buf group = BUF_INIT;

    (void)state;
    scanning_make(&made, ZIP "add('s/1.jpg', 'jpeg', zipfile.ZIP_STORED)\n"
                             "add('s/1.txt', 'words')\n"
                             "add('s/' + '2' * 120 + '.txt', 'more', zipfile.ZIP_STORED)\n"
                             "z.close()\n");
    k.limits.group = true;
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    k.limits.group = false;
    assert_int_equal(k.n, 2);
    assert_string_equal(k.samples[0].name, "s/1");
    for (size_t i = 0; i < 2; i++) {
        buf_clear(&group);
        buf_add(&group, scanning_bytes(&k, i)->data, scanning_bytes(&k, i)->len);
        end_tar(&group);
        assert_int_equal(scanning_run(&again, "group.tar", group.data, group.len), 0);
        assert_int_equal(again.n, 2 - i);
        if (i == 0)
            scanning_expect(&again, 1, "s/1.txt", "words");
    }
    assert_int_equal(strlen(again.samples[0].name), 126);
    scanning_release(&again);
    buf_release(&group);
}

/* A member with sizes in its extra field, and end records as a large archive has them. */
static void test_zip64(void **state)
{
    (void)state;
    scanning_make(&made, "z = zipfile.ZipFile(OUT, 'w')\n"
                         "with z.open('big', 'w', force_zip64=True) as f: f.write(b'large')\n"
                         "z.writestr('small', 'little')\n"
                         "z.close()\n"
                         "d = open(OUT, 'rb').read()\n"
                         "end = d.rindex(b'PK\\5\\6')\n"
                         "n, size, at = struct.unpack('<HLL', d[end + 10:end + 20])\n"
                         "d64 = struct.pack('<4sQHHLLQQQQ', b'PK\\6\\6', 44, 45, 45, 0, 0, n, n, "
                         "size, at)\n"
                         "loc = struct.pack('<4sLQL', b'PK\\6\\7', 0, end, 1)\n"
                         "e = struct.pack('<4sHHHHLLH', b'PK\\5\\6', 0, 0, 65535, 65535, "
                         "0xffffffff, 0xffffffff, 0)\n"
                         "open(OUT, 'wb').write(d[:end] + d64 + loc + e)\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    assert_int_equal(k.n, 2);
    scanning_expect(&k, 0, "big", "large");
    scanning_expect(&k, 1, "small", "little");
    scanning_cut_everywhere(&k, "box.zip", &made, 1000);
}

static char *find(const char *what, size_t len)
{
    char *p = memmem(made.data, made.len, what, len);

    assert_non_null(p);
    return p;
}

/* Two members, the second of them deflated; then one thing is made wrong. */
static void two_members(void)
{
    scanning_make(&made, ZIP "add('one', 'first', zipfile.ZIP_STORED)\n"
                             "add('two', 'second ' * 20)\n"
                             "z.close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
}

static void test_hostile_fields(void **state)
{
    static const struct {
        size_t at; /* in the directory entry of "two", or of the end record */
        bool end;
        uint32_t value;
        unsigned bytes;
        const char *says;
        int code;
    } cases[] = {
        {8, false, 1, 2, "'two' is encrypted", DLC_EINVAL},
        {10, false, 99, 2, "encrypted", DLC_EINVAL},
        {10, false, 9, 2, "method 9", DLC_EINVAL},
        {10, false, 0, 2, "two sizes", DLC_ECORRUPT},
        {16, false, 1, 4, "CRC", DLC_ECORRUPT},
        {20, false, 3, 4, "size", DLC_ECORRUPT},
        {20, false, 200, 4, "lies outside", DLC_ECORRUPT},
        {24, false, 100, 4, "size", DLC_ECORRUPT},
        {24, false, 141, 4, "size", DLC_ECORRUPT},
        {24, false, 0x7fffffff, 4, "max_ratio", DLC_EINVAL},
        {24, false, 0xffffffff, 4, "max_ratio", DLC_EINVAL},
        {28, false, 2, 2, "ends early", DLC_ECORRUPT},
        {28, false, 0xffff, 2, "ends early", DLC_ECORRUPT},
        {30, false, 3, 2, "ends early", DLC_ECORRUPT},
        {42, false, 0, 4, "same member", DLC_ECORRUPT},
        {42, false, 1, 4, "", DLC_ECORRUPT},
        {42, false, 0x7fffffff, 4, "lies outside", DLC_ECORRUPT},
        {0, false, 0, 4, "bad directory entry", DLC_ECORRUPT},
        {4, true, 1, 2, "several parts", DLC_EINVAL},
        {10, true, 3, 2, "number of entries", DLC_ECORRUPT},
        {12, true, 0x7fffffff, 4, "lies outside", DLC_ECORRUPT},
        {12, true, 10, 4, "ends early", DLC_ECORRUPT},
        {16, true, 0x7fffffff, 4, "lies outside", DLC_ECORRUPT},
        {20, true, 1, 2, "no directory", DLC_ECORRUPT},
    };
    char *whole;

    (void)state;
    two_members();
    whole = mem_strn(made.data, made.len);
    for (size_t i = 0; i < unit_count(cases); i++) {
        char *base;

        memcpy(made.data, whole, made.len);
        base = find("PK\1\2", 4);
        if (cases[i].end)
            base = find("PK\5\6", 4);
        else
            base = memmem(base + 4, 200, "PK\1\2", 4);
        memcpy(base + cases[i].at, &cases[i].value, cases[i].bytes);
        assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), cases[i].code);
        if (strstr(k.err.text, cases[i].says) == NULL)
            fail_msg("case %zu: %s", i, k.err.text);
    }
    mem_free(&whole);
}

static void test_hostile_names(void **state)
{
    static const char *const names[] = {"/xx", "\\xx", "\0xx"};

    (void)state;
    for (size_t i = 0; i < unit_count(names); i++) {
        two_members();
        memcpy((char *)memmem(find("PK\1\2", 4), 100, "one", 3), names[i], 3);
        assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_EINVAL);
        assert_int_equal(k.n, 0);
    }
    scanning_make(&made, ZIP "add('a/../../b', 'x')\nz.close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "'a/../../b' has '..'"));
}

static void test_overlap(void **state)
{
    char *local;

    (void)state;
    two_members();
    local = find("PK\3\4", 4);
    local[26] = 0x7f; /* the first one's name reaches into the second */
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "'one' reaches into the next"));
    local[0] = 'X';
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "does not lie"));
}

static void test_bomb(void **state)
{
    (void)state;
    scanning_make(&made, ZIP "add('bomb', b'\\0' * (20 << 20))\nz.close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "max_ratio"));
    assert_int_equal(k.derived.len, 0);
    k.limits.max_ratio = 2000;
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    assert_int_equal(k.derived.len, 20 << 20);
    k.limits.max_derived = 1000;
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "max_derived"));
    k.limits.max_derived = 0;
    k.limits.max_ratio = 0;
}

static void test_many_members_need_few_reads(void **state)
{
    (void)state;
    scanning_make(&made, "z = zipfile.ZipFile(OUT, 'w')\n"
                         "for i in range(5000): z.writestr('%d.txt' % i, 'x' * 100)\n"
                         "z.close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    assert_int_equal(k.n, 5000);
    assert_string_equal(k.samples[4999].name, "4999.txt");
    assert_true(k.reads < 20);
}

static void test_cut_short_and_failures(void **state)
{
    (void)state;
    two_members();
    scanning_cut_everywhere(&k, "box.zip", &made, 1000);
    scanning_fail_everywhere(&k, "box.zip", &made);
    scanning_make(&made, "zipfile.ZipFile(OUT, 'w').close()\n");
    assert_int_equal(scanning_run(&k, "box.zip", made.data, made.len), 0);
    assert_int_equal(k.n, 0);
}

static int tear_down(void **state)
{
    (void)state;
    scanning_release(&k);
    buf_release(&made);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_written_as_a_stream),
        cmocka_unit_test(test_groups_are_tars),
        cmocka_unit_test(test_zip64),
        cmocka_unit_test(test_hostile_fields),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_many_members_need_few_reads),
        cmocka_unit_test(test_cut_short_and_failures),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
