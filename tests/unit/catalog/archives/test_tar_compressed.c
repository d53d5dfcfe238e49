// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

static struct scanning k;
static struct buf tar = BUF_INIT, packed = BUF_INIT;

static const char *const keys[] = {"box.tar.gz", "box.tar.bz2", "box.tar.xz", "box.tar.zst"};

static void small_tar(void)
{
    buf_clear(&tar);
    add_member(&tar, '0', "1.txt", "first");
    add_member(&tar, '0', "1.cls", "0");
    add_member(&tar, '0', "2.txt", "second");
    end_tar(&tar);
}

static void test_samples_are_ranges_of_the_tar(void **state)
{
    (void)state;
    small_tar();
    for (size_t i = 0; i < unit_count(keys); i++) {
        buf_clear(&packed);
        pack(&packed, &tar, keys[i]);
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), 0);
        assert_int_equal(k.n, 3);
        scanning_expect(&k, 0, "1.txt", "first");
        scanning_expect(&k, 2, "2.txt", "second");
        assert_int_equal(k.samples[0].pieces[0].kind, PIECE_DERIVED);
        assert_int_equal(k.derived.len, tar.len);
        assert_memory_equal(k.derived.data, tar.data, tar.len);
        k.limits.group = true;
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), 0);
        assert_int_equal(k.n, 2);
        assert_int_equal(k.samples[0].n_pieces, 1);
        assert_int_equal(k.samples[0].pieces[0].length, 2048);
        k.limits.group = false;
    }
}

static void test_several_frames_and_padding(void **state)
{
    struct buf half = BUF_INIT;

    (void)state;
    small_tar();
    for (size_t i = 0; i < unit_count(keys); i++) {
        static const char zeros[100];

        buf_clear(&packed);
        for (size_t at = 0; at < tar.len; at += 700) {
            buf_clear(&half);
            buf_add(&half, tar.data + at, DLC_MIN(700, tar.len - at));
            pack(&packed, &half, keys[i]);
        }
        buf_add(&packed, zeros, sizeof(zeros));
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), 0);
        assert_int_equal(k.n, 3);
        assert_int_equal(k.derived.len, tar.len);
        buf_adds(&packed, "rubbish");
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), DLC_ECORRUPT);
    }
    buf_release(&half);
}

static void test_a_checksum_at_the_end_is_checked(void **state)
{
    (void)state;
    small_tar();
    buf_clear(&packed);
    pack(&packed, &tar, "gz");
    packed.data[packed.len - 8] ^= 1;
    assert_int_equal(scanning_run(&k, "box.tgz", packed.data, packed.len), DLC_ECORRUPT);
    assert_non_null(strstr(k.err.text, "gzip"));
}

static void test_another_compression(void **state)
{
    (void)state;
    small_tar();
    for (size_t i = 0; i < unit_count(keys); i++) {
        buf_clear(&packed);
        pack(&packed, &tar, keys[(i + 1) % unit_count(keys)]);
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), DLC_ECORRUPT);
        assert_int_equal(scanning_run(&k, keys[i], tar.data, tar.len), DLC_ECORRUPT);
    }
}

/* 20 MB of zeros: more than a thousandfold in every format, refused by the limit's name. */
static void test_bombs(void **state)
{
    (void)state;
    buf_clear(&tar);
    tar_head_make(&tar, "bomb", 4, 20 << 20);
    buf_reserve(&tar, 20 << 20);
    memset(tar.data + tar.len, 0, 20 << 20);
    tar.len += 20 << 20;
    end_tar(&tar);
    for (size_t i = 0; i < unit_count(keys); i++) {
        buf_clear(&packed);
        pack(&packed, &tar, keys[i]);
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), DLC_EINVAL);
        assert_non_null(strstr(k.err.text, "max_ratio"));
        assert_true(k.derived.len <= 1000 * packed.len + (1 << 20));
        k.limits.max_derived = 5 << 20;
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), DLC_EINVAL);
        assert_true(k.derived.len <= 5 << 20);
        k.limits.max_ratio = 1e6;
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), DLC_EINVAL);
        assert_non_null(strstr(k.err.text, "max_derived"));
        k.limits.max_derived = 0;
        assert_int_equal(scanning_run(&k, keys[i], packed.data, packed.len), 0);
        assert_int_equal(k.samples[0].pieces[0].length, 20 << 20);
        k.limits.max_ratio = 0;
    }
}

/* A window of 2 GiB: refused, not allocated. */
static void test_hungry_zstd(void **state)
{
    static const unsigned char head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 1, 0, 0, 0};

    (void)state;
    assert_int_equal(scanning_run(&k, "box.tzst", head, sizeof(head)), DLC_EINVAL);
    assert_non_null(strstr(k.err.text, "memory"));
}

static void test_cut_short_and_failures(void **state)
{
    (void)state;
    small_tar();
    for (size_t i = 0; i < unit_count(keys); i++) {
        buf_clear(&packed);
        pack(&packed, &tar, keys[i]);
        scanning_cut_everywhere(&k, keys[i], &packed, 1000);
        scanning_fail_everywhere(&k, keys[i], &packed);
    }
}

static int tear_down(void **state)
{
    (void)state;
    scanning_release(&k);
    buf_release(&tar);
    buf_release(&packed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_are_ranges_of_the_tar),
        cmocka_unit_test(test_several_frames_and_padding),
        cmocka_unit_test(test_a_checksum_at_the_end_is_checked),
        cmocka_unit_test(test_another_compression),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_hungry_zstd),
        cmocka_unit_test(test_cut_short_and_failures),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
