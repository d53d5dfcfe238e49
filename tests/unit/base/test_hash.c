// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/hash.h"
#include "base/str.h"

static void assert_hex(const unsigned char *got, const char *want)
{
    char hex[2 * SHA256_LEN + 1];

    str_hex(got, SHA256_LEN, hex);
    assert_string_equal(hex, want);
}

/* FIPS 180-2 and RFC 4231. */
static void test_known_digests(void **state)
{
    unsigned char d[SHA256_LEN];

    (void)state;
    sha256("", 0, d);
    assert_hex(d, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256("abc", 3, d);
    assert_hex(d, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, d);
    assert_hex(d, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void test_fast_hash(void **state)
{
    (void)state;
    assert_true(hash64("", 0) ==
                0x2d06800538d394c2u); /* XXH3's own for nothing: files depend on it */
    assert_true(hash64_str("a key") == hash64("a key", 5));
    assert_true(hash64("a key", 5) != hash64("a kez", 5));
}

static void test_in_pieces(void **state)
{
    static unsigned char data[5000];
    struct hash64_stream *h = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 7);
    assert_int_equal(hash64_end(&h), 0);
    for (size_t len = 0; len <= sizeof(data); len += 625) {
        h = hash64_begin();
        for (size_t at = 0, n; at < len; at += n) {
            n = at + 333 < len ? 333 : len - at;
            hash64_add(h, data + at, n);
        }
        assert_true(hash64_end(&h) == hash64(data, len));
        assert_null(h);
    }
}

/* Names separate tenants: where one part ends and the next begins counts, and the value is that of
 * SHA-256, which is on disks. */
static void test_names(void **state)
{
    const struct {
        const char *parts[3];
        size_t n;
    } others[] = {
        {{"ab", "c"}, 2},     {{"abc"}, 1},     {{"a", "b", "c"}, 3},
        {{"a", "bc", ""}, 3}, {{"", "abc"}, 2},
    };
    struct name_hash h = name_hash_of((const char *const[]){"a", "bc"}, 2);

    (void)state;
    assert_int_equal(h.hi, 0x9a8acca1b6c6c0beu);
    assert_int_equal(h.lo, 0xfd3fbc756aed625du);
    for (size_t i = 0; i < unit_count(others); i++)
        assert_true(name_hash_of(others[i].parts, others[i].n).hi != h.hi);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_digests),
        cmocka_unit_test(test_fast_hash),
        cmocka_unit_test(test_in_pieces),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
