// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

static struct scanning k;
static struct buf made = BUF_INIT;

#define TAR_OF(format)                                                                             \
    "t = tarfile.open(OUT, 'w', format=tarfile." format ")\n"                                      \
    "def add(name, data=b'', **more):\n"                                                           \
    "    i = tarfile.TarInfo(name); i.size = len(data)\n"                                          \
    "    for a, v in more.items(): setattr(i, a, v)\n"                                             \
    "    t.addfile(i, io.BytesIO(data))\n"

static void test_members_are_ranges(void **state)
{
    static const char *const formats[] = {"USTAR_FORMAT", "GNU_FORMAT", "PAX_FORMAT"};

    (void)state;
    for (size_t i = 0; i < unit_count(formats); i++) {
        char *program = mem_fmt("%s"
                                "add('a.txt', b'first')\n"
                                "add('dir', type=tarfile.DIRTYPE)\n"
                                "add('dir/empty')\n"
                                "add('link', type=tarfile.SYMTYPE, linkname='/etc/passwd')\n"
                                "add('hard', type=tarfile.LNKTYPE, linkname='a.txt')\n"
                                "add('dev', type=tarfile.CHRTYPE)\n"
                                "add('./dir/' + 'n' * 90 + '/' + 'm' * 80, b'x' * 512)\n"
                                "add('last', b'y' * 513)\n"
                                "t.close()\n",
                                TAR_OF("@"));
        char *at = strchr(program, '@');
        char *whole = mem_fmt("%.*s%s%s", (int)(at - program), program, formats[i], at + 1);

        scanning_make(&made, whole);
        assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
        assert_int_equal(k.n, 4);
        assert_int_equal(k.skipped, 4);
        scanning_expect(&k, 0, "a.txt", "first");
        scanning_expect(&k, 1, "dir/empty", "");
        assert_int_equal(strlen(k.samples[2].name), 4 + 90 + 1 + 80);
        assert_int_equal(k.samples[2].pieces[0].length, 512);
        assert_int_equal(k.samples[3].pieces[0].length, 513);
        assert_int_equal(k.samples[3].pieces[0].kind, PIECE_OBJECT);
        assert_int_equal(scanning_bytes(&k, 3)->data[512], 'y');
        mem_free(&program);
        mem_free(&whole);
    }
}

static void test_long_and_odd_names(void **state)
{
    (void)state;
    scanning_make(&made, TAR_OF("GNU_FORMAT") "add('l' * 300, b'1')\n"
                                              "add('k' * 300 + '.txt', b'2')\n"
                                              "add('plain', b'3')\nt.close()\n");
    assert_int_equal(scanning_run(&k, "box.TAR", made.data, made.len), 0);
    assert_int_equal(k.n, 3);
    assert_int_equal(strlen(k.samples[1].name), 304);
    scanning_expect(&k, 2, "plain", "3");

    scanning_make(&made, TAR_OF("PAX_FORMAT") "add('gr\\u00fc\\u00df', b'1', mtime=1.5)\n"
                                              "add('p' * 1025)\nt.close()\n");
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), DLC_EINVAL);
    assert_int_equal(k.n, 1);
    scanning_expect(&k, 0, "gr\xc3\xbc\xc3\x9f", "1");
    assert_non_null(strstr(k.err.text, "1024"));
}

static void test_pax_sets_the_size(void **state)
{
    (void)state;
    scanning_make(&made, TAR_OF("PAX_FORMAT") "add('a', b'abc', pax_headers={'size': '3'})\n"
                                              "add('b', b'def')\nt.close()\n");
    /* Make the size in the ordinary header wrong: the pax header's counts. */
    for (size_t at = 0; at + 512 <= made.len; at += 512) {
        if (strcmp(made.data + at, "a") == 0) {
            memcpy(made.data + at + 124, "00000000000", 11);
            mend_checksum(made.data + at);
        }
    }
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 2);
    scanning_expect(&k, 0, "a", "abc");
    scanning_expect(&k, 1, "b", "def");
}

static void test_hostile_members_are_refused(void **state)
{
    static const struct {
        char type;
        const char *name, *data, *says;
        int code;
    } cases[] = {
        {'0', "/etc/passwd", "", "absolute", DLC_EINVAL},
        {'0', "../up", "", "'..'", DLC_EINVAL},
        {'0', "a/../../up", "", "'a/../../up'", DLC_EINVAL},
        {'0', "a/..", "", "'..'", DLC_EINVAL},
        {'0', "a\\..\\b", "", "'..'", DLC_EINVAL},
        {'0', "\\\\server", "", "absolute", DLC_EINVAL},
        {'0', "./../b", "", "'..'", DLC_EINVAL},
        {'0', ".//b", "", "absolute", DLC_EINVAL},
        {'0', "", "", "no name", DLC_EINVAL},
        {'S', "holes", "", "sparse", DLC_EINVAL},
        {'x', "pax", "27 GNU.sparse.realsize=100\n", "without a member", DLC_ECORRUPT},
        {'x', "pax", "7 path", "bad pax", DLC_ECORRUPT},
        {'x', "pax", "12 size=12a\n", "bad size", DLC_ECORRUPT},
        {'x', "pax", "99 path=a\n", "bad pax", DLC_ECORRUPT},
        {'x', "pax", "0 path=a\n", "bad pax", DLC_ECORRUPT},
        {'x', "pax", "9 path:a\n", "bad pax", DLC_ECORRUPT},
        {'x', "pax", "9999999999 path=a\n", "bad pax", DLC_ECORRUPT},
        {'g', "pax", "8 path=a\n", "bad pax", DLC_ECORRUPT},
        {'g', "pax", "9 path=a\n", "global", DLC_ECORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < unit_count(cases); i++) {
        buf_clear(&made);
        add_member(&made, '0', "fine", "1");
        add_member(&made, cases[i].type, cases[i].name, cases[i].data);
        end_tar(&made);
        assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), cases[i].code);
        if (strstr(k.err.text, cases[i].says) == NULL)
            fail_msg("case %zu: %s", i, k.err.text);
        assert_int_equal(k.n, 1);
    }
    buf_clear(&made);
    add_member(&made, 'x', "pax", "26 GNU.sparse.realsize=10\n");
    add_member(&made, '0', "holes", "");
    end_tar(&made);
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "'holes' is a sparse"));
}

static void test_names_with_dots_are_fine(void **state)
{
    (void)state;
    buf_clear(&made);
    add_member(&made, '0', "..a", "1");
    add_member(&made, '0', "a/b../c...", "2");
    add_member(&made, '0', "././c", "3");
    add_member(&made, 'Z', "of some vendor", "skipped");
    add_member(&made, '0', "folder/", "");
    end_tar(&made);
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 3);
    assert_int_equal(k.skipped, 2);
    scanning_expect(&k, 0, "..a", "1");
    scanning_expect(&k, 2, "c", "3");
}

static void test_sizes_that_lie(void **state)
{
    static const char *const sizes[] = {"77777777777", "0000000100x", "\x80\0\0\0\x7f\xff\xff\xff",
                                        "\xff\xff\xff\xff\xff\xff\xff\xff"};

    (void)state;
    for (size_t i = 0; i < unit_count(sizes); i++) {
        buf_clear(&made);
        add_member(&made, '0', "a", "");
        memcpy(made.data + 124, sizes[i], i < 2 ? 11 : 8);
        mend_checksum(made.data);
        end_tar(&made);
        assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), DLC_ECORRUPT);
        assert_int_equal(k.n, 0);
    }
    buf_clear(&made);
    add_member(&made, '0', "a", "");
    made.data[0] ^= 1;
    end_tar(&made);
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "bad header at byte 0"));
}

static void test_max_members(void **state)
{
    (void)state;
    buf_clear(&made);
    add_member(&made, '0', "a", "1");
    add_member(&made, '5', "b/", "");
    add_member(&made, '0', "c", "2");
    end_tar(&made);
    k.limits.max_members = 3;
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    k.limits.max_members = 2;
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "max_members"));
    k.limits.max_members = 0;
}

/* Neighbours: one range, which is the bytes of a tar. */
static void test_groups_of_neighbours(void **state)
{
    (void)state;
    buf_clear(&made);
    add_member(&made, '0', "train/0001.jpg", "jpeg");
    add_member(&made, '0', "train/0001.seg.png", "png");
    add_member(&made, '0', "train/0002.jpg", "jpeg2");
    add_member(&made, '0', "README", "no group");
    add_member(&made, '0', "train/.hidden", "no group");
    add_member(&made, 'x', "pax", "20 path=train/3.txt\n");
    add_member(&made, '0', "short", "long name");
    add_member(&made, '0', "train/3.cls", "7");
    end_tar(&made);
    k.limits.group = true;
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 3);
    assert_int_equal(k.skipped, 2);
    assert_string_equal(k.samples[0].name, "train/0001");
    assert_string_equal(k.samples[1].name, "train/0002");
    assert_string_equal(k.samples[2].name, "train/3");
    assert_int_equal(k.samples[0].n_pieces, 1);
    assert_int_equal(k.samples[0].pieces[0].offset, 0);
    assert_int_equal(k.samples[0].pieces[0].length, 2048);
    assert_int_equal(k.samples[2].n_pieces, 1);
    assert_int_equal(k.samples[2].pieces[0].length, 1024 + 1024 + 1024);
    k.limits.group = false;
}

/* Something lies between them: headers are made, and the group is a tar again. */
static void test_groups_of_others(void **state)
{
    struct scanning again = {0};
    struct buf group = BUF_INIT;

    (void)state;
    buf_clear(&made);
    add_member(&made, '0', "7.jpg", "jpeg");
    add_member(&made, '2', "link", "");
    add_member(&made, '0', "7.empty", "");
    add_member(&made, '0', "7.cls", "3");
    end_tar(&made);
    k.limits.group = true;
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 1);
    assert_string_equal(k.samples[0].name, "7");
    assert_int_equal(k.samples[0].n_pieces, 5);
    buf_add(&group, scanning_bytes(&k, 0)->data, scanning_bytes(&k, 0)->len);
    assert_int_equal(group.len % 512, 0);
    end_tar(&group);
    assert_int_equal(scanning_run(&again, "group.tar", group.data, group.len), 0);
    assert_int_equal(again.n, 3);
    scanning_expect(&again, 0, "7.jpg", "jpeg");
    scanning_expect(&again, 1, "7.empty", "");
    scanning_expect(&again, 2, "7.cls", "3");
    scanning_release(&again);
    buf_release(&group);
    k.limits.group = false;
}

/* Python reads both kinds of groups as they are, without an end block. */
static void test_groups_are_read_by_others(void **state)
{
    char path[256];
    char *command;

    (void)state;
    k.limits.group = true;
    for (int neighbours = 0; neighbours < 2; neighbours++) {
        buf_clear(&made);
        add_member(&made, '0', "7.jpg", "jpeg");
        if (!neighbours)
            add_member(&made, '2', "link", "");
        add_member(&made, '0', "7.cls", "3");
        end_tar(&made);
        assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
        assert_int_equal(k.samples[0].n_pieces, neighbours ? 1 : 5);
        unit_path("group.tar", path);
        assert_int_equal(os_write_file(path, scanning_bytes(&k, 0)->data,
                                       scanning_bytes(&k, 0)->len, 0600, NULL),
                         0);
        command = mem_fmt("exec python3 -c \"import tarfile; t = tarfile.open('%s'); "
                          "assert [(m.name, t.extractfile(m).read()) for m in t] "
                          "== [('7.jpg', b'jpeg'), ('7.cls', b'3')]\"",
                          path);
        assert_int_equal(system(command), 0);
        mem_free(&command);
    }
    k.limits.group = false;
}

static void test_made_headers_are_read_back(void **state)
{
    char name[1024];

    (void)state;
    for (size_t len = 1; len <= sizeof(name); len = len * 3 / 2 + 1) {
        memset(name, 'n', len);
        buf_clear(&made);
        tar_head_make(&made, name, len, 0);
        end_tar(&made);
        assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
        assert_int_equal(strlen(k.samples[0].name), len);
    }
    buf_clear(&made);
    tar_head_make(&made, "huge", 4, (uint64_t)1 << 40);
    assert_non_null(memmem(made.data, made.len, "22 size=1099511627776\n", 22));
}

static void test_too_many_in_a_group(void **state)
{
    char name[32];

    (void)state;
    buf_clear(&made);
    for (int i = 0; i < 1025; i++) {
        snprintf(name, sizeof(name), "a.%d", i);
        add_member(&made, '0', name, "");
    }
    end_tar(&made);
    k.limits.group = true;
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "1025th"));
    k.limits.group = false;
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 1025);
}

/* Small members are read together; large ones are passed over. */
static void test_reads_are_few(void **state)
{
    static char big[6 << 20];
    char name[32];

    (void)state;
    buf_clear(&made);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "%05d.txt", i);
        add_member(&made, '0', name, "small");
    }
    end_tar(&made);
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 20000);
    assert_true(k.reads <= 7 + made.len / (4 << 20) + 1);

    buf_clear(&made);
    memset(big, 'b', sizeof(big) - 1);
    for (int i = 0; i < 4; i++)
        add_member(&made, '0', "big", big);
    end_tar(&made);
    assert_int_equal(scanning_run(&k, "box.tar", made.data, made.len), 0);
    assert_int_equal(k.n, 4);
    assert_int_equal(k.reads, 5);
}

static void test_cut_short_and_failures(void **state)
{
    (void)state;
    buf_clear(&made);
    add_member(&made, '0', "a.txt", "text");
    add_member(&made, 'x', "pax", "20 path=train/3.txt\n");
    add_member(&made, '0', "b", "more");
    add_member(&made, 'L', "long", "a/long/name");
    add_member(&made, '0', "c", "");
    end_tar(&made);
    made.len -= 512; /* one block of zeros is enough */
    k.limits.group = true;
    scanning_cut_everywhere(&k, "box.tar", &made, 5000);
    scanning_fail_everywhere(&k, "box.tar", &made);
    k.limits.group = false;
    scanning_cut_everywhere(&k, "box.tar", &made, 300);
    scanning_fail_everywhere(&k, "box.tar", &made);
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
        cmocka_unit_test(test_members_are_ranges),
        cmocka_unit_test(test_long_and_odd_names),
        cmocka_unit_test(test_pax_sets_the_size),
        cmocka_unit_test(test_hostile_members_are_refused),
        cmocka_unit_test(test_names_with_dots_are_fine),
        cmocka_unit_test(test_sizes_that_lie),
        cmocka_unit_test(test_max_members),
        cmocka_unit_test(test_groups_of_neighbours),
        cmocka_unit_test(test_groups_of_others),
        cmocka_unit_test(test_groups_are_read_by_others),
        cmocka_unit_test(test_made_headers_are_read_back),
        cmocka_unit_test(test_too_many_in_a_group),
        cmocka_unit_test(test_reads_are_few),
        cmocka_unit_test(test_cut_short_and_failures),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
