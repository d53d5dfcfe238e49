// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums: the published check values, zeros, continuation, and the fast code against the
 * portable one for every small length and alignment.
 */
#include "bucket/checksum.h"

#include "base/rng.h"
#include "unit.h"

static unsigned char data[4096 + 64];

static int set_up(void **state)
{
    struct rng r = {7};

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)rng_next(&r);
    return 0;
}

/* "123456789" is what every catalogue of checksums uses. */
static void test_known(void **state)
{
    static const unsigned char zeros[32], ones[32] = {[0 ... 31] = 0xff};

    (void)state;
    assert_int_equal(checksum_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(checksum_crc32c(0, "123456789", 9), 0xe3069283);
    assert_true(checksum_crc64nvme(0, "123456789", 9) == 0xae8b14860a799888);
    assert_int_equal(checksum_crc32c(0, zeros, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    assert_int_equal(checksum_crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(checksum_crc32(0, zeros, 32), 0x190a55ad);
    assert_int_equal(checksum_crc32(0, "", 0), 0);
    assert_int_equal(checksum_crc32c(0, "", 0), 0);
    assert_true(checksum_crc64nvme(0, "", 0) == 0);
}

/* A long text; the values were computed once, bit by bit, and the first by zlib too. */
static void test_known_long(void **state)
{
    char text[10000];

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i % 251);
    assert_int_equal(checksum_crc32(0, text, sizeof(text)), 0xa5bb3071);
    assert_int_equal(checksum_crc32c(0, text, sizeof(text)), 0xd3716c83);
    assert_true(checksum_crc64nvme(0, text, sizeof(text)) == 0xf6d83fe313fbdba);
}

static void test_fast_equals_portable(void **state)
{
    (void)state;
    for (size_t len = 0; len <= 600; len++) {
        for (size_t at = 0; at < 16; at++) {
            uint32_t a = checksum_crc32(0, data + at, len), b = checksum_crc32c(1, data + at, len);
            uint64_t c = checksum_crc64nvme(2, data + at, len);

            checksum_use_portable(true);
            assert_int_equal(a, checksum_crc32(0, data + at, len));
            assert_int_equal(b, checksum_crc32c(1, data + at, len));
            assert_true(c == checksum_crc64nvme(2, data + at, len));
            checksum_use_portable(false);
        }
    }
}

static void test_in_pieces(void **state)
{
    uint32_t whole32 = checksum_crc32(0, data, 4096), whole32c = checksum_crc32c(0, data, 4096);
    uint64_t whole64 = checksum_crc64nvme(0, data, 4096);

    (void)state;
    for (size_t cut = 0; cut <= 4096; cut += 61) {
        size_t rest = 4096 - cut;

        assert_int_equal(whole32, checksum_crc32(checksum_crc32(0, data, cut), data + cut, rest));
        assert_int_equal(whole32c,
                         checksum_crc32c(checksum_crc32c(0, data, cut), data + cut, rest));
        assert_true(whole64 ==
                    checksum_crc64nvme(checksum_crc64nvme(0, data, cut), data + cut, rest));
    }
}

static void test_combine(void **state)
{
    static const enum checksum_kind kinds[] = {CHECKSUM_CRC64NVME, CHECKSUM_CRC32C, CHECKSUM_CRC32};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        uint64_t whole = checksum_add(kinds[k], 0, data, 4096);

        for (size_t cut = 0; cut <= 4096; cut += 61)
            assert_true(whole == checksum_combine(kinds[k], checksum_add(kinds[k], 0, data, cut),
                                                  checksum_add(kinds[k], 0, data + cut, 4096 - cut),
                                                  4096 - cut));
    }
    assert_int_equal(checksum_add(CHECKSUM_CRC32, 0, data, 99), checksum_crc32(0, data, 99));
    assert_int_equal(checksum_add(CHECKSUM_CRC32C, 0, data, 99), checksum_crc32c(0, data, 99));
    assert_true(checksum_add(CHECKSUM_CRC64NVME, 0, data, 99) == checksum_crc64nvme(0, data, 99));
}

static void test_one_bit_matters(void **state)
{
    uint64_t sum = checksum_crc64nvme(0, data, 1000);

    (void)state;
    for (size_t i = 0; i < 1000; i += 37) {
        data[i] ^= 16;
        assert_true(sum != checksum_crc64nvme(0, data, 1000));
        data[i] ^= 16;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_known_long),
        cmocka_unit_test(test_fast_equals_portable),
        cmocka_unit_test(test_in_pieces),
        cmocka_unit_test(test_combine),
        cmocka_unit_test(test_one_bit_matters),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
